//! `callgate stdio`, which is also what `callgate` does without a command.

use std::{io::IsTerminal as _, process::ExitCode, sync::Arc};

use super::{Options, Problem};
use crate::server::{Service, Signals, serve_stdio};

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
    let upstreams = Arc::clone(&settings.upstreams);
    let served = runtime.block_on(async {
        let mut signals = Signals::listen()?;
        let served = tokio::select! {
            served = serve_stdio(Service::start(settings)) => served,
            () = signals.next() => Ok(()),
        };
        // They are processes of their own and would stay.
        upstreams.close().await;
        served
    });
    // The thread that reads standard input may be in the middle of a read: don't wait for it.
    runtime.shutdown_background();
    served?;
    Ok(ExitCode::SUCCESS)
}
