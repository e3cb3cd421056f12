//! What ends a turn, or everything.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// What somebody wants to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// What is going on: Ctrl-C.
    Turn,
    /// Everything: the terminal is closed, or the system ends programs.
    All,
}

/// Signals that end something, from now on.
pub(super) struct Stops {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Stops {
    /// Begins to listen.
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the next one.
    pub(super) async fn next(&mut self) -> Stop {
        tokio::select! {
            _ = self.interrupt.recv() => Stop::Turn,
            _ = self.terminate.recv() => Stop::All,
            _ = self.hangup.recv() => Stop::All,
        }
    }
}
