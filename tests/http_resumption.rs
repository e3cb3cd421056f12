//! Promise: a client of a revision up to 2025-11-25 that loses its stream finds what it missed.

mod support;

use std::time::{Duration, Instant};

use serde_json::json;
use support::{
    http::{Agent, Era, Events, HttpServer},
    structured, tool,
};

fn arguments(code: &str) -> serde_json::Value {
    json!({"python_code": code,
        "available_tools": [tool("search", json!({"query": {"type": "string"}}))]})
}

/// Reads the priming event and what follows it until the first call.
fn first_call(events: &mut Events) -> serde_json::Value {
    events.next_of("notifications/tool_call_request")["params"].clone()
}

fn come_back(agent: &Agent, last_id: &str) -> Events {
    let response = agent.resume(last_id);
    assert_eq!(response.status(), 200);
    Events::of(response)
}

#[test]
fn a_lost_stream_does_not_stop_the_run_and_its_result_is_found_later() {
    let server = HttpServer::start(&[]);
    let mut agent = Agent::new(&server, Era::Sessions);
    let mut events = agent.start_run(arguments("a = search(query='1')\nprint(a)\na"));
    let call = first_call(&mut events);
    let last_id = events.last_id.clone().expect("events have ids");
    drop(events);
    agent.answer(&call["requestId"], json!({"result": "found"}));
    server.wait_for_metric("callgate_runs_total{outcome=\"success\"}", 1.0);
    let result = come_back(&agent, &last_id).result();
    assert_eq!(structured(&result)["return_value"], "found");
    // It was not delivered for good: the connection may be lost again.
    let again = come_back(&agent, &last_id).result();
    assert_eq!(again, result);
}

#[test]
fn calls_that_were_made_meanwhile_are_found() {
    let server = HttpServer::start(&[]);
    let mut agent = Agent::new(&server, Era::Sessions);
    let mut events = agent.start_run(arguments("[search(query=str(i)) for i in range(3)]"));
    let call = first_call(&mut events);
    let last_id = events.last_id.clone().expect("events have ids");
    drop(events);
    agent.answer(&call["requestId"], json!({"result": 0}));
    server.wait_for_metric("callgate_tool_calls_in_flight", 1.0);
    let mut n = 0;
    let result = agent.finish(come_back(&agent, &last_id), &mut |call| {
        n += 1;
        assert_eq!(call["arguments"]["query"], n.to_string());
        Some(json!({"result": n}))
    });
    assert_eq!(structured(&result)["return_value"], json!([0, 1, 2]));
}

#[test]
fn a_client_that_heard_nothing_but_the_priming_event_finds_everything() {
    let server = HttpServer::start(&[]);
    let mut agent = Agent::new(&server, Era::Sessions);
    let mut events = agent.start_run(arguments("search(query='1')"));
    first_call(&mut events);
    let last_id = events.last_id.clone().expect("events have ids");
    drop(events);
    let (stream, _) = last_id.split_once('-').expect("an id names its stream");
    let result = agent.finish(come_back(&agent, &format!("{stream}-0")), &mut |_| {
        Some(json!({"result": 7}))
    });
    assert_eq!(structured(&result)["return_value"], 7);
}

#[test]
fn whoever_does_not_come_back_in_time_has_the_run_stopped() {
    let server = HttpServer::start(&["--resume-grace", "1s"]);
    let mut agent = Agent::new(&server, Era::Sessions);
    let mut events = agent.start_run(arguments("search(query='1')"));
    first_call(&mut events);
    let lost = Instant::now();
    drop(events);
    server.wait_for_metric("callgate_runs_total{outcome=\"cancelled\"}", 1.0);
    assert!(
        lost.elapsed() >= Duration::from_secs(1),
        "it was stopped at once"
    );
    // The session lives on.
    assert_eq!(structured(&agent.run("1"))["return_value"], 1);
}

