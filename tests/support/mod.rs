//! A client for tests: the real binary, over its real standard input and output.
#![allow(dead_code, reason = "each test file uses its own part")]
#![allow(
    clippy::needless_pass_by_value,
    reason = "`json!({…})` reads better than `&json!({…})` at every call"
)]

pub mod toolchain;

use std::{
    io::{BufRead, BufReader, Read, Write},
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::{
        Arc, Mutex,
        mpsc::{Receiver, RecvTimeoutError, channel},
    },
    time::{Duration, Instant},
};

use serde_json::{Value, json};

/// Longer than any answer may take, image building on a fresh machine included.
const PATIENCE: Duration = Duration::from_mins(5);

/// A server process and the connection to it.
pub struct Client {
    child: Child,
    input: Option<ChildStdin>,
    messages: Receiver<Value>,
    log: Arc<Mutex<String>>,
    next_id: i64,
}

/// What a client answers to a tool call: the `params` of `tool_call_response` without the id, or
/// `None` for no answer at all.
pub type Answer<'a> = dyn FnMut(&Value) -> Option<Value> + 'a;

impl Client {
    /// Starts the server and shakes hands in the newest revision that has a handshake.
    pub fn start(arguments: &[&str]) -> Self {
        Self::start_in(arguments, &[])
    }

    /// The same with environment variables.
    pub fn start_in(arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let mut client = Self::spawn(arguments, environment);
        client.initialize("2025-11-25", &json!({}));
        client
    }

