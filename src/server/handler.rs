//! The MCP server: one tool, answered by the sandbox.

use std::sync::Arc;

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, CustomNotification,
        ExtensionCapabilities, Implementation, ListToolsResult, PaginatedRequestParams,
        ProgressNotificationParam, ProtocolVersion, ServerCapabilities, ServerConfig, Tool,
    },
    service::{NotificationContext, RequestContext},
};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::{
    channel::{PeerChannel, Refusing},
    loader::Loader,
    outcome::{Pieces, RunOutcome},
    schema,
    settings::{Callbacks, Settings},
};
use crate::{
    gate::{ClientRoute, Gate, OfferedTools, PendingCalls, Program, Route},
    image::progress::Step,
    sandbox::{Run, Sandbox, Transcript},
};

/// The first revision whose clients must declare that they answer callbacks.
const FIRST_DECLARING_REVISION: &str = "2026-07-28";

const NOT_ASKED: &str = "this client has not declared that it answers tool calls. It can declare the capability \
     extension `callgate/tool-callbacks`, or the operator can start callgate with `--callbacks notify`";
const REFUSED: &str =
    "this server was started with `--callbacks refuse`: code may not call the client's tools";

/// One MCP server; cheap to clone, all clones are the same.
#[derive(Clone)]
pub struct Callgate(Arc<Inner>);

struct Inner {
    settings: Settings,
    loader: Loader,
    pending: Arc<PendingCalls>,
    stop: CancellationToken,
}

impl Callgate {
    /// A server; cancelling `stop` stops every run.
    #[must_use]
    pub fn new(settings: Settings, loader: Loader, stop: CancellationToken) -> Self {
        let pending = Arc::new(PendingCalls::default());
        Self(Arc::new(Inner {
            settings,
            loader,
            pending,
            stop,
        }))
    }

    /// The calls that wait for a client's answer.
    #[must_use]
    pub fn pending(&self) -> &Arc<PendingCalls> {
        &self.0.pending
    }

    async fn run_python_code(
        &self,
        arguments: Map<String, Value>,
        context: RequestContext<RoleServer>,
    ) -> CallToolResult {
        let outcome = match program(arguments) {
            Ok(program) => self.run(program, &context).await,
            Err(message) => RunOutcome::refused(message),
        };
        outcome.into_result(self.0.settings.return_mode)
    }

    async fn run(&self, program: Program, context: &RequestContext<RoleServer>) -> RunOutcome {
        let sandbox = tokio::select! {
            sandbox = self.sandbox(context) => sandbox,
            () = context.ct.cancelled() => Err("the call was cancelled".to_owned()),
        };
        let sandbox = match sandbox {
            Ok(sandbox) => sandbox,
            Err(reason) => return RunOutcome::internal(reason),
        };
        let channel = PeerChannel::open(context.peer.clone(), context.id.clone());
        let route = self.route(context, Arc::clone(&channel));
        let pieces = self.execute(&sandbox, program, route, context).await;
        channel.flush().await;
        let outcome = RunOutcome::new(pieces, &self.0.settings);
        if context.ct.is_cancelled() {
            log_cancelled(context, &outcome);
        }
        outcome
    }

    async fn execute(
        &self,
        sandbox: &Sandbox,
        program: Program,
        route: Arc<dyn Route>,
        context: &RequestContext<RoleServer>,
    ) -> Pieces {
        let settings = &self.0.settings;
        let stop = self.0.stop.child_token();
        let gate = Arc::new(Gate::new(
            program,
            route,
            settings.call_limits.clone(),
            stop.clone(),
        ));
        let transcript = Transcript::new(settings.max_output, None);
        let run = Run {
            host_calls: Arc::clone(&gate) as _,
            output: Box::new(transcript.clone()),
            limits: settings.limits.clone(),
            stop: stop.clone(),
        };
        let running = sandbox.run(run);
        tokio::pin!(running);
        let report = tokio::select! {
            report = &mut running => report,
            () = context.ct.cancelled() => {
                stop.cancel();
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

    /// The sandbox; while it is being made, the client hears of it if it asked to.
    async fn sandbox(&self, context: &RequestContext<RoleServer>) -> Result<Arc<Sandbox>, String> {
        let token = context.meta.get_progress_token();
        let mut steps = 0;
        let loading = self.0.loader.sandbox(|step: Step| {
            steps += 1;
            let progress = token.clone().map(|token| {
                ProgressNotificationParam::new(token, f64::from(steps))
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

    /// Whether and how this client is asked to answer tool calls.
    fn route(
        &self,
        context: &RequestContext<RoleServer>,
        channel: Arc<PeerChannel>,
    ) -> Arc<dyn Route> {
        let asked = match self.0.settings.callbacks {
            Callbacks::Notify => true,
            Callbacks::Refuse => return Arc::new(Refusing(REFUSED)),
            Callbacks::Auto => answers_callbacks(context),
        };
        if !asked {
            return Arc::new(Refusing(NOT_ASKED));
        }
        Arc::new(ClientRoute {
            pending: Arc::clone(&self.0.pending),
            channel,
        })
    }
}

impl ServerHandler for Callgate {
    fn get_info(&self) -> ServerConfig {
        let mut capabilities = ServerCapabilities::builder().enable_tools().build();
        capabilities.extensions = Some(ExtensionCapabilities::from([(
            schema::CALLBACKS_EXTENSION.to_owned(),
            Map::new(),
        )]));
        let implementation =
            Implementation::new("callgate", env!("CARGO_PKG_VERSION")).with_title("callgate");
        ServerConfig::new(capabilities)
            .with_server_info(implementation)
            .with_instructions(schema::INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(vec![
            schema::run_python_code(),
        ]))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        (name == schema::RUN_PYTHON_CODE).then(schema::run_python_code)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if request.name != schema::RUN_PYTHON_CODE {
            let message = format!(
                "unknown tool `{}`; this server has `{}`",
                request.name,
                schema::RUN_PYTHON_CODE
            );
            return Err(ErrorData::invalid_params(message, None));
        }
        Ok(self
            .run_python_code(request.arguments.unwrap_or_default(), context)
            .await
            .into())
    }

    async fn on_custom_notification(
        &self,
        notification: CustomNotification,
        _: NotificationContext<RoleServer>,
    ) {
        tracing::debug!(
            "a notification that callgate does not know was dropped: {}",
            notification.method
        );
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
    let tools = match arguments.remove("available_tools") {
        Some(Value::Array(tools)) => tools,
        _ => Vec::new(),
    };
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

fn answers_callbacks(context: &RequestContext<RoleServer>) -> bool {
    let capabilities = context.client_capabilities();
    let extensions = capabilities.and_then(|capabilities| capabilities.extensions);
    let declared =
        extensions.is_some_and(|extensions| extensions.contains_key(schema::CALLBACKS_EXTENSION));
    let version: Option<ProtocolVersion> = context.protocol_version();
    let must_declare = version.is_some_and(|version| version.as_str() >= FIRST_DECLARING_REVISION);
    declared || !must_declare
}

/// A cancelled request gets no response, so what its run did is told here.
fn log_cancelled(context: &RequestContext<RoleServer>, outcome: &RunOutcome) {
    let calls: Vec<String> = outcome
        .calls
        .iter()
        .map(|call| format!("{}: {}", call.tool_name, call.outcome.describe()))
        .collect();
    tracing::info!(request = %context.id, calls = ?calls, "the run was cancelled");
}
