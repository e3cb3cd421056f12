//! Promise: a client that answers no notifications gets the tool calls of a program in its result, and answers them
//! by a second call, however it speaks.
#![allow(
    clippy::needless_pass_by_value,
    reason = "calls with JSON read better without borrows"
)]

mod support;

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::{
    Client,
    http::{Agent, ERAS, Era, Events, HttpServer, guarded},
    structured, text, tool,
};

/// `--callbacks resume`, whoever the client is.
const RESUME: [&str; 2] = ["--callbacks", "resume"];

fn start() -> Client {
    Client::start(&RESUME)
}

fn start_with(more: &[&str]) -> Client {
    Client::start(&[&RESUME, more].concat())
}

fn tools() -> Value {
    json!([
        tool("search", json!({"query": {"type": "string"}})),
        tool("fetch", json!({"number": {"type": "integer"}})),
        {"name": "list", "serverName": "files"}
    ])
}

fn begin(client: &mut Client, code: &str) -> Value {
    client.run_with(code, tools(), &mut |call| panic!("a notification: {call}"))
}

/// Calls `resume_python_code`.
fn resume(client: &mut Client, handle: &Value, results: Value) -> Value {
    let arguments = json!({"handle": handle, "results": results});
    let params = json!({"name": "resume_python_code", "arguments": arguments});
    let response = client.request("tools/call", params);
    assert!(response["error"].is_null(), "{response}");
    response["result"].clone()
}

/// The pending calls of a result that is one.
fn pending(result: &Value) -> Vec<Value> {
    let structured = structured(result);
    assert_eq!(structured["status"], "pending", "{result}");
    assert_eq!(result["isError"], false);
    structured["pending"]
        .as_array()
        .expect("it is a list")
        .clone()
}

fn handle(result: &Value) -> &Value {
    &structured(result)["handle"]
}

/// What answers calls: the value that `value` gives for each.
fn answers(calls: &[Value], value: impl Fn(&Value) -> Value) -> Value {
    let answer = |call: &Value| json!({"requestId": call["requestId"], "result": value(call)});
    calls.iter().map(answer).collect()
}

fn error_of(result: &Value) -> &str {
    assert_eq!(result["isError"], true, "{result}");
    structured(result)["error"]["message"]
        .as_str()
        .expect("it is a text")
}

#[test]
fn a_run_returns_its_calls_and_goes_on_with_their_results() {
    let mut client = start();
    let first = begin(
        &mut client,
        "print('before')\nfound = search(query='x')\nprint(found['hits'])\nfetch(7)",
    );
    let calls = pending(&first);
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0]["toolName"], "search");
    assert_eq!(calls[0]["serverName"], Value::Null);
    assert_eq!(calls[0]["arguments"], json!({"query": "x"}));
    assert_eq!(structured(&first)["expires_in_s"], 600.0);
    assert_eq!(structured(&first)["output"], "before\n");

    let second = resume(
        &mut client,
        handle(&first),
        answers(&calls, |_| json!({"hits": 3})),
    );
    let calls = pending(&second);
    assert_eq!(calls[0]["arguments"], json!({"number": 7}));
    assert_ne!(handle(&first), handle(&second));
    assert_eq!(structured(&second)["tool_calls"][0]["outcome"], "answered");

    let last = resume(
        &mut client,
        handle(&second),
        answers(&calls, |_| json!("text")),
    );
    assert_eq!(
        text(&last),
        "<status>success</status>\n<output>\nbefore\n3\n</output>\n<return_value>\ntext\n</return_value>"
    );
    assert_eq!(
        structured(&last)["tool_calls"].as_array().map(Vec::len),
        Some(2)
    );
}

#[test]
fn the_text_says_exactly_what_to_do_next_and_so_does_the_structured_content() {
    let mut client = start();
    let result = begin(
        &mut client,
        "call_mcp_tool('files', 'list', folder='</pending>')",
    );
    let calls = pending(&result);
    let id = calls[0]["requestId"].as_str().expect("it is a text");
    let handle = handle(&result).as_str().expect("it is a text");
    let text = text(&result);
    let next = structured(&result)["next"].as_str().expect("it is a text");
    for told in [text, next] {
        assert!(
            told.contains(&format!(
                r#"{{"handle": "{handle}", "results": [{{"requestId": "{id}", "result": …}}]}}"#
            )),
            "{told}"
        );
        assert!(told.contains("`resume_python_code`"), "{told}");
        assert!(told.contains("good once, for 10m"), "{told}");
    }
    assert!(
        text.contains(&format!(
            r#"- requestId {id}: files.list {{"folder":"&lt;/pending&gt;"}}"#
        )),
        "{text}"
    );
    assert!(
        text.starts_with("<status>pending</status>\n<pending>\n") && text.ends_with("\n</pending>"),
        "{text}"
    );
}

