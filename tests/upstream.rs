//! Promise: code calls the tools of the operator's MCP servers, whatever the client is; and whatever a server does, it
//! harms nobody but those who call it.
#![allow(
    clippy::needless_pass_by_value,
    reason = "calls with JSON read better without borrows"
)]

mod support;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use support::{Client, http::guarded, structured, text, toolchain::python};
use tempfile::TempDir;

const SERVERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/servers");

/// A value that nobody may see.
const SECRET: &str = "tok-3141592653";

/// A configuration in a folder of its own.
struct Config {
    folder: TempDir,
}

impl Config {
    fn new(servers: Value) -> Self {
        Self::raw(&json!({"mcpServers": servers}).to_string())
    }

    fn raw(text: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder can be made");
        fs::write(folder.path().join("mcp.json"), text).expect("it can be written");
        Self { folder }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("mcp.json")
    }

    fn arguments<'a>(path: &'a str, more: &[&'a str]) -> Vec<&'a str> {
        let mut arguments = vec!["--mcp-config", path];
        arguments.extend(more);
        arguments
    }

    /// callgate with these servers, and a client without any callbacks.
    fn client(&self, more: &[&str]) -> Client {
        let path = self.path();
        let path = path.to_str().expect("paths here are UTF-8");
        Client::start(&Self::arguments(path, more))
    }

    /// `callgate` as a command.
    fn callgate(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_callgate"))
            .args(arguments)
            .arg("--mcp-config")
            .arg(self.path())
            .output()
            .expect("the binary starts")
    }
}

fn real() -> Value {
    let script = format!("{SERVERS}/real.py");
    json!({"command": python("current"), "args": [script], "env": {"TOKEN": SECRET}})
}

fn bad(mode: &str) -> Value {
    json!({"command": "python3", "args": [format!("{SERVERS}/bad.py"), mode]})
}

/// The value of a program that has to succeed.
fn value(client: &mut Client, code: &str) -> Value {
    let result = client.run(code);
    assert_eq!(result["isError"], false, "{result}\n{}", client.log());
    structured(&result)["return_value"].clone()
}

/// What a program prints of the `ToolCallError` that `call` raises.
fn failure(client: &mut Client, call: &str) -> String {
    let code = format!(
        "try:\n    print('value', {call})\nexcept ToolCallError as error:\n    print(error.message)"
    );
    let result = client.run(&code);
    assert_eq!(result["isError"], false, "{result}");
    let printed = structured(&result)["output"].as_str().expect("a text");
    assert!(!printed.starts_with("value"), "{printed}");
    printed.trim_end().to_owned()
}

#[test]
fn code_calls_tools_by_function_and_by_attribute() {
    let config = Config::new(json!({"calc": real(), "my server": real()}));
    let mut client = config.client(&[]);
    let code = "import asyncio\n\
        [call_mcp_tool('calc', 'add', a=1, b=2), mcp.calc.add(3), mcp.calc.add(a=1, b=1), mcp['my server'].echo('x'),\n\
         mcp.my_server.odd_name(), mcp.calc['odd-name'](), await mcp.calc.add.aio(5, b=6),\n\
         await asyncio.gather(*(mcp.calc.echo.aio(text=t) for t in 'abc'))]";
    assert_eq!(
        value(&mut client, code),
        json!([{"sum": 3}, {"sum": 13}, {"sum": 2}, "x", "odd", "odd", {"sum": 11}, ["a", "b", "c"]])
    );
    let result = client.run("mcp.calc.add(1)");
    let call = &structured(&result)["tool_calls"][0];
    assert_eq!(call["serverName"], "calc");
    assert_eq!(call["outcome"], "answered");
}

#[test]
fn calls_run_in_parallel() {
    let config = Config::new(json!({"calc": real()}));
    let mut client = config.client(&[]);
    let code = "import asyncio, time\nmcp.calc.echo('up')\nstart = time.monotonic()\n\
        await asyncio.gather(*(mcp.calc.sleep.aio(seconds=0.5) for _ in range(20)))\ntime.monotonic() - start < 5";
    assert_eq!(value(&mut client, code), true);
}

#[test]
fn a_list_arrives_as_a_list_though_its_server_wraps_it() {
    let script = format!("{SERVERS}/shop.py");
    let shop = json!({"command": python("current"), "args": [script, "crm"]});
    let mut client = Config::new(json!({"crm": shop})).client(&[]);
    let code = "[of['city'] for of in mcp.crm.customers(plan='gold')][:2]";
    assert_eq!(value(&mut client, code), json!(["Oslo", "Lima"]));
}

#[test]
fn images_and_resources_arrive_as_usable_values() {
    let config = Config::new(json!({"art": real()}));
    let mut client = config.client(&[]);
    let code = "[image] = mcp.art.picture()\nnote, file = mcp.art.report()\nprint(image)\n\
        [image.bytes == b'\\x89PNG', image.mime_type, image['type'], note.text, file.bytes == b'%PDF', file.uri, file.mime_type]";
    let result = client.run(code);
    assert_eq!(
        structured(&result)["return_value"],
        json!([
            true,
            "image/png",
            "image",
            "see the report",
            true,
            "file:///report.pdf",
            "application/pdf"
        ]),
        "{result}"
    );
    assert_eq!(structured(&result)["output"], "<image image/png 4 bytes>\n");
    // And they can be returned.
    assert_eq!(
        value(&mut client, "mcp.art.picture()")[0]["mimeType"],
        "image/png"
    );
}

#[test]
fn programs_and_models_learn_what_there_is() {
    let config = Config::new(json!({"calc": real(), "down": {"command": "/no/such/program"}}));
    let mut client = config.client(&[]);
    let tools = client.request("tools/list", json!({}));
    let description = tools["result"]["tools"][0]["description"]
        .as_str()
        .expect("a text");
    assert!(description.contains("calc, down"), "{description}");
    let result = client.run("print(search_tools('adds numbers'))\nprint(mcp)\nhelp(mcp.calc.add)");
    let output = structured(&result)["output"].as_str().expect("a text");
    for told in [
        "mcp.calc.add(a: int, b: int = 10)\n    Adds two numbers.",
        "the server `down` is down: `/no/such/program` can't be started",
        "<MCP server calc: 10 tools>",
        "<MCP server down: not available",
        "<tool mcp.calc.add(a: int, b: int = 10): Adds two numbers.>",
        "a (int, required)",
    ] {
        assert!(output.contains(told), "{told:?} is not in {output}");
    }
}

#[test]
fn what_models_are_told_of_servers_is_bounded() {
    let servers: serde_json::Map<String, Value> = (0..200)
        .map(|number| {
            (
                format!("a_rather_long_name_of_a_server_{number}"),
                bad("mute"),
            )
        })
        .collect();
    let config = Config::new(Value::Object(servers));
    let mut client = config.client(&[]);
    let tools = client.request("tools/list", json!({}));
    let description = tools["result"]["tools"][0]["description"]
        .as_str()
        .expect("a text");
    assert!(description.contains("more"), "{description}");
    assert!(description.len() < 3500, "{} bytes", description.len());
}

#[test]
fn wrong_calls_are_refused_before_they_are_sent() {
    let config = Config::new(json!({"calc": real()}));
    let mut client = config.client(&[]);
    for (call, expected) in [
        (
            "call_mcp_tool('calc', 'ad')",
            "the server `calc` offers no tool `ad`; it offers: add, echo",
        ),
        ("mcp.calc.add()", "missing argument `a`"),
        ("mcp.calc.add(a='one')", "not of type \"integer\""),
        (
            "call_mcp_tool('clac', 'add')",
            "there is no server `clac`; servers: calc",
        ),
        (
            "call_tool('add', a=1)",
            "tools of the servers calc are called with call_mcp_tool",
        ),
    ] {
        let told = failure(&mut client, call);
        assert!(told.contains(expected), "{call}: {told}");
    }
    let result = client.run("mcp.calc.nothing");
    assert!(
        text(&result).contains("the server 'calc' has no tool 'nothing'; it has: add"),
        "{result}"
    );
}

#[test]
fn an_upstream_comes_before_an_offered_tool_of_the_same_server_name() {
    let config = Config::new(json!({"calc": real()}));
    let mut client = config.client(&[]);
    let tools = json!([{"name": "add", "serverName": "calc"}, {"name": "add", "serverName": "mine"},
        {"name": "other", "serverName": "mine"}]);
    let code =
        "[call_mcp_tool('calc', 'add', a=1), call_mcp_tool('mine', 'add', a=1), mcp.mine.other()]";
    let result = client.run_with(code, tools.clone(), &mut |call| {
        Some(json!({"result": [call["serverName"], call["toolName"]]}))
    });
    assert_eq!(
        structured(&result)["return_value"],
        json!([{"sum": 11}, ["mine", "add"], ["mine", "other"]]),
        "{result}"
    );
    // Two offer `add`: whose is meant has to be said.
    let result = client.run_with("add(a=1)", tools, &mut |_| None);
    assert!(
        text(&result).contains("more than one server offers `add`: calc, mine"),
        "{result}"
    );
}

#[test]
fn servers_are_started_only_when_they_are_needed_and_one_that_is_down_delays_nobody() {
    let mark = tempfile::tempdir().expect("a folder can be made");
    let mark = mark.path().join("pid");
    let mut lazy = bad("leaves a child");
    lazy["args"]
        .as_array_mut()
        .expect("a list")
        .push(json!(mark));
    let config = Config::new(json!({"calc": real(), "lazy": lazy, "mute": bad("mute")}));
    let mut client = config.client(&[]);
    let start = Instant::now();
    assert_eq!(value(&mut client, "mcp.calc.add(1)"), json!({"sum": 11}));
    assert!(start.elapsed() < Duration::from_secs(30));
    assert!(!mark.exists());
}

#[test]
fn a_server_that_dies_is_started_again() {
    let config = Config::new(json!({"calc": real()}));
    let mut client = config.client(&[]);
    let told = failure(&mut client, "mcp.calc.die()");
    assert!(
        told.contains("broke during the call, which may have happened"),
        "{told}"
    );
    let told = failure(&mut client, "mcp.calc.add(1)");
    assert!(told.contains("it has ended (exit status: 3)"), "{told}");
    std::thread::sleep(Duration::from_millis(1200));
    assert_eq!(value(&mut client, "mcp.calc.add(1)"), json!({"sum": 11}));
}

#[test]
fn a_changed_list_of_tools_is_followed() {
    let config = Config::new(json!({"calc": real()}));
    let mut client = config.client(&[]);
    let code =
        "import time\nbefore = 'grown' in dir(mcp.calc)\nmcp.calc.grow()\ntime.sleep(1)\nbefore";
    assert_eq!(value(&mut client, code), false);
    assert_eq!(value(&mut client, "mcp.calc.grown('new')"), "new");
}

#[test]
fn a_call_that_is_given_up_is_cancelled_at_the_server() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let mark = folder.path().join("cancelled");
    let mut server = real();
    server["env"]["CANCELLED"] = json!(mark);
    let config = Config::new(json!({"calc": server}));
    let mut client = config.client(&["--tool-timeout", "5s"]);
    let code = "import asyncio\nmcp.calc.echo('up')\ntry:\n    await asyncio.wait_for(mcp.calc.sleep.aio(seconds=60), 0.3)\nexcept TimeoutError:\n    print('gave up')";
    let result = client.run(code);
    assert_eq!(structured(&result)["output"], "gave up\n", "{result}");
    assert_eq!(structured(&result)["tool_calls"][1]["outcome"], "withdrawn");
    let deadline = Instant::now() + Duration::from_secs(20);
    while !mark.exists() {
        assert!(
            Instant::now() < deadline,
            "the server heard of no cancellation"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn misbehaving_servers_give_clear_errors_and_harm_nothing() {
    let quick = |mode: &str| {
        let mut server = bad(mode);
        server["startTimeoutMs"] = json!(2000);
        server
    };
    let secretive = |mut server: Value| {
        server["env"] = json!({"TOKEN": SECRET});
        server
    };
    let config = Config::new(json!({
        "exits": secretive(bad("exits")), "garbage": quick("garbage"), "endless": quick("one endless line"), "mute": quick("mute"),
        "huge": bad("100 MB"), "silent": bad("never answers"), "back": bad("asks back"), "dies": bad("dies of each call"),
        "values": bad("many values"),
        "greets": bad("greets"), "storm": bad("storms"), "flood": bad("floods its log"), "missing": {"command": "/no/such"},
        "unset": {"command": "x", "env": {"A": "${NO_SUCH_VARIABLE_HERE}"}}, "deep": bad("nests deeply"),
        "nowhere": {"command": "true", "cwd": "/no/such/folder"}, "senseless": {"command": "x", "args": "y"},
    }));
    let mut client = config.client(&["--tool-timeout", "8s"]);
    for (server, expected) in [
        (
            "exits",
            "it ended before it answered (exit status: 7); its last words: `there is no ***`",
        ),
        ("garbage", "before it answered"),
        ("endless", "did not start within 2 s"),
        ("mute", "did not start within 2 s"),
        ("huge", "its answer is a message of 100000"),
        ("deep", "its answer is no MCP message"),
        ("nowhere", "there is no folder `/no/such/folder` (`cwd`)"),
        ("senseless", "`args` has to be a list of texts, not a text"),
        ("values", "more than 2000000 JSON values"),
        ("silent", "Tool call timeout: call"),
        ("dies", "broke during the call"),
        ("missing", "`/no/such` can't be started: No such file"),
        (
            "unset",
            "the environment variable `NO_SUCH_VARIABLE_HERE` is not set",
        ),
    ] {
        let told = failure(&mut client, &format!("call_mcp_tool({server:?}, 'call')"));
        assert!(told.contains(expected), "{server}: {told}");
    }
    for server in ["back", "greets", "storm", "flood"] {
        assert_eq!(
            value(&mut client, &format!("call_mcp_tool({server:?}, 'call')")),
            "ok",
            "{server}"
        );
    }
    assert!(
        client.anonymous_kib() < 400 << 10,
        "{} KiB",
        client.anonymous_kib()
    );
}

#[test]
fn odd_and_endless_lists_of_tools_are_taken_as_far_as_they_make_sense() {
    let config = Config::new(json!({"odd": bad("odd tools"), "pages": bad("endless pages")}));
    let mut client = config.client(&[]);
    let code = "[sorted(dir(mcp.odd)), len(mcp.odd), mcp.odd.a_b(), mcp.odd['a-b'](), mcp.odd.wrong(x=1), len(mcp.pages)]";
    assert_eq!(
        value(&mut client, code),
        json!([["a_b", "class_", "wrong"], 4, "ok", "ok", "ok", 100])
    );
}

#[test]
fn secrets_never_reach_the_program() {
    let config = Config::new(json!({"calc": real()}));
    let mut client = config.client(&[]);
    assert_eq!(
        failure(&mut client, "mcp.calc.betray()"),
        "wrong token: ***"
    );
    let environment = value(&mut client, "mcp.calc.environment()");
    // It has its own variables, and not those of callgate.
    assert!(environment.to_string().contains("TOKEN"));
    assert!(!environment.to_string().contains("CARGO"), "{environment}");
    assert!(!client.log().contains(SECRET), "{}", client.log());
}

#[test]
fn only_allowed_tools_are_listed_and_called() {
    let config = Config::new(json!({"calc": real(), "other": real()}));
    let mut client = config.client(&["--allow", "calc.*,other.echo", "--deny", "*.die"]);
    let code = "[sorted(dir(mcp.other)), 'die' in dir(mcp.calc), 'add' in dir(mcp.calc)]";
    assert_eq!(value(&mut client, code), json!([["echo"], false, true]));
    let told = failure(&mut client, "call_mcp_tool('calc', 'die')");
    assert!(told.contains("offers no tool `die`"), "{told}");
    let config = Config::new(json!({"my.calc": real(), "calc": real()}));
    let mut client = config.client(&["--deny", "my.calc, calc.die"]);
    let code = "[dir(mcp['my.calc']), 'die' in dir(mcp.calc), 'add' in dir(mcp.calc)]";
    assert_eq!(value(&mut client, code), json!([[], false, true]));
}

/// A server of fixtures over HTTP.
struct HttpUpstream {
    child: Child,
    port: u16,
}

impl HttpUpstream {
    fn start(port: Option<u16>) -> Self {
        Self::start_as(&python("current"), "real.py", port)
    }

    /// One that speaks HTTP+SSE, as it was before.
    fn legacy(port: Option<u16>) -> Self {
        Self::start_as(&python("previous"), "legacy.py", port)
    }

    fn start_as(python: &Path, script: &str, port: Option<u16>) -> Self {
        let port = port.unwrap_or_else(|| {
            let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
            free.local_addr().expect("it has an address").port()
        });
        let child = Command::new(python)
            .arg(format!("{SERVERS}/{script}"))
            .arg(port.to_string())
            .stderr(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("it starts");
        let deadline = Instant::now() + Duration::from_mins(1);
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < deadline, "the server does not listen");
            std::thread::sleep(Duration::from_millis(50));
        }
        Self { child, port }
    }
}

impl Drop for HttpUpstream {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn servers_are_reached_over_http_too_and_again_after_a_restart() {
    let upstream = HttpUpstream::start(None);
    let port = upstream.port;
    let url = format!("http://127.0.0.1:{port}/mcp?key={SECRET}");
    let config = Config::new(
        json!({"web": {"url": url, "headers": {"Authorization": "Bearer ${HOME}"}},
        "nobody": {"type": "http", "url": format!("http://127.0.0.1:1/mcp?key={SECRET}")}}),
    );
    let mut client = config.client(&["--tool-timeout", "10s"]);
    assert_eq!(value(&mut client, "mcp.web.add(1)"), json!({"sum": 11}));
    let told = failure(&mut client, "call_mcp_tool('nobody', 'x')");
    assert!(
        told.contains("the server `nobody` is down") && !told.contains(SECRET),
        "{told}"
    );
    drop(upstream);
    let told = failure(&mut client, "mcp.web.add(1)");
    assert!(!told.contains(SECRET), "{told}");
    let _again = HttpUpstream::start(Some(port));
    assert_eq!(soon(&mut client, "mcp.web.add(1)"), json!({"sum": 11}));
    assert!(!client.log().contains(SECRET), "{}", client.log());
}

/// The value of a program once it succeeds: a server that died is started again after a pause.
fn soon(client: &mut Client, code: &str) -> Value {
    let deadline = Instant::now() + Duration::from_mins(1);
    loop {
        let result = client.run(code);
        if result["isError"] == false {
            return structured(&result)["return_value"].clone();
        }
        assert!(Instant::now() < deadline, "{result}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn servers_from_before_streamable_http_work_too() {
    let upstream = HttpUpstream::legacy(None);
    let port = upstream.port;
    let url = format!("http://127.0.0.1:{port}/sse");
    let config = Config::new(json!({"said": {"type": "sse", "url": url}, "found": {"url": url}}));
    let mut client = config.client(&["--tool-timeout", "20s"]);
    let code = "import asyncio\n\
        [await asyncio.gather(*(mcp.said.echo.aio(text=str(t)) for t in range(30))), mcp.found.echo('x'), len(mcp.said.much(10))]";
    let numbers: Vec<i32> = (0..30).collect();
    assert_eq!(
        value(&mut client, code),
        json!([numbers, "x", 10 << 20]),
        "{}",
        client.log()
    );
    let told = failure(&mut client, "mcp.said.die()");
    assert!(told.contains("broke during the call"), "{told}");
    drop(upstream);
    let told = failure(&mut client, "call_mcp_tool('said', 'echo', text='x')");
    assert!(told.contains("the server `said` is down"), "{told}");
    let _again = HttpUpstream::legacy(Some(port));
    assert_eq!(soon(&mut client, "mcp.said.echo('again')"), "again");
    assert_eq!(soon(&mut client, "mcp.found.echo('again')"), "again");
}

/// A server over HTTP that misbehaves.
struct BadHttp {
    child: Child,
    port: u16,
}

impl BadHttp {
    fn start() -> Self {
        let mut child = Command::new("python3")
            .arg(format!("{SERVERS}/bad_http.py"))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        let mut line = String::new();
        let output = child.stdout.take().expect("it is piped");
        std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut line)
            .expect("it tells its port");
        let port = line.trim().parse().expect("it is a port");
        Self { child, port }
    }

    fn entry(&self, path: &str) -> Value {
        json!({"url": format!("http://127.0.0.1:{}/{path}?key={SECRET}", self.port),
            "headers": {"X-Key": SECRET}, "startTimeoutMs": 3000})
    }
}

impl Drop for BadHttp {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn why_a_server_over_http_is_down_is_told() {
    let bad = BadHttp::start();
    let sse = |path: &str| {
        let mut entry = bad.entry(path);
        entry["type"] = json!("sse");
        entry
    };
    let config = Config::new(json!({
        "elsewhere": bad.entry("elsewhere"), "moved": bad.entry("moved"), "round": bad.entry("round"),
        "e401": bad.entry("401"), "e403": bad.entry("403"), "e404": bad.entry("404"), "e500": bad.entry("500"),
        "nobody": {"url": "http://127.0.0.1:1/mcp"},
        "sse_elsewhere": sse("elsewhere-sse"), "sse_silent": sse("silent-sse"), "sse_none": sse("other"),
        "here": bad.entry("here"),
    }));
    let mut client = config.client(&[]);
    for (server, expected) in [
        (
            "elsewhere",
            &*format!("it redirects to http://127.0.0.2:{}: give that", bad.port),
        ),
        ("moved", "it redirects to another path (HTTP 302)"),
        ("round", "it redirects more than 5 times"),
        (
            "e401",
            "it refuses callgate (HTTP 401, Unauthorized): check the `headers`",
        ),
        ("e403", "it refuses callgate (HTTP 403"),
        (
            "e404",
            "nothing there takes messages (HTTP 404, Not Found): check its `url`",
        ),
        ("e500", "it failed (HTTP 500, Internal Server Error)"),
        ("nobody", "it can't be reached: Connection refused"),
        (
            "sse_elsewhere",
            "it wants messages sent to http://127.0.0.2:1",
        ),
        ("sse_silent", "did not start within 3 s"),
        ("sse_none", "nothing there takes messages (HTTP 405"),
    ] {
        let told = failure(&mut client, &format!("call_mcp_tool({server:?}, 'call')"));
        assert!(
            told.contains(expected) && !told.contains(SECRET),
            "{server}: {told}"
        );
    }
    // Nothing came with the redirect elsewhere; what stays at the server is followed.
    assert_eq!(value(&mut client, "call_mcp_tool('here', 'call')"), "ok");
    let caught = format!("http://127.0.0.1:{}/caught", bad.port);
    let caught = reqwest::blocking::get(caught).and_then(reqwest::blocking::Response::text);
    let caught = caught.expect("it tells");
    assert!(!caught.contains("127.0.0.2"), "{caught}");
    assert!(!caught.to_lowercase().contains("referer"), "{caught}");
    assert!(!client.log().contains(SECRET), "{}", client.log());
}

#[test]
fn what_became_of_a_call_over_http_is_told() {
    let bad = BadHttp::start();
    let config = Config::new(json!({"web": bad.entry("mcp")}));
    let mut client = config.client(&[]);
    for (how, expected) in [
        (
            "400",
            "did not take the call: it refuses the request (HTTP 400",
        ),
        (
            "401",
            "did not take the call: it refuses callgate (HTTP 401",
        ),
        (
            "403",
            "did not take the call: it refuses callgate (HTTP 403",
        ),
        (
            "404",
            "did not take the call: nothing there takes messages (HTTP 404",
        ),
        (
            "429",
            "did not take the call: it takes no more requests for now (HTTP 429, Too Many Requests); try again after 3 s",
        ),
        (
            "500",
            "has no answer to the call, which may have happened: it failed (HTTP 500",
        ),
        (
            "large",
            "which may have happened: its answer is larger than 16 MiB",
        ),
        ("html", "it answers with `text/html` where MCP has"),
        ("garbage", "its answer is no MCP message"),
        ("break", "broke during the call, which may have happened"),
    ] {
        let told = failure(&mut client, &format!("mcp.web.call(how={how:?})"));
        assert!(told.contains(expected), "{how}: {told}");
        assert!(!told.contains(SECRET), "{how}: {told}");
    }
    assert_eq!(value(&mut client, "mcp.web.call(how='well')"), "ok");
    let port = bad.port;
    drop(bad);
    let told = failure(&mut client, "mcp.web.call(how='late')");
    assert!(
        told.contains("did not get the call: it can't be reached: Connection refused"),
        "{port}: {told}"
    );
}

#[test]
fn schemas_of_a_server_are_prepared_once() {
    let config = Config::new(json!({"many": bad("many tools")}));
    let mut client = config.client(&[]);
    let code = "import time\nmcp.many.tool_1(property_1='x')\ntold = set()\nstart = time.monotonic()\n\
        for _ in range(300):\n    try:\n        call_mcp_tool('many', 'unknown')\n    \
        except ToolCallError as error:\n        told.add(error.message)\n\
        for n in range(100):\n    mcp.many.tool_19(property_1='x')\n\
        [len(told), 'offers no tool `unknown`; it offers: tool_0, tool_1' in told.pop(), time.monotonic() - start < 10]";
    assert_eq!(value(&mut client, code), json!([1, true, true]));
}

#[test]
fn upstreams_and_a_second_call_go_together() {
    let config = Config::new(json!({"calc": real()}));
    let mut client = config.client(&["--callbacks", "resume"]);
    let code = "import asyncio\nawait asyncio.gather(mcp.calc.sleep.aio(seconds=0.5), mine.aio(), mcp.calc.add.aio(1))";
    let result = client.run_with(code, json!([{"name": "mine"}]), &mut |_| None);
    // The program waits for nothing but the client: the servers have answered.
    let pending = &structured(&result)["pending"];
    assert_eq!(pending.as_array().map(Vec::len), Some(1), "{result}");
    assert_eq!(
        structured(&result)["tool_calls"].as_array().map(Vec::len),
        Some(2),
        "{result}"
    );
    let arguments = json!({"handle": structured(&result)["handle"],
        "results": [{"requestId": pending[0]["requestId"], "result": "hers"}]});
    let result = client.request(
        "tools/call",
        json!({"name": "resume_python_code", "arguments": arguments}),
    );
    assert_eq!(
        structured(&result["result"])["return_value"],
        json!(["slept", "hers", {"sum": 11}])
    );
}

#[test]
fn principals_share_servers_but_nothing_else() {
    let config = Config::new(json!({"calc": real()}));
    let path = config.path();
    let arguments = Config::arguments(path.to_str().expect("UTF-8"), &[]);
    let (server, _folder, ann, bob) = guarded(&arguments);
    for token in [&ann, &bob] {
        let mut agent =
            support::http::Agent::with_token(&server, support::http::Era::Stateless, Some(token));
        let result = agent.run("mcp.calc.add(1)");
        assert_eq!(structured(&result)["return_value"], json!({"sum": 11}));
    }
}

fn is_alive(pid: &str) -> bool {
    // A zombie that nobody has waited for is not.
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
        !stat
            .rsplit(')')
            .next()
            .unwrap_or_default()
            .trim_start()
            .starts_with('Z')
    })
}

#[test]
fn servers_and_what_they_started_end_with_callgate() {
    for end in ["input", "signal"] {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let mark = folder.path().join("pid");
        let mut server = bad("leaves a child");
        server["args"]
            .as_array_mut()
            .expect("a list")
            .push(json!(mark));
        let config = Config::new(json!({"stubborn": server}));
        let mut client = config.client(&[]);
        assert_eq!(
            value(&mut client, "call_mcp_tool('stubborn', 'call')"),
            "ok"
        );
        let pid = fs::read_to_string(&mark).expect("it has started its child");
        assert!(is_alive(&pid));
        if end == "signal" {
            let status = Command::new("kill")
                .args(["-TERM", &client.pid().to_string()])
                .status();
            assert!(status.expect("kill runs").success());
        } else {
            client.end_input();
        }
        let deadline = Instant::now() + Duration::from_secs(20);
        while is_alive(&pid) {
            assert!(
                Instant::now() < deadline,
                "{end}: the child of the server lives on"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn callgate_ends_while_a_server_keeps_it_waiting_for_a_list() {
    let config = Config::new(json!({"slow": bad("lists once")}));
    let mut client = config.client(&[]);
    assert_eq!(value(&mut client, "call_mcp_tool('slow', 'call')"), "ok");
    // The second list is asked for and never comes; calls go on meanwhile.
    assert_eq!(value(&mut client, "call_mcp_tool('slow', 'call')"), "ok");
    let (status, took) = client.close();
    assert!(status.success());
    assert!(took < Duration::from_secs(15), "{took:?}");
}

fn shown(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_configuration_that_is_wrong_is_refused_with_the_place() {
    for (config, expected) in [
        ("nonsense", "not JSON"),
        (
            r#"{"mcpServers": {"a": {"command": "x"}}, "mcpServers": {}}"#,
            "line 1: `mcpServers` stands there twice",
        ),
    ] {
        let (_, errors) = shown(&Config::raw(config).callgate(&["run", "-c", "1"]));
        assert!(
            errors.contains("mcp.json") && errors.contains(expected),
            "{errors}"
        );
    }
    let missing = Command::new(env!("CARGO_BIN_EXE_callgate"))
        .args(["run", "-c", "1", "--mcp-config", "/no/such/file.json"])
        .output()
        .expect("the binary starts");
    assert!(
        shown(&missing)
            .1
            .contains("/no/such/file.json: No such file"),
        "{missing:?}"
    );
    let (_, errors) = shown(&Config::new(json!({})).callgate(&["run", "-c", "1", "--allow", "["]));
    assert!(errors.contains("is not a pattern for tools"), "{errors}");
    let config = Config::new(json!({"git.hub": bad("mute"), "off": {"disabled": true}}));
    let (_, errors) =
        shown(&config.callgate(&["run", "-c", "1", "--deny", "off, gitlab.delete_*"]));
    assert!(
        errors.contains("`gitlab.delete_*` (--deny) matches no tool of any server of --mcp-config; there are: git.hub, off"),
        "{errors}"
    );
    let (_, errors) = shown(&config.callgate(&["run", "-c", "1", "--allow", "gitlab"]));
    assert!(
        errors.contains("`gitlab` (--allow) matches no tool"),
        "{errors}"
    );
}

#[test]
fn a_configuration_knows_its_folder_wherever_callgate_starts() {
    let mut server = bad("tells its name");
    let more = json!(["${workspaceFolder}"]);
    server["args"]
        .as_array_mut()
        .expect("a list")
        .extend(more.as_array().expect("a list").clone());
    server["cwd"] = json!("sub");
    let config = Config::new(json!({"here": server}));
    let folder = config.folder.path().canonicalize().expect("it is there");
    fs::create_dir(folder.join("sub")).expect("it can be made");
    let output = Command::new(env!("CARGO_BIN_EXE_callgate"))
        .args(["run", "--mcp-config", "mcp.json", "-c", "mcp.here.call()"])
        .current_dir(&folder)
        .output()
        .expect("the binary starts");
    let (told, errors) = shown(&output);
    let folder = folder.display();
    assert!(
        told.contains(&format!("{folder} {folder}/sub")),
        "{told}{errors}"
    );
}

#[test]
fn list_shows_servers_states_and_tools() {
    let config = Config::new(json!({"calc": real(), "down": bad("exits")}));
    let output = config.callgate(&["mcp", "list"]);
    let (told, _) = shown(&output);
    assert!(
        told.contains("✓ calc: 10 tools\n    add  Adds two numbers.\n"),
        "{told}"
    );
    assert!(
        told.contains("✗ the server `down` is down: it ended before it answered (exit status: 7)"),
        "{told}"
    );
    assert_eq!(output.status.code(), Some(1));
    let (told, _) = shown(&config.callgate(&["mcp", "list", "--json"]));
    let told: Value = serde_json::from_str(&told).expect("it is JSON");
    assert_eq!(told["servers"][0]["tools"][0]["name"], "add");
    assert_eq!(told["servers"][1]["state"], "down");
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("it has a folder")).expect("it can be made");
    fs::write(path, text).expect("it can be written");
}

#[test]
fn import_makes_one_configuration_of_those_of_desktop_clients() {
    let home = tempfile::tempdir().expect("a folder can be made");
    let home = home.path();
    let configs = if cfg!(target_os = "macos") {
        "Library/Application Support"
    } else {
        ".config"
    };
    write(
        &home.join(configs).join("Claude/claude_desktop_config.json"),
        r#"{"mcpServers": {"files": {"command": "files-server"}, "callgate": {"command": "/usr/bin/callgate"}}}"#,
    );
    write(
        &home.join(configs).join("Code/User/mcp.json"),
        "{\n  // mine\n  \"servers\": {\"files\": {\"command\": \"other\"}, \"same\": {\"command\": \"files-server\"},},\n}",
    );
    write(
        &home.join(".codex/config.toml"),
        "model = 'x'\n[mcp_servers.docs]\nurl = 'http://localhost/mcp'\nhttp_headers = {X = 'y'}\n",
    );
    write(&home.join(".cursor/mcp.json"), "{ broken");
    write(&home.join(".gemini/settings.json"), r#"{"theme": "dark"}"#);
    let import = |more: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_callgate"))
            .args(["mcp", "import"])
            .args(more)
            .env("HOME", home)
            .env_remove("XDG_CONFIG_HOME")
            .current_dir(home)
            .output()
            .expect("the binary starts")
    };
    let (told, errors) = shown(&import(&[]));
    assert!(
        told.contains("✓ files-vs-code") && told.contains("callgate: it is callgate itself"),
        "{told}{errors}"
    );
    assert!(
        told.contains("same: the same server was found already"),
        "{told}"
    );
    assert!(told.contains("✗ not JSON"), "{told}");
    let path = home.join(configs).join("callgate/mcp.json");
    let written: Value =
        serde_json::from_slice(&fs::read(&path).expect("it is there")).expect("it is JSON");
    assert_eq!(
        written["mcpServers"],
        json!({"files": {"command": "files-server"}, "files-vs-code": {"command": "other"},
            "docs": {"url": "http://localhost/mcp", "headers": {"X": "y"}}})
    );
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &fs::metadata(&path).expect("it is there").permissions(),
    );
    assert_eq!(mode & 0o777, 0o600);
    let again = import(&[]);
    assert!(
        shown(&again)
            .1
            .contains("is there already; --force overwrites it"),
        "{again:?}"
    );
    assert!(import(&["--force"]).status.success());
    assert!(
        shown(&import(&["--dry-run"]))
            .0
            .contains("3 servers would be written")
    );
}

#[test]
fn import_translates_what_clients_write_in_their_own_way_and_leaves_out_what_is_of_no_use() {
    let home = tempfile::tempdir().expect("a folder can be made");
    let home = home.path().canonicalize().expect("it is there");
    let project = home.join("project");
    write(
        &home.join(".codex/config.toml"),
        "[mcp_servers.env]\ncommand = 'c'\nenv_vars = ['A_TOKEN']\nstartup_timeout_sec = 2.5\ntool_timeout_sec = 5\n\
         [mcp_servers.web]\nurl = 'https://x/mcp'\nbearer_token_env_var = 'B_TOKEN'\n\
         [mcp_servers.off]\ncommand = 'off'\nenabled = false\n",
    );
    write(
        &home.join(".gemini/settings.json"),
        r#"{"mcpServers": {"gem": {"command": "g", "args": ["$X_1/y"], "env": {"K": "$KEY"}, "trust": true},
            "both": {"url": "http://x/sse", "httpUrl": "http://x/mcp"}}}"#,
    );
    write(
        &home.join(".cursor/mcp.json"),
        r#"{"mcpServers": {"old": {"type": "sse", "url": "http://x/old"}, "file": {"command": "f", "envFile": ".env"},
            "nulls": {"command": "n", "args": null, "env": {"A": null}}, "odd": {"command": "o", "env": "s3cret"},
            "asks": {"command": "a", "env": {"K": "${input:key}"}}, "where": {"command": "${workspaceFolder}/x"}}}"#,
    );
    write(
        &home.join(".config/zed/settings.json"),
        r#"{"context_servers": {"ext": {"source": "extension", "settings": {}}, "itself": {"command": {"path": "callgate"}},
            "zold": {"command": {"path": "zz", "args": [], "env": null}}}}"#,
    );
    let local = json!({"mcpServers": {"mine": {"command": "m"}},
        "projects": {project.to_str().expect("UTF-8"): {"mcpServers": {"local": {"command": "l"}}},
            "/other": {"mcpServers": {"foreign": {"command": "o"}}}}});
    write(&home.join(".claude.json"), &local.to_string());
    write(
        &project.join(".vscode/mcp.json"),
        r#"{"servers": {"here": {"command": "h", "args": ["${workspaceFolder}/a"], "cwd": "sub"}}}"#,
    );
    write(
        &project.join(".zed/settings.json"),
        r#"{"context_servers": {"zp": {"command": "zp"}}}"#,
    );
    write(
        &project.join(".codex/config.toml"),
        "[mcp_servers.cp]\ncommand = 'cp'\n",
    );
    let output = home.join("out.json");
    let import = Command::new(env!("CARGO_BIN_EXE_callgate"))
        .args(["mcp", "import", "--output"])
        .arg(&output)
        .env("HOME", &home)
        .env("XDG_CONFIG_HOME", home.join(".config"))
        .current_dir(&project)
        .output()
        .expect("the binary starts");
    let (told, errors) = shown(&import);
    for line in [
        "– odd: `env` has to be an object of texts, not a text",
        "– off: it is switched off there",
        "– ext: it needs a `command`",
        "– itself: it is callgate itself",
        "– asks: `${input:key}` asks a person",
        "! file: the key `envFile` is not understood",
        "! env: the key `tool_timeout_sec` is not understood",
        "! where: `${workspaceFolder}` means the folder of the new file now",
        "✓ old",
        "✓ local",
    ] {
        assert!(told.contains(line), "{line:?} is not in {told}{errors}");
    }
    assert!(
        !told.contains("s3cret") && !told.contains("! gem"),
        "{told}"
    );
    let written: Value =
        serde_json::from_slice(&fs::read(&output).expect("it is there")).expect("it is JSON");
    let folder = project.display();
    assert_eq!(
        written["mcpServers"],
        json!({
            "mine": {"command": "m"},
            "old": {"type": "sse", "url": "http://x/old"},
            "file": {"command": "f", "envFile": ".env"},
            "nulls": {"command": "n", "args": null, "env": {"A": null}},
            "where": {"command": "${workspaceFolder}/x"},
            "gem": {"command": "g", "args": ["${X_1}/y"], "env": {"K": "${KEY}"}, "trust": true},
            "both": {"url": "http://x/sse", "httpUrl": "http://x/mcp"},
            "zold": {"command": {"path": "zz", "args": [], "env": null}},
            "env": {"command": "c", "env": {"A_TOKEN": "${A_TOKEN}"}, "startTimeoutMs": 2500, "tool_timeout_sec": 5},
            "web": {"url": "https://x/mcp", "headers": {"Authorization": "Bearer ${B_TOKEN}"}},
            "local": {"command": "l"},
            "here": {"command": "h", "args": [format!("{folder}/a")], "cwd": format!("{folder}/sub")},
            "zp": {"command": "zp"},
            "cp": {"command": "cp"},
        })
    );
    let list = Command::new(env!("CARGO_BIN_EXE_callgate"))
        .args(["run", "-c", "1", "--mcp-config"])
        .arg(&output)
        .output()
        .expect("the binary starts");
    assert!(list.status.success(), "{list:?}");
}
