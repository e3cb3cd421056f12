//! One `run_python_code` request, from its arguments to its result.
#![expect(
    deprecated,
    reason = "logging is deprecated from 2026-07-28 on; clients of every revision may still ask for it"
)]

use std::{sync::Arc, time::Duration};

use rmcp::{
    RoleServer,
    model::{CallToolResult, LoggingLevel, ProgressNotificationParam, ProtocolVersion},
    service::RequestContext,
};
use serde_json::{Map, Value};
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::{
    admission::Ticket,
    audience::Audience,
    channel::{PeerChannel, Refusing},
    live::{Live, ToldRoute},
    metrics::CountedRoute,
    outcome::{Pieces, RunOutcome},
    schema,
    service::Service,
    settings::Callbacks,
    trace::{RunTrace, TracedRoute},
};
use crate::{
    gate::{ClientRoute, Gate, OfferedTools, Principal, Program, Route},
    image::progress::Step,
    sandbox::{Run, Sandbox, Transcript},
};

/// The first revision whose clients must declare that they answer callbacks.
const FIRST_DECLARING_REVISION: &str = "2026-07-28";

/// Withdrawals of a cancelled run go out at once, or never.
const LAST_WORDS: Duration = Duration::from_millis(100);

const NOT_ASKED: &str = "this client has not declared that it answers tool calls. It can declare the capability \
     extension `callgate/tool-callbacks`, or the operator can start callgate with `--callbacks notify`";
const REFUSED: &str =
    "this server was started with `--callbacks refuse`: code may not call the client's tools";

/// A request, and what it needs of the server.
pub struct Request<'a> {
    service: &'a Service,
    /// Who asks.
    principal: Principal,
    /// What let it in, if there was a door.
    ticket: Option<Arc<Ticket>>,
    /// Stops the run, also when the server ends.
    stop: CancellationToken,
    /// The least severe log messages that the client wants, if it wants any.
    level: Option<LoggingLevel>,
    trace: RunTrace,
    context: RequestContext<RoleServer>,
}

impl<'a> Request<'a> {
    /// A request as it came.
    #[must_use]
    pub fn new(
        service: &'a Service,
        level: Option<LoggingLevel>,
        context: RequestContext<RoleServer>,
    ) -> Self {
        let http = context.extensions.get::<http::request::Parts>();
        let http = http.map(|parts| &parts.extensions);
        let principal = http.and_then(|of| of.get::<Principal>());
        Self {
            service,
            principal: principal.cloned().unwrap_or_else(Principal::anonymous),
            ticket: http.and_then(|of| of.get::<Arc<Ticket>>()).cloned(),
            stop: service.stop.child_token(),
            level,
            trace: RunTrace::begin(&context),
            context,
        }
    }

    /// Runs the program and answers with its result.
    pub async fn answer(self, arguments: Map<String, Value>) -> CallToolResult {
        let _active = self.service.metrics.request();
        let outcome = match program(arguments) {
            Ok(program) => {
                let span = self.trace.span().clone();
                self.run(program).instrument(span).await
            }
            Err(message) => RunOutcome::refused(message),
        };
        self.service.metrics.ended(&outcome);
        self.trace.end(&outcome);
        outcome.into_result(self.service.settings.return_mode)
    }

    async fn run(&self, program: Program) -> RunOutcome {
        let mut steps = 0;
        let sandbox = tokio::select! {
            sandbox = self.sandbox(&mut steps) => sandbox,
            () = self.context.ct.cancelled() => return RunOutcome::cancelled(),
        };
        let sandbox = match sandbox {
            Ok(sandbox) => sandbox,
            Err(reason) => return RunOutcome::internal(reason),
        };
        let _turn = tokio::select! {
            turn = self.turn() => turn,
            () = self.context.ct.cancelled() => return RunOutcome::cancelled(),
        };
        let live = self.live(steps);
        let channel = PeerChannel::open(self.context.peer.clone(), self.context.id.clone());
        let mut route = self.route(Arc::clone(&channel));
        if let Some(live) = &live {
            let ear = live.ear().clone();
            route = Arc::new(ToldRoute { route, ear });
        }
        route = CountedRoute::new(route, Arc::clone(&self.service.metrics));
        let trace = self.trace.clone();
        route = Arc::new(TracedRoute { route, trace });
        let pieces = self.execute(&sandbox, program, route, live.as_ref()).await;
        tokio::select! {
            () = channel.flush() => {}
            // Where the connection is gone, nothing can be sent any more.
            () = self.given_up() => {}
        }
        if let Some(live) = live {
            tokio::select! {
                biased;
                // Nobody wants to hear of a request any more that was cancelled.
                () = self.context.ct.cancelled() => {}
                () = live.finish() => {}
            }
        }
        let outcome = RunOutcome::new(pieces, &self.service.settings);
        if self.context.ct.is_cancelled() {
            self.log_cancelled(&outcome);
        }
        outcome
    }