#[test]
fn parallel_calls_come_in_one_batch() {
    let mut client = start();
    let code = "import asyncio\nawait asyncio.gather(*(fetch.aio(number=n) for n in range(20)))";
    let result = begin(&mut client, code);
    let calls = pending(&result);
    assert_eq!(calls.len(), 20);
    let result = resume(
        &mut client,
        handle(&result),
        answers(&calls, |call| call["arguments"]["number"].clone()),
    );
    assert_eq!(
        structured(&result)["return_value"],
        (0..20).collect::<Value>()
    );
}

#[test]
fn a_partial_answer_returns_what_is_still_open_with_a_new_handle() {
    let mut client = start();
    let code = "import asyncio\n\
                async def both(n):\n    first = await fetch.aio(number=n)\n    return [first, await search.aio(query=str(n))]\n\
                await asyncio.gather(both(1), both(2))";
    let result = begin(&mut client, code);
    let calls = pending(&result);
    assert_eq!(calls.len(), 2);
    let result = resume(
        &mut client,
        handle(&result),
        answers(&calls[..1], |_| json!("one")),
    );
    // The path that got its answer has gone on, and waits for its next call beside the other.
    let left = pending(&result);
    let names: Vec<&Value> = left.iter().map(|call| &call["toolName"]).collect();
    assert_eq!(names, ["fetch", "search"]);
    assert_eq!(left[0]["requestId"], calls[1]["requestId"]);
    let nothing = resume(&mut client, handle(&result), json!([]));
    assert_eq!(pending(&nothing), left);
    assert_ne!(handle(&nothing), handle(&result));
    let result = resume(
        &mut client,
        handle(&nothing),
        answers(&left, |call| call["toolName"].clone()),
    );
    let result = resume(
        &mut client,
        handle(&result),
        answers(&pending(&result), |_| json!("two")),
    );
    assert_eq!(
        structured(&result)["return_value"],
        json!([["one", "search"], ["fetch", "two"]])
    );
}

#[test]
fn an_error_and_a_call_tool_result_mean_what_they_mean_as_notifications() {
    let mut client = start();
    let code = "try:\n    fetch(1)\nexcept ToolCallError as error:\n    print(error)\nsearch('x')";
    let result = begin(&mut client, code);
    let id = &pending(&result)[0]["requestId"];
    let result = resume(
        &mut client,
        handle(&result),
        json!([{"requestId": id, "error": {"message": "no such page"}}]),
    );
    let answer = json!({"content": [{"type": "text", "text": "[1, 2]"}], "isError": false});
    let result = resume(
        &mut client,
        handle(&result),
        answers(&pending(&result), |_| answer.clone()),
    );
    assert_eq!(
        structured(&result)["output"],
        "Tool call 'fetch' failed: no such page\n"
    );
    assert_eq!(structured(&result)["return_value"], json!([1, 2]));
}

#[test]
fn a_handle_is_good_once() {
    let mut client = start();
    let result = begin(&mut client, "fetch(1)\nfetch(2)");
    let results = answers(&pending(&result), |_| json!(0));
    let second = resume(&mut client, handle(&result), results.clone());
    for old in [
        handle(&result),
        &json!("0123456789abcdef0123456789abcdef"),
        &json!(""),
    ] {
        let refused = resume(&mut client, old, results.clone());
        assert!(
            error_of(&refused).contains("no run waits under this handle"),
            "{refused}"
        );
    }
    let last = resume(
        &mut client,
        handle(&second),
        answers(&pending(&second), |_| json!("end")),
    );
    assert_eq!(structured(&last)["return_value"], "end");
}

