//! Promise: strangers stay outside, and nobody touches what is another's.

mod support;

use std::{
    fs,
    process::Command,
    time::{Duration, Instant},
};

use reqwest::{Method, blocking::Response};
use serde_json::{Value, json};
use support::{
    http::{Agent, ERAS, Era, HttpServer, client, guarded, token},
    structured, tool,
};

fn call_search(agent: &mut Agent) -> (support::http::Events, Value) {
    let mut events = agent.start_run(json!({"python_code": "search(query='x')",
        "available_tools": [tool("search", json!({"query": {"type": "string"}}))]}));
    let call = events.next_of("notifications/tool_call_request");
    let id = call["params"]["requestId"].clone();
    (events, id)
}

fn get(server: &HttpServer, path: &str, header: (&str, &str)) -> Response {
    let request = client().get(server.path(path)).header(header.0, header.1);
    request.send().expect("the server answers")
}

#[test]
fn a_wrong_name_or_page_is_refused_on_every_path() {
    let server = HttpServer::start(&[]);
    for path in [
        "/mcp",
        "/health/live",
        "/health/ready",
        "/nothing",
        "/.well-known/oauth-protected-resource",
    ] {
        assert_eq!(
            get(&server, path, ("host", "evil.example")).status(),
            403,
            "{path}"
        );
        for origin in [
            "https://evil.example",
            "null",
            "http://localhost.evil.example",
            "file://localhost",
        ] {
            let response = get(&server, path, ("origin", origin));
            assert_eq!(response.status(), 403, "{path} {origin}");
            let text = response.text().expect("text");
            assert!(text.contains("--allowed-origin"), "{text}");
        }
    }
    for host in [
        "localhost",
        "127.0.0.1:1",
        "[::1]",
        "LOCALHOST:80",
        "10.1.2.3",
    ] {
        assert_eq!(
            get(&server, "/health/live", ("host", host)).status(),
            200,
            "{host}"
        );
    }
    for origin in [
        "http://localhost:3000",
        "http://127.0.0.1:6274",
        "http://[::1]:1",
        "https://localhost",
    ] {
        assert_eq!(
            get(&server, "/health/live", ("origin", origin)).status(),
            200,
            "{origin}"
        );
    }
}

#[test]
fn an_answer_to_a_call_is_held_against_the_same_names() {
    let server = HttpServer::start(&[]);
    let mut agent = Agent::new(&server, Era::Stateless);
    let (events, id) = call_search(&mut agent);
    let answer = json!({"jsonrpc": "2.0", "method": "notifications/tool_call_response",
        "params": {"requestId": id, "result": "stolen"}});
    for (header, value) in [("host", "evil.example"), ("origin", "http://evil.example")] {
        let request = client().post(server.url()).header(header, value);
        let response = request.json(&answer).send().expect("the server answers");
        assert_eq!(response.status(), 403, "{header}");
    }
    agent.answer(&id, json!({"result": "own"}));
    assert_eq!(structured(&events.result())["return_value"], "own");
}

#[test]
fn names_and_pages_that_the_operator_allows_come_in() {
    let server = HttpServer::start(&[
        "--allowed-host",
        "tools.example",
        "--allowed-host",
        "other.example:444",
        "--allowed-origin",
        "https://app.example",
    ]);
    for (host, status) in [
        ("tools.example", 200),
        ("tools.example:9", 200),
        ("other.example:444", 200),
        ("other.example", 403),
        ("tools.example.evil", 403),
    ] {
        assert_eq!(
            get(&server, "/health/live", ("host", host)).status(),
            status,
            "{host}"
        );
    }
    let response = get(&server, "/health/live", ("origin", "https://app.example"));
    assert_eq!(
        response.headers()["access-control-allow-origin"],
        "https://app.example"
    );
    assert_eq!(
        get(&server, "/health/live", ("origin", "http://app.example")).status(),
        403
    );
}

