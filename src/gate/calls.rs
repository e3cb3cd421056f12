//! The tool calls of one run: checked, counted, sent, awaited, recorded.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tokio::{
    sync::{Notify, OwnedSemaphorePermit, Semaphore},
    task::AbortHandle,
};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{
    CallLimits, CallRecord, OfferedTools, Outcome, Stopped,
    frame::{self, Call},
    offered::bounded,
    route::{Route, RouteError, ToolCall},
};
use crate::image::abi::Answer;

/// A year: waiting longer than this is waiting for ever.
const LONGEST_WAIT: Duration = Duration::from_hours(8760);

/// Submitted calls that wait for their answers may hold as much as this many of the largest.
const ROOM: u64 = 4;
const LEAST_ROOM: u64 = 1 << 20;

/// Why a call is withdrawn when its run ends under it.
const RUN_ENDED: &str = "the run ended";
const GIVEN_UP: &str = "the program gave the call up";

pub(super) struct Calls {
    offered: OfferedTools,
    route: Arc<dyn Route>,
    limits: CallLimits,
    stop: CancellationToken,
    /// KiB that submitted calls may still hold.
    room: Arc<Semaphore>,
    largest_room: u32,
    state: Mutex<State>,
    /// Wakes `wait` when a submitted call has ended.
    ended: Notify,
}

#[derive(Default)]
struct State {
    records: Vec<CallRecord>,
    /// When each call began that has not ended yet, by its index in `records`.
    open: HashMap<usize, Instant>,
    submitted: HashMap<u64, AbortHandle>,
    done: Vec<Value>,
    next_submission: u64,
    stopped: Option<Stopped>,
    closed: bool,
}

/// A call that passed the gate.
struct Admitted {
    record: usize,
    call: ToolCall,
}

impl Calls {
    pub(super) fn new(
        offered: OfferedTools,
        route: Arc<dyn Route>,
        limits: CallLimits,
        stop: CancellationToken,
    ) -> Self {
        let largest_room = kib(limits.arguments.saturating_mul(ROOM).max(LEAST_ROOM));
        Self {
            offered,
            route,
            limits,
            stop,
            room: Arc::new(Semaphore::new(largest_room as usize)),
            largest_room,
            state: Mutex::default(),
            ended: Notify::new(),
        }
    }

    /// Calls a tool and waits for its answer.
    pub(super) fn call(self: Arc<Self>, call: Call<'_>) -> Answer {
        match self.admit(call) {
            Ok(admitted) => {
                self.open(&admitted);
                Box::pin(async move { frame::bytes(&self.carry_out(admitted).await) })
            }
            // Past the limit the run is being stopped: there is nothing more to tell it.
            Err(_) if self.stopped().is_some() => Box::pin(std::future::pending()),
            Err(refusal) => Box::pin(std::future::ready(frame::bytes(&refusal))),
        }
    }

    /// Calls a tool in the background; [`Calls::wait`] tells of its end. `length` is that of the
    /// request. While too much is under way already, it waits until some of that has ended.
    pub(super) fn submit(self: Arc<Self>, call: Call<'_>, length: u64) -> Answer {
        let admitted = match self.admit(call) {
            Ok(admitted) => admitted,
            Err(refusal) => return Box::pin(std::future::ready(frame::bytes(&refusal))),
        };
        let room = kib(length).min(self.largest_room);
        if let Ok(room) = Arc::clone(&self.room).try_acquire_many_owned(room) {
            return Box::pin(std::future::ready(self.begin(admitted, room)));
        }
        Box::pin(async move {
            match Arc::clone(&self.room).acquire_many_owned(room).await {
                Ok(room) => self.begin(admitted, room),
                // Nobody closes the semaphore.
                Err(closed) => frame::bytes(&frame::failure(&closed.to_string(), None)),
            }
        })
    }

    fn begin(self: Arc<Self>, admitted: Admitted, room: OwnedSemaphorePermit) -> Vec<u8> {
        self.open(&admitted);
        let number = {
            let mut state = self.lock();
            state.next_submission += 1;
            state.next_submission
        };
        let calls = Arc::clone(&self);
        // The entry is made under the lock that the task takes at its end, so it can't be missed.
        let mut state = self.lock();
        let task = tokio::spawn(async move {
            let mut answer = calls.carry_out(admitted).await;
            drop(room);
            answer["call"] = json!(number);
            let mut state = calls.lock();
            if state.submitted.remove(&number).is_some() {
                state.done.push(answer);
                calls.ended.notify_one();
            }
        });
        state.submitted.insert(number, task.abort_handle());
        frame::bytes(&json!({"ok": true, "call": number}))
    }

    /// Waits until a submitted call has ended or the time is over.
    pub(super) fn wait(self: Arc<Self>, timeout_ms: Option<f64>) -> Answer {
        let timeout = timeout_ms.map(|ms| {
            Duration::try_from_secs_f64(ms.max(0.0) / 1e3)
                .unwrap_or(LONGEST_WAIT)
                .min(LONGEST_WAIT)
        });
        Box::pin(async move {
            if timeout == Some(Duration::ZERO) {
                // A timer, even one that is over, would take a millisecond.
                tokio::task::yield_now().await;
                let done = std::mem::take(&mut self.lock().done);
                return frame::bytes(&json!({"ok": true, "done": done}));
            }
            let deadline = tokio::time::Instant::now() + timeout.unwrap_or(LONGEST_WAIT);
            loop {
                let in_flight = {
                    let mut state = self.lock();
                    if !state.done.is_empty() {
                        return frame::bytes(
                            &json!({"ok": true, "done": std::mem::take(&mut state.done)}),
                        );
                    }
                    !state.submitted.is_empty()
                };
                let over = if !in_flight && timeout.is_none() {
                    true
                } else {
                    tokio::time::timeout_at(deadline, self.ended.notified())
                        .await
                        .is_err()
                };
                if over {
                    return br#"{"ok": true, "done": []}"#.to_vec();
                }
            }
        })
    }