#[test]
fn wrong_results_are_refused_and_the_handle_stays_good() {
    let mut client = start();
    let result = begin(&mut client, "fetch(1)");
    let id = pending(&result)[0]["requestId"].clone();
    for (results, expected) in [
        (
            json!([{"requestId": "other", "result": 1}]),
            "no call `other` waits in this run; waiting: ",
        ),
        (
            json!([{"requestId": id, "result": 1}, {"requestId": id, "result": 2}]),
            "answered twice",
        ),
        (json!([{"result": 1}]), "requestId"),
        (
            json!([{"requestId": 5, "result": 1}]),
            "/results/0/requestId",
        ),
        (json!({"requestId": id}), "/results"),
        (json!([{"requestId": id, "value": 1}]), "value"),
    ] {
        let refused = resume(&mut client, handle(&result), results);
        assert!(error_of(&refused).contains(expected), "{refused}");
        assert!(
            error_of(&refused).contains("handle is still good"),
            "{refused}"
        );
    }
    let last = resume(
        &mut client,
        handle(&result),
        json!([{"requestId": id, "result": "right"}]),
    );
    assert_eq!(structured(&last)["return_value"], "right");
}

#[test]
fn no_clock_runs_while_the_client_holds_the_handle() {
    let mut client = start_with(&["--run-timeout", "1500ms", "--tool-timeout", "300ms"]);
    let code = "import asyncio, time\n\
                start = time.monotonic()\n\
                value = await asyncio.wait_for(fetch.aio(number=1), timeout=1)\n\
                other = fetch(2)\n\
                [value, other, time.monotonic() - start < 1]";
    let result = begin(&mut client, code);
    std::thread::sleep(Duration::from_secs(2));
    let result = resume(
        &mut client,
        handle(&result),
        answers(&pending(&result), |_| json!("late")),
    );
    std::thread::sleep(Duration::from_secs(1));
    let result = resume(
        &mut client,
        handle(&result),
        answers(&pending(&result), |_| json!("later")),
    );
    assert_eq!(
        structured(&result)["return_value"],
        json!(["late", "later", true]),
        "{result}"
    );
    assert!(
        structured(&result)["duration_ms"]
            .as_f64()
            .expect("a number")
            < 1500.0
    );
}

#[test]
fn a_run_does_not_wait_for_the_client_while_a_path_can_go_on() {
    let mut client = start();
    let code = "import asyncio\n\
                async def other():\n    await asyncio.sleep(0.2)\n    return await search.aio(query='y')\n\
                await asyncio.gather(fetch.aio(number=1), other())";
    let result = begin(&mut client, code);
    assert_eq!(pending(&result).len(), 2);
}

#[test]
fn a_run_that_nobody_resumes_expires() {
    let mut client = start_with(&["--handle-expiry", "300ms"]);
    let result = begin(&mut client, "fetch(1)");
    assert_eq!(structured(&result)["expires_in_s"], 0.0);
    std::thread::sleep(Duration::from_millis(600));
    let refused = resume(
        &mut client,
        handle(&result),
        answers(&pending(&result), |_| json!(1)),
    );
    assert!(
        error_of(&refused).contains("expired (after 300ms)"),
        "{refused}"
    );
    assert_eq!(structured(&client.run("1 + 1"))["status"], "success");
}

#[test]
fn suspended_runs_hold_no_slot_and_are_bounded_in_number() {
    let mut client = start_with(&["--max-runs", "1", "--max-suspended-runs", "3"]);
    let results: Vec<Value> = (0..5)
        .map(|number| begin(&mut client, &format!("fetch({number})")))
        .collect();
    assert_eq!(structured(&client.run("1 + 1"))["status"], "success");
    for (number, result) in results.iter().enumerate() {
        let answered = resume(
            &mut client,
            handle(result),
            answers(&pending(result), |_| json!(number)),
        );
        if number < 2 {
            assert!(error_of(&answered).contains("to make room"), "{answered}");
        } else {
            assert_eq!(structured(&answered)["return_value"], number);
        }
    }
}

#[test]
fn suspended_runs_are_bounded_in_memory() {
    let mut client = start_with(&["--max-suspended-memory", "64MiB"]);
    let code = "kept = bytearray(40 << 20)\nfetch(1)\nlen(kept)";
    let first = begin(&mut client, code);
    let second = begin(&mut client, code);
    let gone = resume(&mut client, handle(&first), json!([]));
    assert!(error_of(&gone).contains("to make room"), "{gone}");
    let alone = begin(
        &mut client,
        "kept = bytearray(80 << 20)\ntry:\n    fetch(1)\nexcept ToolCallError as error:\n    print(error)",
    );
    assert!(text(&alone).contains("--max-suspended-memory"), "{alone}");
    assert_eq!(structured(&alone)["tool_calls"][0]["outcome"], "refused");
    // That one could not have been kept either way, so it sent nobody away.
    let kept = resume(
        &mut client,
        handle(&second),
        answers(&pending(&second), |_| json!(1)),
    );
    assert_eq!(structured(&kept)["return_value"], 40 << 20, "{kept}");
}