#[test]
fn a_browser_hears_that_it_may_before_it_asks() {
    let (server, _folder, _, _) = guarded(&[]);
    let response = client()
        .request(Method::OPTIONS, server.url())
        .header("origin", "http://localhost:6274")
        .header("access-control-request-method", "POST")
        .header(
            "access-control-request-headers",
            "authorization,mcp-session-id",
        )
        .send()
        .expect("the server answers");
    assert_eq!(response.status(), 200);
    let allowed = response.headers()["access-control-allow-headers"].to_str();
    assert!(allowed.expect("text").contains("mcp-session-id"));
}

#[test]
fn without_a_token_one_is_told_where_to_learn_of_them() {
    let (server, _folder, _, _) = guarded(&[]);
    for (header, invalid) in [
        (None, false),
        (Some("Basic YTpi"), false),
        (Some("Bearer wrong"), true),
        (Some("Bearer "), true),
        (Some("bearer cg_00"), true),
    ] {
        let mut request = client().post(server.url()).body("{}");
        if let Some(header) = header {
            request = request.header("authorization", header);
        }
        let response = request.send().expect("the server answers");
        assert_eq!(response.status(), 401, "{header:?}");
        let challenge = response.headers()["www-authenticate"]
            .to_str()
            .expect("text");
        let metadata = challenge
            .split("resource_metadata=\"")
            .nth(1)
            .expect("it names it");
        let metadata = metadata.trim_end_matches('"').to_owned();
        assert_eq!(
            challenge.contains("error=\"invalid_token\""),
            invalid,
            "{challenge}"
        );
        let described: Value = client()
            .get(&metadata)
            .send()
            .expect("it is there")
            .json()
            .expect("JSON");
        assert_eq!(described["resource"], server.url());
        assert_eq!(described["bearer_methods_supported"], json!(["header"]));
    }
    for path in ["/health/live", "/health/ready"] {
        assert_eq!(
            client()
                .get(server.path(path))
                .send()
                .expect("an answer")
                .status(),
            200
        );
    }
}

#[test]
fn with_a_token_one_works_as_usual() {
    let (server, _folder, ann, _) = guarded(&[]);
    for era in ERAS {
        let mut agent = Agent::with_token(&server, era, Some(&ann));
        let (events, id) = call_search(&mut agent);
        agent.answer(&id, json!({"result": 1}));
        assert_eq!(structured(&events.result())["return_value"], 1);
    }
}

#[test]
fn the_answer_of_another_principal_does_nothing() {
    let (server, _folder, ann, bob) = guarded(&[]);
    for era in ERAS {
        let mut agent = Agent::with_token(&server, era, Some(&ann));
        let other = Agent::with_token(&server, era, Some(&bob));
        let (events, id) = call_search(&mut agent);
        other.answer(&id, json!({"result": "forged"}));
        assert!(
            server.log().contains("another principal"),
            "{}",
            server.log()
        );
        agent.answer(&id, json!({"result": "own"}));
        assert_eq!(structured(&events.result())["return_value"], "own");
    }
}

#[test]
fn the_session_of_another_principal_does_not_exist() {
    let (server, _folder, ann, bob) = guarded(&[]);
    let mut agent = Agent::with_token(&server, Era::Sessions, Some(&ann));
    let (mut events, id) = call_search(&mut agent);
    let mut thief = Agent::with_token(&server, Era::Sessions, Some(&bob));
    thief.session.clone_from(&agent.session);
    assert_eq!(thief.try_run(json!({"python_code": "1"})).status(), 404);
    let last_id = events.last_id.clone().expect("events have ids");
    let (stream, _) = last_id.split_once('-').expect("an id names its stream");
    assert_eq!(thief.resume(&format!("{stream}-0")).status(), 404);
    let deleted = thief
        .build(Method::DELETE)
        .send()
        .expect("the server answers");
    assert_eq!(deleted.status(), 404);
    agent.answer(&id, json!({"result": 2}));
    let message = events.next_message().expect("the result comes");
    assert_eq!(message["result"]["structuredContent"]["return_value"], 2);
}

