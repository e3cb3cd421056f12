//! Promise: nothing that a client sends, or fails to send, exhausts the server.

mod support;

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use support::{
    http::{Agent, ERAS, Era, Events, HttpServer, client},
    structured, tool,
};

fn waiting_run(agent: &mut Agent) -> (Events, Value) {
    let mut events = agent.start_run(json!({"python_code": "search(query='x')",
        "available_tools": [tool("search", json!({"query": {"type": "string"}}))]}));
    let call = events.next_of("notifications/tool_call_request");
    let id = call["params"]["requestId"].clone();
    (events, id)
}

/// Sends bytes, and reads what comes until the server closes the connection.
fn exchange(server: &HttpServer, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(server.address()).expect("the server listens");
    // It may close before all is sent.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn a_body_that_is_too_long_is_refused_whether_or_not_it_says_how_long_it_is() {
    let server = HttpServer::start(&["--max-body", "1MiB"]);
    let mut agent = Agent::new(&server, Era::Stateless);
    let long = "#".repeat(2 << 20);
    let response = agent.try_run(json!({"python_code": long}));
    assert_eq!(response.status(), 413);
    assert!(response.text().expect("text").contains("--max-body"));
    let endless = std::io::repeat(b' ').take(64 << 20);
    let request = agent.build(reqwest::Method::POST);
    let request = request.header("content-type", "application/json");
    let sent = request.body(reqwest::blocking::Body::new(endless)).send();
    // What is too long is read to its end and dropped, so that the answer is heard.
    assert_eq!(sent.expect("an answer").status(), 413);
    assert_eq!(structured(&agent.run("1"))["return_value"], 1);
}

#[test]
fn an_answer_that_is_too_long_ends_its_call_with_the_reason() {
    let server = HttpServer::start(&["--max-body", "1MiB"]);
    for era in ERAS {
        let mut agent = Agent::new(&server, era);
        let (events, id) = waiting_run(&mut agent);
        agent.answer(&id, json!({"result": "x".repeat(4 << 20)}));
        let result = events.result();
        let message = structured(&result)["error"]["message"]
            .as_str()
            .expect("an error");
        assert!(message.contains("the answer is too large"), "{message}");
        assert!(message.contains("--max-body"), "{message}");
    }
}

#[test]
fn a_head_that_is_too_large_is_refused() {
    let server = HttpServer::start(&[]);
    let long = format!(
        "GET /health/live HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n",
        "x".repeat(200 << 10)
    );
    let answer = exchange(&server, long.as_bytes());
    assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
    let many = "X: 1\r\n".repeat(500);
    let many = format!("GET /health/live HTTP/1.1\r\nHost: localhost\r\n{many}\r\n");
    let answer = exchange(&server, many.as_bytes());
    assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
}

#[test]
fn what_is_not_http_is_refused() {
    let server = HttpServer::start(&[]);
    for garbage in [
        &b"\x16\x03\x01\x02\x00\x01"[..],
        b"hello\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\0\0\0\0\r\n\r\n",
    ] {
        let answer = exchange(&server, garbage);
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 400"),
            "{answer}"
        );
    }
    assert_eq!(
        structured(&Agent::new(&server, Era::Stateless).run("1"))["return_value"],
        1
    );
}

#[test]
fn a_connection_that_says_nothing_is_closed() {
    let server = HttpServer::start(&[]);
    let start = Instant::now();
    // Both return when the server closes, and hang if it never does.
    std::thread::scope(|scope| {
        scope.spawn(|| exchange(&server, b""));
        scope.spawn(|| exchange(&server, b"POST /mcp HTTP/1.1\r\nHost: local"));
    });
    assert!(start.elapsed() < Duration::from_mins(2));
    server.wait_for_metric("callgate_connections", 1.0);
}