#[test]
fn a_run_that_has_no_room_to_wait_goes_on_and_is_told_why_each_time() {
    let mut client = start_with(&["--max-suspended-memory", "8MiB"]);
    let code = "kept = bytearray(60 << 20)\nfor number in 1, 2:\n    try:\n        fetch(number)\n\
        \x20   except ToolCallError as error:\n        print(error)";
    let result = begin(&mut client, code);
    assert_eq!(structured(&result)["status"], "success", "{result}");
    let output = structured(&result)["output"].as_str().expect("a text");
    assert_eq!(
        output.matches("--max-suspended-memory").count(),
        2,
        "{output}"
    );
}

#[test]
fn resumed_and_new_runs_never_wait_for_each_other_for_ever() {
    // One slot and room for two that wait: two runs that are resumed and a new one want the slot at once.
    let mut client = start_with(&["--max-runs", "1", "--max-suspended-runs", "2"]);
    let resumption = |result: &Value| {
        let answers = answers(&pending(result), |_| json!(1));
        json!({"name": "resume_python_code", "arguments": {"handle": handle(result), "results": answers}})
    };
    let first = begin(&mut client, "fetch(1)");
    let busy = client.start_run(
        json!({"python_code": "import time\ntime.sleep(1)\nfetch(2)", "available_tools": tools()}),
    );
    std::thread::sleep(Duration::from_millis(300));
    let new = client.start_run(json!({"python_code": "42"}));
    std::thread::sleep(Duration::from_millis(200));
    let resumed = client.send_request("tools/call", resumption(&first));
    let mut expected = std::collections::HashMap::from([(new, 42), (resumed, 1)]);
    while !expected.is_empty() {
        let response = client.receive();
        let id = response["id"].as_i64().expect("a response");
        let result = &response["result"];
        if id == busy {
            expected.insert(client.send_request("tools/call", resumption(result)), 1);
            continue;
        }
        let value = expected.remove(&id).expect("one that is waited for");
        assert_eq!(structured(result)["return_value"], value, "{result}");
    }
}

