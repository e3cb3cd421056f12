//! One request about a run: it begins one or continues one, and attends to it until it ends or waits for
//! the client.
#![expect(
    deprecated,
    reason = "logging is deprecated from 2026-07-28 on; clients of every revision may still ask for it"
)]

use std::{sync::Arc, time::Duration};

use rmcp::{
    RoleServer,
    model::{
        CallToolResponse, InputRequiredResult, InputResponses, LoggingLevel,
        ProgressNotificationParam,
    },
    service::RequestContext,
};
use serde_json::{Map, Value};
use tokio::sync::OwnedSemaphorePermit;
use tracing::Instrument as _;

use super::{
    active::{ActiveRun, Next},
    admission::Ticket,
    answers::{self, Answer},
    arguments,
    asking::Asking,
    audience::Audience,
    channel::PeerChannel,
    elicit,
    link::{Attendant, HeardRoute, Link},
    live::Live,
    outcome::{Pieces, RunOutcome},
    road::{Client, Hearing, Road},
    schema::{RESUME_PYTHON_CODE, RUN_PYTHON_CODE},
    service::Service,
    trace::RunTrace,
    waiting::WaitingRun,
};
use crate::{
    gate::{ClientRoute, Principal, Program, Route, TimedRoute},
    image::progress::Step,
    sandbox::Sandbox,
};

/// Withdrawals of a cancelled run go out at once, or never.
const LAST_WORDS: Duration = Duration::from_millis(100);

/// What a request needs of the connection that it came by.
pub struct Caller {
    /// The least severe log messages that the client wants, if it wants any.
    pub level: Option<LoggingLevel>,
    /// What is known of whether it answers notifications.
    pub hearing: Arc<Hearing>,
    /// The request.
    pub context: RequestContext<RoleServer>,
}

/// A request, and what it needs of the server.
pub struct Request<'a> {
    service: &'a Service,
    /// Who asks.
    principal: Principal,
    /// What let it in, if there was a door.
    ticket: Option<Arc<Ticket>>,
    trace: RunTrace,
    caller: Caller,
}

/// What a request is answered with.
enum Reply {
    /// The run is over.
    Ended(Box<RunOutcome>),
    /// It waits for the client, who is to come back with the handle.
    Waiting(Box<WaitingRun>),
    /// It waits for the client, who is to make the same request again with its answers.
    InputRequired(InputRequiredResult),
}

impl<'a> Request<'a> {
    /// A call of `tool` as it came.
    #[must_use]
    pub fn new(service: &'a Service, tool: &str, caller: Caller) -> Self {
        let http = caller.context.extensions.get::<http::request::Parts>();
        let http = http.map(|parts| &parts.extensions);
        let principal = http.and_then(|of| of.get::<Principal>());
        Self {
            service,
            principal: principal.cloned().unwrap_or_else(Principal::anonymous),
            ticket: http.and_then(|of| of.get::<Arc<Ticket>>()).cloned(),
            trace: RunTrace::begin(tool, &caller.context),
            caller,
        }
    }

    /// Answers a call of `run_python_code`.
    pub async fn run(self, arguments: Map<String, Value>) -> CallToolResponse {
        let reply = match arguments::program(arguments) {
            Ok(program) => self.traced(self.begin(program)).await,
            Err(message) => refused(message, RUN_PYTHON_CODE),
        };
        self.finish(reply)
    }

    /// Answers a call of `resume_python_code`.
    pub async fn resume(self, arguments: Map<String, Value>) -> CallToolResponse {
        let handle = arguments.get("handle").and_then(Value::as_str);
        let is_good =
            handle.is_some_and(|handle| self.service.suspended.has(&self.principal, handle));
        let reply = match arguments::resumption(arguments) {
            Ok((handle, answers)) => self.traced(self.go_on(&handle, answers)).await,
            Err(message) if is_good => refused(
                format!("{message}. The handle is still good"),
                RESUME_PYTHON_CODE,
            ),
            Err(message) => refused(message, RESUME_PYTHON_CODE),
        };
        self.finish(reply)
    }

    /// Answers a request that is made again, with what an `input_required` result asked for.
    pub async fn retry(self, state: String, responses: InputResponses) -> CallToolResponse {
        let reply = match elicit::answers(responses) {
            Ok(answers) => self.traced(self.go_on(&state, answers)).await,
            Err(message) => refused(message, RUN_PYTHON_CODE),
        };
        self.finish(reply)
    }

    async fn traced(&self, reply: impl Future<Output = Reply>) -> Reply {
        let _active = self.service.metrics.request();
        reply.instrument(self.trace.span().clone()).await
    }

    fn finish(self, reply: Reply) -> CallToolResponse {
        let mode = self.service.settings.return_mode;
        match reply {
            Reply::Ended(outcome) => {
                self.service.metrics.ended(&outcome);
                self.trace.end(&outcome);
                outcome.into_result(mode).into()
            }
            Reply::Waiting(waiting) => waiting.into_result(mode).into(),
            Reply::InputRequired(required) => required.into(),
        }
    }