#[test]
fn a_client_that_came_back_is_not_stopped() {
    let server = HttpServer::start(&["--resume-grace", "1s"]);
    let mut agent = Agent::new(&server, Era::Sessions);
    let mut events = agent.start_run(arguments("search(query='1')"));
    let call = first_call(&mut events);
    let last_id = events.last_id.clone().expect("events have ids");
    drop(events);
    let events = come_back(&agent, &last_id);
    std::thread::sleep(Duration::from_millis(2500));
    agent.answer(&call["requestId"], json!({"result": 3}));
    assert_eq!(structured(&events.result())["return_value"], 3);
}

#[test]
fn a_second_reader_takes_the_stream_over() {
    let server = HttpServer::start(&[]);
    let mut agent = Agent::new(&server, Era::Sessions);
    let mut first = agent.start_run(arguments("search(query='1')"));
    let call = first_call(&mut first);
    let last_id = first.last_id.clone().expect("events have ids");
    let second = come_back(&agent, &last_id);
    agent.answer(&call["requestId"], json!({"result": 3}));
    assert_eq!(structured(&second.result())["return_value"], 3);
    assert_eq!(first.next_message(), None);
}

#[test]
fn events_of_another_session_and_made_up_ones_are_not_found() {
    let server = HttpServer::start(&[]);
    let mut agent = Agent::new(&server, Era::Sessions);
    let mut events = agent.start_run(arguments("search(query='secret')"));
    first_call(&mut events);
    let last_id = events.last_id.clone().expect("events have ids");
    let (stream, _) = last_id.split_once('-').expect("an id names its stream");
    let other = Agent::new(&server, Era::Sessions);
    for id in [
        &format!("{stream}-0"),
        "nonsense",
        "999-1",
        "-",
        "1-99999999999999999999",
    ] {
        assert_eq!(other.resume(id).status(), 405, "{id}");
    }
}

#[test]
fn a_client_that_comes_back_twice_hears_nothing_twice() {
    let server = HttpServer::start(&[]);
    let mut agent = Agent::new(&server, Era::Sessions);
    let mut events = agent.start_run(arguments("[search(query=str(i)) for i in range(3)]"));
    let mut heard = Vec::new();
    for n in 0..3 {
        let call = first_call(&mut events);
        heard.push(call["arguments"]["query"].clone());
        agent.answer(&call["requestId"], json!({"result": n}));
        let last_id = events.last_id.clone().expect("events have ids");
        drop(events);
        // Lost before anything but the priming event has come.
        let mut primed = come_back(&agent, &last_id);
        let priming_id = primed.read_priming();
        drop(primed);
        events = come_back(&agent, &priming_id);
    }
    assert_eq!(heard, ["0", "1", "2"]);
    let message = events.next_message().expect("the result comes");
    assert_eq!(
        message["result"]["structuredContent"]["return_value"],
        json!([0, 1, 2])
    );
}

#[test]
fn nobody_is_led_to_come_back_for_ever_to_a_stream_that_is_over() {
    let server = HttpServer::start(&[]);
    let mut agent = Agent::new(&server, Era::Sessions);
    let mut events = agent.start_run(arguments("search(query='1')"));
    first_call(&mut events);
    agent.notify(
        "notifications/cancelled",
        json!({"requestId": agent.last_id()}),
    );
    events.next_of("notifications/tool_call_cancelled");
    assert_eq!(events.next_message(), None);
    let last_id = events.last_id.clone().expect("events have ids");
    assert_eq!(agent.resume(&last_id).status(), 405);
}

#[test]
fn a_result_larger_than_all_that_is_kept_is_found_again() {
    let server = HttpServer::start(&["--max-result", "12MiB"]);
    let mut agent = Agent::new(&server, Era::Sessions);
    let mut events = agent.start_run(arguments("search(query='1')\n'x' * (10 << 20)"));
    let call = first_call(&mut events);
    let last_id = events.last_id.clone().expect("events have ids");
    agent.answer(&call["requestId"], json!({"result": 0}));
    server.wait_for_metric("callgate_runs_total{outcome=\"success\"}", 1.0);
    drop(events);
    for _ in 0..2 {
        let result = come_back(&agent, &last_id).result();
        let value = structured(&result)["return_value"].as_str().map(str::len);
        assert_eq!(value, Some(10 << 20));
    }
}
