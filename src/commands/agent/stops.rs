//! What ends a turn, or everything.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::chat::INTERRUPTED;

/// A program that has not obeyed for so long is stuck: nobody reads what it writes.
const PATIENCE: Duration = Duration::from_secs(2);

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
    /// How many were heard by those who act on them.
    heard: Arc<AtomicU64>,
}

impl Stops {
    /// Begins to listen.
    pub(super) fn listen() -> io::Result<Self> {
        Self::hearing(Arc::default())
    }

    /// Another listener; what one of the two has heard counts for both.
    pub(super) fn another(&self) -> io::Result<Self> {
        Self::hearing(Arc::clone(&self.heard))
    }

    fn hearing(heard: Arc<AtomicU64>) -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
            heard,
        })
    }

    /// Waits for the next one.
    pub(super) async fn next(&mut self) -> Stop {
        let stop = self.received().await;
        self.heard.fetch_add(1, Ordering::Relaxed);
        stop
    }

    async fn received(&mut self) -> Stop {
        tokio::select! {
            _ = self.interrupt.recv() => Stop::Turn,
            _ = self.terminate.recv() => Stop::All,
            _ = self.hangup.recv() => Stop::All,
        }
    }

    /// Ends the process when nobody acts on a signal, because whoever should is stuck in a write.
    pub(super) async fn insist(mut self) {
        loop {
            let before = self.heard.load(Ordering::Relaxed);
            self.received().await;
            tokio::time::sleep(PATIENCE).await;
            if self.heard.load(Ordering::Relaxed) == before {
                std::process::exit(i32::from(INTERRUPTED));
            }
        }
    }
}
