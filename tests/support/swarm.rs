//! Many agents in one process: the same wire as [`super::http`], without a thread for each.
#![allow(dead_code, reason = "each user has its own part")]

use reqwest::{Client, RequestBuilder, Response};
use serde_json::{Value, json};

use super::http::{EXTENSION, Era};

/// What went wrong for an agent.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// One agent of many.
pub struct SwarmAgent {
    http: Client,
    url: String,
    era: Era,
    session: Option<String>,
    /// The stream that belongs to no request; open, as real clients have it.
    common: Option<Response>,
    next_id: i64,
}

impl SwarmAgent {
    /// Connects, and shakes hands where that is done.
    pub async fn connect(url: &str, era: Era) -> Result<Self, Failure> {
        let mut agent = Self {
            http: Client::builder().no_proxy().build()?,
            url: url.to_owned(),
            era,
            session: None,
            common: None,
            next_id: 1,
        };
        if era == Era::Sessions {
            let params = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities(),
                "clientInfo": {"name": "swarm", "version": "1"}});
            let response = agent.request("initialize", params).await?;
            let id = response.headers().get("mcp-session-id");
            agent.session = Some(id.ok_or("no session id")?.to_str()?.to_owned());
            SwarmEvents::of(response).result().await?;
            let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
            agent.post(&initialized).await?.error_for_status()?;
            let listening = agent.head(agent.http.get(&agent.url)).send().await?;
            agent.common = Some(listening.error_for_status()?);
        }
        Ok(agent)
    }

    fn head(&self, request: RequestBuilder) -> RequestBuilder {
        let request = request.header("accept", "application/json, text/event-stream");
        match (self.era, &self.session) {
            (Era::Sessions, None) => request,
            (Era::Sessions, Some(session)) => request
                .header("mcp-session-id", session)
                .header("mcp-protocol-version", "2025-11-25"),
            (Era::Stateless, _) => request.header("mcp-protocol-version", "2026-07-28"),
        }
    }

    /// Sends a message.
    pub async fn post(&self, message: &Value) -> Result<Response, Failure> {
        let mut request = self.head(self.http.post(&self.url)).json(message);
        if let (Era::Stateless, Some(method)) = (self.era, message["method"].as_str()) {
            request = request.header("mcp-method", method);
            if let Some(name) = message["params"]["name"].as_str() {
                request = request.header("mcp-name", name);
            }
        }
        Ok(request.send().await?)
    }

    async fn request(&mut self, method: &str, mut params: Value) -> Result<Response, Failure> {
        let id = self.next_id;
        self.next_id += 1;
        if self.era == Era::Stateless {
            params["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": {"name": "swarm", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": capabilities()});
        }
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        Ok(self.post(&message).await?.error_for_status()?)
    }

    /// Begins a run.
    pub async fn start_run(&mut self, code: &str, tools: &Value) -> Result<SwarmEvents, Failure> {
        let arguments = json!({"python_code": code, "available_tools": tools});
        let params = json!({"name": "run_python_code", "arguments": arguments});
        Ok(SwarmEvents::of(self.request("tools/call", params).await?))
    }

    /// Ends its session, if it has one.
    pub async fn close(self) -> Result<(), Failure> {
        if self.session.is_some() {
            let deleted = self.head(self.http.delete(&self.url)).send().await?;
            deleted.error_for_status()?;
        }
        Ok(())
    }

    /// Answers a tool call.
    pub async fn answer(&self, request_id: &Value, result: Value) -> Result<(), Failure> {
        let message = json!({"jsonrpc": "2.0", "method": "notifications/tool_call_response",
            "params": {"requestId": request_id, "result": result}});
        self.post(&message).await?.error_for_status()?;
        Ok(())
    }

    /// Runs code, answering its calls with what `answer` makes of their arguments.
    pub async fn run(
        &mut self,
        code: &str,
        tools: &Value,
        answer: impl Fn(&Value) -> Value,
    ) -> Result<Value, Failure> {
        let mut events = self.start_run(code, tools).await?;
        loop {
            let message = events.next().await?;
            if message["method"] == "notifications/tool_call_request" {
                let params = &message["params"];
                self.answer(&params["requestId"], answer(&params["arguments"]))
                    .await?;
            } else if message.get("id").is_some() {
                return result_of(&message);
            }
        }
    }
}

fn capabilities() -> Value {
    json!({"extensions": {EXTENSION: {}}})
}

fn result_of(message: &Value) -> Result<Value, Failure> {
    if message["error"].is_null() {
        return Ok(message["result"].clone());
    }
    Err(message["error"].to_string().into())
}

/// The events of one stream.
pub struct SwarmEvents {
    response: Response,
    received: Vec<u8>,
}

impl SwarmEvents {
    fn of(response: Response) -> Self {
        Self {
            response,
            received: Vec::new(),
        }
    }

    /// The next message.
    pub async fn next(&mut self) -> Result<Value, Failure> {
        loop {
            while let Some(end) = self.received.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.received.drain(..=end).collect();
                let data = line.strip_prefix(b"data:").unwrap_or_default();
                if !data.trim_ascii().is_empty() {
                    return Ok(serde_json::from_slice(data)?);
                }
            }
            let chunk = self.response.chunk().await?;
            self.received
                .extend_from_slice(&chunk.ok_or("the stream ended before its result")?);
        }
    }

    async fn result(mut self) -> Result<Value, Failure> {
        loop {
            let message = self.next().await?;
            if message.get("id").is_some() {
                return result_of(&message);
            }
        }
    }
}
