//! Promise: the clients that people use work with callgate as they come, and with tool calls once a
//! few lines answer them.

mod support;

use std::{
    path::Path,
    process::{Command, Output},
};

use serde_json::{Value, json};
use support::{
    http::HttpServer,
    toolchain::{Node, prepare_image, python},
};

const CLIENTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/clients");

const CALLGATE: &str = env!("CARGO_BIN_EXE_callgate");

/// The last revision with a handshake: who speaks it is asked, whatever it declares.
const HANDSHAKE: &str = "2025-11-25";

/// The first revision where a client that declares nothing is not asked.
const DECLARING: &str = "2026-07-28";

#[derive(Clone, Copy, PartialEq)]
enum Transport {
    Http,
    Stdio,
}

/// A program of `fixtures/clients`.
struct Client {
    /// Starts it.
    command: fn() -> Command,
    /// What it is told, and the revision that it then speaks; first as it comes.
    revisions: &'static [(&'static [&'static str], &'static str)],
}

const MCP_CURRENT: Client = Client {
    command: || python_program("current", "mcp_current.py"),
    revisions: &[(&[], DECLARING), (&["--era", "legacy"], HANDSHAKE)],
};

const MCP_PREVIOUS: Client = Client {
    command: || python_program("previous", "mcp_previous.py"),
    revisions: &[(&[], HANDSHAKE)],
};

const FASTMCP: Client = Client {
    command: || python_program("current", "fastmcp_client.py"),
    revisions: &[(&[], DECLARING), (&["--era", "legacy"], HANDSHAKE)],
};

const SDK_PREVIOUS: Client = Client {
    command: || node_program("sdk_previous.mjs"),
    revisions: &[(&[], HANDSHAKE)],
};

const CLIENT_CURRENT: Client = Client {
    command: || node_program("client_current.mjs"),
    revisions: &[(&[], HANDSHAKE), (&["--era", "modern"], DECLARING)],
};

