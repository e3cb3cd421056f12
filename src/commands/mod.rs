//! The command line.

mod doctor;
mod image;
mod options;
mod progress;
mod run;
mod stdio;

use std::{io::IsTerminal as _, process::ExitCode};

use clap::{Parser, Subcommand};
use tracing_subscriber::EnvFilter;

pub use self::options::Options;

/// An MCP server that runs Python a language model wrote, and lets it call the agent's tools.
///
/// Without a command it serves MCP over standard input and output.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100, next_help_heading = "Options")]
pub struct CommandLine {
    #[command(subcommand)]
    command: Option<Command>,

    #[command(flatten)]
    options: Options,

    /// What to log on standard error: `error`, `warn`, `info`, `debug`, or a filter as in `callgate=debug,rmcp=warn`
    #[arg(
        long,
        global = true,
        value_name = "FILTER",
        env = "CALLGATE_LOG",
        default_value = "warn"
    )]
    pub log: String,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve MCP over standard input and output (what happens without a command)
    Stdio,
    /// Run Python in the sandbox, from the shell
    Run(run::RunArguments),
    /// Build, list, show and remove runtime images
    #[command(subcommand)]
    Image(image::ImageCommand),
    /// Say what is installed, what is missing, and what to do about it
    Doctor,
}

/// Logs go to standard error: standard output belongs to the protocol.
pub fn start_logging(filter: &str) {
    // rmcp logs the bodies of notifications, tool results included, at INFO.
    let quiet = if filter.contains("rmcp") {
        filter.to_owned()
    } else {
        format!("{filter},rmcp=warn")
    };
    let filter = EnvFilter::try_new(&quiet).unwrap_or_else(|error| {
        eprintln!("callgate: --log {filter}: {error}; logging warnings");
        EnvFilter::new("warn")
    });
    let ansi = std::io::stderr().is_terminal();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(ansi)
        .init();
    std::panic::set_hook(Box::new(|info| tracing::error!("panic: {info}")));
}

/// Runs the command. Problems are told on standard error.
#[must_use]
pub fn execute(command_line: CommandLine) -> ExitCode {
    let CommandLine {
        command, options, ..
    } = command_line;
    let result = match command.unwrap_or(Command::Stdio) {
        Command::Stdio => stdio::execute(&options),
        Command::Run(arguments) => run::execute(arguments, &options),
        Command::Image(command) => image::execute(command, &options),
        Command::Doctor => Ok(doctor::execute(&options)),
    };
    result.unwrap_or_else(|error| {
        eprintln!("callgate: {error}");
        ExitCode::FAILURE
    })
}

/// An error to be shown as it is.
type Problem = Box<dyn std::error::Error + Send + Sync>;
