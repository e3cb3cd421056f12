//! Promise: whoever runs the server sees what it does, and can end it in good order.

mod support;

use std::{
    collections::HashMap,
    fmt::Write as _,
    io::{Read as _, Write as _},
    net::TcpListener,
    sync::mpsc::{Receiver, channel},
    time::{Duration, Instant},
};

use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest, common::v1::any_value::Value as AnyValue,
    trace::v1::Span,
};
use prost::Message as _;
use serde_json::{Value, json};
use support::{
    Client,
    http::{Agent, ERAS, Era, Events, HttpServer, client},
    kind, structured, tool,
};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

fn search() -> Value {
    json!([tool("search", json!({"query": {"type": "string"}}))])
}

fn waiting_run(agent: &mut Agent) -> (Events, Value) {
    let mut events =
        agent.start_run(json!({"python_code": "search(query='x')", "available_tools": search()}));
    let call = events.next_of("notifications/tool_call_request");
    let id = call["params"]["requestId"].clone();
    (events, id)
}

#[test]
fn a_server_is_alive_at_once_and_ready_when_its_image_is_loaded() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let cache = folder.path().to_str().expect("UTF-8");
    // Nothing can be built from this: the image never comes.
    let server = HttpServer::spawn(
        &["--cache-dir", cache, "--python", "/nonexistent/python"],
        &[],
    );
    let get = |path: &str| client().get(server.path(path)).send().expect("an answer");
    assert_eq!(get("/health/live").status(), 200);
    assert_eq!(get("/health/ready").status(), 503);
    let ready = HttpServer::start(&[]);
    let response = client().get(ready.path("/health/ready")).send();
    assert_eq!(response.expect("an answer").status(), 200);
}

#[test]
fn metrics_count_runs_calls_and_what_is_under_way() {
    let server = HttpServer::start(&["--cpu-timeout", "300ms"]);
    let mut agent = Agent::new(&server, Era::Sessions);
    agent.run("1");
    agent.run("1 / 0");
    agent.run("while True: pass");
    let (events, id) = waiting_run(&mut agent);
    for (name, value) in [
        ("callgate_runs_total{outcome=\"success\"}", 1.0),
        ("callgate_runs_total{outcome=\"exception\"}", 1.0),
        ("callgate_runs_total{outcome=\"cpu_limit\"}", 1.0),
        ("callgate_run_duration_seconds_count", 3.0),
        ("callgate_runs_executing", 1.0),
        ("callgate_runs_suspended", 1.0),
        ("callgate_tool_calls_in_flight", 1.0),
        ("callgate_sessions", 1.0),
    ] {
        server.wait_for_metric(name, value);
    }
    assert!(server.metric("callgate_process_resident_memory_bytes") > 1e6);
    agent.answer(&id, json!({"error": "no"}));
    events.result();
    for (name, value) in [
        ("callgate_tool_calls_total{outcome=\"failed\"}", 1.0),
        ("callgate_tool_call_duration_seconds_count", 1.0),
        ("callgate_runs_suspended", 0.0),
        ("callgate_runs_executing", 0.0),
        ("callgate_runs_memory_bytes", 0.0),
    ] {
        server.wait_for_metric(name, value);
    }
    // They are nowhere but on their own listener.
    let elsewhere = client().get(server.path("/metrics")).send();
    assert_eq!(elsewhere.expect("an answer").status(), 404);
}

#[test]
fn after_the_signal_runs_come_to_their_end_and_no_new_ones_begin() {
    let mut server = HttpServer::start(&["--drain", "1m"]);
    let mut with_session = Agent::new(&server, Era::Sessions);
    let mut stateless = Agent::new(&server, Era::Stateless);
    let (first, first_call) = waiting_run(&mut with_session);
    let (second, second_call) = waiting_run(&mut stateless);
    server.signal("TERM");
    let start = Instant::now();
    loop {
        let refused = stateless.try_run(json!({"python_code": "1"}));
        if refused.status() == 503 {
            assert!(refused.headers().contains_key("retry-after"));
            assert!(refused.text().expect("text").contains("shutting down"));
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(30));
    }
    let get = |path: &str| client().get(server.path(path)).send().expect("an answer");
    assert_eq!(get("/health/ready").status(), 503);
    assert_eq!(get("/health/live").status(), 200);
    with_session.answer(&first_call, json!({"result": 1}));
    stateless.answer(&second_call, json!({"result": 2}));
    assert_eq!(structured(&first.result())["return_value"], 1);
    assert_eq!(structured(&second.result())["return_value"], 2);
    assert!(server.wait().success());
}

