//! Agents for tests: the real binary over real HTTP, in both eras of the protocol.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::{
    io::{BufRead as _, BufReader, Read as _},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, mpsc},
    time::{Duration, Instant},
};

use reqwest::blocking::{self, RequestBuilder, Response};
use serde_json::{Value, json};

use super::Answer;

/// Longer than any answer may take, image building on a fresh machine included.
const PATIENCE: Duration = Duration::from_mins(5);

/// What a client that answers tool calls declares.
pub const EXTENSION: &str = "callgate/tool-callbacks";

/// A server process.
pub struct HttpServer {
    child: Child,
    url: String,
    metrics: Option<String>,
    log: Arc<Mutex<String>>,
}

impl HttpServer {
    /// Starts a server at a free port and waits until its image is there.
    pub fn start(arguments: &[&str]) -> Self {
        let server = Self::spawn(arguments, &[]);
        let deadline = Instant::now() + PATIENCE;
        while !server.is_ready() {
            assert!(
                Instant::now() < deadline,
                "not ready; log:\n{}",
                server.log()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        server
    }

    /// Starts a server at a free port and waits until it listens.
    pub fn spawn(arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_callgate"));
        command.arg("http");
        if !arguments.contains(&"--listen") {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        command.args(["--metrics-listen", "127.0.0.1:0"]);
        command.args(arguments).envs(environment.iter().copied());
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let errors = child.stderr.take().expect("stderr is piped");
        let log = Arc::new(Mutex::new(String::new()));
        let (found, addresses) = mpsc::channel();
        let kept = Arc::clone(&log);
        std::thread::spawn(move || {
            for line in BufReader::new(errors).lines() {
                let Ok(line) = line else { return };
                if let Some((_, url)) = line.split_once(" at http") {
                    let _ = found.send(format!("http{url}"));
                }
                let mut log = kept.lock().expect("no panic while logging");
                log.push_str(&line);
                log.push('\n');
            }
        });
        let mut server = Self {
            child,
            url: String::new(),
            metrics: None,
            log,
        };
        let address = || {
            let address = addresses.recv_timeout(PATIENCE);
            address.unwrap_or_else(|_| panic!("it does not listen; log:\n{}", server.log()))
        };
        let (url, metrics) = (address(), address());
        server.url = url;
        server.metrics = Some(metrics);
        server
    }

    /// Where MCP is.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Another path of the same server.
    pub fn path(&self, path: &str) -> String {
        format!("{}{path}", self.url.trim_end_matches("/mcp"))
    }

    /// `host:port`.
    pub fn address(&self) -> &str {
        let (_, rest) = self.url.split_once("://").expect("it is a URL");
        rest.trim_end_matches("/mcp")
    }

    fn is_ready(&self) -> bool {
        let ready = client().get(self.path("/health/ready")).send();
        ready.is_ok_and(|response| response.status().is_success())
    }

    /// The metrics as a scraper gets them.
    pub fn metrics(&self) -> String {
        let url = self.metrics.as_ref().expect("there is a second listener");
        let response = client().get(url).send().expect("the server answers");
        response.text().expect("metrics are text")
    }

    /// One metric; a counter that nothing was counted with is not there.
    pub fn find_metric(&self, name: &str) -> Option<f64> {
        let text = self.metrics();
        let line = text.lines().find(|line| {
            line.strip_prefix(name)
                .is_some_and(|rest| rest.starts_with(' '))
        });
        line?.rsplit(' ').next()?.parse().ok()
    }

    /// One metric that is there.
    pub fn metric(&self, name: &str) -> f64 {
        let found = self.find_metric(name);
        found.unwrap_or_else(|| panic!("no {name} in:\n{}", self.metrics()))
    }

    /// Waits until a metric is what it should be.
    pub fn wait_for_metric(&self, name: &str, value: f64) {
        let deadline = Instant::now() + PATIENCE / 5;
        let is_there = || {
            self.find_metric(name)
                .is_some_and(|is| (is - value).abs() < 0.1)
        };
        while !is_there() {
            assert!(
                Instant::now() < deadline,
                "{name} does not become {value}; metrics:\n{}\nlog:\n{}",
                self.metrics(),
                self.log()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// What the server logged so far.
    pub fn log(&self) -> String {
        self.log.lock().expect("no panic while logging").clone()
    }

    /// The server's process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal by its name.
    pub fn signal(&self, name: &str) {
        let status = Command::new("kill")
            .args(["-s", name, &self.pid().to_string()])
            .status();
        assert!(status.expect("kill is there").success());
    }

    /// Waits for the end of the process.
    pub fn wait(&mut self) -> ExitStatus {
        self.child.wait().expect("the process ends")
    }

    /// Everything that it wrote to standard output, after its end.
    pub fn output(&mut self) -> String {
        let mut text = String::new();
        let mut output = self.child.stdout.take().expect("stdout is piped");
        output.read_to_string(&mut text).expect("it is text");
        text
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client without a proxy, and without a time limit that a stream could hit.
pub fn client() -> blocking::Client {
    let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
    blocking::Client::builder()
        .no_proxy()
        .timeout(PATIENCE)
        .build()
        .expect("a client can be made")
}

/// Which protocol an agent speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Era {
    /// Sessions, 2025-11-25.
    Sessions,
    /// 2026-07-28.
    Stateless,
}

/// Both eras.
pub const ERAS: [Era; 2] = [Era::Sessions, Era::Stateless];

/// One agent.
#[derive(Clone)]
pub struct Agent {
    http: blocking::Client,
    url: String,
    era: Era,
    token: Option<String>,
    /// The session's id, in the era of sessions.
    pub session: Option<String>,
    /// What it says that it can do.
    pub capabilities: Value,
    next_id: i64,
}

impl Agent {
    /// An agent that declares that it answers tool calls, and has shaken hands where that is done.
    pub fn new(server: &HttpServer, era: Era) -> Self {
        Self::with_token(server, era, None)
    }

    /// The same with a bearer token.
    pub fn with_token(server: &HttpServer, era: Era, token: Option<&str>) -> Self {
        let mut agent = Self::silent(server, era, token);
        agent.capabilities = json!({"extensions": {EXTENSION: {}}});
        agent.shake_hands();
        agent
    }

    /// An agent that declares nothing and has said nothing yet.
    pub fn silent(server: &HttpServer, era: Era, token: Option<&str>) -> Self {
        Self {
            http: client(),
            url: server.url().to_owned(),
            era,
            token: token.map(str::to_owned),
            session: None,
            capabilities: json!({}),
            next_id: 1,
        }
    }

    /// Begins a session, if this is the era of sessions.
    pub fn shake_hands(&mut self) {
        if self.era == Era::Stateless {
            return;
        }
        let response = self.try_initialize();
        assert_eq!(response.status(), 200);
        let id = response.headers()["mcp-session-id"].to_str();
        self.session = Some(id.expect("ids are text").to_owned());
        let result = Events::of(response).result();
        assert_eq!(result["protocolVersion"], "2025-11-25");
        self.notify("notifications/initialized", json!({}));
    }

    /// `initialize`, and nothing more.
    pub fn try_initialize(&mut self) -> Response {
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": self.capabilities,
            "clientInfo": {"name": "test", "version": "1"}});
        self.request("initialize", params)
    }

    /// A request with what belongs into its head.
    pub fn build(&self, method: reqwest::Method) -> RequestBuilder {
        let mut request = self.http.request(method, &self.url);
        request = request.header("accept", "application/json, text/event-stream");
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        if let Some(session) = &self.session {
            request = request.header("mcp-session-id", session);
        }
        match self.era {
            Era::Sessions if self.session.is_none() => request,
            Era::Sessions => request.header("mcp-protocol-version", "2025-11-25"),
            Era::Stateless => request.header("mcp-protocol-version", "2026-07-28"),
        }
    }

    /// Sends a message.
    pub fn post(&self, message: &Value) -> Response {
        let mut request = self.build(reqwest::Method::POST).json(message);
        if let (Era::Stateless, Some(method)) = (self.era, message["method"].as_str()) {
            request = request.header("mcp-method", method);
            if let Some(name) = message["params"]["name"].as_str() {
                request = request.header("mcp-name", name);
            }
        }
        request.send().expect("the server answers")
    }

    /// Sends a request.
    pub fn request(&mut self, method: &str, mut params: Value) -> Response {
        let id = self.next_id;
        self.next_id += 1;
        if self.era == Era::Stateless {
            let meta = &mut params["_meta"];
            meta["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
            meta["io.modelcontextprotocol/clientInfo"] = json!({"name": "test", "version": "1"});
            meta["io.modelcontextprotocol/clientCapabilities"] = self.capabilities.clone();
        }
        self.post(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
    }

    /// The id of the last request.
    pub fn last_id(&self) -> i64 {
        self.next_id - 1
    }

    /// Sends a notification.
    pub fn notify(&self, method: &str, params: Value) {
        let response = self.post(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
        assert_eq!(response.status(), 202, "{:?}", response.text());
    }

    /// Begins a run.
    pub fn start_run(&mut self, arguments: Value) -> Events {
        let response = self.try_run(arguments);
        assert_eq!(response.status(), 200);
        Events::of(response)
    }

    /// Asks for a run that may be refused.
    pub fn try_run(&mut self, arguments: Value) -> Response {
        self.try_run_with_meta(arguments, json!({}))
    }

    /// The same with `_meta`.
    pub fn try_run_with_meta(&mut self, arguments: Value, meta: Value) -> Response {
        self.request(
            "tools/call",
            json!({"name": "run_python_code", "arguments": arguments, "_meta": meta}),
        )
    }

    /// Answers a tool call.
    pub fn answer(&self, request_id: &Value, mut params: Value) {
        params["requestId"] = request_id.clone();
        self.notify("notifications/tool_call_response", params);
    }

    /// Runs code without tools; returns the result.
    pub fn run(&mut self, code: &str) -> Value {
        self.start_run(json!({"python_code": code})).result()
    }

    /// Runs code with tools, answering their calls; returns the result.
    pub fn run_with(&mut self, code: &str, tools: Value, answer: &mut Answer<'_>) -> Value {
        let events = self.start_run(json!({"python_code": code, "available_tools": tools}));
        self.finish(events, answer)
    }

    /// Answers tool calls until the result comes.
    pub fn finish(&self, mut events: Events, answer: &mut Answer<'_>) -> Value {
        loop {
            let message = events.next_message().expect("the result comes");
            if message["method"] == "notifications/tool_call_request" {
                if let Some(params) = answer(&message["params"]) {
                    self.answer(&message["params"]["requestId"], params);
                }
            } else if let Some(result) = result_of(&message) {
                return result;
            }
        }
    }

    /// Comes back to a stream that was lost.
    pub fn resume(&self, last_event_id: &str) -> Response {
        let request = self.build(reqwest::Method::GET);
        let request = request.header("last-event-id", last_event_id);
        request.send().expect("the server answers")
    }
}

fn result_of(message: &Value) -> Option<Value> {
    message.get("id")?;
    assert!(message["error"].is_null(), "a JSON-RPC error: {message}");
    Some(message["result"].clone())
}

/// The events of one stream. Dropping it closes the connection.
pub struct Events {
    reader: BufReader<Response>,
    /// The id of the last event that had one.
    pub last_id: Option<String>,
}

impl Events {
    /// The events of a response; a JSON response is one event.
    pub fn of(response: Response) -> Self {
        Self {
            reader: BufReader::new(response),
            last_id: None,
        }
    }

    /// The next message; `None` at the end of the stream.
    pub fn next_message(&mut self) -> Option<Value> {
        let mut data = String::new();
        loop {
            let mut line = String::new();
            if self.reader.read_line(&mut line).unwrap_or(0) == 0 {
                return None;
            }
            let line = line.trim_end();
            if line.starts_with('{') {
                return serde_json::from_str(line).ok();
            } else if let Some(id) = line.strip_prefix("id:") {
                self.last_id = Some(id.trim().to_owned());
            } else if let Some(part) = line.strip_prefix("data:") {
                data.push_str(part.trim_start());
            } else if line.is_empty() && !data.is_empty() {
                let message = serde_json::from_str(&data);
                return Some(message.unwrap_or_else(|error| panic!("{error}: {data}")));
            }
        }
    }

    /// The id of the event that tells how to come back, before any message.
    pub fn read_priming(&mut self) -> String {
        loop {
            let mut line = String::new();
            let read = self
                .reader
                .read_line(&mut line)
                .expect("the stream goes on");
            assert!(read > 0, "the stream ended before its priming event");
            if let Some(id) = line.strip_prefix("id:") {
                return id.trim().to_owned();
            }
        }
    }

    /// The next message of this method.
    pub fn next_of(&mut self, method: &str) -> Value {
        loop {
            let message = self.next_message();
            let message = message.unwrap_or_else(|| panic!("the stream ended before {method}"));
            if message["method"] == method {
                return message;
            }
        }
    }

    /// The result, dropping notifications on the way.
    pub fn result(mut self) -> Value {
        loop {
            let message = self.next_message().expect("the result comes");
            if let Some(result) = result_of(&message) {
                return result;
            }
        }
    }
}

/// Makes a token as an operator does; returns it and adds its line to the file.
pub fn token(name: &str, file: &std::path::Path) -> String {
    let made = std::process::Command::new(env!("CARGO_BIN_EXE_callgate"))
        .args(["token", name])
        .output()
        .expect("the binary starts");
    assert!(made.status.success());
    let line = String::from_utf8(made.stdout).expect("it is text");
    let before = std::fs::read_to_string(file).unwrap_or_default();
    std::fs::write(file, before + &line).expect("the file can be written");
    let told = String::from_utf8(made.stderr).expect("it is text");
    told.lines().last().expect("the token is shown").to_owned()
}

/// A server with two principals; returns their tokens.
pub fn guarded(arguments: &[&str]) -> (HttpServer, tempfile::TempDir, String, String) {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let file = folder.path().join("tokens");
    let (ann, bob) = (token("ann", &file), token("bob", &file));
    let file = file.to_str().expect("paths here are UTF-8").to_owned();
    let mut all = vec!["--token-file", &file];
    all.extend(arguments);
    (HttpServer::start(&all), folder, ann, bob)
}
