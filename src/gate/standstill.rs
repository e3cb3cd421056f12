//! When a program can't go on by itself: every path in it waits for calls that the client is to answer by another
//! request.

use std::sync::{Arc, Mutex, PoisonError};

use super::{batch::Batch, submissions::Submissions};

/// What the guest waits for in a host call.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum Waits {
    /// It runs, or waits for something else.
    #[default]
    Nothing,
    /// The answer to this call.
    Call(String),
    /// The end of any submitted call.
    News,
    /// Room for one more submitted call.
    Room,
}

/// Knows what the guest waits for.
pub(super) struct Standstill {
    batch: Arc<Batch>,
    waits: Mutex<Waits>,
}

impl Standstill {
    pub(super) fn new(batch: Arc<Batch>) -> Self {
        Self {
            batch,
            waits: Mutex::default(),
        }
    }

    pub(super) fn batch(&self) -> &Arc<Batch> {
        &self.batch
    }

    /// The guest waits until what is returned is dropped.
    pub(super) fn wait(&self, waits: Waits) -> WaitsNow<'_> {
        self.set(waits);
        WaitsNow(self)
    }

    /// Ends when nothing can happen before a call of the batch is answered.
    pub(super) async fn reached(&self, submissions: &Submissions) {
        loop {
            let mut changed = std::pin::pin!(self.batch.changed());
            changed.as_mut().enable();
            if self.is_reached(submissions) {
                return;
            }
            changed.await;
        }
    }

    fn is_reached(&self, submissions: &Submissions) -> bool {
        let calls = self.batch.len();
        if calls == 0 {
            return false;
        }
        // A call is under way until its end lies ready for the guest. So when there are as many as
        // in the batch, no other is under way, and none has ended that the guest has not heard of.
        let all_wait = || submissions.under_way() == calls;
        match &*self.waits.lock().unwrap_or_else(PoisonError::into_inner) {
            Waits::Nothing => false,
            Waits::Call(request_id) => self.batch.contains(request_id),
            Waits::News => all_wait() && !submissions.has_news(),
            Waits::Room => all_wait(),
        }
    }

    fn set(&self, waits: Waits) {
        *self.waits.lock().unwrap_or_else(PoisonError::into_inner) = waits;
        self.batch.touch();
    }
}

/// The guest waits as long as there is this.
pub(super) struct WaitsNow<'a>(&'a Standstill);

impl Drop for WaitsNow<'_> {
    fn drop(&mut self) {
        self.0.set(Waits::Nothing);
    }
}
