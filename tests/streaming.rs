//! Promise: a client that asks for it hears what a run prints and calls, while it runs, and is not
//! flooded.

mod support;

use std::time::Duration;

use serde_json::{Value, json};
use support::{Client, structured, text, tool};

/// Runs code with a progress token and answers its calls; returns the notifications that came before
/// the result, but for the calls themselves, and the result.
fn told(client: &mut Client, token: Option<&str>, code: &str) -> (Vec<Value>, Value) {
    let arguments = json!({"python_code": code, "available_tools": [tool("look", json!({}))]});
    let mut params = json!({"name": "run_python_code", "arguments": arguments});
    if let Some(token) = token {
        params["_meta"] = json!({"progressToken": token});
    }
    let id = client.send_request("tools/call", params);
    let mut notifications = Vec::new();
    loop {
        let message = client.receive();
        if message["id"] == id {
            return (notifications, message["result"].clone());
        }
        if message["method"] != "notifications/tool_call_request" {
            notifications.push(message);
            continue;
        }
        client.notify(
            "notifications/tool_call_response",
            json!({"requestId": message["params"]["requestId"], "result": 1}),
        );
    }
}

fn of<'a>(method: &str, notifications: &'a [Value]) -> Vec<&'a Value> {
    notifications
        .iter()
        .filter(|message| message["method"] == method)
        .map(|message| &message["params"])
        .collect()
}

/// What was told, all messages joined by line breaks.
fn all_texts(messages: &[&Value], field: &str) -> String {
    let texts: Vec<&str> = messages
        .iter()
        .map(|params| params[field].as_str().unwrap())
        .collect();
    texts.join("\n")
}

#[test]
fn lines_and_calls_arrive_as_progress_while_the_run_goes_on() {
    let mut client = Client::start(&[]);
    client.run("1");
    let code = "print('first')\nlook()\nprint('second')\nlook()\n3";
    let arguments = json!({"python_code": code, "available_tools": [tool("look", json!({}))]});
    let params =
        json!({"name": "run_python_code", "arguments": arguments, "_meta": {"progressToken": "t"}});
    let id = client.send_request("tools/call", params);
    let mut texts = Vec::new();
    let mut last = 0.0;
    let mut requests = Vec::new();
    // The run stands at its first call: what was printed before it has to be told by then.
    while texts.join(" ") != "first look called" || requests.is_empty() {
        let message = client.receive();
        if message["method"] == "notifications/tool_call_request" {
            requests.push(message["params"]["requestId"].clone());
            continue;
        }
        assert_eq!(message["method"], "notifications/progress");
        assert_eq!(message["params"]["progressToken"], "t");
        let progress = message["params"]["progress"].as_f64().unwrap();
        assert!(progress > last, "{message}");
        last = progress;
        texts.push(message["params"]["message"].as_str().unwrap().to_owned());
    }
    client.notify(
        "notifications/tool_call_response",
        json!({"requestId": requests[0], "result": 1}),
    );
    let result = client.finish(id, &mut |_| Some(json!({"result": 1})));
    assert_eq!(structured(&result)["output"], "first\nsecond\n");
}

#[test]
fn everything_is_told_before_the_result() {
    let mut client = Client::start(&[]);
    let code = "import sys\nprint('a')\nlook()\nprint('b', file=sys.stderr)\nprint('c', end='')";
    client.run("1");
    let (notifications, result) = told(&mut client, Some("t"), code);
    let progress = of("notifications/progress", &notifications);
    assert_eq!(
        all_texts(&progress, "message"),
        "a\nlook called\nlook answered\nb\nc"
    );
    assert_eq!(of("notifications/message", &notifications).len(), 0);
    assert_eq!(structured(&result)["output"], "a\nb\nc");
}

#[test]
fn the_end_of_a_call_is_told_however_it_ends() {
    let mut client = Client::start(&["--tool-timeout", "300ms", "--callbacks", "notify"]);
    client.run("1");
    let code = "\
import asyncio\nasync def attempt(call):\n    try:\n        await asyncio.wait_for(call, 0.1)\n    except (ToolCallError, TimeoutError):\n        pass\n\
try:\n    look()\nexcept ToolCallError:\n    pass\nawait attempt(look.aio())\nawait asyncio.sleep(0.2)";
    let arguments = json!({"python_code": code, "available_tools": [tool("look", json!({}))]});
    let params =
        json!({"name": "run_python_code", "arguments": arguments, "_meta": {"progressToken": "t"}});
    let id = client.send_request("tools/call", params);
    let mut told = Vec::new();
    loop {
        let message = client.receive();
        if message["id"] == id {
            break;
        }
        if let Some(text) = message["params"]["message"].as_str() {
            told.extend(text.lines().map(str::to_owned));
        }
    }
    assert_eq!(
        told,
        [
            "look called",
            "look timed out",
            "look called",
            "look given up"
        ]
    );
}

#[test]
fn without_a_token_or_a_level_nothing_is_told() {
    let mut client = Client::start(&[]);
    let (notifications, _) = told(&mut client, None, "print('a')\nlook()");
    assert_eq!(notifications, Vec::<Value>::new());
}

