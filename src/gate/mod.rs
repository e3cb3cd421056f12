//! Tool calls out of the sandbox: what was offered, what is allowed, what became of each call.
//!
//! The gate knows nothing of MCP transports. It answers the guest's host calls and sends tool calls
//! out by a [`Route`].

mod answer;
mod arguments;
mod batch;
mod calls;
mod client;
mod frame;
mod offered;
mod pending;
mod precheck;
mod principal;
mod record;
mod route;
mod schema;
mod servers;
mod standstill;
mod submissions;
mod timed;
mod unfolding;
mod violation;

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

pub use self::{
    answer::{read as read_answer, unwrap as unwrap_answer},
    arguments::Arguments,
    batch::Batch,
    client::{ClientChannel, ClientRoute},
    frame::{Finish, FinishStatus, ProgramError},
    offered::{OfferError, OfferedTools},
    pending::{Dropped, PendingCalls},
    principal::Principal,
    record::{CallRecord, Outcome, as_milliseconds},
    route::{Route, RouteAnswer, RouteError, ToolCall, TraceContext},
    servers::{Listings, NoServers, ServerListing, Servers},
    timed::TimedRoute,
};
use self::{calls::Calls, frame::Request, precheck::PlainCall};
use crate::{
    image::abi::{Answer, HostCalls},
    sandbox::HostMemory,
};

/// Room in a frame for everything but the arguments or the value (bytes): a traceback, names.
const FRAME_OVERHEAD: u64 = 512 << 10;

/// What a run may ask of the gate. Sizes are bytes.
#[derive(Debug, Clone)]
pub struct CallLimits {
    /// How long one call may wait for its answer.
    pub tool_timeout: Duration,
    /// Calls in all, refused ones included.
    pub calls: u64,
    /// Calls that wait for their answers at once.
    pub in_flight: u64,
    /// The arguments of one call, as JSON.
    pub arguments: u64,
    /// The result of one call, as JSON.
    pub tool_result: u64,
    /// The results of all calls, as JSON.
    pub tool_results: u64,
    /// The value of the program, as JSON.
    pub result: u64,
    /// Whether calls that stand plainly in the source are checked before it runs.
    pub precheck: bool,
}

impl Default for CallLimits {
    fn default() -> Self {
        Self {
            tool_timeout: Duration::from_secs(30),
            calls: 10_000,
            in_flight: 4096,
            arguments: 4 << 20,
            tool_result: 16 << 20,
            tool_results: 256 << 20,
            result: 4 << 20,
            precheck: true,
        }
    }
}

/// What the gate stopped a run for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// More calls than a run may make.
    CallLimit,
}

/// The program of a run, and the tools for it.
pub struct Program {
    /// Its source.
    pub source: String,
    /// The tools as they came, for the guest.
    pub tools: Vec<Value>,
    /// The same tools, checked.
    pub offered: OfferedTools,
    /// Names bound before the code runs.
    pub global_variables: serde_json::Map<String, Value>,
}

/// The roads out of a run.
pub struct Roads {
    /// Takes each call to whoever answers it.
    pub route: Arc<dyn Route>,
    /// Where `route` puts calls that the client answers by another request.
    pub batch: Arc<Batch>,
    /// The operator's servers.
    pub servers: Arc<dyn Servers>,
    /// Counts what the calls hold on their way.
    pub memory: Arc<HostMemory>,
}

/// The gate of one run.
pub struct Gate {
    start: Mutex<Option<Vec<u8>>>,
    prechecked: AtomicBool,
    calls: Arc<Calls>,
    finish: Mutex<Option<Finish>>,
    largest_finish: u64,
    largest_call: u64,
    limits: CallLimits,
}

impl Gate {
    /// A gate for one run of `program`. `stop` ends the run when it asks for too much.
    #[must_use]
    pub fn new(
        program: Program,
        roads: Roads,
        limits: CallLimits,
        stop: CancellationToken,
    ) -> Self {
        let start = json!({
            "servers": roads.servers.names(),
            "source": program.source,
            "tools": program.tools,
            "global_variables": program.global_variables,
            "precheck": limits.precheck,
            "limits": {"result_bytes": limits.result, "arguments_bytes": limits.arguments},
        });
        Self {
            start: Mutex::new(Some(frame::bytes(&start))),
            prechecked: AtomicBool::new(false),
            largest_finish: limits.result.saturating_add(FRAME_OVERHEAD),
            largest_call: limits.arguments.saturating_add(FRAME_OVERHEAD),
            calls: Arc::new(Calls::new(program.offered, roads, limits.clone(), stop)),
            finish: Mutex::new(None),
            limits,
        }
    }

    /// How the program says it ended; `None` if it never came to that.
    #[must_use]
    pub fn finish(&self) -> Option<Finish> {
        lock(&self.finish).clone()
    }

    /// Ends the calls that are still under way, and returns what became of all of them.
    #[must_use]
    pub fn close(&self) -> Vec<CallRecord> {
        self.calls.close()
    }