    async fn begin(&self, program: Program) -> Reply {
        let mut steps = 0;
        let sandbox = tokio::select! {
            sandbox = self.sandbox(&mut steps) => sandbox,
            () = self.caller.context.ct.cancelled() => return ended(RunOutcome::cancelled()),
        };
        let sandbox = match sandbox {
            Ok(sandbox) => sandbox,
            Err(reason) => return ended(RunOutcome::internal(reason)),
        };
        let _turn = tokio::select! {
            turn = self.turn() => turn,
            () = self.caller.context.ct.cancelled() => return ended(RunOutcome::cancelled()),
        };
        let link = Link::default();
        let trace = self.trace.clone();
        let start = || ActiveRun::start(self.service, sandbox, program, link.clone(), trace);
        self.attend(&link, steps, start).await
    }

    async fn go_on(&self, handle: &str, answers: Vec<Answer>) -> Reply {
        let check = |run: &ActiveRun| answers::check(&answers, run);
        let suspended = &self.service.suspended;
        let claim = match suspended.claim(&self.principal, handle, check) {
            Ok(claim) => claim,
            Err(message) => return refused(message, RESUME_PYTHON_CODE),
        };
        let taken = tokio::select! {
            taken = async { (self.turn().await, claim.take().await) } => taken,
            () = self.caller.context.ct.cancelled() => return ended(RunOutcome::cancelled()),
        };
        let (_turn, run) = match taken {
            (turn, Ok(run)) => (turn, run),
            (_, Err(message)) => return refused(message, RESUME_PYTHON_CODE),
        };
        let link = run.link.clone();
        let start = || {
            answers::deliver(answers, run.gate.batch());
            run
        };
        self.attend(&link, 0, start).await
    }

    /// Attends to the run that `start` starts or lets go on, until it ends or waits for the client.
    async fn attend(&self, link: &Link, steps: u32, start: impl FnOnce() -> ActiveRun) -> Reply {
        let context = &self.caller.context;
        let live = self.live(steps);
        let channel = PeerChannel::open(context.peer.clone(), context.id.clone());
        link.connect(self.attendant(live.as_ref(), Arc::clone(&channel)));
        let end = self.until_end(start()).await;
        link.disconnect();
        tokio::select! {
            () = channel.flush() => {}
            // Where the connection is gone, nothing can be sent any more.
            () = self.given_up() => {}
        }
        if let Some(live) = live {
            tokio::select! {
                biased;
                // Nobody wants to hear of a request any more that was cancelled.
                () = context.ct.cancelled() => {}
                () = live.finish() => {}
            }
        }
        let reply = match end {
            End::Pieces(pieces) => ended(RunOutcome::new(*pieces, &self.service.settings)),
            End::Reply(reply) => reply,
        };
        if context.ct.is_cancelled() {
            self.log_cancelled(&reply);
        }
        reply
    }

    async fn until_end(&self, mut run: ActiveRun) -> End {
        let cancelled = &self.caller.context.ct;
        loop {
            let next = tokio::select! {
                biased;
                next = run.next() => next,
                () = cancelled.cancelled() => return End::Pieces(run.stop().await),
            };
            if let Next::Ended(pieces) = next {
                return End::Pieces(pieces);
            }
            if run.link.road() == Road::Elicit && !self.is_modern() {
                if let Some(pieces) = self.elicit(&mut run).await {
                    return End::Pieces(pieces);
                }
                continue;
            }
            match self.suspend(run) {
                Ok(reply) => return End::Reply(reply),
                Err(back) => run = *back,
            }
        }
    }

    /// Gives the run out of the hand until the client comes back; where that can't be, its calls fail and it
    /// goes on.
    fn suspend(&self, mut run: ActiveRun) -> Result<Reply, Box<ActiveRun>> {
        // A request that continues a run may come from a client that can't be asked any more.
        if let Road::Refuse(reason) = run.link.road() {
            run.gate.batch().refuse(reason);
            return Err(Box::new(run));
        }
        let elicits = run.link.road() == Road::Elicit;
        run.rounds += 1;
        if elicits && run.rounds > elicit::ROUNDS {
            run.gate.batch().refuse(elicit::TOO_MANY_ROUNDS);
            return Err(Box::new(run));
        }
        let waiting = WaitingRun {
            handle: String::new(),
            expiry: self.service.suspended.expiry(),
            pending: run.gate.batch().calls(),
            printed: run.transcript.printed(),
            calls: run.gate.take_ended(),
            elapsed: run.pause.elapsed(),
            cpu: run.pause.cpu(),
        };
        let attendant = run.link.disconnect();
        let handle = match self.service.suspended.keep(&self.principal, run) {
            Ok(handle) => handle,
            Err((run, reason)) => {
                tracing::warn!(principal = %self.principal, "a run was not suspended: {reason}");
                if let Some(attendant) = attendant {
                    run.link.connect(attendant);
                }
                run.gate.batch().refuse(&reason);
                return Err(run);
            }
        };
        if !elicits {
            return Ok(Reply::Waiting(Box::new(WaitingRun { handle, ..waiting })));
        }
        match elicit::input_required(handle, &waiting.pending) {
            Ok(required) => Ok(Reply::InputRequired(required)),
            Err(reason) => Ok(ended(RunOutcome::internal(reason))),
        }
    }