#[test]
fn runs_that_do_not_end_in_time_are_stopped_and_say_so() {
    let mut server = HttpServer::start(&["--drain", "500ms"]);
    let mut results = Vec::new();
    for era in ERAS {
        let mut agent = Agent::new(&server, era);
        results.push(waiting_run(&mut agent).0);
    }
    server.signal("TERM");
    for events in results {
        assert_eq!(kind(&events.result()), "cancelled");
    }
    assert!(server.wait().success());
}

#[test]
fn a_second_signal_ends_at_once() {
    let mut server = HttpServer::start(&["--drain", "10m"]);
    let mut agent = Agent::new(&server, Era::Sessions);
    let _waiting = waiting_run(&mut agent);
    server.signal("TERM");
    let ready = || client().get(server.path("/health/ready")).send();
    while ready().is_ok_and(|response| response.status() == 200) {}
    let start = Instant::now();
    server.signal("INT");
    server.wait();
    assert!(start.elapsed() < Duration::from_secs(30));
}

#[test]
fn idle_sessions_and_open_streams_do_not_delay_the_end() {
    let mut server = HttpServer::start(&[]);
    let agent = Agent::new(&server, Era::Sessions);
    let listening = agent.build(reqwest::Method::GET).send().expect("an answer");
    assert_eq!(listening.status(), 200);
    let start = Instant::now();
    server.signal("TERM");
    assert!(server.wait().success());
    // Far below the 30 s that runs would be given.
    assert!(start.elapsed() < Duration::from_secs(15));
}

#[test]
fn logs_are_json_when_asked_for_and_hold_no_code_arguments_or_results() {
    let server = HttpServer::start(&["--log", "info", "--log-format", "json"]);
    for era in ERAS {
        let mut agent = Agent::new(&server, era);
        let code = "secret_code = 1\nprint('secret_output', search(query='secret_argument'))\n\
            raise ValueError('secret_error')";
        agent.run_with(code, search(), &mut |_| {
            Some(json!({"result": "secret_result"}))
        });
        agent.answer(&json!("nobody"), json!({"result": "secret_late"}));
        let mut events = agent.start_run(
            json!({"python_code": "search(query='secret_two')", "available_tools": search()}),
        );
        events.next_of("notifications/tool_call_request");
        if era == Era::Sessions {
            let id = agent.last_id();
            agent.notify("notifications/cancelled", json!({"requestId": id}));
        }
    }
    server.wait_for_metric("callgate_runs_total{outcome=\"cancelled\"}", 2.0);
    let log = server.log();
    assert!(!log.contains("secret"), "{log}");
    let lines: Vec<&str> = log
        .lines()
        .filter(|line| !line.starts_with("callgate: "))
        .collect();
    assert!(!lines.is_empty());
    for line in lines {
        let entry: Value = serde_json::from_str(line).expect("each line is JSON");
        assert!(
            entry["level"].is_string() && entry["timestamp"].is_string(),
            "{line}"
        );
    }
}

