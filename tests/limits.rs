//! Promise: every limit holds, is told clearly, and keeps what the run had printed.

mod support;

use serde_json::{Value, json};
use support::{Client, kind, structured, text, tool};

/// Runs code under the given flags and checks the kind of its error and a part of its text.
fn expect(flags: &[&str], code: &str, expected: &str, part: &str) -> Value {
    let mut client = Client::start(flags);
    let result = client.run(code);
    assert_eq!(kind(&result), expected, "{code}: {}", text(&result));
    assert!(text(&result).contains(part), "{code}: {}", text(&result));
    assert_eq!(structured(&client.run("6*7"))["return_value"], 42);
    result
}

#[test]
fn processor_time() {
    let code = "print('begun')\nwhile True: pass";
    let result = expect(
        &["--cpu-timeout", "300ms"],
        code,
        "cpu_limit",
        "--cpu-timeout",
    );
    assert_eq!(structured(&result)["output"], "begun\n");
}

#[test]
fn processor_time_does_not_count_waiting() {
    let mut client = Client::start(&["--cpu-timeout", "300ms"]);
    let result = client.run("import time\ntime.sleep(0.6)\n'slept'");
    assert_eq!(structured(&result)["return_value"], "slept");
    assert!(structured(&result)["cpu_ms"].as_f64().unwrap() < 300.0);
}

#[test]
fn time_in_all() {
    let code = "import time\nprint('begun')\ntime.sleep(1000)";
    let result = expect(
        &["--run-timeout", "300ms"],
        code,
        "time_limit",
        "--run-timeout",
    );
    assert_eq!(structured(&result)["output"], "begun\n");
}

#[test]
fn memory() {
    expect(&[], "x = bytearray(1 << 30)", "memory_limit", "MemoryError");
    expect(
        &[],
        "x = []\nwhile True: x.append('a' * 100_000 + str(len(x)))",
        "memory_limit",
        "MemoryError",
    );
}

#[test]
fn memory_is_what_the_flag_says() {
    let code = "x = bytearray(150 << 20)\nlen(x)";
    let mut client = Client::start(&["--max-memory", "128MiB"]);
    assert_eq!(kind(&client.run(code)), "memory_limit");
    let mut client = Client::start(&[]);
    assert_eq!(structured(&client.run(code))["return_value"], 150 << 20);
}

#[test]
fn memory_of_all_runs_together() {
    let mut client = Client::start(&["--max-total-memory", "40MiB"]);
    assert_eq!(
        kind(&client.run("x = bytearray(100 << 20)")),
        "memory_limit"
    );
    assert_eq!(
        structured(&client.run("len(bytearray(10 << 20))"))["return_value"],
        10 << 20
    );
}

#[test]
fn output_is_cut_and_the_run_goes_on() {
    let mut client = Client::start(&["--max-output", "1KiB"]);
    let result = client.run("for i in range(1000): print('é' * 10)\n'done'");
    assert_eq!(structured(&result)["output_truncated"], true);
    assert_eq!(structured(&result)["return_value"], "done");
    let output = structured(&result)["output"].as_str().unwrap();
    assert!(output.len() <= 1024 && output.len() > 1000 && !output.contains('\u{FFFD}'));
}

#[test]
fn the_value() {
    expect(
        &["--max-result", "1KiB"],
        "'x' * 5000",
        "output_limit",
        "--max-result",
    );
}

#[test]
fn tool_calls() {
    let mut client = Client::start(&["--max-tool-calls", "5"]);
    let tools = json!([tool("add", json!({"a": {"type": "integer"}}))]);
    let code =
        "for i in range(100):\n    try:\n        add(a=i)\n    except BaseException:\n        pass";
    let mut asked = 0;
    let result = client.run_with(code, tools, &mut |_| {
        asked += 1;
        Some(json!({"result": 1}))
    });
    assert_eq!(kind(&result), "call_limit", "{}", text(&result));
    assert!(text(&result).contains("--max-tool-calls"));
    assert_eq!(asked, 5);
    assert_eq!(
        structured(&result)["tool_calls"].as_array().unwrap().len(),
        5
    );
}