    /// Gives up a submitted call.
    pub(super) fn cancel(&self, number: u64) -> Vec<u8> {
        let task = self.lock().submitted.remove(&number);
        if let Some(task) = task {
            task.abort();
        }
        frame::done()
    }

    /// Ends what is under way and returns the record of all calls.
    pub(super) fn close(&self) -> Vec<CallRecord> {
        let tasks: Vec<AbortHandle> = {
            let mut state = self.lock();
            state.closed = true;
            let open: Vec<(usize, Instant)> = state.open.drain().collect();
            for (record, began) in open {
                state.records[record].outcome = Outcome::Withdrawn;
                state.records[record].duration = began.elapsed();
                self.route
                    .withdraw(&state.records[record].request_id, RUN_ENDED);
            }
            state.submitted.drain().map(|(_, task)| task).collect()
        };
        for task in tasks {
            task.abort();
        }
        self.lock().records.clone()
    }

    pub(super) fn stopped(&self) -> Option<Stopped> {
        self.lock().stopped
    }

    /// Checks a call and gives it its place in the record, or the refusal for the program.
    fn admit(&self, mut call: Call<'_>) -> Result<Admitted, Value> {
        let request_id = Uuid::new_v4().to_string();
        if call.arguments.is_null() {
            call.arguments = json!({});
        }
        let checked = self.check(&call);
        let mut state = self.lock();
        if state.records.len() as u64 >= self.limits.calls || state.closed {
            state.stopped.get_or_insert(Stopped::CallLimit);
            self.stop.cancel();
            let reason = format!(
                "a run may make {} tool calls (--max-tool-calls)",
                self.limits.calls
            );
            return Err(frame::failure(&reason, None));
        }
        let record = state.records.len();
        // A refused name is whatever the program made up, and is kept until the run ends.
        let kept = |name: &str| match &checked {
            Ok(()) => name.to_owned(),
            Err(_) => bounded(name),
        };
        state.records.push(CallRecord {
            request_id: request_id.clone(),
            tool_name: kept(&call.tool),
            server_name: call.server.as_deref().map(kept),
            outcome: Outcome::Refused,
            duration: Duration::ZERO,
        });
        checked.map_err(|reason| frame::failure(&reason, Some(&request_id)))?;
        let call = ToolCall {
            request_id,
            tool: call.tool.to_string(),
            server: call.server.as_deref().map(str::to_owned),
            arguments: call.arguments,
        };
        Ok(Admitted { record, call })
    }

    /// From here on the call counts as sent.
    fn open(&self, admitted: &Admitted) {
        self.lock().open.insert(admitted.record, Instant::now());
    }

    fn check(&self, call: &Call<'_>) -> Result<(), String> {
        let tool = self.offered.find(&call.tool, call.server.as_deref())?;
        if !call.arguments.is_object() {
            return Err("the arguments must be an object".to_owned());
        }
        if frame::depth(&call.arguments) > frame::DEEPEST {
            return Err(format!(
                "the arguments are nested deeper than {} levels",
                frame::DEEPEST
            ));
        }
        tool.check(&call.arguments)
    }

    async fn carry_out(self: &Arc<Self>, admitted: Admitted) -> Value {
        let request_id = admitted.call.request_id.clone();
        let tool = admitted.call.tool.clone();
        let given_up = GivenUp {
            calls: Arc::clone(self),
            record: admitted.record,
        };
        let answer =
            tokio::time::timeout(self.limits.tool_timeout, self.route.call(admitted.call)).await;
        let (outcome, answer) = match answer {
            Ok(Ok(value)) => (Outcome::Answered, json!({"ok": true, "value": value})),
            Ok(Err(RouteError::Failed(reason))) => {
                (Outcome::Failed, frame::failure(&reason, Some(&request_id)))
            }
            Ok(Err(RouteError::NotSent(reason))) => {
                (Outcome::Refused, frame::failure(&reason, Some(&request_id)))
            }
            Err(_) => {
                self.route.withdraw(&request_id, "timeout");
                (
                    Outcome::TimedOut,
                    frame::failure(&format!("Tool call timeout: {tool}"), Some(&request_id)),
                )
            }
        };
        self.end(given_up.record, outcome);
        answer
    }

    /// Records the end of a call; false if it had ended already.
    fn end(&self, record: usize, outcome: Outcome) -> bool {
        let mut state = self.lock();
        let Some(began) = state.open.remove(&record) else {
            return false;
        };
        state.records[record].outcome = outcome;
        state.records[record].duration = began.elapsed();
        true
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Rounded up.
fn kib(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(1 << 10)).unwrap_or(u32::MAX)
}

/// Withdraws a call whose future is dropped before its end. (A call that has ended is not open.)
struct GivenUp {
    calls: Arc<Calls>,
    record: usize,
}

impl Drop for GivenUp {
    fn drop(&mut self) {
        if !self.calls.end(self.record, Outcome::Withdrawn) {
            return;
        }
        let (request_id, closed) = {
            let state = self.calls.lock();
            (state.records[self.record].request_id.clone(), state.closed)
        };
        self.calls
            .route
            .withdraw(&request_id, if closed { RUN_ENDED } else { GIVEN_UP });
    }
}