#[test]
fn a_connection_too_many_is_told_to_come_back() {
    let server = HttpServer::start(&["--max-connections", "8"]);
    let held: Vec<TcpStream> = (0..8)
        .map(|_| TcpStream::connect(server.address()).expect("the server listens"))
        .collect();
    let refused = || {
        exchange(
            &server,
            b"GET /health/live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        )
    };
    let start = Instant::now();
    loop {
        let answer = refused();
        if answer.starts_with("HTTP/1.1 503") {
            assert!(answer.contains("Retry-After"), "{answer}");
            break;
        }
        assert!(start.elapsed() < Duration::from_mins(1), "{answer}");
    }
    drop(held);
    while !refused().starts_with("HTTP/1.1 200") {
        assert!(start.elapsed() < Duration::from_mins(1));
    }
}

#[test]
fn runs_beyond_a_principals_share_wait_and_those_beyond_the_queue_are_refused() {
    let server = HttpServer::start(&["--max-runs-per-principal", "1", "--max-waiting-runs", "1"]);
    for era in ERAS {
        let mut agent = Agent::new(&server, era);
        let (first, id) = waiting_run(&mut agent);
        let waiting = std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                let mut agent = Agent::new(&server, era);
                agent.run("2")
            });
            server.wait_for_metric("callgate_runs_waiting", 1.0);
            let refused = agent.try_run(json!({"python_code": "3"}));
            assert_eq!(refused.status(), 429);
            assert!(refused.headers().contains_key("retry-after"));
            let error: Value = refused.json().expect("an error is JSON");
            assert_eq!(error["id"], agent.last_id());
            agent.answer(&id, json!({"result": 1}));
            assert_eq!(structured(&first.result())["return_value"], 1);
            waiting.join().expect("it had its turn")
        });
        assert_eq!(structured(&waiting)["return_value"], 2);
        assert_eq!(structured(&agent.run("4"))["return_value"], 4, "{era:?}");
    }
}

#[test]
fn a_run_that_waits_for_its_turn_can_be_given_up() {
    let server = HttpServer::start(&["--max-runs-per-principal", "1"]);
    let mut agent = Agent::new(&server, Era::Stateless);
    let (first, id) = waiting_run(&mut agent);
    // Nothing comes before its turn, so the client gives up while it waits for the head.
    let impatient = reqwest::blocking::Client::builder()
        .no_proxy()
        .timeout(Duration::from_millis(300))
        .build()
        .expect("a client can be made");
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {}});
    let given_up = impatient
        .post(server.url())
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", "tools/call")
        .header("mcp-name", "run_python_code")
        .json(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": "run_python_code", "arguments": {"python_code": "1"}, "_meta": meta}}))
        .send();
    assert!(given_up.is_err());
    server.wait_for_metric("callgate_runs_waiting", 0.0);
    agent.answer(&id, json!({"result": 1}));
    assert_eq!(structured(&first.result())["return_value"], 1);
}

#[test]
fn sessions_are_bounded_and_idle_ones_make_room() {
    let server = HttpServer::start(&["--max-sessions-per-principal", "3"]);
    let mut agents: Vec<Agent> = (0..3).map(|_| Agent::new(&server, Era::Sessions)).collect();
    let refused = Agent::silent(&server, Era::Sessions, None).try_initialize();
    assert_eq!(refused.status(), 429);
    assert!(refused.headers().contains_key("retry-after"));
    // Ten seconds without a word, and a session may go for another's sake.
    std::thread::sleep(Duration::from_secs(11));
    assert_eq!(structured(&agents[1].run("1"))["return_value"], 1);
    Agent::new(&server, Era::Sessions);
    server.wait_for_metric("callgate_sessions", 3.0);
    assert_eq!(structured(&agents[1].run("1"))["return_value"], 1);
}

#[test]
fn a_session_that_nobody_uses_is_closed() {
    let server = HttpServer::start(&["--session-idle", "1s"]);
    let mut agent = Agent::new(&server, Era::Sessions);
    server.wait_for_metric("callgate_sessions", 1.0);
    let (events, id) = waiting_run(&mut agent);
    std::thread::sleep(Duration::from_secs(3));
    // A run is use.
    agent.answer(&id, json!({"result": 1}));
    assert_eq!(structured(&events.result())["return_value"], 1);
    server.wait_for_metric("callgate_sessions", 0.0);
    assert_eq!(agent.try_run(json!({"python_code": "1"})).status(), 404);
}