/// A collector for OTLP over HTTP; gives every span that arrives.
fn collector() -> (String, Receiver<Span>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let url = format!("http://{}", listener.local_addr().expect("it has one"));
    let (sender, spans) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection comes");
            let mut request = Vec::new();
            let (mut body, mut length) = (0, None::<usize>);
            while length.is_none_or(|length| request.len() < body + length) {
                let mut buffer = [0; 4096];
                let read = stream.read(&mut buffer).expect("the exporter writes");
                assert!(read > 0, "the exporter broke off");
                request.extend_from_slice(&buffer[..read]);
                let Some(end) = request.windows(4).position(|part| part == b"\r\n\r\n") else {
                    continue;
                };
                body = end + 4;
                let head = String::from_utf8_lossy(&request[..end]).to_lowercase();
                assert!(head.starts_with("post /v1/traces"), "{head}");
                length = head
                    .lines()
                    .find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
            }
            let export = ExportTraceServiceRequest::decode(&request[body..]).expect("it is OTLP");
            for scope in export
                .resource_spans
                .into_iter()
                .flat_map(|of| of.scope_spans)
            {
                for span in scope.spans {
                    let _ = sender.send(span);
                }
            }
            let _ = stream
                .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        }
    });
    (url, spans)
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("strings take everything");
        text
    })
}

fn attributes(span: &Span) -> HashMap<String, String> {
    let text = |value: AnyValue| match value {
        AnyValue::StringValue(text) => text,
        other => format!("{other:?}"),
    };
    let pairs = span.attributes.iter().cloned();
    pairs
        .filter_map(|pair| Some((pair.key, text(pair.value?.value?))))
        .collect()
}

#[test]
fn one_trace_reaches_from_the_agent_to_the_tool() {
    let (endpoint, spans) = collector();
    let mut server = HttpServer::start(&["--otlp-endpoint", &endpoint]);
    let mut agent = Agent::new(&server, Era::Stateless);
    let response = agent.try_run_with_meta(
        json!({"python_code": "search(query='secret')", "available_tools": search()}),
        json!({"traceparent": format!("00-{TRACE}-{PARENT}-01"), "tracestate": "vendor=1"}),
    );
    let mut events = Events::of(response);
    let call = events.next_of("notifications/tool_call_request");
    let passed_on = call["params"]["_meta"]["traceparent"]
        .as_str()
        .expect("it is passed on");
    assert_eq!(call["params"]["_meta"]["tracestate"], "vendor=1");
    agent.answer(&call["params"]["requestId"], json!({"result": 1}));
    events.result();
    server.signal("TERM");
    assert!(server.wait().success());

    let all: Vec<Span> = spans.try_iter().collect();
    let named = |name: &str| {
        all.iter()
            .find(|span| span.name == name)
            .expect("it was exported")
    };
    let (run, tool) = (
        named("tools/call run_python_code"),
        named("call_tool search"),
    );
    assert_eq!(hexadecimal(&run.trace_id), TRACE);
    assert_eq!(hexadecimal(&run.parent_span_id), PARENT);
    assert_eq!(tool.parent_span_id, run.span_id);
    let expected = format!("00-{TRACE}-{}-01", hexadecimal(&tool.span_id));
    assert_eq!(passed_on, expected);
    let of_run = attributes(run);
    assert_eq!(of_run["mcp.method.name"], "tools/call");
    assert_eq!(of_run["gen_ai.tool.name"], "run_python_code");
    assert_eq!(attributes(tool)["gen_ai.tool.name"], "search");
    assert!(!format!("{all:?}").contains("secret"));
}

#[test]
fn a_trace_is_passed_on_without_a_collector_too() {
    let traceparent = format!("00-{TRACE}-{PARENT}-01");
    let mut client = Client::start(&[]);
    client.send_request(
        "tools/call",
        json!({"name": "run_python_code", "_meta": {"traceparent": traceparent},
            "arguments": {"python_code": "search(query='x')", "available_tools": search()}}),
    );
    let call = client.receive();
    assert_eq!(call["params"]["_meta"]["traceparent"], traceparent);
}

#[test]
fn a_collector_that_is_not_there_harms_nothing() {
    let mut server = HttpServer::start(&["--otlp-endpoint", "http://127.0.0.1:9"]);
    let result = Agent::new(&server, Era::Stateless).run("1");
    assert_eq!(structured(&result)["return_value"], 1);
    server.signal("TERM");
    assert!(server.wait().success());
}