#[test]
fn printed_lines_arrive_as_log_messages_where_the_client_asked_for_them() {
    let mut client = Client::start(&[]);
    let answer = client.request("logging/setLevel", json!({"level": "info"}));
    assert_eq!(answer["result"], json!({}));
    let code =
        "import sys, time\nprint('out')\nprint('err', file=sys.stderr)\nprint()\nprint('end')";
    let (notifications, _) = told(&mut client, None, code);
    let messages = of("notifications/message", &notifications);
    let of_level = |level: &str| {
        let chosen: Vec<&Value> = messages
            .iter()
            .filter(|params| params["level"] == level)
            .copied()
            .collect();
        all_texts(&chosen, "data")
    };
    assert_eq!(of_level("info"), "out\n\nend");
    assert_eq!(of_level("warning"), "err");
    assert_eq!(of("notifications/progress", &notifications).len(), 0);

    client.request("logging/setLevel", json!({"level": "warning"}));
    let (notifications, _) = told(&mut client, None, code);
    assert_eq!(
        all_texts(&of("notifications/message", &notifications), "data"),
        "err"
    );

    client.request("logging/setLevel", json!({"level": "error"}));
    let (notifications, _) = told(&mut client, None, code);
    assert_eq!(notifications, Vec::<Value>::new());
}

#[test]
fn a_level_that_does_not_exist_is_an_error_and_changes_nothing() {
    let mut client = Client::start(&[]);
    let answer = client.request("logging/setLevel", json!({"level": "loud"}));
    assert!(answer["error"]["message"].is_string(), "{answer}");
    let (notifications, _) = told(&mut client, None, "print('a')");
    assert_eq!(notifications, Vec::<Value>::new());
}

#[test]
fn a_request_of_the_newest_revision_names_its_level_itself() {
    let mut client = Client::spawn(&[], &[]);
    let arguments = json!({"python_code": "print('a')"});
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/logLevel": "info",
    });
    let params = json!({"name": "run_python_code", "arguments": arguments, "_meta": meta});
    let id = client.send_request("tools/call", params);
    let message = client.receive();
    assert_eq!(message["method"], "notifications/message", "{message}");
    assert_eq!(message["params"]["data"], "a");
    let result = client.finish(id, &mut |_| None);
    assert_eq!(structured(&result)["output"], "a\n");
}

#[test]
fn a_million_lines_are_a_few_messages() {
    let mut client = Client::start(&["--max-output", "16MiB"]);
    client.request("logging/setLevel", json!({"level": "debug"}));
    client.run("1");
    let code = "for i in range(1_000_000): print(i)";
    let (notifications, result) = told(&mut client, Some("t"), code);
    let seconds = structured(&result)["duration_ms"].as_f64().unwrap() / 1e3;
    let (log, progress) = (
        of("notifications/message", &notifications),
        of("notifications/progress", &notifications),
    );
    for messages in [&log, &progress] {
        // A burst of ten, two a second, and the last one.
        let count = u32::try_from(messages.len()).unwrap();
        assert!(
            f64::from(count) < 12.0 + 2.0 * seconds,
            "{count} messages in {seconds} s"
        );
        assert!(
            messages
                .iter()
                .all(|params| params.to_string().len() < 40_000)
        );
    }
    let last = progress.last().unwrap();
    assert_eq!(last["progress"], 1_000_000.0);
    assert!(last["message"].as_str().unwrap().ends_with("999999"));
    assert!(all_texts(&log, "data").contains(" lines left out …"));
    let output = structured(&result)["output"].as_str().unwrap();
    assert_eq!(output.lines().count(), 1_000_000);
}

#[test]
fn pieces_of_lines_and_of_characters_are_put_together() {
    let mut client = Client::start(&[]);
    client.run("1");
    let code = "import os, sys, time\n\
        print('a', end='')\nprint('b', end='', flush=True)\nprint('c')\n\
        os.write(1, 'é'.encode()[:1])\nos.write(1, 'é'.encode()[1:])\nprint()\n\
        sys.stdout.buffer.write(b'\\xff\\n')\n\
        for state in ('10%', '100%'): print(state, end='\\r')\n\
        print()\nprint('x' * 100_000)";
    let (notifications, result) = told(&mut client, Some("t"), code);
    let messages = all_texts(&of("notifications/progress", &notifications), "message");
    let lines: Vec<&str> = messages.lines().collect();
    assert_eq!(lines[..5], ["abc", "é", "\u{fffd}", "10%", "100%"]);
    assert!(lines[5].ends_with("xxx …"), "{}", lines[5]);
    let expected = format!("abc\né\n\u{fffd}\n10%\r100%\r\n{}\n", "x".repeat(100_000));
    assert_eq!(structured(&result)["output"], expected);
}

#[test]
fn the_result_of_a_run_that_was_cut_off_has_its_unfinished_line() {
    let mut client = Client::start(&["--run-timeout", "1s"]);
    let code = "import time\nprint('before')\nprint('unfinished', end='')\ntime.sleep(60)";
    let (notifications, result) = told(&mut client, Some("t"), code);
    assert_eq!(structured(&result)["error"]["kind"], "time_limit");
    assert_eq!(structured(&result)["output"], "before\nunfinished");
    assert!(text(&result).contains("<output>\nbefore\nunfinished\n</output>"));
    let progress = of("notifications/progress", &notifications);
    assert!(all_texts(&progress, "message").ends_with("before\nunfinished"));
}

#[test]
fn a_cancelled_request_is_not_told_of_any_more() {
    let mut client = Client::start(&[]);
    let arguments = json!({"python_code": "import time\nfor i in range(1000):\n    print(i)\n    time.sleep(0.01)"});
    let params =
        json!({"name": "run_python_code", "arguments": arguments, "_meta": {"progressToken": "t"}});
    let id = client.send_request("tools/call", params);
    while client.receive()["params"]["message"] != "3" {}
    client.notify(
        "notifications/cancelled",
        json!({"requestId": id, "reason": "enough"}),
    );
    // A run after it sees no message but its own.
    std::thread::sleep(Duration::from_millis(200));
    while client.receive_within(Duration::from_millis(10)).is_some() {}
    let (notifications, result) = told(&mut client, None, "print('next')");
    assert_eq!(notifications, Vec::<Value>::new());
    assert_eq!(structured(&result)["output"], "next\n");
}