    /// Ends some time after the request was cancelled.
    async fn given_up(&self) {
        self.context.ct.cancelled().await;
        tokio::time::sleep(LAST_WORDS).await;
    }

    async fn execute(
        &self,
        sandbox: &Sandbox,
        program: Program,
        route: Arc<dyn Route>,
        live: Option<&Live>,
    ) -> Pieces {
        let settings = &self.service.settings;
        let gate = Arc::new(Gate::new(
            program,
            route,
            settings.call_limits.clone(),
            self.stop.clone(),
        ));
        let listener = live.map(|live| live.ear().listener());
        let transcript = Transcript::new(settings.max_output, listener);
        let run = Run {
            host_calls: Arc::clone(&gate) as _,
            output: Box::new(transcript.clone()),
            limits: settings.limits.clone(),
            stop: self.stop.clone(),
        };
        let running = sandbox.run(run);
        tokio::pin!(running);
        let report = tokio::select! {
            report = &mut running => report,
            () = self.context.ct.cancelled() => {
                self.stop.cancel();
                running.await
            }
        };
        let calls = gate.close();
        Pieces {
            report,
            finish: gate.finish(),
            stopped: gate.stopped(),
            calls,
            printed: transcript.printed(),
        }
    }

    /// The sandbox; while it is being made, the client hears of it if it asked to. Counts what it
    /// was told.
    async fn sandbox(&self, steps: &mut u32) -> Result<Arc<Sandbox>, String> {
        let token = self.context.meta.get_progress_token();
        let loading = self.service.loader.sandbox(|step: Step| {
            *steps += 1;
            let progress = token.clone().map(|token| {
                ProgressNotificationParam::new(token, f64::from(*steps))
                    .with_message(format!("Preparing the Python runtime: {}", step.label()))
            });
            let peer = self.context.peer.clone();
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
        let audience = Audience {
            peer: self.context.peer.clone(),
            request: self.context.id.clone(),
            token: self.context.meta.get_progress_token(),
            level: self.level,
            progress: u64::from(steps),
        };
        audience.listens().then(|| Live::start(audience))
    }

    /// Whether and how this client is asked to answer tool calls.
    fn route(&self, channel: Arc<PeerChannel>) -> Arc<dyn Route> {
        let asked = match self.service.settings.callbacks {
            Callbacks::Notify => true,
            Callbacks::Refuse => return Arc::new(Refusing(REFUSED)),
            Callbacks::Auto => self.answers_callbacks(),
        };
        if !asked {
            return Arc::new(Refusing(NOT_ASKED));
        }
        Arc::new(ClientRoute {
            pending: Arc::clone(&self.service.pending),
            principal: self.principal.clone(),
            channel,
        })
    }

    fn answers_callbacks(&self) -> bool {
        let capabilities = self.context.client_capabilities();
        let extensions = capabilities.and_then(|capabilities| capabilities.extensions);
        let declared = extensions
            .is_some_and(|extensions| extensions.contains_key(schema::CALLBACKS_EXTENSION));
        let version: Option<ProtocolVersion> = self.context.protocol_version();
        let must_declare =
            version.is_some_and(|version| version.as_str() >= FIRST_DECLARING_REVISION);
        declared || !must_declare
    }

    /// A cancelled request gets no response, so what its run did is told here; a warning where it
    /// did something that nobody else has heard of.
    fn log_cancelled(&self, outcome: &RunOutcome) {
        let calls: Vec<String> = outcome
            .calls
            .iter()
            .map(|call| format!("{}: {}", call.tool_name, call.outcome.describe()))
            .collect();
        if calls.is_empty() {
            tracing::info!(request = %self.context.id.to_string().escape_debug(), "the run was cancelled");
        } else {
            tracing::warn!(request = %self.context.id.to_string().escape_debug(), ?calls, "the run was cancelled");
        }
    }
}

fn program(arguments: Map<String, Value>) -> Result<Program, String> {
    let arguments = Value::Object(arguments);
    schema::check_arguments(&arguments)?;
    let Value::Object(mut arguments) = arguments else {
        return Err("the arguments are not an object".to_owned());
    };
    let Some(Value::String(source)) = arguments.remove("python_code") else {
        return Err("`python_code` must be a string".to_owned());
    };
    let mut tools = match arguments.remove("available_tools") {
        Some(Value::Array(tools)) => tools,
        _ => Vec::new(),
    };
    tools.iter_mut().for_each(take_input_schema);
    let global_variables = match arguments.remove("global_variables") {
        Some(Value::Object(variables)) => variables,
        _ => Map::new(),
    };
    let offered = OfferedTools::parse(&tools).map_err(|error| error.to_string())?;
    Ok(Program {
        source,
        tools,
        offered,
        global_variables,
    })
}

/// An MCP tool may be offered as `tools/list` has it.
fn take_input_schema(tool: &mut Value) {
    let Value::Object(tool) = tool else { return };
    if tool.get("parameters").is_none_or(Value::is_null)
        && let Some(schema) = tool.remove("inputSchema")
    {
        tool.insert("parameters".to_owned(), schema);
    }
}
