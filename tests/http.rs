//! Promise: many remote clients of every revision with streamable HTTP run code and answer its calls.

mod support;

use std::time::Duration;

use serde_json::{Value, json};
use support::{
    http::{Agent, ERAS, Era, Events, HttpServer, client},
    kind, structured, text, tool,
};

fn search() -> Value {
    json!([tool("search", json!({"query": {"type": "string"}}))])
}

#[test]
fn code_runs_in_both_eras() {
    let server = HttpServer::start(&[]);
    for era in ERAS {
        let mut agent = Agent::new(&server, era);
        let result = agent.run("print('hello')\n6 * 7");
        assert_eq!(structured(&result)["output"], "hello\n", "{era:?}");
        assert_eq!(structured(&result)["return_value"], 42, "{era:?}");
    }
}

#[test]
fn calls_arrive_on_the_stream_of_their_run_and_are_answered_without_a_session() {
    let server = HttpServer::start(&[]);
    for era in ERAS {
        let mut agent = Agent::new(&server, era);
        let mut events = agent.start_run(json!({"python_code": "search(query='x')",
            "available_tools": search(), }));
        let call = events.next_of("notifications/tool_call_request");
        assert_eq!(call["params"]["toolName"], "search");
        assert_eq!(call["params"]["arguments"], json!({"query": "x"}));
        let run = &call["params"]["_meta"]["callgate/originatingRequestId"];
        assert_eq!(run, &json!(agent.last_id()));
        let response = client()
            .post(server.url())
            .json(
                &json!({"jsonrpc": "2.0", "method": "notifications/tool_call_response",
                "params": {"requestId": call["params"]["requestId"], "result": {"n": 1}}}),
            )
            .send()
            .expect("the server answers");
        assert_eq!(response.status(), 202);
        assert_eq!(
            structured(&events.result())["return_value"],
            json!({"n": 1}),
            "{era:?}"
        );
    }
}

#[test]
fn parallel_calls_are_answered_in_any_order() {
    let server = HttpServer::start(&[]);
    let code = "import asyncio\n\
        await asyncio.gather(*(search.aio(query=str(i)) for i in range(8)))";
    for era in ERAS {
        let mut agent = Agent::new(&server, era);
        let mut events = agent.start_run(json!({"python_code": code, "available_tools": search()}));
        let mut calls: Vec<Value> = (0..8)
            .map(|_| events.next_of("notifications/tool_call_request")["params"].clone())
            .collect();
        calls.reverse();
        for call in &calls {
            agent.answer(
                &call["requestId"],
                json!({"result": call["arguments"]["query"]}),
            );
        }
        let expected: Vec<String> = (0..8).map(|i| i.to_string()).collect();
        assert_eq!(
            structured(&events.result())["return_value"],
            json!(expected)
        );
    }
}

#[test]
fn runs_of_one_session_do_not_mix_their_streams() {
    let server = HttpServer::start(&[]);
    let mut agent = Agent::new(&server, Era::Sessions);
    let arguments = |n: i32| json!({"python_code": format!("search(query='{n}')"), "available_tools": search()});
    let mut streams: Vec<Events> = (0..4).map(|n| agent.start_run(arguments(n))).collect();
    for (n, events) in streams.iter_mut().enumerate() {
        let call = events.next_of("notifications/tool_call_request");
        assert_eq!(call["params"]["arguments"]["query"], n.to_string());
        agent.answer(&call["params"]["requestId"], json!({"result": n}));
    }
    for (n, events) in streams.into_iter().enumerate() {
        assert_eq!(structured(&events.result())["return_value"], n);
    }
}

#[test]
fn progress_and_output_arrive_on_the_stream_of_their_run() {
    let server = HttpServer::start(&[]);
    for era in ERAS {
        let mut agent = Agent::new(&server, era);
        let meta = json!({"progressToken": "p", "io.modelcontextprotocol/logLevel": "info"});
        let response = agent.try_run_with_meta(json!({"python_code": "print('first')"}), meta);
        let mut events = Events::of(response);
        let message = events
            .next_message()
            .expect("something comes before the result");
        assert!(message["method"].is_string(), "{era:?}: {message}");
        assert!(message.to_string().contains("first"), "{era:?}: {message}");
        assert_eq!(structured(&events.result())["status"], "success");
    }
}

#[test]
fn a_client_of_2026_07_28_that_declared_nothing_gets_no_notifications() {
    let server = HttpServer::start(&[]);
    let mut agent = Agent::silent(&server, Era::Stateless, None);
    let result = agent.run_with("search(query='x')", search(), &mut |_| {
        panic!("it must not be asked")
    });
    assert_eq!(structured(&result)["status"], "pending", "{result}");
}

