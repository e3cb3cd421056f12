//! A server with everything that the protocol's conformance suites want of a server.
//!
//! callgate has one tool and nothing else, so the suites can say little about it. This server has the
//! tools, resources and prompts that they ask for, and stands behind the same HTTP transport: what they
//! find here, they would find there. `tests/conformance.rs` runs them.
//!
//! What each fixture has to do is written in the suites' scenarios (`conformance list --server`).

mod answer;
mod asking;
mod content;
mod fixtures;
mod jobs;
mod lists;
mod prompts;
mod resources;
mod rounds;
mod skills;
mod telling;

use std::{net::SocketAddr, process::ExitCode, sync::Arc};

use callgate::server::http::{Backend, HttpError, HttpSettings, serve_backend};
use clap::Parser;
use tracing_subscriber::EnvFilter;

use crate::fixtures::{Fixtures, Shared};

/// Serves the fixtures of the conformance suites at /mcp.
#[derive(Parser)]
struct Arguments {
    /// Where to listen
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// What to log on standard error
    #[arg(long, value_name = "FILTER", default_value = "warn")]
    log: EnvFilter,
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_env_filter(arguments.log)
        .init();
    match serve(arguments.listen).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(listen: SocketAddr) -> Result<(), HttpError> {
    let shared = Arc::new(Shared::new());
    let settings = HttpSettings {
        listen,
        ..HttpSettings::default()
    };
    let backend = Backend::of(move || Fixtures::new(Arc::clone(&shared)));
    serve_backend(settings, backend).await
}