#[test]
fn a_client_that_reads_nothing_holds_no_more_than_its_share_and_is_cut_off() {
    let server = HttpServer::start(&["--max-memory", "1GiB", "--max-result", "64MiB"]);
    let agent = Agent::new(&server, Era::Sessions);
    let session = agent.session.clone().expect("there is a session");
    let body = json!({"jsonrpc": "2.0", "id": 77, "method": "tools/call",
        "params": {"name": "run_python_code", "arguments": {"python_code": "'x' * (40 << 20)"}}})
    .to_string();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nMcp-Session-Id: {session}\r\n\
         Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    let mut stalled = TcpStream::connect(server.address()).expect("the server listens");
    stalled
        .write_all((head + &body).as_bytes())
        .expect("the server reads");
    server.wait_for_metric("callgate_runs_total{outcome=\"success\"}", 1.0);
    // Another one is not delayed.
    assert_eq!(
        structured(&Agent::new(&server, Era::Sessions).run("1"))["return_value"],
        1
    );
    // And the one that stalls is cut off: what is left is the connection that scrapes.
    server.wait_for_metric("callgate_connections", 1.0);
    drop(stalled);
}

#[test]
fn garbage_on_the_endpoint_is_answered_with_client_errors() {
    let server = HttpServer::start(&[]);
    let http = client();
    for method in ["PUT", "PATCH", "HEAD", "TRACE", "BREW"] {
        let method = reqwest::Method::from_bytes(method.as_bytes()).expect("a method");
        let response = http
            .request(method.clone(), server.url())
            .send()
            .expect("an answer");
        assert!(
            response.status().is_client_error(),
            "{method}: {}",
            response.status()
        );
    }
    let agent = Agent::new(&server, Era::Sessions);
    for body in [
        "",
        "null",
        "{}",
        "\"x\"",
        "{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"ping\"}",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":7}",
        "{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}",
        "{\"jsonrpc\":\"2.0\",\"id\":null,\"result\":{}}",
    ] {
        let request = agent.build(reqwest::Method::POST);
        let request = request.header("content-type", "application/json");
        let response = request.body(body).send().expect("the server answers");
        assert!(
            response.status().is_client_error(),
            "{body}: {}",
            response.status()
        );
    }
    let deep = "[".repeat(200_000);
    let request = agent.build(reqwest::Method::POST);
    let request = request.header("content-type", "application/json");
    assert_eq!(request.body(deep).send().expect("an answer").status(), 400);
}

#[test]
fn two_requests_of_one_id_at_the_same_moment_do_not_hang() {
    let server = HttpServer::start(&[]);
    let agent = Agent::new(&server, Era::Sessions);
    let message = json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params":
        {"name": "run_python_code", "arguments": {"python_code": "import time; time.sleep(0.3)"}}});
    for _ in 0..5 {
        std::thread::scope(|scope| {
            let ask = || {
                scope.spawn(|| {
                    let response = agent.post(&message);
                    // Read to its end: a stream that hangs is what must not be.
                    (
                        response.status().is_success(),
                        response.text().expect("it ends"),
                    )
                })
            };
            let (one, two) = (ask(), ask());
            let (one, two) = (one.join().expect("no panic"), two.join().expect("no panic"));
            assert!(one.0 || two.0, "{one:?} {two:?}");
        });
    }
    server.wait_for_metric("callgate_runs_executing", 0.0);
}

#[test]
fn a_document_of_very_many_values_is_held_against_the_memory_it_takes() {
    let server = HttpServer::start(&["--max-body", "64MiB"]);
    let mut agent = Agent::new(&server, Era::Stateless);
    // 32 MB on the wire, and more than a gigabyte once it is parsed.
    let refused =
        agent.try_run(json!({"python_code": "1", "global_variables": {"a": vec![0; 16 << 20]}}));
    assert_eq!(refused.status(), 413);
    assert_eq!(structured(&agent.run("1"))["return_value"], 1);
}

#[test]
fn what_a_client_calls_things_cannot_write_lines_of_its_own_into_the_log() {
    let server = HttpServer::start(&[]);
    let agent = Agent::new(&server, Era::Stateless);
    agent.answer(&json!("x\n2026 ERROR forged"), json!({"result": 1}));
    agent.answer(&json!("y".repeat(1 << 20)), json!({"result": 1}));
    let log = server.log();
    assert!(
        log.contains("forged") && !log.contains("\n2026 ERROR"),
        "{log}"
    );
    assert!(log.len() < 10_000, "{}", log.len());
}
