//! The client's half of tool callbacks: all that an agent adds to an MCP client of its own.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use rmcp::{
    ClientHandler, RoleClient,
    model::{
        ClientCapabilities, ClientConfig, ClientNotification, CustomNotification,
        ExtensionCapabilities, Implementation,
    },
    service::NotificationContext,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio_util::task::TaskTracker;

use crate::toolbox::Toolbox;

/// By this a client says that it answers tool calls.
const EXTENSION: &str = "callgate/tool-callbacks";

/// The server's question.
const REQUEST: &str = "notifications/tool_call_request";

/// The client's answer.
const RESPONSE: &str = "notifications/tool_call_response";

/// Longer texts are cut when a call is shown.
const SHOWN: usize = 32;

/// Answers the calls of the program that the server runs.
#[derive(Clone)]
pub struct Agent {
    toolbox: Arc<Toolbox>,
    tally: Arc<Mutex<Tally>>,
    answering: TaskTracker,
}

/// How much the tools had to do.
#[derive(Clone, Copy, Default)]
pub struct Tally {
    /// How many calls were answered.
    pub calls: u32,
    /// The time of all calls, added up.
    pub time: Duration,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolCall {
    request_id: String,
    tool_name: String,
    #[serde(default)]
    arguments: Map<String, Value>,
}

impl Agent {
    /// An agent with these tools.
    pub fn new(toolbox: Toolbox) -> Self {
        Self {
            toolbox: Arc::new(toolbox),
            tally: Arc::default(),
            answering: TaskTracker::new(),
        }
    }

    /// What the tools have done so far.
    pub fn tally(&self) -> Tally {
        *self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until every answer is known to be sent. A result may come before that, because the
    /// server reads an answer sooner than the client hears that it was written.
    pub async fn finish(&self) {
        self.answering.close();
        self.answering.wait().await;
    }

    /// Does what is asked, tells the user about it and returns the answer's `params`.
    fn answer(&self, call: ToolCall) -> Value {
        let shown = show_call(&call.tool_name, &call.arguments);
        let start = Instant::now();
        let outcome = self
            .toolbox
            .call(&call.tool_name, Value::Object(call.arguments));
        let time = start.elapsed();
        {
            let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
            tally.calls += 1;
            tally.time += time;
        }
        let milliseconds = time.as_secs_f64() * 1e3;
        println!(
            "{milliseconds:8.2} ms  {shown} -> {}",
            show_outcome(&outcome)
        );
        match outcome {
            Ok(result) => json!({"requestId": call.request_id, "result": result}),
            Err(error) => json!({"requestId": call.request_id, "error": error}),
        }
    }
}

impl ClientHandler for Agent {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        capabilities.extensions = Some(ExtensionCapabilities::from([(
            EXTENSION.to_owned(),
            Map::new(),
        )]));
        ClientConfig::new(
            capabilities,
            Implementation::new("news_agent", env!("CARGO_PKG_VERSION")),
        )
    }

    async fn on_custom_notification(
        &self,
        notification: CustomNotification,
        context: NotificationContext<RoleClient>,
    ) {
        if notification.method != REQUEST {
            return;
        }
        let call = match notification.params_as::<ToolCall>() {
            Ok(Some(call)) => call,
            Ok(None) => return eprintln!("a tool call without parameters"),
            Err(error) => return eprintln!("a tool call that makes no sense: {error}"),
        };
        // A task for each call: the program may make many at once, and none should wait for another.
        let agent = self.clone();
        self.answering.spawn(async move {
            // Files and databases block, so they have threads of their own.
            let answer = tokio::task::spawn_blocking(move || agent.answer(call)).await;
            let answer = match answer {
                Ok(answer) => CustomNotification::new(RESPONSE, Some(answer)),
                Err(error) => return eprintln!("a tool failed: {error}"),
            };
            let sent = context
                .peer
                .send_notification(ClientNotification::CustomNotification(answer))
                .await;
            if let Err(error) = sent {
                eprintln!("an answer was not sent: {error}");
            }
        });
    }
}

/// A call on one line: `search_news(query="ships", days=14)`.
fn show_call(tool: &str, arguments: &Map<String, Value>) -> String {
    let arguments: Vec<String> = arguments
        .iter()
        .map(|(name, value)| format!("{name}={}", show(value)))
        .collect();
    format!("{tool}({})", arguments.join(", "))
}

fn show_outcome(outcome: &Result<Value, String>) -> String {
    match outcome {
        Ok(Value::Array(items)) => format!("{} found", items.len()),
        Ok(value) => show(value),
        Err(error) => format!("error: {error}"),
    }
}

/// A value on one line, cut if it is long.
fn show(value: &Value) -> String {
    let text = match value {
        Value::String(text) => {
            let words: Vec<&str> = text.split_whitespace().collect();
            format!("{:?}", words.join(" "))
        }
        value => value.to_string(),
    };
    if text.chars().count() <= SHOWN {
        return text;
    }
    text.chars().take(SHOWN - 1).chain(['…']).collect()
}