#[test]
fn nor_does_it_for_a_request_that_says_it_has_no_session() {
    let (server, _folder, ann, bob) = guarded(&[]);
    let mut agent = Agent::with_token(&server, Era::Sessions, Some(&ann));
    let (events, id) = call_search(&mut agent);
    let mut thief = Agent::with_token(&server, Era::Stateless, Some(&bob));
    thief.session.clone_from(&agent.session);
    for _ in 0..4 {
        // One of these has the id of the run.
        let response = thief.request(
            "initialize",
            json!({"protocolVersion": "2026-07-28", "capabilities": {},
                "clientInfo": {"name": "thief", "version": "1"}}),
        );
        let own = response.headers().get("mcp-session-id").cloned();
        assert_ne!(
            own.as_ref().and_then(|id| id.to_str().ok()),
            agent.session.as_deref()
        );
    }
    agent.answer(&id, json!({"result": 2}));
    assert_eq!(structured(&events.result())["return_value"], 2);
}

#[test]
fn a_changed_token_file_holds_at_once_and_a_broken_one_changes_nothing() {
    let (server, folder, ann, bob) = guarded(&[]);
    let file = folder.path().join("tokens");
    let status = |token: &str| {
        let mut agent = Agent::silent(&server, Era::Sessions, Some(token));
        agent.try_initialize().status().as_u16()
    };
    let becomes = |token: &str, expected: u16| {
        let start = Instant::now();
        while status(token) != expected {
            assert!(
                start.elapsed() < Duration::from_secs(30),
                "{}",
                server.log()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    assert_eq!((status(&ann), status(&bob)), (200, 200));
    let text = fs::read_to_string(&file).expect("it is there");
    let of_bob = text
        .lines()
        .find(|line| line.starts_with("bob"))
        .expect("bob is there");
    fs::write(&file, format!("# ann has left\n\n{of_bob}\n")).expect("it can be written");
    becomes(&ann, 401);
    assert_eq!(status(&bob), 200);
    let carol = token("carol", &file);
    becomes(&carol, 200);
    fs::write(&file, "bob sha256:nonsense\n").expect("it can be written");
    let start = Instant::now();
    while !server.log().contains("the tokens stay as they were") {
        assert!(
            start.elapsed() < Duration::from_secs(30),
            "{}",
            server.log()
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!((status(&bob), status(&carol)), (200, 200));
}

#[test]
fn a_token_file_that_lets_nobody_in_is_refused_with_the_line() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let file = folder.path().join("tokens");
    for (content, says) in [
        ("", "there is no token in it"),
        ("# only a comment\n", "there is no token in it"),
        (
            "ann secret\n",
            "line 1: the hash does not begin with `sha256:`",
        ),
        (
            "\nann sha256:12\n",
            "line 2: the hash is not 64 hexadecimal digits",
        ),
        ("ann\n", "line 1: there is no hash"),
    ] {
        fs::write(&file, content).expect("it can be written");
        let file = file.to_str().expect("paths here are UTF-8");
        let told = fails(&["http", "--listen", "127.0.0.1:0", "--token-file", file]);
        assert!(told.contains(says), "{content:?}: {told}");
    }
}

#[test]
fn a_server_without_tokens_does_not_listen_to_the_world_unless_told_to() {
    let told = fails(&["http", "--listen", "0.0.0.0:0"]);
    for part in ["--token-file", "--allow-anonymous", "anyone could run code"] {
        assert!(told.contains(part), "{told}");
    }
    let server = HttpServer::start(&["--listen", "0.0.0.0:0", "--allow-anonymous"]);
    assert_eq!(
        structured(&Agent::new(&server, Era::Stateless).run("1"))["return_value"],
        1
    );
}

fn fails(arguments: &[&str]) -> String {
    let ended = Command::new(env!("CARGO_BIN_EXE_callgate"))
        .args(arguments)
        .output()
        .expect("the binary starts");
    assert!(!ended.status.success());
    String::from_utf8(ended.stderr).expect("it is text")
}