    /// Asks for the calls of the run by requests of the server's own; the pieces of the run if it ends
    /// meanwhile.
    async fn elicit(&self, run: &mut ActiveRun) -> Option<Box<Pieces>> {
        let asking = Asking {
            peer: self.caller.context.peer.clone(),
            timeout: self.service.settings.call_limits.tool_timeout,
        };
        tokio::select! {
            pieces = asking.until_answered(run) => return pieces,
            () = self.caller.context.ct.cancelled() => {}
        }
        Some(run.stop().await)
    }

    /// What the run is to know of this request.
    fn attendant(&self, live: Option<&Live>, channel: Arc<PeerChannel>) -> Attendant {
        let hearing = Arc::clone(&self.caller.hearing);
        let client = ClientRoute {
            pending: Arc::clone(&self.service.pending),
            principal: self.principal.clone(),
            channel,
        };
        let timed = TimedRoute {
            route: Arc::new(client),
            timeout: self.service.settings.call_limits.tool_timeout,
        };
        let notify: Arc<dyn Route> = Arc::new(HeardRoute {
            route: Arc::new(timed),
            hearing: Arc::clone(&hearing),
        });
        Attendant {
            callbacks: self.service.settings.callbacks,
            client: Client::of(&self.caller.context, &hearing),
            hearing,
            notify,
            ear: live.map(|live| live.ear().clone()),
        }
    }

    fn is_modern(&self) -> bool {
        Client::of(&self.caller.context, &self.caller.hearing).is_modern()
    }

    /// Ends some time after the request was cancelled.
    async fn given_up(&self) {
        self.caller.context.ct.cancelled().await;
        tokio::time::sleep(LAST_WORDS).await;
    }

    /// The sandbox; while it is being made, the client hears of it if it asked to. Counts what it
    /// was told.
    async fn sandbox(&self, steps: &mut u32) -> Result<Arc<Sandbox>, String> {
        let context = &self.caller.context;
        let token = context.meta.get_progress_token();
        let loading = self.service.loader.sandbox(|step: Step| {
            *steps += 1;
            let progress = token.clone().map(|token| {
                ProgressNotificationParam::new(token, f64::from(*steps))
                    .with_message(format!("Preparing the Python runtime: {}", step.label()))
            });
            let peer = context.peer.clone();
            async move {
                if let Some(progress) = progress
                    && let Err(error) = peer.notify_progress(progress).await
                {
                    tracing::debug!("progress was not sent: {error}");
                }
            }
        });
        loading.await
    }

    /// Waits until the principal may run one more.
    async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        self.ticket.as_ref()?.turn().await
    }

    /// Tells the client of the run while it runs, if it wants to hear of it.
    fn live(&self, steps: u32) -> Option<Live> {
        let context = &self.caller.context;
        let audience = Audience {
            peer: context.peer.clone(),
            request: context.id.clone(),
            token: context.meta.get_progress_token(),
            level: self.caller.level,
            progress: u64::from(steps),
        };
        audience.listens().then(|| Live::start(audience))
    }

    /// A cancelled request gets no response, so what its run did is told here; a warning where it
    /// did something that nobody else has heard of.
    fn log_cancelled(&self, reply: &Reply) {
        let Reply::Ended(outcome) = reply else { return };
        let request = self.caller.context.id.to_string();
        let request = request.escape_debug();
        let calls: Vec<String> = outcome
            .calls
            .iter()
            .map(|call| format!("{}: {}", call.tool_name, call.outcome.describe()))
            .collect();
        if calls.is_empty() {
            tracing::info!(%request, "the run was cancelled");
        } else {
            tracing::warn!(%request, ?calls, "the run was cancelled");
        }
    }
}

/// How a request's attendance ends.
enum End {
    /// With the run.
    Pieces(Box<Pieces>),
    /// Before it.
    Reply(Reply),
}

fn ended(outcome: RunOutcome) -> Reply {
    Reply::Ended(Box::new(outcome))
}

/// A call of `tool` whose arguments are wrong.
fn refused(message: String, tool: &str) -> Reply {
    tracing::debug!("a call of {tool} was refused: {message}");
    ended(RunOutcome::refused(message))
}
