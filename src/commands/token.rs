//! `callgate token`: a bearer token for someone.

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use clap::Args;

use super::Problem;
use crate::server::http::generate_token;

/// For whom.
#[derive(Debug, Args)]
pub struct TokenArguments {
    /// Who the token is for: the principal's name
    name: String,
}

/// Prints the line for the token file on standard output and the token on standard error, so that
/// `callgate token NAME >> FILE` keeps the one and shows the other.
pub(super) fn execute(arguments: &TokenArguments) -> Result<ExitCode, Problem> {
    let (token, line) = generate_token(&arguments.name)?;
    writeln!(io::stdout(), "{line}")?;
    eprintln!("The token of {}, shown only now:", arguments.name);
    eprintln!("{token}");
    Ok(ExitCode::SUCCESS)
}
