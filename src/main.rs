//! Reads the command line and hands over to a command.

use std::process::ExitCode;

use callgate::commands::{self, CommandLine};
use clap::Parser as _;

fn main() -> ExitCode {
    let command_line = CommandLine::parse();
    commands::start_logging(&command_line.log);
    commands::execute(command_line)
}
