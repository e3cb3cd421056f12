//! Promise: the agent understands every server that speaks the API of chat completions, in whatever pieces it does, and
//! gets over what goes wrong there.

mod support {
    pub mod agents;
    pub mod toolchain;
}

use serde_json::{Value, json};
use support::agents::{Folder, ScriptedModel, end, of_type, run, stdio};

/// A turn with words and two calls, and what else is said of it.
fn turn(more: &Value) -> Value {
    let mut turn = json!({
        "text": "Grüße 👋 — ich rechne.",
        "tool_calls": [{"name": "echo", "arguments": {"text": "one ✓"}}, {"name": "echo", "arguments": {"text": "two"}}],
    });
    for (key, value) in more.as_object().expect("it is an object") {
        turn[key] = value.clone();
    }
    turn
}

#[test]
fn answers_come_in_any_pieces() {
    let variants = [
        json!({}),
        json!({"cut": 1}),
        json!({"cut": 3, "crlf": true, "comments": true, "empty events": true, "no space": true}),
        json!({"cut": 100_000}),
        json!({"no done": true}),
        json!({"whole": true}),
        json!({"no index": true}),
        json!({"zero index": true}),
        json!({"no id": true}),
        json!({"repeated id": true, "repeated name": true, "repeated role": true}),
        json!({"nulls": true}),
        json!({"object arguments": true}),
        json!({"whole": true, "no index": true, "no id": true}),
        json!({"usage at finish": true}),
        json!({"until close": true}),
        json!({"not a stream": true}),
        json!({"finish_reason": "stop"}),
        json!({"reasoning": "ach so", "reasoning field": "reasoning"}),
    ];
    for variant in variants {
        let model = ScriptedModel::start(&json!([turn(&variant), {"text": "Fertig."}]));
        let folder = Folder::with_servers(&model.url, &json!([stdio("real.py", &[])]));
        let events = folder.events("x", &["--direct"]);
        assert_eq!(end(&events)["answer"], "Fertig.", "{variant}: {events:?}");
        let messages = model.messages();
        assert_eq!(
            messages[2]["content"], "Grüße 👋 — ich rechne.",
            "{variant}"
        );
        assert_eq!(messages[3]["content"], "one ✓", "{variant}: {messages:?}");
        assert_eq!(messages[4]["content"], "two", "{variant}: {messages:?}");
        let streamed: String = of_type(&events, "text")
            .iter()
            .map(|event| event["text"].as_str().unwrap())
            .collect();
        assert_eq!(streamed, "Grüße 👋 — ich rechne.Fertig.", "{variant}");
        assert!(
            of_type(&events, "retry").is_empty(),
            "{variant}: {events:?}"
        );
    }
}

#[test]
fn what_passes_is_tried_again_and_nothing_is_said_twice() {
    let failures = [
        json!({"status": 429, "headers": {"Retry-After": "1"}, "body": {"error": {"message": "slow down"}}}),
        json!({"status": 500, "body": "<html>oops</html>"}),
        json!({"status": 503, "body": {"error": {"code": 503, "message": "Loading model"}}}),
        json!({"text": "I will never", "error in stream": {"message": "overloaded"}}),
        json!({"text": "I will never", "error in stream": {"message": "overloaded"}, "error form": "event"}),
        json!({"text": "Half of what I want to say", "disconnect": "in the middle"}),
        json!({"text": "Half of what I want to say", "disconnect": "in the middle", "until close": true}),
        json!({"disconnect": "before"}),
        json!({"text": "Slow", "stall": 60}),
        json!({"wait": 60, "text": "Slow"}),
    ];
    for failure in failures {
        let model = ScriptedModel::start(&json!([failure, {"text": "At last."}]));
        let folder = Folder::with_servers(&model.url, &json!([]));
        let events = folder.events("x", &["--model-timeout", "1s"]);
        assert_eq!(end(&events)["answer"], "At last.", "{failure}: {events:?}");
        assert_eq!(of_type(&events, "retry").len(), 1, "{failure}: {events:?}");
        assert_eq!(model.messages().len(), 2, "{failure}");
    }
}

#[test]
fn what_does_not_pass_is_told_at_once_and_without_the_key() {
    let key = "sk-very-secret-31415";
    for (failure, expected) in [
        (
            json!({"status": 401, "body": {"error": {"message": format!("Incorrect API key provided: {key}")}}}),
            "401: Incorrect API key",
        ),
        (
            json!({"status": 404, "body": {"error": "model not found"}}),
            "404: model not found",
        ),
        (
            json!({"status": 400, "body": {"object": "error", "message": "context length exceeded", "code": 400}}),
            "400: context length",
        ),
        (
            json!({"status": 302, "headers": {"Location": "https://elsewhere.example/v1"}, "body": ""}),
            "it redirects to https://elsewhere.example:",
        ),
        (
            json!({"status": 200, "body": "<html>Welcome</html>", "headers": {"Content-Type": "application/json"}}),
            "no chat completion",
        ),
    ] {
        let model = ScriptedModel::start(&json!([failure]));
        let folder = Folder::of(
            &json!({"model": "m", "endpointUrl": model.url, "apiKey": key, "servers": []}),
        );
        let ran = folder.run("x", &[]);
        assert_eq!(ran.code, Some(1), "{failure}: {ran:?}");
        assert!(ran.log.contains(expected), "{failure}: {}", ran.log);
        assert!(!ran.log.contains(key), "{}", ran.log);
        assert_eq!(model.requests().len(), 1, "{failure}");
        assert_eq!(
            model.requests()[0]["authorization"],
            format!("Bearer {key}")
        );
    }
}

#[test]
fn retries_end() {
    let failures: Vec<Value> = (0..6)
        .map(|_| json!({"status": 503, "body": "busy"}))
        .collect();
    let model = ScriptedModel::start(&json!(failures));
    let folder = Folder::with_servers(&model.url, &json!([]));
    let ran = folder.run("x", &[]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.log.contains("503: busy"), "{}", ran.log);
    assert_eq!(model.requests().len(), 5);
}

#[test]
fn a_server_that_knows_no_stream_options_is_asked_without() {
    let model = ScriptedModel::start(&json!([
        {"status": 400, "body": {"error": {"message": "Unrecognized request argument: stream_options"}}}, {"text": "Now."}
    ]));
    let folder = Folder::with_servers(&model.url, &json!([]));
    let ran = folder.run("x", &[]);
    assert_eq!(ran.out, "Now.\n", "{}", ran.log);
    let requests = model.requests();
    assert_eq!(
        requests[0]["body"]["stream_options"],
        json!({"include_usage": true})
    );
    assert!(requests[1]["body"]["stream_options"].is_null());
}

#[test]
fn nobody_there_is_told_with_the_cause() {
    let folder = Folder::with_servers("http://127.0.0.1:1/v1", &json!([]));
    let ran = folder.run("x", &[]);
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.log.contains("can't be reached") && ran.log.contains("refused"),
        "{}",
        ran.log
    );
}

#[test]
fn a_token_of_the_hub_is_not_sent_to_others() {
    let model = ScriptedModel::start(&json!([{"text": "1"}, {"text": "2"}]));
    let folder = Folder::with_servers(&model.url, &json!([]));
    run(
        folder.path(),
        &["--prompt", "x"],
        "",
        &[("HF_TOKEN", "hf_secret")],
    );
    run(folder.path(), &["--prompt", "x"], "", &[("API_KEY", "any")]);
    assert_eq!(model.requests()[0]["authorization"], Value::Null);
    assert_eq!(model.requests()[1]["authorization"], "Bearer any");
}
