//! The command line.

mod agent;
mod doctor;
mod http;
mod image;
mod logging;
mod mcp;
mod options;
mod progress;
mod run;
mod stdio;
mod token;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

pub use self::{logging::Logging, options::Options};

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

    /// What is told of what happens.
    #[command(flatten)]
    pub logging: Logging,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve MCP over standard input and output (what happens without a command)
    Stdio,
    /// Serve MCP over HTTP, for many clients at once
    Http(http::HttpArguments),
    /// Make a bearer token for a client of `callgate http`
    Token(token::TokenArguments),
    /// Run Python in the sandbox, from the shell
    Run(run::RunArguments),
    /// Build, list, show and remove runtime images
    #[command(subcommand)]
    Image(image::ImageCommand),
    /// The other MCP servers that code may call: list them, import them from desktop clients
    #[command(subcommand)]
    Mcp(mcp::McpCommand),
    /// The tiny agent: a model that writes Python, and the tools of MCP servers that it calls
    #[command(subcommand)]
    Agent(agent::AgentCommand),
    /// Say what is installed, what is missing, and what to do about it
    Doctor,
}

impl CommandLine {
    /// What the flags, or the environment variables in their place, say of a server.
    ///
    /// # Errors
    /// When the configuration of other servers can't be read.
    pub fn settings(&self) -> Result<crate::server::Settings, Problem> {
        self.options.settings()
    }
}

/// Runs the command. Problems are told on standard error.
#[must_use]
pub fn execute(command_line: CommandLine) -> ExitCode {
    let CommandLine {
        command,
        options,
        logging,
    } = command_line;
    let command = command.unwrap_or(Command::Stdio);
    let logging = match command {
        Command::Agent(_) => logging.of_agent(),
        _ => logging,
    };
    let _exporting = logging.start();
    let result = match command {
        Command::Stdio => stdio::execute(&options),
        Command::Http(arguments) => http::execute(arguments, &options),
        Command::Token(arguments) => token::execute(&arguments),
        Command::Run(arguments) => run::execute(arguments, &options),
        Command::Image(command) => image::execute(command, &options),
        Command::Mcp(command) => mcp::execute(command, &options),
        Command::Agent(command) => agent::execute(command, &options),
        Command::Doctor => Ok(doctor::execute(&options)),
    };
    result.unwrap_or_else(|error| {
        // It may quote what somebody else wrote.
        let is_fine = |character: &char| *character == '\n' || !character.is_control();
        let error: String = error.to_string().chars().filter(is_fine).collect();
        eprintln!("callgate: {error}");
        ExitCode::FAILURE
    })
}

/// An error to be shown as it is.
type Problem = Box<dyn std::error::Error + Send + Sync>;