#[test]
fn what_a_suspended_run_held_is_given_back_when_it_expires() {
    let mut client = start_with(&["--handle-expiry", "100ms"]);
    // Calls in parallel, each with 3 MB of arguments: the host holds them while they wait.
    let code = "import asyncio\nbig = 'x' * 3_000_000\n\
        async def main():\n    await asyncio.gather(*[call_tool_async('search', query=big) for _ in range(4)])\n\
        asyncio.run(main())";
    for _ in 0..30 {
        assert!(!pending(&begin(&mut client, code)).is_empty());
    }
    let deadline = Instant::now() + Duration::from_secs(20);
    while client.anonymous_kib() > 150 << 10 {
        assert!(
            Instant::now() < deadline,
            "{} KiB are still held",
            client.anonymous_kib()
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn cancelling_a_resumption_stops_the_run() {
    let mut client = start();
    let result = begin(&mut client, "fetch(1)\nwhile True:\n    pass");
    let arguments =
        json!({"handle": handle(&result), "results": answers(&pending(&result), |_| json!(1))});
    let id = client.send_request(
        "tools/call",
        json!({"name": "resume_python_code", "arguments": arguments}),
    );
    std::thread::sleep(Duration::from_millis(200));
    client.notify("notifications/cancelled", json!({"requestId": id}));
    assert_eq!(structured(&client.run("1 + 1"))["status"], "success");
    let deadline = Instant::now() + Duration::from_secs(20);
    while !client.log().contains("the run was cancelled") {
        assert!(Instant::now() < deadline, "{}", client.log());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn the_tool_is_listed_unless_the_operator_rules_it_out() {
    for (callbacks, listed) in [
        ("auto", true),
        ("resume", true),
        ("notify", false),
        ("elicitation", false),
        ("refuse", false),
    ] {
        let mut client = Client::start(&["--callbacks", callbacks]);
        let tools = client.request("tools/list", json!({}));
        let tools = tools["result"]["tools"].as_array().expect("a list");
        let names: Vec<&Value> = tools.iter().map(|tool| &tool["name"]).collect();
        assert_eq!(
            names.contains(&&json!("resume_python_code")),
            listed,
            "{callbacks}: {names:?}"
        );
        let called = client.request(
            "tools/call",
            json!({"name": "resume_python_code", "arguments": {}}),
        );
        assert_eq!(called["error"].is_null(), listed, "{called}");
    }
}

#[test]
fn a_connection_that_answers_no_notification_takes_this_road_from_then_on() {
    let mut client = Client::start(&["--tool-timeout", "300ms"]);
    let code = "try:\n    fetch(1)\nexcept ToolCallError as error:\n    print(error)\nfetch(2)";
    let result = client.run_with(code, tools(), &mut |_| None);
    let calls = pending(&result);
    assert_eq!(calls[0]["arguments"], json!({"number": 2}));
    let result = resume(
        &mut client,
        handle(&result),
        answers(&calls, |_| json!("by hand")),
    );
    assert_eq!(
        structured(&result)["output"],
        "Tool call 'fetch' failed: Tool call timeout: fetch\n"
    );
    assert_eq!(structured(&result)["return_value"], "by hand");
    let result = begin(&mut client, "fetch(3)");
    assert_eq!(pending(&result)[0]["arguments"], json!({"number": 3}));
}

#[test]
fn a_connection_that_has_answered_once_keeps_its_road() {
    let mut client = Client::start(&["--tool-timeout", "300ms"]);
    let code = "results = [fetch(0)]\nfor n in (1, 2):\n    try:\n        results.append(fetch(n))\n    except ToolCallError as error:\n        results.append(error.message)\nresults";
    let result = client.run_with(code, tools(), &mut |call| {
        (call["arguments"]["number"] != 1).then(|| json!({"result": "answered"}))
    });
    assert_eq!(
        structured(&result)["return_value"],
        json!(["answered", "Tool call timeout: fetch", "answered"])
    );
}

#[test]
fn a_desktop_client_is_known_by_its_name() {
    let mut client = Client::spawn(&[], &[]);
    client.request(
        "initialize",
        json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "cursor-vscode", "version": "1.0.0"}}),
    );
    client.notify("notifications/initialized", json!({}));
    let result = begin(&mut client, "fetch(1)");
    assert_eq!(pending(&result).len(), 1);
}

fn resume_over_http(agent: &mut Agent, handle: &Value, results: Value) -> Value {
    let arguments = json!({"handle": handle, "results": results});
    let params = json!({"name": "resume_python_code", "arguments": arguments});
    Events::of(agent.request("tools/call", params)).result()
}

#[test]
fn it_works_over_http_in_both_eras() {
    let server = HttpServer::start(&RESUME);
    for era in ERAS {
        let mut agent = Agent::new(&server, era);
        let run = json!({"python_code": "print('begun')\nfetch(1)", "available_tools": tools()});
        let result = agent.start_run(run).result();
        let calls = pending(&result);
        let result = resume_over_http(
            &mut agent,
            handle(&result),
            answers(&calls, |_| json!("done")),
        );
        assert_eq!(structured(&result)["return_value"], "done", "{era:?}");
        assert_eq!(structured(&result)["output"], "begun\n");
    }
}

#[test]
fn a_client_of_2026_07_28_that_declares_nothing_takes_this_road() {
    let server = HttpServer::start(&[]);
    let mut agent = Agent::silent(&server, Era::Stateless, None);
    let run = json!({"python_code": "fetch(1)", "available_tools": tools()});
    let result = agent.start_run(run).result();
    let result = resume_over_http(
        &mut agent,
        handle(&result),
        answers(&pending(&result), |_| json!("done")),
    );
    assert_eq!(structured(&result)["return_value"], "done");
}

#[test]
fn a_handle_is_its_principals_alone() {
    let (server, _folder, ada, eve) = guarded(&RESUME);
    for era in ERAS {
        let mut owner = Agent::with_token(&server, era, Some(&ada));
        let mut thief = Agent::with_token(&server, era, Some(&eve));
        let run = json!({"python_code": "fetch(1)", "available_tools": tools()});
        let result = owner.start_run(run).result();
        let results = answers(&pending(&result), |_| json!("mine"));
        let stolen = resume_over_http(&mut thief, handle(&result), results.clone());
        assert!(
            error_of(&stolen).contains("no run waits under this handle"),
            "{stolen}"
        );
        let result = resume_over_http(&mut owner, handle(&result), results);
        assert_eq!(structured(&result)["return_value"], "mine");
    }
}
