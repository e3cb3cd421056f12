//! Promise: a run that is cancelled stops wherever it is, its calls are withdrawn, its memory comes
//! back, and what it did is in the log.

mod support;

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::{Client, structured, text, tool};

/// Longer than any machine needs, and far less than these programs would run.
const PATIENCE: Duration = Duration::from_secs(20);

/// Waits until the log says that the run of request `id` was cancelled.
fn wait_for_the_end(client: &Client, id: i64) -> String {
    let start = Instant::now();
    loop {
        let log = client.log();
        let told = log.lines().find(|line| {
            line.contains("the run was cancelled") && line.contains(&format!("={id}"))
        });
        if let Some(line) = told {
            return line.to_owned();
        }
        assert!(
            start.elapsed() < PATIENCE,
            "request {id} still runs; log:\n{log}"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn cancel(client: &mut Client, id: i64) {
    client.notify(
        "notifications/cancelled",
        json!({"requestId": id, "reason": "enough"}),
    );
}

/// Waits for a tool call and returns its parameters.
fn next_call(client: &mut Client) -> Value {
    loop {
        let message = client.receive();
        if message["method"] == "notifications/tool_call_request" {
            return message["params"].clone();
        }
    }
}

#[test]
fn a_run_stops_wherever_it_is() {
    let mut client = Client::start(&[
        "--log",
        "info",
        "--cpu-timeout",
        "10m",
        "--run-timeout",
        "10m",
    ]);
    for code in [
        "while True: pass",
        "sum(range(10**13))",
        "import re\nre.match('(a+)+$', 'a' * 60 + 'b')",
        "10 ** 10 ** 8",
        "import numpy\nx = numpy.ones((1500, 1500))\nwhile True: x = x @ x",
        "import time\ntime.sleep(3600)",
        "import asyncio\nasyncio.run(asyncio.sleep(3600))",
        "x = []\nwhile True:\n    x = [bytearray(30_000_000) for _ in range(5)]",
        "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
        "import threading\nlock = threading.Lock()\nlock.acquire()\nlock.acquire(timeout=3600)",
        "for i in range(10**9): print(i)",
    ] {
        let id = client.start_run(json!({"python_code": format!("go()\n{code}"), "available_tools": [tool("go", json!({}))]}));
        let call = next_call(&mut client);
        client.notify(
            "notifications/tool_call_response",
            json!({"requestId": call["requestId"], "result": null}),
        );
        std::thread::sleep(Duration::from_millis(30));
        cancel(&mut client, id);
        let told = wait_for_the_end(&client, id);
        assert!(told.contains("go: answered"), "{code}: {told}");
    }
    let result = client.run("6 * 7");
    assert_eq!(structured(&result)["return_value"], 42);
    assert!(
        client.receive_within(Duration::from_millis(50)).is_none(),
        "a cancelled request was answered"
    );
}

#[test]
fn calls_in_flight_are_withdrawn_and_recorded() {
    let mut client = Client::start(&[]);
    let code = "import asyncio\nfirst()\nawait asyncio.gather(*(many.aio(n=i) for i in range(20)))";
    let tools = json!([
        tool("first", json!({})),
        tool("many", json!({"n": {"type": "integer"}}))
    ]);
    let id = client.start_run(json!({"python_code": code, "available_tools": tools}));
    let first = next_call(&mut client);
    client.notify(
        "notifications/tool_call_response",
        json!({"requestId": first["requestId"], "result": null}),
    );
    let mut open: Vec<String> = (0..20)
        .map(|_| {
            next_call(&mut client)["requestId"]
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    cancel(&mut client, id);
    while !open.is_empty() {
        let message = client.receive_within(PATIENCE).expect("all are withdrawn");
        assert_eq!(message["method"], "notifications/tool_call_cancelled");
        assert_eq!(message["params"]["reason"], "the run ended");
        let request_id = message["params"]["requestId"].as_str().unwrap();
        let place = open
            .iter()
            .position(|id| id == request_id)
            .expect("each once");
        open.remove(place);
    }
    let told = wait_for_the_end(&client, id);
    assert!(told.contains("first: answered"), "{told}");
    assert!(
        told.contains("many: withdrawn, may have happened"),
        "{told}"
    );
    // An answer that comes too late is dropped.
    client.notify(
        "notifications/tool_call_response",
        json!({"requestId": first["requestId"], "result": null}),
    );
    assert_eq!(structured(&client.run("6 * 7"))["return_value"], 42);
}

#[test]
fn memory_comes_back() {
    let mut client = Client::start(&["--log", "info", "--max-total-memory", "4GiB"]);
    let hold = |client: &mut Client| {
        let code = "x = bytearray(150_000_000)\nfor i in range(0, len(x), 4096): x[i] = 1\nhold()";
        let id = client
            .start_run(json!({"python_code": code, "available_tools": [tool("hold", json!({}))]}));
        next_call(client);
        id
    };
    let id = hold(&mut client);
    cancel(&mut client, id);
    wait_for_the_end(&client, id);
    let before = client.anonymous_kib();
    let ids: Vec<i64> = (0..8).map(|_| hold(&mut client)).collect();
    let full = client.anonymous_kib();
    assert!(
        full > before + 8 * 140 * 1024,
        "{before} KiB, then {full} KiB"
    );
    for id in &ids {
        cancel(&mut client, *id);
    }
    for id in &ids {
        wait_for_the_end(&client, *id);
    }
    let start = Instant::now();
    while client.anonymous_kib() > before + 32 * 1024 {
        assert!(
            start.elapsed() < PATIENCE,
            "{before} KiB, then {} KiB",
            client.anonymous_kib()
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_request_that_waits_for_its_turn_can_be_cancelled() {
    let mut client = Client::start(&["--log", "info", "--max-runs", "1"]);
    let tools = json!([tool("hold", json!({}))]);
    let first = client.start_run(json!({"python_code": "hold()", "available_tools": tools}));
    let call = next_call(&mut client);
    let second = client.start_run(json!({"python_code": "hold()", "available_tools": tools}));
    std::thread::sleep(Duration::from_millis(100));
    cancel(&mut client, second);
    wait_for_the_end(&client, second);
    client.notify(
        "notifications/tool_call_response",
        json!({"requestId": call["requestId"], "result": 1}),
    );
    let result = client.finish(first, &mut |_| panic!("the cancelled run has started"));
    assert_eq!(structured(&result)["return_value"], 1);
}

#[test]
fn an_await_that_is_cancelled_withdraws_its_call_and_the_run_goes_on() {
    let mut client = Client::start(&[]);
    let code = "\
import asyncio\nfound = []\n\
try:\n    await asyncio.wait_for(slow.aio(), 0.05)\nexcept TimeoutError:\n    found.append('late')\n\
task = asyncio.create_task(slow.aio())\nawait asyncio.sleep(0.01)\ntask.cancel()\n\
try:\n    await task\nexcept asyncio.CancelledError:\n    found.append('cancelled')\n\
try:\n    async with asyncio.TaskGroup() as group:\n        group.create_task(slow.aio())\n        group.create_task(quick.aio())\n\
except* ToolCallError as errors:\n    found.append(str(errors.exceptions[0]))\n\
done, pending = await asyncio.wait([asyncio.ensure_future(slow.aio()), asyncio.ensure_future(right.aio())], return_when='FIRST_COMPLETED')\n\
found += [len(done), len(pending)]\n\
for task in pending: task.cancel()\nfound";
    let tools: Vec<Value> = ["slow", "quick", "right"]
        .iter()
        .map(|name| tool(name, json!({})))
        .collect();
    let id = client.start_run(json!({"python_code": code, "available_tools": tools}));
    let mut withdrawn = 0;
    let result = loop {
        let message = client.receive();
        if message["id"] == id {
            break message["result"].clone();
        }
        let params = &message["params"];
        let answer = match (message["method"].as_str(), params["toolName"].as_str()) {
            (Some("notifications/tool_call_cancelled"), _) => {
                // The last one is given up as the run ends: both reasons are true then.
                let reason = params["reason"].as_str().unwrap();
                assert!(
                    withdrawn == 3 || reason == "the program gave the call up",
                    "{reason}"
                );
                withdrawn += 1;
                continue;
            }
            (_, Some("quick")) => json!({"requestId": params["requestId"], "error": "no"}),
            (_, Some("right")) => json!({"requestId": params["requestId"], "result": 1}),
            _ => continue,
        };
        client.notify("notifications/tool_call_response", answer);
    };
    assert_eq!(
        structured(&result)["return_value"],
        json!(["late", "cancelled", "Tool call 'quick' failed: no", 1, 1]),
        "{}",
        text(&result)
    );
    assert_eq!(withdrawn, 4);
    let outcomes: Vec<&str> = structured(&result)["tool_calls"]
        .as_array()
        .unwrap()
        .iter()
        .map(|call| call["outcome"].as_str().unwrap())
        .collect();
    assert_eq!(
        outcomes,
        [
            "withdrawn",
            "withdrawn",
            "withdrawn",
            "failed",
            "withdrawn",
            "answered"
        ]
    );
}

#[test]
fn a_thousand_calls_in_flight_are_answered_in_any_order() {
    let mut client = Client::start(&[]);
    let code = "import asyncio\nawait asyncio.gather(*(many.aio(n=i) for i in range(1000)))";
    let tools = json!([tool("many", json!({"n": {"type": "integer"}}))]);
    let id = client.start_run(json!({"python_code": code, "available_tools": tools}));
    let mut calls: Vec<Value> = (0..1000).map(|_| next_call(&mut client)).collect();
    // By their ids, which are random.
    calls.sort_by_key(|call| call["requestId"].to_string());
    for call in &calls {
        client.notify(
            "notifications/tool_call_response",
            json!({"requestId": call["requestId"], "result": call["arguments"]["n"]}),
        );
    }
    let result = client.finish(id, &mut |_| None);
    let expected: Vec<u32> = (0..1000).collect();
    assert_eq!(structured(&result)["return_value"], json!(expected));
}
