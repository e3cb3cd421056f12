//! Code mode: callgate's own server in this process, and the agent as its client, which offers it the tools of all
//! servers and answers its callbacks.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rmcp::{
    ClientHandler, RoleClient, ServiceExt as _,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ClientConfig,
        ClientNotification, CustomNotification, ExtensionCapabilities, Implementation, JsonObject,
    },
    service::{NotificationContext, Peer, RunningService},
};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::task::AbortHandle;

use super::{
    model::ToolDefinition,
    text,
    toolbox::{ServerTool, Toolbox, Use},
};
use crate::server::{CALLBACKS_EXTENSION, RUN_PYTHON_CODE, Service, Settings, connect_in_process};

/// Of what can be told of the tools, the model reads this much (characters); beyond it there is `search_tools`.
const LONGEST_STUBS: usize = 16_000;

/// Runs programs.
pub(super) struct Code {
    client: RunningService<RoleClient, Answering>,
    service: Arc<Service>,
    /// What the server tells models of its tool.
    description: String,
    /// The tools that were last described, and how.
    described: Mutex<(Vec<Value>, String)>,
}

impl Code {
    /// Starts the server. The runtime image loads meanwhile.
    ///
    /// # Errors
    /// When the connection within the process fails.
    pub(super) async fn start(settings: Settings, toolbox: Arc<Toolbox>) -> Result<Self, String> {
        let service = Service::start(settings);
        let answering = Answering {
            toolbox,
            calls: Arc::default(),
        };
        let client = answering
            .serve(connect_in_process(Arc::clone(&service)))
            .await;
        let client = client.map_err(|error| format!("the sandbox can't be reached: {error}"))?;
        let tools = client.list_all_tools().await;
        let tools = tools.map_err(|error| format!("the sandbox does not answer: {error}"))?;
        let tool = tools.into_iter().find(|tool| tool.name == RUN_PYTHON_CODE);
        let description = tool.and_then(|tool| tool.description).unwrap_or_default();
        Ok(Self {
            client,
            service,
            description: description.into_owned(),
            described: Mutex::default(),
        })
    }

    /// The tool as the model sees it: the tools are described, not given as arguments.
    pub(super) async fn definition(&self, tools: &[ServerTool]) -> ToolDefinition {
        let stubs = self.stubs(tools).await;
        ToolDefinition {
            name: RUN_PYTHON_CODE.to_owned(),
            description: format!(
                "{}\n\nThe tools that the code may call:\n{stubs}",
                self.description
            ),
            parameters: json!({
                "type": "object",
                "properties": {"python_code": {"type": "string", "description": "The Python program."}},
                "required": ["python_code"],
            }),
        }
    }

    /// What the sandbox itself says of the tools; its names are those that work there.
    async fn stubs(&self, tools: &[ServerTool]) -> String {
        let offered: Vec<Value> = tools.iter().filter_map(ServerTool::offered).collect();
        {
            let described = lock(&self.described);
            if described.0 == offered && !described.1.is_empty() {
                return described.1.clone();
            }
        }
        let stubs = self.value("tools.stubs()", &offered).await;
        let stubs = match stubs {
            Some(stubs) if stubs.chars().count() <= LONGEST_STUBS => stubs,
            _ => {
                let listed = self.value("str(tools)", &offered).await.unwrap_or_default();
                text::cut(&listed, LONGEST_STUBS)
            }
        };
        *lock(&self.described) = (offered, stubs.clone());
        stubs
    }

    async fn value(&self, code: &str, offered: &[Value]) -> Option<String> {
        let result = self.call(code, offered).await.ok()?;
        let value = result
            .structured_content?
            .get("return_value")?
            .as_str()?
            .to_owned();
        Some(value)
    }

    /// Runs a program.
    ///
    /// # Errors
    /// When there is no result, not even a failure.
    pub(super) async fn run(
        &self,
        code: &str,
        tools: &[ServerTool],
    ) -> Result<CallToolResult, String> {
        let offered: Vec<Value> = tools.iter().filter_map(ServerTool::offered).collect();
        self.call(code, &offered).await
    }

    async fn call(&self, code: &str, offered: &[Value]) -> Result<CallToolResult, String> {
        let arguments = JsonObject::from_iter([
            ("python_code".to_owned(), json!(code)),
            ("available_tools".to_owned(), json!(offered)),
        ]);
        let call = CallToolRequestParams::new(RUN_PYTHON_CODE).with_arguments(arguments);
        match self.client.call_tool_once(call).await {
            Ok(CallToolResponse::Complete(result)) => Ok(result),
            Ok(_) => Err("the sandbox asks for something that it should not".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Stops what runs.
    pub(super) async fn close(self) {
        self.service.stop.cancel();
        let _ = self.client.cancel().await;
    }
}

/// Answers the callbacks of programs.
#[derive(Clone)]
struct Answering {
    toolbox: Arc<Toolbox>,
    /// The calls under way.
    calls: Arc<Mutex<HashMap<String, AbortHandle>>>,
}

/// `notifications/tool_call_request`
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct CallRequest {
    request_id: String,
    tool_name: String,
    #[serde(default)]
    server_name: Option<String>,
    #[serde(default)]
    arguments: JsonObject,
}

impl ClientHandler for Answering {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        capabilities.extensions = Some(ExtensionCapabilities::from([(
            CALLBACKS_EXTENSION.to_owned(),
            Map::new(),
        )]));
        let client = Implementation::new("callgate-agent", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(capabilities, client)
    }

    async fn on_custom_notification(
        &self,
        notification: CustomNotification,
        context: NotificationContext<RoleClient>,
    ) {
        let params = notification.params.unwrap_or_default();
        match notification.method.as_str() {
            "notifications/tool_call_request" => match serde_json::from_value(params) {
                Ok(request) => self.begin(request, context.peer),
                Err(error) => tracing::warn!("a tool call can't be read: {error}"),
            },
            "notifications/tool_call_cancelled" => {
                let id = params
                    .get("requestId")
                    .and_then(Value::as_str)
                    .unwrap_or_default();
                if let Some(call) = lock(&self.calls).remove(id) {
                    call.abort();
                }
            }
            _ => {}
        }
    }
}

impl Answering {
    /// Each call has a task, so that they run side by side and one can be given up.
    fn begin(&self, request: CallRequest, peer: Peer<RoleClient>) {
        let id = request.request_id.clone();
        let answering = self.clone();
        let mut calls = lock(&self.calls);
        // The entry is made under the lock that the task takes at its end.
        let task = tokio::spawn(async move {
            let id = request.request_id.clone();
            let response = answering.answer(request).await;
            lock(&answering.calls).remove(&id);
            let response =
                CustomNotification::new("notifications/tool_call_response", Some(response));
            let sent = peer
                .send_notification(ClientNotification::CustomNotification(response))
                .await;
            if let Err(error) = sent {
                tracing::debug!("an answer was not sent: {error}");
            }
        });
        calls.insert(id, task.abort_handle());
    }

    async fn answer(&self, request: CallRequest) -> Value {
        let CallRequest {
            request_id,
            tool_name,
            server_name,
            arguments,
        } = request;
        // Every tool was offered with its server, so every call names one.
        let server = server_name.unwrap_or_default();
        let call = Use {
            id: request_id.clone(),
            server: &server,
            tool: &tool_name,
            arguments,
            from_code: true,
        };
        let result = self.toolbox.call(call).await;
        match result {
            Ok(result) => json!({"requestId": request_id, "result": result}),
            Err(reason) => json!({"requestId": request_id, "error": reason}),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