#[test]
fn a_client_up_to_2025_11_25_that_declared_nothing_is_asked() {
    let server = HttpServer::start(&[]);
    let mut agent = Agent::silent(&server, Era::Sessions, None);
    agent.shake_hands();
    let result = agent.run_with("search(query='x')", search(), &mut |_| {
        Some(json!({"result": 1}))
    });
    assert_eq!(structured(&result)["return_value"], 1);
}

#[test]
fn closing_the_stream_stops_the_run_on_2026_07_28() {
    let server = HttpServer::start(&["--log", "warn"]);
    let mut agent = Agent::new(&server, Era::Stateless);
    let mut events =
        agent.start_run(json!({"python_code": "search(query='x')", "available_tools": search()}));
    events.next_of("notifications/tool_call_request");
    drop(events);
    server.wait_for_metric("callgate_runs_total{outcome=\"cancelled\"}", 1.0);
    server.wait_for_metric("callgate_tool_calls_in_flight", 0.0);
    // It made a call that nobody else has heard of.
    assert!(
        server.log().contains("the run was cancelled"),
        "{}",
        server.log()
    );
}

#[test]
fn a_cancelled_run_ends_its_stream_without_a_result() {
    let server = HttpServer::start(&[]);
    let mut agent = Agent::new(&server, Era::Sessions);
    let mut events =
        agent.start_run(json!({"python_code": "search(query='x')", "available_tools": search()}));
    let call = events.next_of("notifications/tool_call_request");
    let id = agent.last_id();
    agent.notify(
        "notifications/cancelled",
        json!({"requestId": id, "reason": "enough"}),
    );
    let withdrawn = events.next_of("notifications/tool_call_cancelled");
    assert_eq!(
        withdrawn["params"]["requestId"],
        call["params"]["requestId"]
    );
    assert_eq!(events.next_message(), None);
    server.wait_for_metric("callgate_runs_total{outcome=\"cancelled\"}", 1.0);
    assert_eq!(structured(&agent.run("1"))["return_value"], 1);
}

#[test]
fn the_end_of_a_session_stops_its_runs() {
    let server = HttpServer::start(&[]);
    let mut agent = Agent::new(&server, Era::Sessions);
    let mut events =
        agent.start_run(json!({"python_code": "search(query='x')", "available_tools": search()}));
    events.next_of("notifications/tool_call_request");
    let deleted = agent.build(reqwest::Method::DELETE).send();
    assert_eq!(deleted.expect("the server answers").status(), 204);
    server.wait_for_metric("callgate_runs_total{outcome=\"cancelled\"}", 1.0);
    assert_eq!(agent.try_run(json!({"python_code": "1"})).status(), 404);
    server.wait_for_metric("callgate_sessions", 0.0);
}

#[test]
fn a_run_that_is_stopped_makes_room_at_once() {
    let server = HttpServer::start(&["--max-runs", "1"]);
    for era in ERAS {
        let mut agent = Agent::new(&server, era);
        let mut events = agent
            .start_run(json!({"python_code": "search(query='x')", "available_tools": search()}));
        events.next_of("notifications/tool_call_request");
        let start = std::time::Instant::now();
        if era == Era::Sessions {
            agent.notify(
                "notifications/cancelled",
                json!({"requestId": agent.last_id()}),
            );
        }
        drop(events);
        assert_eq!(structured(&agent.run("1"))["return_value"], 1);
        // rmcp would hold it for two seconds.
        assert!(start.elapsed() < Duration::from_millis(1500), "{era:?}");
    }
    assert!(!server.log().contains("ERROR"), "{}", server.log());
}

#[test]
fn a_silent_run_has_a_response_that_begins_and_shows_that_it_lives() {
    let server = HttpServer::start(&[]);
    for era in ERAS {
        let mut agent = Agent::new(&server, era);
        let start = std::time::Instant::now();
        let events = agent.start_run(json!({"python_code": "import time\ntime.sleep(9)\n7"}));
        assert!(start.elapsed() < Duration::from_secs(8), "{era:?}: no head");
        assert_eq!(structured(&events.result())["return_value"], 7);
        assert!(start.elapsed() >= Duration::from_secs(9));
    }
    // Giving it up is still a cancellation.
    let mut agent = Agent::new(&server, Era::Stateless);
    drop(agent.start_run(json!({"python_code": "import time\ntime.sleep(60)"})));
    server.wait_for_metric("callgate_runs_total{outcome=\"cancelled\"}", 1.0);
}

#[test]
fn a_refusal_that_comes_late_is_still_heard() {
    let server = HttpServer::start(&["--max-runs-per-principal", "1"]);
    let mut agent = Agent::new(&server, Era::Stateless);
    let mut first =
        agent.start_run(json!({"python_code": "search(query='x')", "available_tools": search()}));
    let call = first.next_of("notifications/tool_call_request");
    // It waits for its turn until its head is out, and is then found to be wrong.
    let second = agent.start_run(json!({"python_code": "1 +"}));
    agent.answer(&call["params"]["requestId"], json!({"result": 1}));
    first.result();
    assert_eq!(kind(&second.result()), "syntax");
}

