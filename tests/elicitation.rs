//! Promise: with `--callbacks elicitation`, a programmatic client answers the tool calls of a program as elicitations, in
//! both eras; it is never chosen by default.

mod support;

use serde_json::{Value, json};
use support::{
    Client,
    http::{Agent, Era, Events, HttpServer},
    structured, tool,
};

const ELICITATION: [&str; 2] = ["--callbacks", "elicitation"];

fn tools() -> Value {
    json!([tool("fetch", json!({"number": {"type": "integer"}}))])
}

/// Calls in two rounds: two side by side, then one.
const PROGRAM: &str = "import asyncio\n\
    first = await asyncio.gather(fetch.aio(number=1), fetch.aio(number=2))\n\
    try:\n    fetch(3)\nexcept ToolCallError as error:\n    print(error)\nfirst";

/// The call in the message of an elicitation.
fn call_of(elicitation: &Value) -> Value {
    let message = elicitation["message"].as_str().expect("it is a text");
    serde_json::from_str(message).expect("it is JSON")
}

/// What a client answers: the number as text, or an error for 3.
fn content(elicitation: &Value) -> Value {
    let call = call_of(elicitation);
    assert_eq!(call["toolName"], "fetch");
    match call["arguments"]["number"].as_i64() {
        Some(3) => json!({"action": "accept", "content": {"error": "not found"}}),
        number => {
            json!({"action": "accept", "content": {"result": json!({"page": number}).to_string()}})
        }
    }
}

fn assert_ran(result: &Value) {
    assert_eq!(
        structured(result)["return_value"],
        json!([{"page": 1}, {"page": 2}]),
        "{result}"
    );
    assert_eq!(
        structured(result)["output"],
        "Tool call 'fetch' failed: not found\n"
    );
}

#[test]
fn before_2026_07_28_calls_are_elicitation_requests() {
    let mut client = Client::spawn(&ELICITATION, &[]);
    client.initialize("2025-11-25", &json!({"elicitation": {}}));
    let id = client.start_run(json!({"python_code": PROGRAM, "available_tools": tools()}));
    let mut asked = Vec::new();
    let result = loop {
        let message = client.receive();
        if message["id"] == id && message["method"].is_null() {
            break message["result"].clone();
        }
        assert_eq!(message["method"], "elicitation/create", "{message}");
        asked.push(message);
        // Both of the first round are asked before one is answered.
        if asked.len() != 1 {
            for message in asked.split_off(usize::from(asked.len() > 2) * 2) {
                client.send(&json!({"jsonrpc": "2.0", "id": message["id"], "result": content(&message["params"])}));
            }
            if asked.is_empty() {
                asked = vec![Value::Null, Value::Null];
            }
        }
    };
    assert_ran(&result);
}

fn retry(agent: &mut Agent, required: &Value, responses: &Value) -> Value {
    let params = json!({"name": "run_python_code", "arguments": {"python_code": PROGRAM, "available_tools": tools()},
        "requestState": required["requestState"], "inputResponses": responses});
    Events::of(agent.request("tools/call", params)).result()
}

fn responses(required: &Value) -> Value {
    assert_eq!(required["resultType"], "input_required", "{required}");
    let requests = required["inputRequests"].as_object().expect("an object");
    let answered = requests.iter().map(|(key, request)| {
        assert_eq!(request["method"], "elicitation/create");
        (key.clone(), content(&request["params"]))
    });
    Value::Object(answered.collect())
}

fn modern(server: &HttpServer) -> Agent {
    let mut agent = Agent::silent(server, Era::Stateless, None);
    agent.capabilities = json!({"elicitation": {}});
    agent
}

#[test]
fn on_2026_07_28_calls_of_one_round_are_one_input_required_result() {
    let server = HttpServer::start(&ELICITATION);
    let mut agent = modern(&server);
    let run = json!({"python_code": PROGRAM, "available_tools": tools()});
    let first = agent.start_run(run).result();
    assert_eq!(
        first["inputRequests"].as_object().map(serde_json::Map::len),
        Some(2)
    );
    let answers = responses(&first);
    let second = retry(&mut agent, &first, &answers);
    // What was answered is over.
    let stale = retry(&mut agent, &first, &answers);
    assert_eq!(stale["isError"], true, "{stale}");
    let answers = responses(&second);
    assert_ran(&retry(&mut agent, &second, &answers));
}

#[test]
fn an_eleventh_round_fails_with_a_clear_error() {
    let server = HttpServer::start(&ELICITATION);
    let mut agent = modern(&server);
    let code = "for n in range(4, 20):\n    fetch(n)";
    let mut result = agent
        .start_run(json!({"python_code": code, "available_tools": tools()}))
        .result();
    let mut rounds = 0;
    while result["resultType"] == "input_required" {
        rounds += 1;
        let answers = responses(&result);
        result = retry(&mut agent, &result, &answers);
    }
    assert_eq!(rounds, 10);
    let message = structured(&result)["error"]["message"]
        .as_str()
        .expect("it failed");
    assert!(message.contains("ten rounds"), "{message}");
}

#[test]
fn a_declined_call_is_an_error_and_nonsense_is_refused() {
    let server = HttpServer::start(&ELICITATION);
    let mut agent = modern(&server);
    let run = json!({"python_code": "fetch(5)", "available_tools": tools()});
    let first = agent.start_run(run).result();
    let key = first["inputRequests"]
        .as_object()
        .and_then(|of| of.keys().next().cloned())
        .expect("one");
    let nonsense = retry(&mut agent, &first, &json!({&key: {"action": "perhaps"}}));
    assert_eq!(nonsense["isError"], true, "{nonsense}");
    let result = retry(&mut agent, &first, &json!({key: {"action": "decline"}}));
    let message = structured(&result)["error"]["message"]
        .as_str()
        .expect("it failed");
    assert!(message.contains("declined"), "{message}");
}

#[test]
fn a_client_that_does_not_declare_it_is_told_so() {
    let mut client = Client::start(&ELICITATION);
    let result = client.run_with("fetch(1)", tools(), &mut |_| None);
    let message = structured(&result)["error"]["message"]
        .as_str()
        .expect("it failed");
    assert!(
        message.contains("has not declared that it answers elicitation"),
        "{message}"
    );
}
