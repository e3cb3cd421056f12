//! Calls that wait to be answered together: those that the client is told of in the run's result, and answers by
//! another request.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, futures::Notified, oneshot};

use super::{
    pending::Answered,
    route::{Route, RouteAnswer, RouteError, ToolCall},
};

/// The calls of one run that wait for the client; as a [`Route`] it takes more.
#[derive(Debug, Default)]
pub struct Batch(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    waiting: Mutex<Vec<Waiting>>,
    changed: Notify,
}

#[derive(Debug)]
struct Waiting {
    call: ToolCall,
    answer: oneshot::Sender<Answered>,
}

impl Batch {
    /// An empty one.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// The calls that wait, in the order in which the program made them.
    #[must_use]
    pub fn calls(&self) -> Vec<ToolCall> {
        let waiting = self.0.lock();
        let mut calls: Vec<ToolCall> = waiting.iter().map(|of| of.call.clone()).collect();
        // Calls side by side come here on several threads.
        calls.sort_by_key(|call| call.number);
        calls
    }

    /// Whether this call waits.
    #[must_use]
    pub fn contains(&self, request_id: &str) -> bool {
        let waiting = self.0.lock();
        waiting.iter().any(|of| of.call.request_id == request_id)
    }

    /// How many calls wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.lock().len()
    }

    /// Whether none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Ends a call. One that nobody waits for any more is nobody's loss.
    pub fn answer(&self, request_id: &str, answered: Answered) {
        if let Some(waiting) = self.0.take(request_id) {
            let _ = waiting.answer.send(answered);
        }
    }

    /// Ends all calls, because nobody can be told of them.
    pub fn refuse(&self, reason: &str) {
        let waiting = std::mem::take(&mut *self.0.lock());
        for waiting in waiting {
            let refusal = RouteError::NotSent(reason.to_owned());
            let _ = waiting.answer.send(Err(refusal));
        }
    }

    /// Ends when something about the calls may have changed since it was made.
    pub fn changed(&self) -> Notified<'_> {
        self.0.changed.notified()
    }

    /// Ends when this call waits no more.
    pub async fn left(&self, request_id: &str) {
        loop {
            let changed = self.changed();
            if !self.contains(request_id) {
                return;
            }
            changed.await;
        }
    }

    /// Something that matters to whoever waits for a standstill has changed.
    pub(super) fn touch(&self) {
        // Runs whose calls take other roads, which are most, have nobody who waits.
        if !self.is_empty() {
            self.0.changed.notify_waiters();
        }
    }
}

impl Shared {
    fn take(&self, request_id: &str) -> Option<Waiting> {
        let mut waiting = self.lock();
        let place = waiting
            .iter()
            .position(|of| of.call.request_id == request_id)?;
        Some(waiting.remove(place))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Route for Batch {
    fn call(&self, call: ToolCall) -> RouteAnswer {
        let (answer, answered) = oneshot::channel();
        let place = Place {
            batch: Arc::clone(&self.0),
            request_id: call.request_id.clone(),
        };
        self.0.lock().push(Waiting { call, answer });
        self.0.changed.notify_waiters();
        Box::pin(async move {
            let _place = place;
            answered.await.unwrap_or_else(|_| {
                let reason = "the run was given up".to_owned();
                Err(RouteError::Failed(reason))
            })
        })
    }

    /// Whoever has the call will be told when it answers.
    fn withdraw(&self, request_id: &str, _: &str) {
        self.0.take(request_id);
        self.0.changed.notify_waiters();
    }
}

/// Takes the call out of the batch however its wait ends.
struct Place {
    batch: Arc<Shared>,
    request_id: String,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.batch.take(&self.request_id);
        self.batch.changed.notify_waiters();
    }
}
