//! `callgate stdio`, which is also what `callgate` does without a command.

use std::{io::IsTerminal as _, process::ExitCode};

use super::{Options, Problem};
use crate::server::{Service, serve_stdio};

/// Serves one client until its input ends.
pub(super) fn execute(options: &Options) -> Result<ExitCode, Problem> {
    if std::io::stdin().is_terminal() {
        eprintln!(
            "callgate: serving MCP on standard input and output; this is for a program, not a person. \
             End it with Ctrl-D. To run Python from here: callgate run FILE. Help: callgate --help"
        );
    }
    let settings = options.settings()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let served = runtime.block_on(async { serve_stdio(Service::start(settings)).await });
    // The thread that reads standard input may be in the middle of a read: don't wait for it.
    runtime.shutdown_background();
    served?;
    Ok(ExitCode::SUCCESS)
}
