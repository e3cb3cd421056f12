//! A run that waits for somebody outside: its time stands still and its slot is free for others.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use super::clock::CpuClock;

/// Stops and continues the time of one run, and knows what the run has used so far.
#[derive(Debug, Default)]
pub struct Pause {
    state: Mutex<State>,
    changed: Notify,
    cpu: OnceLock<Arc<CpuClock>>,
    /// Bytes that the guest's memory has grown by.
    memory: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    /// When the run began.
    began: Option<Instant>,
    /// When the pause under way began.
    since: Option<Instant>,
    /// The pauses that are over.
    over: Duration,
    /// What lets the run run.
    slot: Option<Slot>,
}

#[derive(Debug)]
struct Slot {
    of: Arc<Semaphore>,
    permit: Option<OwnedSemaphorePermit>,
}

impl Pause {
    /// For a run that has not begun.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Stops the time of the run and gives its slot to others. The guest has to be waiting for the
    /// host then.
    pub fn begin(&self) {
        let mut state = self.lock();
        state.since.get_or_insert_with(Instant::now);
        if let Some(slot) = &mut state.slot {
            slot.permit = None;
        }
        drop(state);
        self.changed.notify_one();
    }

    /// Waits for a slot that the run can go on with.
    pub async fn slot(&self) -> Option<OwnedSemaphorePermit> {
        let slots = self.lock().slot.as_ref().map(|slot| Arc::clone(&slot.of));
        // Nobody closes the semaphore.
        slots?.acquire_owned().await.ok()
    }

    /// Lets time go on, with the slot that the run has got.
    pub fn end(&self, permit: Option<OwnedSemaphorePermit>) {
        let mut state = self.lock();
        if let Some(slot) = &mut state.slot {
            slot.permit = permit;
        }
        let since = state.since.take();
        state.over += since.map(|since| since.elapsed()).unwrap_or_default();
        drop(state);
        self.changed.notify_one();
    }

    /// All pauses so far together.
    #[must_use]
    pub fn total(&self) -> Duration {
        self.lock().total()
    }

    /// How long the run has taken so far, pauses left out.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        let state = self.lock();
        let began = state.began.map(|began| began.elapsed());
        began.unwrap_or_default().saturating_sub(state.total())
    }

    /// Processor time of the guest so far.
    #[must_use]
    pub fn cpu(&self) -> Duration {
        self.cpu.get().map(|cpu| cpu.spent()).unwrap_or_default()
    }

    /// Memory that the guest holds beyond the snapshot (bytes).
    #[must_use]
    pub fn memory(&self) -> u64 {
        self.memory.load(Ordering::Relaxed)
    }

    /// The run has its slot.
    pub(super) fn take_slot(&self, of: Arc<Semaphore>, permit: OwnedSemaphorePermit) {
        let permit = Some(permit);
        self.lock().slot = Some(Slot { of, permit });
    }

    /// The run is over.
    pub(super) fn leave_slot(&self) {
        self.lock().slot = None;
    }

    /// The run begins.
    pub(super) fn start(&self, cpu: &Arc<CpuClock>) {
        self.lock().began = Some(Instant::now());
        let _ = self.cpu.set(Arc::clone(cpu));
    }

    pub(super) fn grow(&self, bytes: u64) {
        self.memory.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Ends when the run has taken `limit`, pauses left out.
    pub(super) async fn out_of_time(&self, limit: Duration) {
        loop {
            let rest = {
                let state = self.lock();
                let taken = state.began.map(|began| began.elapsed()).unwrap_or_default();
                let is_paused = state.since.is_some();
                (!is_paused).then(|| limit.saturating_sub(taken.saturating_sub(state.total())))
            };
            match rest {
                Some(Duration::ZERO) => return,
                Some(rest) => {
                    // Whichever of the two comes, the state says what it means.
                    let _ = tokio::time::timeout(rest, self.changed.notified()).await;
                }
                None => self.changed.notified().await,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn total(&self) -> Duration {
        let now = self.since.map(|since| since.elapsed());
        self.over + now.unwrap_or_default()
    }
}
