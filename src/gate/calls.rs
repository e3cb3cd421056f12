//! The tool calls of one run: checked, counted, sent, awaited, recorded.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{
    Arguments, Batch, CallLimits, CallRecord, OfferedTools, Outcome, Roads, Stopped,
    frame::{self, Call, CallEnd},
    offered::bounded,
    precheck::{self, PlainCall},
    route::{Route, RouteError, ToolCall, TraceContext},
    servers::{Listings, Servers},
    standstill::{Standstill, Waits},
    submissions::Submissions,
};
use crate::{
    image::abi::Answer,
    sandbox::{Held, HostMemory},
};

/// Why a call is withdrawn when its run ends under it.
const RUN_ENDED: &str = "the run ended";
const GIVEN_UP: &str = "the program gave the call up";

/// Why a call fails for what others hold.
const NO_MEMORY: &str = "the runs of this server hold all the memory that they may together \
     (--max-total-memory); try again later, or with less";

pub(super) struct Calls {
    offered: OfferedTools,
    route: Arc<dyn Route>,
    servers: Arc<dyn Servers>,
    limits: CallLimits,
    stop: CancellationToken,
    submissions: Arc<Submissions>,
    standstill: Standstill,
    memory: Arc<HostMemory>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    records: Vec<CallRecord>,
    /// The calls that have not ended yet, by their index in `records`.
    open: HashMap<usize, OpenCall>,
    /// The calls that have ended and were not told of, by their index in `records`.
    untold: Vec<usize>,
    /// Bytes of all results so far.
    results: u64,
    stopped: Option<Stopped>,
    closed: bool,
}

/// A call that has not ended.
struct OpenCall {
    began: Instant,
    /// Whether it has been handed to its route: if not, nothing can have happened.
    is_sent: bool,
}

/// A call that passed the gate.
struct Admitted {
    record: usize,
    call: ToolCall,
}

impl Calls {
    pub(super) fn new(
        offered: OfferedTools,
        roads: Roads,
        limits: CallLimits,
        stop: CancellationToken,
    ) -> Self {
        let Roads {
            route,
            batch,
            servers,
            memory,
        } = roads;
        Self {
            submissions: Arc::new(Submissions::new(limits.arguments)),
            standstill: Standstill::new(batch),
            offered,
            route,
            servers,
            memory,
            limits,
            stop,
            state: Mutex::default(),
        }
    }

    /// What the operator's servers have.
    pub(super) fn listings(&self, server: Option<&str>) -> Listings {
        self.servers.listings(server)
    }

    /// What is wrong with calls that stand in the source.
    pub(super) fn precheck(&self, calls: &[PlainCall]) -> Vec<u8> {
        precheck::answer(calls, &self.offered, self.servers.as_ref())
    }

    /// Calls a tool and waits for its answer.
    pub(super) fn call(self: Arc<Self>, call: Call<'_>) -> Answer {
        match self.admit(call) {
            Ok(admitted) => {
                self.open(&admitted);
                Box::pin(async move {
                    let request_id = admitted.call.request_id.clone();
                    let _waits = self.standstill.wait(Waits::Call(request_id));
                    self.carry_out(admitted).await.into_frame()
                })
            }
            // Past the limit the run is being stopped: there is nothing more to tell it.
            Err(_) if self.stopped().is_some() => Box::pin(std::future::pending()),
            Err(refusal) => ready(refusal.into_frame()),
        }
    }

    /// Calls a tool in the background; [`Calls::wait`] tells of its end. `length` is that of the
    /// request. While too much is under way already, it waits until some of that has ended.
    pub(super) fn submit(self: Arc<Self>, call: Call<'_>, length: u64) -> Answer {
        let admitted = match self.admit(call) {
            Ok(admitted) => admitted,
            Err(refusal) => return ready(refusal.into_frame()),
        };
        if let Some(room) = self.submissions.try_room(length) {
            return ready(self.begin(admitted, room));
        }
        Box::pin(async move {
            let room = {
                let _waits = self.standstill.wait(Waits::Room);
                self.submissions.room(length).await
            };
            match room {
                Some(room) => self.begin(admitted, room),
                None => frame::failure("the run has ended"),
            }
        })
    }

    fn begin(self: &Arc<Self>, admitted: Admitted, room: OwnedSemaphorePermit) -> Vec<u8> {
        self.open(&admitted);
        let calls = Arc::clone(self);
        let number = self
            .submissions
            .begin(room, async move { calls.carry_out(admitted).await });
        frame::bytes(&json!({"ok": true, "call": number}))
    }