    /// Starts the server and says nothing.
    pub fn spawn(arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_callgate"));
        command.args(arguments).envs(environment.iter().copied());
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let output = child.stdout.take().expect("stdout is piped");
        let mut errors = child.stderr.take().expect("stderr is piped");
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines() {
                let Ok(line) = line else { return };
                let message = serde_json::from_str(&line).unwrap_or_else(|error| {
                    panic!("stdout has a line that is not JSON ({error}): {line}")
                });
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let log = Arc::new(Mutex::new(String::new()));
        let kept = Arc::clone(&log);
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = errors.read(&mut buffer) {
                kept.lock()
                    .expect("no panic while logging")
                    .push_str(&String::from_utf8_lossy(&buffer[..read]));
            }
        });
        Self {
            input: child.stdin.take(),
            child,
            messages,
            log,
            next_id: 1,
        }
    }

    /// The handshake; returns its result.
    pub fn initialize(&mut self, revision: &str, capabilities: &Value) -> Value {
        let result = self.request(
            "initialize",
            json!({"protocolVersion": revision, "capabilities": capabilities, "clientInfo": {"name": "test", "version": "1"}}),
        );
        self.notify("notifications/initialized", json!({}));
        result["result"].clone()
    }

    /// Sends one line as it is.
    pub fn send_raw(&mut self, line: &[u8]) {
        let input = self.input.as_mut().expect("the input is open");
        input
            .write_all(line)
            .and_then(|()| input.write_all(b"\n"))
            .and_then(|()| input.flush())
            .expect("the server reads");
    }

    /// Sends the beginning of a line.
    pub fn send_raw_without_end(&mut self, part: &[u8]) {
        let input = self.input.as_mut().expect("the input is open");
        input
            .write_all(part)
            .and_then(|()| input.flush())
            .expect("the server reads");
    }

    /// Sends one message.
    pub fn send(&mut self, message: &Value) {
        self.send_raw(message.to_string().as_bytes());
    }

    /// Sends a notification.
    pub fn notify(&mut self, method: &str, params: Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// Sends a request and returns its id.
    pub fn send_request(&mut self, method: &str, params: Value) -> i64 {
        let id = self.next_id;
        self.next_id += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    /// Sends a request and waits for its response, dropping notifications on the way.
    pub fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.send_request(method, params);
        loop {
            let message = self.receive();
            if message["id"] == id {
                return message;
            }
        }
    }

    /// The next message.
    pub fn receive(&mut self) -> Value {
        match self.messages.recv_timeout(PATIENCE) {
            Ok(message) => message,
            Err(RecvTimeoutError::Timeout) => {
                panic!("no message in {PATIENCE:?}; log:\n{}", self.log())
            }
            Err(RecvTimeoutError::Disconnected) => {
                panic!("the server has ended; log:\n{}", self.log())
            }
        }
    }

    /// The next message, if one comes in time.
    pub fn receive_within(&mut self, time: Duration) -> Option<Value> {
        self.messages.recv_timeout(time).ok()
    }

    /// Begins a run and returns the request's id.
    pub fn start_run(&mut self, arguments: Value) -> i64 {
        self.send_request(
            "tools/call",
            json!({"name": "run_python_code", "arguments": arguments}),
        )
    }

    /// Runs code without tools; returns the result.
    pub fn run(&mut self, code: &str) -> Value {
        self.call(json!({"python_code": code}), &mut |_| None)
    }

    /// Runs code with tools, answering their calls; returns the result.
    pub fn run_with(&mut self, code: &str, tools: Value, answer: &mut Answer<'_>) -> Value {
        self.call(
            json!({"python_code": code, "available_tools": tools}),
            answer,
        )
    }

    /// Calls `run_python_code` and answers tool calls until its result comes.
    pub fn call(&mut self, arguments: Value, answer: &mut Answer<'_>) -> Value {
        let id = self.start_run(arguments);
        self.finish(id, answer)
    }

    /// Answers tool calls until the result of request `id` comes.
    pub fn finish(&mut self, id: i64, answer: &mut Answer<'_>) -> Value {
        loop {
            let message = self.receive();
            if message["id"] == id {
                assert!(message["error"].is_null(), "a JSON-RPC error: {message}");
                return message["result"].clone();
            }
            if message["method"] != "notifications/tool_call_request" {
                continue;
            }
            if let Some(mut params) = answer(&message["params"]) {
                params["requestId"] = message["params"]["requestId"].clone();
                self.notify("notifications/tool_call_response", params);
            }
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

    /// Anonymous memory of the server in KiB.
    pub fn anonymous_kib(&self) -> u64 {
        let rollup = std::fs::read_to_string(format!("/proc/{}/smaps_rollup", self.pid()))
            .expect("the process lives");
        let line = rollup
            .lines()
            .find(|line| line.starts_with("Anonymous:"))
            .expect("there is such a line");
        line.split_whitespace()
            .nth(1)
            .and_then(|number| number.parse().ok())
            .expect("it is a number")
    }

    /// Processor time that the server has used.
    pub fn processor_time(&self) -> Duration {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.pid()));
        let spent = tasks.expect("the process lives").filter_map(|task| {
            // Nanoseconds on a processor; a thread that ends meanwhile has no file.
            let text = std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
            text.split_whitespace().next()?.parse::<u64>().ok()
        });
        Duration::from_nanos(spent.sum())
    }

    /// Closes the server's input.
    pub fn end_input(&mut self) {
        drop(self.input.take());
    }

    /// Closes the server's input and waits for its end; returns how it ended and how long it took.
    pub fn close(mut self) -> (ExitStatus, Duration) {
        drop(self.input.take());
        let start = Instant::now();
        let status = self.child.wait().expect("the process ends");
        (status, start.elapsed())
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The text that the model reads.
pub fn text(result: &Value) -> &str {
    result["content"][0]["text"]
        .as_str()
        .expect("a result has text")
}

/// `structuredContent`.
pub fn structured(result: &Value) -> &Value {
    &result["structuredContent"]
}

/// The kind of a result's error.
pub fn kind(result: &Value) -> &str {
    structured(result)["error"]["kind"]
        .as_str()
        .unwrap_or("none")
}

/// A tool called `name` whose parameters are `properties`, all required.
pub fn tool(name: &str, properties: Value) -> Value {
    let required: Vec<&String> = properties
        .as_object()
        .expect("properties are an object")
        .keys()
        .collect();
    json!({"name": name, "description": format!("The tool {name}."),
        "parameters": {"type": "object", "required": required, "additionalProperties": false, "properties": properties}})
}
