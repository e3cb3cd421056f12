//! `cargo bench --bench roads`: what the roads of tool calls cost, for SPECIFICATION.md.
//!
//! `-- upstream handles suspended` does parts alone.

#[path = "../tests/support/mod.rs"]
mod support;

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use support::{Client, structured};

/// A server that does next to nothing for a call.
const SERVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/servers/bad.py");

/// Calls that are measured.
const CALLS: usize = 2000;

/// Runs that are suspended at once.
const RUNS: u32 = 1000;

fn main() {
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with('-'))
        .collect();
    let wants = |part: &str| wanted.is_empty() || wanted.iter().any(|word| word == part);
    println!("| what | p50 | p99 |\n| --- | --- | --- |");
    if wants("upstream") {
        upstream();
    }
    if wants("handles") {
        handles();
    }
    if wants("suspended") {
        suspended();
    }
}

/// A call to a server over stdio: by a client that does nothing else, and by code in callgate.
fn upstream() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("mcp.json");
    let servers = json!({"mcpServers": {"s": {"command": "python3", "args": [SERVER, "bench"]}}});
    fs::write(&path, servers.to_string()).expect("it can be written");
    let config = path.to_str().expect("UTF-8");
    let mut client = Client::start(&["--mcp-config", config, "--max-result", "64MiB"]);
    // In turns, because machines are noisy.
    let (mut direct, mut via) = (Vec::new(), Vec::new());
    for _ in 0..4 {
        direct.extend(direct_calls(CALLS / 4));
        via.extend(calls_of_code(&mut client, CALLS / 4));
    }
    show("a call to a stdio server, by itself", &mut direct);
    show("the same call, from code in callgate", &mut via);
    let beyond = median(&via).saturating_sub(median(&direct));
    println!(
        "| beyond the server's own time | {} µs | |",
        beyond.as_micros()
    );
}

/// Round trips to the server without callgate.
fn direct_calls(count: usize) -> Vec<Duration> {
    let mut server = Command::new("python3")
        .args([SERVER, "bench"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut input = server.stdin.take().expect("piped");
    let mut output = BufReader::new(server.stdout.take().expect("piped"));
    let mut line = String::new();
    let mut times = Vec::new();
    for id in 0..=count {
        let start = Instant::now();
        let params = json!({"name": "call", "arguments": {}});
        let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
        writeln!(input, "{call}").expect("it reads");
        line.clear();
        output.read_line(&mut line).expect("it answers");
        let answer: Value = serde_json::from_str(&line).expect("it is JSON");
        assert_eq!(answer["id"], id);
        times.push(start.elapsed());
    }
    drop(input);
    let _ = server.wait();
    // The first is the start of the server.
    times.split_off(1)
}

fn calls_of_code(client: &mut Client, count: usize) -> Vec<Duration> {
    let code = format!(
        "import time\ncall_mcp_tool('s', 'call')\ntimes = []\nfor _ in range({count}):\n    start = time.perf_counter()\n    \
         call_mcp_tool('s', 'call')\n    times.append(time.perf_counter() - start)\ntimes"
    );
    let result = client.run(&code);
    let times = structured(&result)["return_value"]
        .as_array()
        .expect("a list");
    let seconds = times.iter().map(|time| time.as_f64().expect("a number"));
    seconds.map(Duration::from_secs_f64).collect()
}

/// From a call of `resume_python_code` to its answer, with the next call of the program.
fn handles() {
    let mut client = Client::start(&["--callbacks", "resume"]);
    let code = format!("for n in range({CALLS}):\n    t(n=n)");
    let arguments = json!({"python_code": code, "available_tools": [{"name": "t"}]});
    let mut result = client.call(arguments, &mut |_| None);
    let mut times = Vec::new();
    while structured(&result)["status"] == "pending" {
        let start = Instant::now();
        result = resume(&mut client, &result);
        times.push(start.elapsed());
    }
    assert_eq!(structured(&result)["status"], "success");
    show("resume by handle, up to the next call", &mut times);
}

fn resume(client: &mut Client, pending: &Value) -> Value {
    let pending = structured(pending);
    let id = &pending["pending"][0]["requestId"];
    let arguments =
        json!({"handle": pending["handle"], "results": [{"requestId": id, "result": 1}]});
    let params = json!({"name": "resume_python_code", "arguments": arguments});
    client.request("tools/call", params)["result"].clone()
}

/// Memory of many suspended runs, and that all of them go on.
fn suspended() {
    let runs = RUNS.to_string();
    let mut client = Client::start(&["--callbacks", "resume", "--max-suspended-runs", &runs]);
    let arguments = json!({"python_code": "t()\n'done'", "available_tools": [{"name": "t"}]});
    let first = client.call(arguments.clone(), &mut |_| None);
    resume(&mut client, &first);
    let before = client.anonymous_kib();
    let waiting: Vec<Value> = (0..RUNS)
        .map(|_| client.call(arguments.clone(), &mut |_| None))
        .collect();
    let each = (client.anonymous_kib() - before) / u64::from(RUNS);
    let mut times = Vec::new();
    for pending in &waiting {
        let start = Instant::now();
        let result = resume(&mut client, pending);
        times.push(start.elapsed());
        assert_eq!(structured(&result)["return_value"], "done");
    }
    println!("| memory of one of {RUNS} suspended runs | {each} KiB | |");
    show("resume one of them, up to its result", &mut times);
}

fn show(what: &str, times: &mut [Duration]) {
    times.sort();
    let p99 = times[times.len() * 99 / 100];
    let microseconds = |time: Duration| time.as_micros();
    println!(
        "| {what} | {} µs | {} µs |",
        microseconds(median(times)),
        microseconds(p99)
    );
}

/// Of times in order.
fn median(times: &[Duration]) -> Duration {
    times[times.len() / 2]
}
