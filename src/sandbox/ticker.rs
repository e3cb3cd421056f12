//! The thread that advances the engine's epoch, and sleeps while no guest runs.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, Thread},
    time::Duration,
};

use wasmtime::Engine;

use super::limits::EPOCH_INTERVAL;

/// After this many ticks with no guest running the thread parks.
const IDLE_TICKS: u32 = 20;

/// How long the thread is parked at most.
const LONGEST_PARK: Duration = Duration::from_secs(5);

/// Advances the epoch while guests run.
#[derive(Debug)]
pub(super) struct Ticker {
    running: AtomicUsize,
    parked: AtomicBool,
    thread: std::sync::OnceLock<Thread>,
}

/// Held while a guest is polled.
pub(super) struct Running<'a>(&'a Ticker);

impl Ticker {
    /// Starts the thread; it ends when the ticker is dropped.
    pub(super) fn start(engine: &Engine) -> std::io::Result<Arc<Self>> {
        let ticker = Arc::new(Self {
            running: AtomicUsize::new(0),
            parked: AtomicBool::new(false),
            thread: std::sync::OnceLock::new(),
        });
        let (weak, engine) = (Arc::downgrade(&ticker), engine.clone());
        let handle = thread::Builder::new()
            .name("callgate-epoch".to_owned())
            .spawn(move || tick(&weak, &engine))?;
        // Set before any guest can run: the ticker has not been handed out yet.
        let _ = ticker.thread.set(handle.thread().clone());
        Ok(ticker)
    }

    /// Says that a guest runs from now until the value is dropped.
    pub(super) fn running(&self) -> Running<'_> {
        self.running.fetch_add(1, Ordering::SeqCst);
        if self.parked.load(Ordering::SeqCst)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
        Running(self)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
}

fn tick(weak: &Weak<Ticker>, engine: &Engine) {
    let mut idle = 0;
    loop {
        thread::sleep(EPOCH_INTERVAL);
        engine.increment_epoch();
        let Some(ticker) = weak.upgrade() else { return };
        idle = if ticker.running.load(Ordering::SeqCst) == 0 {
            idle + 1
        } else {
            0
        };
        if idle < IDLE_TICKS {
            continue;
        }
        ticker.parked.store(true, Ordering::SeqCst);
        // A guest that starts between the check and the parking finds `parked` set and unparks, or
        // is seen here: both orders are covered because both sides write before they read.
        let park = ticker.running.load(Ordering::SeqCst) == 0;
        drop(ticker);
        if park {
            // Bounded, so that a ticker dropped just now is noticed even if its unpark came too early.
            thread::park_timeout(LONGEST_PARK);
        }
        idle = 0;
        if let Some(ticker) = weak.upgrade() {
            ticker.parked.store(false, Ordering::SeqCst);
            if ticker.running.load(Ordering::SeqCst) == 0 {
                // Nobody woke it, or whoever did is done: one more tick, then park again.
                idle = IDLE_TICKS - 1;
            }
        }
    }
}