#[test]
fn arguments() {
    let mut client = Client::start(&["--max-arguments", "1KiB"]);
    let tools = json!([tool("add", json!({"a": {"type": "string"}}))]);
    let result = client.run_with("add(a='x' * 5000)", tools, &mut |_| {
        panic!("the client was asked")
    });
    assert!(
        text(&result).contains("--max-arguments"),
        "{}",
        text(&result)
    );
}

#[test]
fn the_scratch_folder() {
    let code = "try:\n    open('big', 'wb').write(bytes(200_000))\nexcept OSError as e:\n    value = e.strerror\nvalue";
    let mut client = Client::start(&["--max-scratch", "100KiB", "--max-files", "3"]);
    assert_eq!(
        structured(&client.run(code))["return_value"],
        "No space left on device"
    );
    let code = "n = 0\ntry:\n    for n in range(10): open(f'f{n}', 'w').close()\nexcept OSError as e:\n    pass\nn";
    assert_eq!(structured(&client.run(code))["return_value"], 3);
}

#[test]
fn more_runs_than_slots_wait_for_their_turn() {
    let mut client = Client::start(&["--max-runs", "2"]);
    let ids: Vec<i64> = (0..20)
        .map(|n| {
            client.start_run(json!({"python_code": format!("import time\ntime.sleep(0.02)\n{n}")}))
        })
        .collect();
    let mut values = std::collections::BTreeMap::new();
    while values.len() < ids.len() {
        let message = client.receive();
        values.insert(
            message["id"].as_i64().unwrap(),
            structured(&message["result"])["return_value"].clone(),
        );
    }
    assert!(
        ids.iter().enumerate().all(|(n, id)| values[id] == n),
        "{values:?}"
    );
}

#[test]
fn a_thousand_suspended_runs_fit() {
    let mut client = Client::start(&[]);
    let tools = json!([tool("wait", json!({"n": {"type": "integer"}}))]);
    let ids: Vec<i64> = (0..1000)
        .map(|n| {
            client
                .start_run(json!({"python_code": format!("wait(n={n})"), "available_tools": tools}))
        })
        .collect();
    let calls: Vec<Value> = ids
        .iter()
        .map(|_| client.receive()["params"].clone())
        .collect();
    for call in calls.iter().rev() {
        client.notify(
            "notifications/tool_call_response",
            json!({"requestId": call["requestId"], "result": call["arguments"]["n"]}),
        );
    }
    let mut sum = 0;
    for _ in &ids {
        let message = client.receive();
        sum += structured(&message["result"])["return_value"]
            .as_i64()
            .unwrap();
    }
    assert_eq!(sum, 999 * 1000 / 2);
}

#[test]
fn limits_are_read_from_the_environment() {
    let mut client = Client::start_in(
        &[],
        &[
            ("CALLGATE_CPU_TIMEOUT", "200ms"),
            ("CALLGATE_MAX_OUTPUT", "10"),
        ],
    );
    assert_eq!(kind(&client.run("while True: pass")), "cpu_limit");
    assert_eq!(
        structured(&client.run("print('x' * 50)"))["output"],
        "xxxxxxxxxx"
    );
}

/// Runs code that calls the tool `get`, which answers with `answer`.
fn run_get(flags: &[&str], code: &str, answer: &Value) -> Value {
    let mut client = Client::start(flags);
    let tools = json!([tool("get", json!({}))]);
    client.run_with(code, tools, &mut |_| Some(json!({"result": answer})))
}

