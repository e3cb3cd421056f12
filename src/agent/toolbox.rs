//! The tools of all servers of an agent.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use futures::future::join_all;
use rmcp::model::{CallToolResult, JsonObject, RequestMetaObject, Tool};
use serde_json::Value;
use tokio::sync::mpsc;

use super::{
    approval::{Approve, Decision, ToolUse},
    config::AgentServer,
    event::Event,
    text,
};
use crate::{
    gate::OfferedTools,
    upstream::{Config, Policy, Server, ServerState, Upstreams},
};

/// Of a result, an event has this much (characters).
const SHOWN: usize = 2000;

/// The servers, and who is asked before something is done with them.
pub struct Toolbox {
    upstreams: Upstreams,
    allowed: HashMap<String, Vec<String>>,
    approval: Arc<dyn Approve>,
    /// How long one call may take.
    timeout: Duration,
    /// Hears of calls.
    ear: Mutex<Option<mpsc::UnboundedSender<Event>>>,
}

/// A tool of one of the servers.
#[derive(Debug, Clone)]
pub struct ServerTool {
    /// The server.
    pub server: String,
    /// The tool.
    pub tool: Tool,
}

impl ServerTool {
    /// As it is offered to programs; one whose schema is none takes anything, and one without a name can't
    /// be called.
    #[must_use]
    pub fn offered(&self) -> Option<Value> {
        let mut offered = serde_json::json!({
            "name": self.tool.name,
            "serverName": self.server,
            "description": self.tool.description,
            "parameters": self.tool.input_schema,
        });
        let is_taken = |offered: &Value| OfferedTools::parse(std::slice::from_ref(offered)).is_ok();
        if is_taken(&offered) {
            return Some(offered);
        }
        offered["parameters"] = Value::Null;
        is_taken(&offered).then_some(offered)
    }
}

/// A call of a tool by a program or by the model.
pub struct Use<'a> {
    /// Names the call.
    pub id: String,
    /// The server.
    pub server: &'a str,
    /// The tool.
    pub tool: &'a str,
    /// The arguments.
    pub arguments: JsonObject,
    /// Whether a program calls it.
    pub from_code: bool,
}

impl Toolbox {
    /// None of the servers is started yet.
    #[must_use]
    pub fn new(
        servers: Vec<AgentServer>,
        policy: &Arc<Policy>,
        approval: Arc<dyn Approve>,
        timeout: Duration,
    ) -> Self {
        let mut allowed = HashMap::new();
        let mut config = Config::default();
        for server in servers {
            if let Some(tools) = server.allowed_tools {
                allowed.insert(server.config.name.clone(), tools);
            }
            config.servers.push(server.config);
        }
        Self {
            upstreams: Upstreams::new(config, policy),
            allowed,
            approval,
            timeout,
            ear: Mutex::default(),
        }
    }

    /// Starts all servers, side by side; tells what became of each.
    pub async fn start(&self) -> Vec<Event> {
        self.upstreams.settle();
        let servers = self.upstreams.servers().iter();
        join_all(servers.map(|server| async move {
            let name = server.name().to_owned();
            match server.up().await {
                Ok(_) => Event::ServerUp {
                    tools: self.tools_of(server).await.len(),
                    server: name,
                },
                Err(reason) => Event::ServerDown {
                    server: name,
                    reason,
                },
            }
        }))
        .await
    }

    /// What the servers that are up have now.
    pub async fn tools(&self) -> Vec<ServerTool> {
        let (up, others): (Vec<_>, Vec<_>) = self
            .upstreams
            .servers()
            .iter()
            .partition(|server| server.state() == ServerState::Up);
        // One that has died is started again; whoever asks does not wait for it.
        for server in others {
            let server = Arc::clone(server);
            tokio::spawn(async move { drop(server.up().await) });
        }
        let up = up.into_iter();
        let tools = join_all(up.map(|server| self.tools_of(server))).await;
        tools.into_iter().flatten().collect()
    }

    async fn tools_of(&self, server: &Arc<Server>) -> Vec<ServerTool> {
        let Ok(up) = server.up().await else {
            return Vec::new();
        };
        let listing = up.listing();
        let allowed = listing
            .tools
            .iter()
            .filter(|tool| self.allows(server.name(), &tool.name));
        let named = allowed.map(|tool| ServerTool {
            server: server.name().to_owned(),
            tool: tool.clone(),
        });
        named.collect()
    }

    fn allows(&self, server: &str, tool: &str) -> bool {
        let allowed = self.allowed.get(server);
        allowed.is_none_or(|allowed| allowed.iter().any(|name| name == tool))
    }

    /// Whoever is to hear of calls from now on.
    pub fn listen(&self, ear: Option<mpsc::UnboundedSender<Event>>) {
        *self.ear.lock().unwrap_or_else(PoisonError::into_inner) = ear;
    }

    fn tell(&self, event: Event) {
        let ear = self.ear.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ear) = ear.as_ref() {
            let _ = ear.send(event);
        }
    }

    /// Calls a tool, if it may be called.
    ///
    /// # Errors
    /// Why there is no result.
    pub async fn call(&self, call: Use<'_>) -> Result<CallToolResult, String> {
        let id = call.id.clone();
        self.tell(Event::Call {
            id: call.id.clone(),
            server: call.server.to_owned(),
            tool: call.tool.to_owned(),
            arguments: Value::Object(call.arguments.clone()),
            from_code: call.from_code,
        });
        let start = Instant::now();
        let result = self.carry_out(call).await;
        let (said, is_error) = match &result {
            Ok(result) => (text::of_result(result), result.is_error == Some(true)),
            Err(reason) => (reason.clone(), true),
        };
        self.tell(Event::CallResult {
            id,
            text: text::cut(&said, SHOWN),
            is_error,
            duration: start.elapsed(),
        });
        result
    }

    async fn carry_out(&self, call: Use<'_>) -> Result<CallToolResult, String> {
        let Use {
            server,
            tool,
            arguments,
            ..
        } = call;
        if !self.allows(server, tool) {
            return Err(format!("the agent may not use `{server}.{tool}`"));
        }
        let found = self.upstreams.server(server);
        let found = found.ok_or_else(|| format!("there is no server `{server}`"))?;
        let up = found.up().await?;
        let listed = up.listing();
        let listed = listed.tool(tool);
        let listed = listed.ok_or_else(|| format!("the server `{server}` has no tool `{tool}`"))?;
        let wish = ToolUse {
            server: server.to_owned(),
            tool: tool.to_owned(),
            arguments: Value::Object(arguments.clone()),
            annotations: listed.annotations.clone(),
        };
        if wish.has_side_effects()
            && let Decision::Deny(reason) = self.approval.decide(&wish).await
        {
            return Err(reason);
        }
        let called = found.call(tool, arguments, RequestMetaObject::new());
        // Dropping the call cancels it at the server.
        let called = tokio::time::timeout(self.timeout, called).await;
        let called = called.map_err(|_| {
            let time = humantime::format_duration(self.timeout);
            format!("`{server}.{tool}` gave no result within {time} (--tool-timeout); it may have happened")
        })?;
        called.map_err(|error| error.to_string())
    }

    /// Stops all servers.
    pub async fn close(&self) {
        self.upstreams.close().await;
    }
}