#[test]
fn an_answer_that_nobody_waits_for_harms_nothing_and_a_malformed_one_is_named() {
    let server = HttpServer::start(&[]);
    let agent = Agent::new(&server, Era::Stateless);
    agent.answer(&json!("no such call"), json!({"result": 1}));
    let malformed = agent.post(&json!({"jsonrpc": "2.0",
        "method": "notifications/tool_call_response", "params": {"requestId": 7}}));
    // An error would make some clients give their connection up.
    assert_eq!(malformed.status(), 202);
    for warning in ["no such call", "`params.requestId` must be a string"] {
        assert!(server.log().contains(warning), "{}", server.log());
    }
}

#[test]
fn what_is_not_a_message_is_refused_with_what_would_be_right() {
    let server = HttpServer::start(&[]);
    let agent = Agent::new(&server, Era::Sessions);
    for (body, says) in [
        ("{\"jsonrpc\": ", "not JSON"),
        ("[{\"jsonrpc\": \"2.0\"}]", "batches are not supported"),
        ("{\"hello\": 1}", "not a JSON-RPC message"),
        ("7", "not a JSON-RPC message"),
    ] {
        let request = agent.build(reqwest::Method::POST);
        let request = request.header("content-type", "application/json");
        let response = request.body(body).send().expect("the server answers");
        assert_eq!(response.status(), 400, "{body}");
        let error: Value = response.json().expect("an error is JSON");
        let message = error["error"]["message"]
            .as_str()
            .expect("it has a message");
        assert!(message.contains(says), "{body}: {message}");
    }
}

#[test]
fn two_requests_of_one_id_are_not_mixed_up() {
    let server = HttpServer::start(&[]);
    let mut agent = Agent::new(&server, Era::Sessions);
    let mut events =
        agent.start_run(json!({"python_code": "search(query='x')", "available_tools": search()}));
    let call = events.next_of("notifications/tool_call_request");
    let second = agent.post(&json!({"jsonrpc": "2.0", "id": agent.last_id(), "method": "ping"}));
    assert_eq!(second.status(), 400);
    assert!(second.text().expect("text").contains("ids must differ"));
    agent.answer(&call["params"]["requestId"], json!({"result": 5}));
    assert_eq!(structured(&events.result())["return_value"], 5);
}

#[test]
fn the_same_limits_hold_as_over_stdio() {
    let server = HttpServer::start(&["--cpu-timeout", "300ms", "--tool-timeout", "200ms"]);
    for era in ERAS {
        let mut agent = Agent::new(&server, era);
        assert_eq!(kind(&agent.run("while True: pass")), "cpu_limit");
        let result = agent.run_with("search(query='x')", search(), &mut |_| None);
        assert!(
            text(&result).contains("Tool call timeout: search"),
            "{}",
            text(&result)
        );
    }
}

#[test]
fn a_large_result_and_a_large_answer_come_through_whole() {
    let server = HttpServer::start(&[]);
    let large = "x".repeat(3 << 20);
    for era in ERAS {
        let mut agent = Agent::new(&server, era);
        let result = agent.run_with("search(query='x')", search(), &mut |_| {
            Some(json!({"result": large}))
        });
        assert_eq!(structured(&result)["return_value"], json!(large), "{era:?}");
    }
}

#[test]
fn a_hundred_agents_run_at_once() {
    let server = HttpServer::start(&[]);
    std::thread::scope(|scope| {
        let agents: Vec<_> = (0..100)
            .map(|n: i64| {
                let server = &server;
                scope.spawn(move || {
                    let era = ERAS[usize::from(n % 2 == 0)];
                    let mut agent = Agent::new(server, era);
                    let code = format!("[search(query=str({n} + i)) for i in range(3)]");
                    let result = agent.run_with(&code, search(), &mut |call| {
                        Some(json!({"result": call["arguments"]["query"]}))
                    });
                    let expected: Vec<String> = (n..n + 3).map(|n| n.to_string()).collect();
                    assert_eq!(structured(&result)["return_value"], json!(expected));
                })
            })
            .collect();
        for agent in agents {
            agent.join().expect("no agent saw an error");
        }
    });
    server.wait_for_metric("callgate_runs_executing", 0.0);
    server.wait_for_metric("callgate_tool_calls_in_flight", 0.0);
}

#[test]
fn nothing_is_written_to_standard_output() {
    let mut server = HttpServer::start(&[]);
    Agent::new(&server, Era::Sessions).run("print(1)");
    server.signal("TERM");
    assert!(server.wait().success());
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(server.output(), "");
}
