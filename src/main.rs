//! Reads the command line and hands over to a command.

use std::process::ExitCode;

use callgate::commands::{self, CommandLine};
use clap::Parser as _;

fn main() -> ExitCode {
    commands::execute(CommandLine::parse())
}