    /// Waits until a submitted call has ended or the time is over. `is_patient`: what would happen
    /// when the time is over is only that the program gives up waiting.
    pub(super) fn wait(self: Arc<Self>, timeout_ms: Option<f64>, is_patient: bool) -> Answer {
        Box::pin(async move {
            // Who waits for no time has something to do next.
            let can_stand_still = timeout_ms.is_none_or(|ms| is_patient && ms > 0.0);
            let _waits = can_stand_still.then(|| self.standstill.wait(Waits::News));
            self.submissions.wait(timeout_ms).await
        })
    }

    /// Ends when every path of the program waits for calls of the batch.
    pub(super) async fn standstill(&self) {
        self.standstill.reached(&self.submissions).await;
    }

    /// From now on time does not count, or counts again.
    pub(super) fn hold(&self, is_held: bool) {
        self.submissions.hold(is_held);
    }

    /// The calls that wait for the client.
    pub(super) fn batch(&self) -> &Arc<Batch> {
        self.standstill.batch()
    }

    /// What has become of the calls that have ended since this was asked last.
    pub(super) fn take_ended(&self) -> Vec<CallRecord> {
        let mut state = self.lock();
        let untold = std::mem::take(&mut state.untold);
        let records = untold
            .into_iter()
            .map(|record| state.records[record].clone());
        records.collect()
    }

    /// Gives up a submitted call.
    pub(super) fn cancel(&self, number: u64) -> Vec<u8> {
        self.submissions.cancel(number);
        frame::done()
    }

    /// Ends what is under way and returns the record of all calls.
    pub(super) fn close(&self) -> Vec<CallRecord> {
        let mut state = self.lock();
        state.closed = true;
        let open: Vec<(usize, OpenCall)> = state.open.drain().collect();
        for (index, call) in open {
            let record = &mut state.records[index];
            record.duration = call.began.elapsed();
            if call.is_sent {
                record.outcome = Outcome::Withdrawn;
                self.route.withdraw(&record.request_id, RUN_ENDED);
            }
        }
        let records = state.records.clone();
        drop(state);
        // The lock is free: a call that is given up takes it.
        self.submissions.cancel_all();
        records
    }

    /// What calls hold of the host's memory (bytes).
    pub(super) fn held(&self) -> u64 {
        self.memory.held()
    }

    pub(super) fn stopped(&self) -> Option<Stopped> {
        self.lock().stopped
    }

    /// Checks a call and gives it its place in the record, or the refusal for the program.
    fn admit(&self, mut call: Call<'_>) -> Result<Admitted, CallEnd> {
        let request_id = Uuid::new_v4().to_string();
        if call.arguments.is_null() {
            call.arguments = json!({});
        }
        let checked = self.check(&call).and_then(|server| {
            let arguments = self.keep(&call.arguments)?;
            Ok((server, arguments))
        });
        let mut state = self.lock();
        if state.records.len() as u64 >= self.limits.calls || state.closed {
            state.stopped.get_or_insert(Stopped::CallLimit);
            self.stop.cancel();
            return Err(CallEnd::Failure {
                reason: format!(
                    "a run may make {} tool calls (--max-tool-calls)",
                    self.limits.calls
                ),
                request_id: None,
            });
        }
        let checked = checked.and_then(|checked| self.check_bounds(&state).map(|()| checked));
        let record = state.records.len();
        // A refused name is whatever the program made up, and is kept until the run ends.
        let kept = |name: &str| match &checked {
            Ok(_) => name.to_owned(),
            Err(_) => bounded(name),
        };
        state.records.push(CallRecord {
            request_id: request_id.clone(),
            tool_name: kept(&call.tool),
            server_name: match &checked {
                Ok((server, _)) => server.clone(),
                Err(_) => call.server.as_deref().map(bounded),
            },
            arguments: CallRecord::preview(&call.arguments),
            outcome: Outcome::Refused,
            duration: Duration::ZERO,
        });
        let (server, arguments) = match checked {
            Ok(checked) => checked,
            Err(reason) => {
                state.untold.push(record);
                return Err(CallEnd::failure(reason, &request_id));
            }
        };
        let call = ToolCall {
            request_id,
            number: record,
            tool: call.tool.to_string(),
            is_upstream: self.upstream(&call).is_some(),
            server,
            arguments,
            trace: TraceContext::default(),
        };
        Ok(Admitted { record, call })
    }

    /// The arguments as they are kept, with their room.
    fn keep(&self, arguments: &Value) -> Result<Arguments, String> {
        let json = arguments.to_string();
        let held = self.memory.hold(json.len() as u64);
        let held = held.ok_or(NO_MEMORY)?;
        Ok(Arguments::new(json, held))
    }