#[test]
fn calls_in_flight() {
    let mut client = Client::start(&["--max-calls-in-flight", "3"]);
    let code = "import asyncio\nfound = await asyncio.gather(*(get.aio() for _ in range(5)), return_exceptions=True)\n\
        found += await asyncio.gather(get.aio(), get.aio(), get.aio())\n[str(x) for x in found]";
    let id =
        client.start_run(json!({"python_code": code, "available_tools": [tool("get", json!({}))]}));
    let mut asked = Vec::new();
    // Three wait; only then is one of them answered.
    let result = loop {
        let message = client.receive();
        if message["id"] == id {
            break message["result"].clone();
        }
        asked.push(message["params"]["requestId"].clone());
        if asked.len() == 3 {
            for request_id in asked.drain(..) {
                client.notify(
                    "notifications/tool_call_response",
                    json!({"requestId": request_id, "result": "fine"}),
                );
            }
        }
    };
    let found: Vec<&str> = structured(&result)["return_value"]
        .as_array()
        .unwrap_or_else(|| panic!("{}", text(&result)))
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let refused: Vec<&&str> = found
        .iter()
        .filter(|text| text.contains("--max-calls-in-flight"))
        .collect();
    assert_eq!(refused.len(), 2, "{found:?}");
    assert_eq!(
        found.iter().filter(|text| **text == "fine").count(),
        6,
        "{found:?}"
    );
    let calls = structured(&result)["tool_calls"].as_array().unwrap();
    assert_eq!(
        calls
            .iter()
            .filter(|call| call["outcome"] == "refused")
            .count(),
        2
    );
}

#[test]
fn bytes_of_one_tool_result() {
    let code = "try:\n    get()\nexcept ToolCallError as error:\n    message = str(error)\nmessage";
    let large = json!("x".repeat(2000));
    let result = run_get(&["--max-tool-result", "1KB"], code, &large);
    let message = structured(&result)["return_value"].as_str().unwrap();
    assert!(
        message.contains("its result is 2002 bytes") && message.contains("--max-tool-result"),
        "{message}"
    );
    assert_eq!(structured(&result)["tool_calls"][0]["outcome"], "answered");
    let result = run_get(&["--max-tool-result", "2002B"], "len(get())", &large);
    assert_eq!(structured(&result)["return_value"], 2000);
}

#[test]
fn bytes_of_all_tool_results() {
    let code = "found = []\nfor _ in range(5):\n    try:\n        found.append(len(get()))\n    except ToolCallError as error:\n        found.append(str(error))\nfound";
    let result = run_get(
        &["--max-tool-results", "5KB"],
        code,
        &json!("x".repeat(1998)),
    );
    let found = structured(&result)["return_value"].as_array().unwrap();
    assert_eq!(found[..2], [json!(1998), json!(1998)]);
    for message in &found[2..] {
        let message = message.as_str().unwrap();
        assert!(
            message.contains("6000 bytes") && message.contains("--max-tool-results"),
            "{message}"
        );
    }
    // What comes after is not even sent: it could not be used.
    let outcomes: Vec<&str> = structured(&result)["tool_calls"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|call| call["outcome"].as_str())
        .collect();
    assert_eq!(
        outcomes,
        ["answered", "answered", "answered", "refused", "refused"]
    );
}

#[test]
fn large_results_that_come_together_arrive_one_after_the_other() {
    let mut client = Client::start(&[]);
    // Together they are more than the guest has room for.
    let code = "import asyncio, time\ncalls = [asyncio.ensure_future(get.aio()) for _ in range(12)]\n\
        await asyncio.sleep(0)\ntime.sleep(1.5)\ntotal = 0\nwhile calls:\n    total += len(await calls.pop())\ntotal";
    let large = "x".repeat(7 << 20);
    let tools = json!([tool("get", json!({}))]);
    let result = client.run_with(code, tools, &mut |_| Some(json!({"result": large})));
    assert_eq!(
        structured(&result)["return_value"],
        12 * (7 << 20),
        "{}",
        text(&result)
    );
}