fn python_program(environment: &str, name: &str) -> Command {
    let mut command = Command::new(python(environment));
    command
        .arg(Path::new(CLIENTS).join("python").join(name))
        // The sources stay as they are.
        .env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

fn node_program(name: &str) -> Command {
    let mut command = Node::install().command();
    command.arg(Path::new(CLIENTS).join("node").join(name));
    command
}

/// What both streams have, for a message.
fn shown(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!(
        "{}\n{}{}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    )
}

/// Lets a client make the runs of `fixtures/clients/runs.json`; returns what it saw.
fn runs_seen_by(mut client: Command, transport: Transport, server: &[&str]) -> Value {
    prepare_image();
    let http = (transport == Transport::Http).then(|| HttpServer::start(server));
    match &http {
        Some(http) => client.args(["--http", http.url()]),
        None => client.args(["--stdio", CALLGATE]).args(server),
    };
    let output = client.output().expect("the client starts");
    assert!(
        output.status.success(),
        "{client:?} failed: {}",
        shown(&output)
    );
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", shown(&output)))
}

/// Runs without tool calls, before and after those with some.
fn assert_plain_runs_work(seen: &Value, revision: &str) {
    assert_eq!(seen["protocolVersion"], revision);
    for (name, printed) in [("plain", "2"), ("after", "still here")] {
        let run = &seen["runs"][name];
        assert_eq!(run["isError"], false, "{run}");
        let text = format!("<status>success</status>\n<output>\n{printed}\n</output>");
        assert_eq!(run["text"], text);
        assert_eq!(run["structured"]["output"], format!("{printed}\n"));
    }
}

/// With the hook, the program's calls are answered, side by side.
fn answers_tool_calls(client: &Client, transport: Transport) {
    for (arguments, revision) in client.revisions {
        let mut command = (client.command)();
        command.args(*arguments).arg("--hooked");
        let seen = runs_seen_by(command, transport, &[]);
        assert_plain_runs_work(&seen, revision);
        let runs = &seen["runs"];
        let call = &runs["call"]["structured"];
        assert_eq!(
            call["return_value"],
            json!({"sum": 3, "carry": null}),
            "{call}"
        );
        assert_eq!(call["tool_calls"][0]["outcome"], "answered");
        let gather = &runs["gather"]["structured"];
        assert_eq!(gather["return_value"], json!(["left", "right"]), "{gather}");
        let failure = &runs["failure"]["structured"];
        assert_eq!(
            failure["output"], "Tool call 'fail' failed: no such customer\n",
            "{failure}"
        );
        assert_eq!(failure["tool_calls"][0]["outcome"], "failed");
    }
}

/// As it comes, a client answers nothing. Where that can be told beforehand, its runs wait for a second call; else
/// the first call times out, and from then on they do. Nothing else is harmed.
fn gets_along_without_a_hook(client: &Client, transport: Transport) {
    for (arguments, revision) in client.revisions {
        let mut command = (client.command)();
        command.args(*arguments);
        let seen = runs_seen_by(command, transport, &["--tool-timeout", "1s"]);
        assert_plain_runs_work(&seen, revision);
        let runs = &seen["runs"];
        assert_is_unanswered(&runs["call"], revision);
        assert_waits(&runs["gather"], &["meet", "meet"]);
        assert_waits(&runs["failure"], &["fail"]);
    }
}

/// The run called `add`, and nobody answered.
fn assert_is_unanswered(run: &Value, revision: &str) {
    if revision == DECLARING {
        return assert_waits(run, &["add"]);
    }
    assert_eq!(run["isError"], true, "{run}");
    let structured = &run["structured"];
    let message = structured["error"]["message"].as_str().unwrap_or_default();
    assert!(message.contains("Tool call timeout: add"), "{run}");
    assert_eq!(structured["tool_calls"][0]["outcome"], "timed_out");
}

/// The run waits for `resume_python_code` with the results of these calls.
fn assert_waits(run: &Value, tools: &[&str]) {
    assert_eq!(run["isError"], false, "{run}");
    let structured = &run["structured"];
    assert_eq!(structured["status"], "pending");
    let pending = structured["pending"].as_array().expect("there are calls");
    let names: Vec<&Value> = pending.iter().map(|call| &call["toolName"]).collect();
    assert_eq!(names, tools);
}

#[test]
fn python_mcp_2_answers_tool_calls_over_http() {
    answers_tool_calls(&MCP_CURRENT, Transport::Http);
}

#[test]
fn python_mcp_2_answers_tool_calls_over_stdio() {
    answers_tool_calls(&MCP_CURRENT, Transport::Stdio);
}

#[test]
fn python_mcp_2_gets_along_without_a_hook_over_http() {
    gets_along_without_a_hook(&MCP_CURRENT, Transport::Http);
}

#[test]
fn python_mcp_2_gets_along_without_a_hook_over_stdio() {
    gets_along_without_a_hook(&MCP_CURRENT, Transport::Stdio);
}

#[test]
fn python_mcp_1_answers_tool_calls_over_http() {
    answers_tool_calls(&MCP_PREVIOUS, Transport::Http);
}

#[test]
fn python_mcp_1_answers_tool_calls_over_stdio() {
    answers_tool_calls(&MCP_PREVIOUS, Transport::Stdio);
}

#[test]
fn python_mcp_1_gets_along_without_a_hook_over_http() {
    gets_along_without_a_hook(&MCP_PREVIOUS, Transport::Http);
}

#[test]
fn python_mcp_1_gets_along_without_a_hook_over_stdio() {
    gets_along_without_a_hook(&MCP_PREVIOUS, Transport::Stdio);
}

#[test]
fn fastmcp_answers_tool_calls_over_http() {
    answers_tool_calls(&FASTMCP, Transport::Http);
}

#[test]
fn fastmcp_answers_tool_calls_over_stdio() {
    answers_tool_calls(&FASTMCP, Transport::Stdio);
}

#[test]
fn fastmcp_gets_along_without_a_hook_over_http() {
    gets_along_without_a_hook(&FASTMCP, Transport::Http);
}

#[test]
fn fastmcp_gets_along_without_a_hook_over_stdio() {
    gets_along_without_a_hook(&FASTMCP, Transport::Stdio);
}

#[test]
fn typescript_sdk_1_answers_tool_calls_over_http() {
    answers_tool_calls(&SDK_PREVIOUS, Transport::Http);
}

#[test]
fn typescript_sdk_1_answers_tool_calls_over_stdio() {
    answers_tool_calls(&SDK_PREVIOUS, Transport::Stdio);
}

#[test]
fn typescript_sdk_1_gets_along_without_a_hook_over_http() {
    gets_along_without_a_hook(&SDK_PREVIOUS, Transport::Http);
}

#[test]
fn typescript_sdk_1_gets_along_without_a_hook_over_stdio() {
    gets_along_without_a_hook(&SDK_PREVIOUS, Transport::Stdio);
}

#[test]
fn typescript_client_2_answers_tool_calls_over_http() {
    answers_tool_calls(&CLIENT_CURRENT, Transport::Http);
}

#[test]
fn typescript_client_2_answers_tool_calls_over_stdio() {
    answers_tool_calls(&CLIENT_CURRENT, Transport::Stdio);
}

#[test]
fn typescript_client_2_gets_along_without_a_hook_over_http() {
    gets_along_without_a_hook(&CLIENT_CURRENT, Transport::Http);
}

#[test]
fn typescript_client_2_gets_along_without_a_hook_over_stdio() {
    gets_along_without_a_hook(&CLIENT_CURRENT, Transport::Stdio);
}

#[test]
fn the_inspector_lists_and_calls_the_tool_over_http() {
    let server = HttpServer::start(&["--tool-timeout", "1s"]);
    inspector_lists_and_calls(&[server.url()]);
}

#[test]
fn the_inspector_lists_and_calls_the_tool_over_stdio() {
    inspector_lists_and_calls(&[CALLGATE, "--tool-timeout", "1s"]);
}

/// The Inspector's command line has no hook.
fn inspector_lists_and_calls(target: &[&str]) {
    prepare_image();
    let node = Node::install();
    for (era, revision) in [("legacy", HANDSHAKE), ("modern", DECLARING)] {
        let listed = inspect(&node, target, era, &["--method", "tools/list"]);
        assert_eq!(listed["tools"][0]["name"], "run_python_code", "{listed}");

        let plain = inspect_run(&node, target, era, &json!({"python_code": "print(1 + 1)"}));
        assert_eq!(plain["isError"], false, "{plain}");
        assert_eq!(plain["structuredContent"]["output"], "2\n");

        let call = json!({"python_code": "add(a=1)", "available_tools": [{"name": "add"}]});
        let call = inspect_run(&node, target, era, &call);
        let run = json!({"isError": call["isError"], "structured": call["structuredContent"]});
        assert_is_unanswered(&run, revision);
    }
}

fn inspect_run(node: &Node, target: &[&str], era: &str, arguments: &Value) -> Value {
    let arguments = arguments.to_string();
    let method = ["--method", "tools/call", "--tool-name", "run_python_code"];
    let rest = ["--tool-args-json", &arguments];
    inspect(node, target, era, &[method.as_slice(), &rest].concat())
}

/// Runs the Inspector once; returns the result that it prints.
fn inspect(node: &Node, target: &[&str], era: &str, arguments: &[&str]) -> Value {
    let launcher = "@modelcontextprotocol/inspector/clients/launcher/build/index.js";
    let storage = tempfile::tempdir().expect("there is a place for temporary files");
    let mut command = node.command();
    command
        .arg(node.file(launcher))
        .args(["--cli", "--format", "json", "--protocol-era", era])
        .args(arguments)
        // Else it makes a folder in the user's home.
        .env("MCP_STORAGE_DIR", storage.path());
    // It gives a server only a few variables, and that might look for its image elsewhere.
    for name in ["CALLGATE_CACHE_DIR", "XDG_CACHE_HOME"] {
        if let Ok(value) = std::env::var(name) {
            command.args(["-e", &format!("{name}={value}")]);
        }
    }
    let output = command.arg("--").args(target).output();
    let output = output.expect("the Inspector starts");
    // It fails when the tool's result says that the run failed, but prints the result all the same.
    let printed: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", shown(&output)));
    printed["result"].clone()
}