    /// What a run may have under way, and may get.
    fn check_bounds(&self, state: &State) -> Result<(), String> {
        let CallLimits {
            in_flight,
            tool_results,
            ..
        } = self.limits;
        if state.open.len() as u64 >= in_flight {
            return Err(format!(
                "{in_flight} calls wait for their answers already, and more may not at once \
                 (--max-calls-in-flight); wait for some of them first, with a semaphore or in batches"
            ));
        }
        if state.results > tool_results {
            return Err(format!(
                "the results of this run's calls have reached {} bytes of JSON; together they may be \
                 {tool_results} (--max-tool-results)",
                state.results
            ));
        }
        Ok(())
    }

    /// From here on the call counts as under way.
    fn open(&self, admitted: &Admitted) {
        let call = OpenCall {
            began: Instant::now(),
            is_sent: false,
        };
        self.lock().open.insert(admitted.record, call);
    }

    /// The operator's server that the call goes to, if it goes to one.
    fn upstream<'a>(&self, call: &'a Call<'_>) -> Option<&'a str> {
        let server = call.server.as_deref()?;
        self.servers.has(server).then_some(server)
    }

    /// Whether a call may go out; the server that its tool belongs to. Who calls a tool by its name alone need not
    /// know that it was offered with one.
    fn check(&self, call: &Call<'_>) -> Result<Option<String>, String> {
        let named = call.server.as_deref();
        // What a server of the operator has is known to it alone, and it may have to be started first.
        let tool = if self.upstream(call).is_some() {
            None
        } else {
            Some(
                self.offered
                    .find(&call.tool, named, self.servers.as_ref())?,
            )
        };
        if !call.arguments.is_object() {
            return Err("the arguments must be an object".to_owned());
        }
        if frame::depth(&call.arguments) > frame::DEEPEST {
            return Err(format!(
                "the arguments are nested deeper than {} levels",
                frame::DEEPEST
            ));
        }
        let Some(tool) = tool else {
            return Ok(named.map(str::to_owned));
        };
        tool.check(&call.arguments)?;
        Ok(tool.server.clone())
    }

    async fn carry_out(self: &Arc<Self>, admitted: Admitted) -> CallEnd {
        let request_id = admitted.call.request_id.clone();
        let tool = admitted.call.tool.clone();
        let given_up = GivenUp {
            calls: Arc::clone(self),
            record: admitted.record,
        };
        match self.lock().open.get_mut(&admitted.record) {
            Some(call) => call.is_sent = true,
            // The run ended before this had its turn: nothing may be sent any more.
            None => return CallEnd::failure(RUN_ENDED.to_owned(), &request_id),
        }
        let (outcome, end) = match self.route.call(admitted.call).await {
            Ok(value) => (Outcome::Answered, self.take_result(&value)),
            Err(RouteError::Failed(reason)) => (Outcome::Failed, Err(reason)),
            Err(RouteError::NotSent(reason)) => (Outcome::Refused, Err(reason)),
            Err(RouteError::TimedOut) => {
                (Outcome::TimedOut, Err(format!("Tool call timeout: {tool}")))
            }
        };
        // Only one withdraws a call: this, or the end of the run.
        if self.end(given_up.record, outcome) && outcome == Outcome::TimedOut {
            self.route.withdraw(&request_id, "timeout");
        }
        match end {
            Ok((json, held)) => CallEnd::Value(json, held),
            Err(reason) => CallEnd::failure(reason, &request_id),
        }
    }

    /// The value as JSON text with its room, if it and all before it are small enough.
    fn take_result(&self, value: &Value) -> Result<(String, Held), String> {
        let CallLimits {
            tool_result,
            tool_results,
            ..
        } = self.limits;
        let json = value.to_string();
        let length = json.len() as u64;
        if length > tool_result {
            return Err(format!(
                "its result is {length} bytes of JSON; the limit is {tool_result} (--max-tool-result). \
                 Ask the tool for less"
            ));
        }
        let held = self.memory.hold(length).ok_or(NO_MEMORY)?;
        let mut state = self.lock();
        state.results = state.results.saturating_add(length);
        if state.results > tool_results {
            return Err(format!(
                "with its result of {length} bytes the results of this run's calls are {} bytes of JSON; \
                 together they may be {tool_results} (--max-tool-results)",
                state.results
            ));
        }
        Ok((json, held))
    }

    /// Records the end of a call; false if it had ended already.
    fn end(&self, record: usize, outcome: Outcome) -> bool {
        let mut state = self.lock();
        let Some(call) = state.open.remove(&record) else {
            return false;
        };
        state.records[record].outcome = outcome;
        state.records[record].duration = call.began.elapsed();
        state.untold.push(record);
        true
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn ready(answer: Vec<u8>) -> Answer {
    Box::pin(std::future::ready(answer))
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