    /// Ends when the program can't go on before the client has answered a call of the batch.
    pub async fn standstill(&self) {
        self.calls.standstill().await;
    }

    /// The calls that wait for the client.
    #[must_use]
    pub fn batch(&self) -> &Arc<Batch> {
        self.calls.batch()
    }

    /// While the client has the calls, the program's waiting for them takes no time.
    pub fn hold(&self, is_held: bool) {
        self.calls.hold(is_held);
    }

    /// What has become of the calls that have ended since this was asked last.
    #[must_use]
    pub fn take_ended(&self) -> Vec<CallRecord> {
        self.calls.take_ended()
    }

    /// What the run's calls hold of the host's memory now (bytes).
    #[must_use]
    pub fn held(&self) -> u64 {
        self.calls.held()
    }

    /// Why the gate stopped the run, if it did.
    #[must_use]
    pub fn stopped(&self) -> Option<Stopped> {
        self.calls.stopped()
    }

    fn take_finish(&self, mut finish: Finish) -> Vec<u8> {
        if let Some(error) = &mut finish.error
            && !frame::KINDS.contains(&error.kind.as_str())
        {
            // The program may have sent the frame itself: other kinds are the host's to tell.
            "exception".clone_into(&mut error.kind);
        }
        if frame::depth(&finish.return_value) > frame::DEEPEST {
            let message = format!("the result is nested deeper than {} levels", frame::DEEPEST);
            finish = refused_result(message);
        }
        *lock(&self.finish) = Some(finish);
        frame::done()
    }

    fn servers(&self, server: Option<&str>) -> Answer {
        let listings = self.calls.listings(server);
        Box::pin(async move { frame::bytes(&json!({"ok": true, "servers": listings.await})) })
    }

    /// Once in a run, because it is work of the host that nothing counts.
    fn precheck(&self, calls: &[PlainCall], length: u64) -> Vec<u8> {
        if self.prechecked.swap(true, Ordering::Relaxed) || length > precheck::LARGEST {
            return frame::failure(
                "a run has its source checked once, and not if it is very large",
            );
        }
        self.calls.precheck(calls)
    }

    /// Parsing costs memory of the host: what is too large is refused by its length.
    fn oversized(&self, request: &[u8]) -> Option<Vec<u8>> {
        let length = request.len() as u64;
        if length <= self.largest_call.min(self.largest_finish) {
            return None;
        }
        if is_finish(request) {
            (length > self.largest_finish)
                .then(|| self.take_finish(too_large(length, self.limits.result)))
        } else {
            (length > self.largest_call).then(|| {
                let reason = format!(
                    "the request is {length} bytes; arguments may be {} (--max-arguments)",
                    self.limits.arguments
                );
                frame::failure(&reason)
            })
        }
    }
}

impl HostCalls for Gate {
    fn call(&self, request: &[u8]) -> Answer {
        if self.stopped().is_some() {
            // The run is being stopped: the program gets no chance to make something of it.
            return Box::pin(std::future::pending());
        }
        if let Some(refusal) = self.oversized(request) {
            return ready(refusal);
        }
        let length = request.len() as u64;
        let request = match serde_json::from_slice::<Request<'_>>(request) {
            Ok(request) => request,
            Err(error) => {
                // The error may quote what it does not know.
                let reason = format!("not a request that the host knows: {error}");
                return ready(frame::failure(&offered::bounded(&reason)));
            }
        };
        match request {
            Request::Start => ready(
                lock(&self.start)
                    .take()
                    .unwrap_or_else(|| frame::failure("the run has started already")),
            ),
            Request::Precheck { calls } => ready(self.precheck(&calls, length)),
            Request::Finish(finish) => ready(self.take_finish(finish)),
            Request::Call(call) => Arc::clone(&self.calls).call(call),
            Request::Submit(call) => Arc::clone(&self.calls).submit(call, length),
            Request::Wait {
                timeout_ms,
                patient,
            } => Arc::clone(&self.calls).wait(timeout_ms, patient),
            Request::Servers { server } => self.servers(server.as_deref()),
            Request::Cancel { call } => ready(self.calls.cancel(call)),
        }
    }
}

fn is_finish(request: &[u8]) -> bool {
    let head = &request[..request.len().min(64)];
    head.windows(8).any(|window| window == b"\"finish\"")
}

fn too_large(length: u64, limit: u64) -> Finish {
    refused_result(format!(
        "the result is {length} bytes of JSON; the limit is {limit} (--max-result)"
    ))
}

fn refused_result(message: String) -> Finish {
    Finish {
        status: FinishStatus::RunError,
        return_value: Value::Null,
        error: Some(ProgramError {
            kind: "output_limit".to_owned(),
            type_name: Some("ResultTooLarge".to_owned()),
            message,
            traceback: None,
        }),
        exit_code: None,
    }
}

fn ready(answer: Vec<u8>) -> Answer {
    Box::pin(std::future::ready(answer))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
