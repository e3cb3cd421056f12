//! Calls that the program started without waiting, until it hears of their ends.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{Notify, OwnedSemaphorePermit, Semaphore},
    task::AbortHandle,
    time::Instant,
};

use super::frame;
use crate::sandbox::Held;

/// A year: waiting longer than this is waiting for ever.
const LONGEST_WAIT: Duration = Duration::from_hours(8760);

/// Bytes after which one answer of `wait` holds no further ends: the guest has to have room for it.
const LARGE_ANSWER: usize = 2 << 20;

/// Calls under way may hold as much as this many of the largest arguments.
const ROOM: u64 = 4;
const LEAST_ROOM: u64 = 1 << 20;

/// The submitted calls of one run.
pub(super) struct Submissions {
    /// KiB that the arguments of calls under way may still hold.
    room: Arc<Semaphore>,
    largest_room: u32,
    state: Mutex<State>,
    /// Wakes `wait` when a call has ended.
    ended: Notify,
}

/// A frame, and what counts its memory.
type Told = (Vec<u8>, Option<Held>);

#[derive(Default)]
struct State {
    under_way: HashMap<u64, AbortHandle>,
    /// The frames that tell of ended calls.
    done: VecDeque<Told>,
    last_number: u64,
    /// Since when no time counts.
    held_since: Option<Instant>,
    /// For how long no time counted before that.
    held: Duration,
}

impl Submissions {
    /// `largest_arguments` is in bytes.
    pub(super) fn new(largest_arguments: u64) -> Self {
        let largest_room = kib(largest_arguments.saturating_mul(ROOM).max(LEAST_ROOM));
        Self {
            room: Arc::new(Semaphore::new(largest_room as usize)),
            largest_room,
            state: Mutex::default(),
            ended: Notify::new(),
        }
    }

    /// Room for a request of `length` bytes, if there is any now.
    pub(super) fn try_room(&self, length: u64) -> Option<OwnedSemaphorePermit> {
        let kib = kib(length).min(self.largest_room);
        Arc::clone(&self.room).try_acquire_many_owned(kib).ok()
    }

    /// The same; waits until calls under way have made room.
    pub(super) async fn room(&self, length: u64) -> Option<OwnedSemaphorePermit> {
        let kib = kib(length).min(self.largest_room);
        // Nobody closes the semaphore.
        Arc::clone(&self.room).acquire_many_owned(kib).await.ok()
    }

    /// Starts a call and returns its number; `call` makes the frame that tells of its end.
    pub(super) fn begin(
        self: &Arc<Self>,
        room: OwnedSemaphorePermit,
        call: impl Future<Output = frame::CallEnd> + Send + 'static,
    ) -> u64 {
        // The entry is made under the lock that the task takes at its end, so it can't be missed.
        let mut state = self.lock();
        state.last_number += 1;
        let number = state.last_number;
        let submissions = Arc::clone(self);
        let task = tokio::spawn(async move {
            let end = call.await.into_numbered_frame(number);
            drop(room);
            let mut state = submissions.lock();
            if state.under_way.remove(&number).is_some() {
                state.done.push_back(end);
                submissions.ended.notify_one();
            }
        });
        state.under_way.insert(number, task.abort_handle());
        number
    }

    /// Waits until a call has ended or the time is over; the frame tells of all that have.
    pub(super) async fn wait(&self, timeout_ms: Option<f64>) -> Vec<u8> {
        let timeout = timeout_ms.map_or(LONGEST_WAIT, |ms| {
            Duration::try_from_secs_f64(ms.max(0.0) / 1e3)
                .unwrap_or(LONGEST_WAIT)
                .min(LONGEST_WAIT)
        });
        if timeout.is_zero() {
            // A timer, even one that is over, would take a millisecond.
            tokio::task::yield_now().await;
            return frame::ended(&self.take_done().0);
        }
        let start = Instant::now();
        let held_before = self.lock().held;
        loop {
            let (done, under_way) = self.take_done();
            let for_ever_in_vain = !under_way && timeout_ms.is_none();
            if !done.is_empty() || for_ever_in_vain {
                return frame::ended(&done);
            }
            let held = match self.held() {
                Some(held) => held.saturating_sub(held_before),
                None => LONGEST_WAIT,
            };
            let news = self.ended.notified();
            let deadline = start + timeout + held;
            if tokio::time::timeout_at(deadline, news).await.is_err() {
                return frame::ended(&[]);
            }
        }
    }

    /// From now on the time of `wait` does not count, or counts again.
    pub(super) fn hold(&self, is_held: bool) {
        let mut state = self.lock();
        if is_held {
            state.held_since.get_or_insert_with(Instant::now);
        } else if let Some(since) = state.held_since.take() {
            state.held += since.elapsed();
        }
        self.ended.notify_one();
    }

    /// How much time has not counted; `None` if none does now.
    fn held(&self) -> Option<Duration> {
        let state = self.lock();
        state.held_since.is_none().then_some(state.held)
    }

    /// How many calls have not ended.
    pub(super) fn under_way(&self) -> usize {
        self.lock().under_way.len()
    }

    /// Whether calls have ended of which `wait` has not told.
    pub(super) fn has_news(&self) -> bool {
        !self.lock().done.is_empty()
    }

    /// Gives one up.
    pub(super) fn cancel(&self, number: u64) {
        let task = self.lock().under_way.remove(&number);
        if let Some(task) = task {
            task.abort();
        }
    }

    /// Gives all up.
    pub(super) fn cancel_all(&self) {
        let tasks = std::mem::take(&mut self.lock().under_way);
        for task in tasks.into_values() {
            task.abort();
        }
    }

    fn take_done(&self) -> (Vec<Vec<u8>>, bool) {
        let mut state = self.lock();
        let mut done = Vec::new();
        let mut bytes = 0;
        while bytes < LARGE_ANSWER
            && let Some(end) = state.done.pop_front()
        {
            bytes += end.0.len();
            done.push(end.0);
        }
        (done, !state.under_way.is_empty())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Rounded up.
fn kib(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(1 << 10)).unwrap_or(u32::MAX)
}
