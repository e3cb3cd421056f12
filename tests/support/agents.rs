//! Agents of `fixtures/agents` with a scripted model behind them.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::toolchain::{prepare_image, python};

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures");

/// The scripted model, until it is dropped.
pub struct ScriptedModel {
    process: Child,
    folder: TempDir,
    /// Its base URL.
    pub url: String,
}

impl ScriptedModel {
    /// A model that says one turn after the other.
    pub fn start(turns: &Value) -> Self {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let script = folder.path().join("script.json");
        fs::write(&script, turns.to_string()).expect("it can be written");
        let mut process = Command::new("python3")
            .arg(format!("{FIXTURES}/model/server.py"))
            .arg(script)
            .arg("--log")
            .arg(folder.path().join("log"))
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 is there");
        let mut url = String::new();
        let output = process.stdout.take().expect("it is piped");
        BufReader::new(output)
            .read_line(&mut url)
            .expect("it says its URL");
        let url = url.trim().to_owned();
        assert!(url.starts_with("http"), "the model does not start");
        Self {
            process,
            folder,
            url,
        }
    }

    /// The requests so far, as the model's log has them.
    pub fn requests(&self) -> Vec<Value> {
        let log = fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        log.lines()
            .map(|line| serde_json::from_str(line).expect("a line is JSON"))
            .collect()
    }

    /// The messages of the last request.
    pub fn messages(&self) -> Vec<Value> {
        let requests = self.requests();
        let last = requests.last().expect("there was a request");
        last["body"]["messages"].as_array().expect("a list").clone()
    }
}

impl Drop for ScriptedModel {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A server of `fixtures/servers` that listens on a port, until it is dropped.
pub struct Listening {
    process: Child,
    /// Its origin.
    pub origin: String,
}

impl Listening {
    /// `python` names the environment; the script takes its port as its argument.
    pub fn start(environment: &str, script: &str) -> Self {
        let port = TcpListener::bind("127.0.0.1:0")
            .and_then(|listener| listener.local_addr())
            .expect("a port is free")
            .port();
        let process = Command::new(python(environment))
            .arg(format!("{FIXTURES}/servers/{script}"))
            .arg(port.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        let deadline = Instant::now() + Duration::from_mins(1);
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < deadline, "{script} does not listen");
            std::thread::sleep(Duration::from_millis(50));
        }
        Self {
            process,
            origin: format!("http://127.0.0.1:{port}"),
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// An agent's folder.
pub struct Folder(TempDir);

impl Folder {
    /// A copy of one of `fixtures/agents`, with what its placeholders stand for.
    pub fn fixture(name: &str, model: &str, http: &str) -> Self {
        let copy = tempfile::tempdir().expect("a folder can be made");
        for file in
            fs::read_dir(format!("{FIXTURES}/agents/{name}")).expect("there is one of that name")
        {
            let file = file.expect("it can be listed");
            let text = fs::read_to_string(file.path()).expect("it is a text");
            let text = filled(&text, model, http);
            fs::write(copy.path().join(file.file_name()), text).expect("it can be written");
        }
        Self(copy)
    }

    /// An agent with these servers.
    pub fn with_servers(model: &str, servers: &Value) -> Self {
        Self::of(&json!({"model": "scripted", "endpointUrl": model, "servers": servers}))
    }

    /// An agent with this configuration.
    pub fn of(document: &Value) -> Self {
        let folder = tempfile::tempdir().expect("a folder can be made");
        fs::write(folder.path().join("agent.json"), document.to_string())
            .expect("it can be written");
        Self(folder)
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes a file into it.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        fs::write(&path, text).expect("it can be written");
        path
    }

    /// Works on one task.
    pub fn run(&self, task: &str, more: &[&str]) -> Ran {
        run(self.path(), &[&["--prompt", task], more].concat(), "", &[])
    }

    /// Works on one task and tells what happened.
    pub fn events(&self, task: &str, more: &[&str]) -> Vec<Value> {
        self.run(task, &[&["--json", "--yes"], more].concat())
            .events()
    }
}

/// The text of a fixture with what its placeholders stand for.
pub fn filled(text: &str, model: &str, http: &str) -> String {
    let python = python("current");
    text.replace("@MODEL@", model)
        .replace("@PYTHON@", python.to_str().expect("paths here are UTF-8"))
        .replace("@SERVERS@", &format!("{FIXTURES}/servers"))
        .replace("@HTTP@", http)
}

/// What a run of the binary brought.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub out: String,
    pub log: String,
}

impl Ran {
    /// Its output as events.
    pub fn events(&self) -> Vec<Value> {
        let event = |line: &str| {
            serde_json::from_str(line).unwrap_or_else(|_| panic!("no event: {line}\n{}", self.log))
        };
        self.out.lines().map(event).collect()
    }
}

/// `callgate agent run PATH …` with an input.
pub fn run(path: &Path, arguments: &[&str], input: &str, environment: &[(&str, &str)]) -> Ran {
    let mut process = start(path, arguments, environment);
    let mut pipe = process.stdin.take().expect("it is piped");
    pipe.write_all(input.as_bytes()).expect("it reads");
    drop(pipe);
    let Output {
        status,
        stdout,
        stderr,
    } = process.wait_with_output().expect("it ends");
    Ran {
        code: status.code(),
        out: String::from_utf8(stdout).expect("it is UTF-8"),
        log: String::from_utf8_lossy(&stderr).into_owned(),
    }
}

/// The same, still running.
pub fn start(path: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Child {
    prepare_image();
    Command::new(env!("CARGO_BIN_EXE_callgate"))
        .args(["agent", "run"])
        .arg(path)
        .args(arguments)
        .env_remove("HF_TOKEN")
        .env_remove("API_KEY")
        .envs(environment.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts")
}

/// A server over stdio from `fixtures/servers`: `real.py`, or `bad.py` with its mode.
pub fn stdio(script: &str, more: &[&str]) -> Value {
    let script = format!("{FIXTURES}/servers/{script}");
    let arguments: Vec<&str> = [&[script.as_str()], more].concat();
    json!({"type": "stdio", "command": python("current"), "args": arguments})
}

/// A turn of the model in which it writes a program.
pub fn code(program: &str) -> Value {
    json!({"tool_calls": [{"name": "run_python_code", "arguments": {"python_code": program}}]})
}

/// The last event.
pub fn end(events: &[Value]) -> &Value {
    let last = events.last().expect("there are events");
    assert_eq!(last["type"], "end", "{events:?}");
    last
}

/// The events of a kind.
pub fn of_type<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events
        .iter()
        .filter(|event| event["type"] == kind)
        .collect()
}
