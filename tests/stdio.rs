//! Promise: callgate is a well-mannered stdio server in every revision.

mod support;

use std::time::Duration;

use serde_json::{Value, json};
use support::{Client, structured, tool};

const HANDSHAKE_REVISIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

/// `_meta` that every request of 2026-07-28 carries.
fn meta(capabilities: &Value) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    })
}

#[test]
fn every_revision_with_a_handshake_is_negotiated_and_runs_code_with_tools() {
    for revision in HANDSHAKE_REVISIONS {
        let mut client = Client::spawn(&[], &[]);
        let result = client.initialize(revision, &json!({}));
        assert_eq!(result["protocolVersion"], revision);
        assert_eq!(result["serverInfo"]["name"], "callgate");
        assert!(
            result["instructions"]
                .as_str()
                .unwrap()
                .contains("ToolCallError")
        );
        let tools = json!([tool("add", json!({"a": {"type": "integer"}}))]);
        let result = client.run_with("add(a=3)", tools, &mut |call| {
            Some(json!({"result": call["arguments"]["a"]}))
        });
        assert_eq!(structured(&result)["return_value"], 3, "{revision}");
    }
}

#[test]
fn an_unknown_revision_gets_one_that_callgate_speaks() {
    let mut client = Client::spawn(&[], &[]);
    let result = client.initialize("1999-01-01", &json!({}));
    assert!(
        HANDSHAKE_REVISIONS.contains(&result["protocolVersion"].as_str().unwrap()),
        "{result}"
    );
}

#[test]
fn the_newest_revision_needs_no_handshake() {
    let mut client = Client::spawn(&[], &[]);
    let declared = json!({"extensions": {"callgate/tool-callbacks": {}}});
    let discovered = client.request("server/discover", json!({"_meta": meta(&declared)}));
    assert!(
        discovered["result"]["capabilities"]["extensions"]["callgate/tool-callbacks"].is_object(),
        "{discovered}"
    );
    let code = json!({"python_code": "add(a=3)", "available_tools": [tool("add", json!({"a": {"type": "integer"}}))]});
    let id = client.send_request(
        "tools/call",
        json!({"name": "run_python_code", "arguments": code, "_meta": meta(&declared)}),
    );
    let result = client.finish(id, &mut |call| {
        Some(json!({"result": call["arguments"]["a"]}))
    });
    assert_eq!(structured(&result)["return_value"], 3, "{result}");
    assert_eq!(result["resultType"], "complete");
}

#[test]
fn a_client_of_the_newest_revision_that_declared_nothing_gets_no_notifications() {
    let code = json!({"python_code": "add(a=3)", "available_tools": [tool("add", json!({"a": {"type": "integer"}}))]});
    let call = json!({"name": "run_python_code", "arguments": code, "_meta": meta(&json!({}))});
    let mut client = Client::spawn(&[], &[]);
    let id = client.send_request("tools/call", call.clone());
    let result = client.finish(id, &mut |_| panic!("the client was asked"));
    assert_eq!(structured(&result)["status"], "pending", "{result}");

    let mut client = Client::spawn(&["--callbacks", "notify"], &[]);
    let id = client.send_request("tools/call", call);
    let result = client.finish(id, &mut |_| Some(json!({"result": 3})));
    assert_eq!(structured(&result)["return_value"], 3);
}

#[test]
fn the_tool_is_listed_exactly_as_the_wire_format_has_it() {
    let mut client = Client::start(&[]);
    let tools = client.request("tools/list", json!({}))["result"]["tools"].clone();
    assert_eq!(tools.as_array().unwrap().len(), 2);
    assert_eq!(tools[1]["name"], "resume_python_code");
    let tool = &tools[0];
    assert_eq!(tool["name"], "run_python_code");
    let input = &tool["inputSchema"];
    assert_eq!(input["type"], "object");
    assert_eq!(input["required"], json!(["python_code"]));
    assert_eq!(input["additionalProperties"], false);
    assert_eq!(input["properties"]["python_code"]["type"], "string");
    assert_eq!(input["properties"]["available_tools"]["default"], json!([]));
    let item = &input["properties"]["available_tools"]["items"];
    assert_eq!(item["required"], json!(["name"]));
    assert_eq!(item["properties"]["parameters"]["type"], "object");
    assert_eq!(
        input["properties"]["global_variables"]["default"],
        json!({})
    );
    assert_eq!(tool["outputSchema"]["type"], "object");
    assert_eq!(tool["annotations"]["readOnlyHint"], false);
    assert_eq!(tool["annotations"]["openWorldHint"], true);
}

#[test]
fn unknown_methods_and_tools_are_json_rpc_errors() {
    let mut client = Client::start(&[]);
    assert_eq!(
        client.request("tools/cull", json!({}))["error"]["code"],
        -32601
    );
    let error = client.request(
        "tools/call",
        json!({"name": "run_ruby_code", "arguments": {}}),
    )["error"]
        .clone();
    assert_eq!(error["code"], -32602);
    assert!(
        error["message"]
            .as_str()
            .unwrap()
            .contains("run_python_code")
    );
}

#[test]
fn what_is_not_declared_is_not_there() {
    let mut client = Client::spawn(&[], &[]);
    let result = client.initialize("2025-11-25", &json!({}));
    let complete = json!({"ref": {"type": "ref/prompt", "name": "p"},
        "argument": {"name": "a", "value": ""}});
    for (capability, method, params) in [
        ("prompts", "prompts/list", json!({})),
        ("resources", "resources/list", json!({})),
        ("resources", "resources/templates/list", json!({})),
        ("completions", "completion/complete", complete),
    ] {
        assert!(result["capabilities"][capability].is_null(), "{result}");
        let answer = client.request(method, params);
        assert_eq!(answer["error"]["code"], -32601, "{answer}");
    }
}

#[test]
fn what_is_not_a_message_is_answered_and_harms_nothing() {
    let mut client = Client::start(&[]);
    let mut code = |line: &[u8]| {
        client.send_raw(line);
        client.receive()["error"]["code"].clone()
    };
    assert_eq!(code(b"not json"), -32700);
    assert_eq!(code(b"\xff\xfe\x00"), -32700);
    assert_eq!(
        code(br#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#),
        -32600
    );
    assert_eq!(
        code(br#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":"no"}"#),
        -32602
    );
    client.send_raw(b"");
    client.send_raw(br#"{"jsonrpc":"2.0","method":"notifications/of_somebody_else","params":{}}"#);
    assert_eq!(structured(&client.run("1+1"))["return_value"], 2);
}

#[test]
fn the_end_of_input_ends_the_process_within_half_a_second() {
    for code in [
        "while True: pass",
        "sum(range(10**12))",
        "import time; time.sleep(1000)",
        "wait()",
    ] {
        let mut client = Client::start(&[]);
        client.run("1");
        client
            .start_run(json!({"python_code": code, "available_tools": [tool("wait", json!({}))]}));
        std::thread::sleep(Duration::from_millis(100));
        let (status, took) = client.close();
        assert!(status.success(), "{code}: {status}");
        assert!(took < Duration::from_millis(500), "{code}: {took:?}");
    }
}

#[test]
fn the_end_of_input_withdraws_calls_before_the_result() {
    let mut client = Client::start(&[]);
    let tools = json!([tool("wait", json!({}))]);
    let id = client
        .start_run(json!({"python_code": "print('begun')\nwait()", "available_tools": tools}));
    let call = client.receive();
    client.end_input();
    let withdrawn = client.receive();
    assert_eq!(withdrawn["method"], "notifications/tool_call_cancelled");
    assert_eq!(
        withdrawn["params"]["requestId"],
        call["params"]["requestId"]
    );
    let result = client.finish(id, &mut |_| None);
    assert_eq!(structured(&result)["error"]["kind"], "cancelled");
    assert_eq!(structured(&result)["output"], "begun\n");
}

#[test]
fn requests_that_were_piped_in_are_still_answered() {
    let mut client = Client::spawn(&[], &[]);
    client.initialize("2025-11-25", &json!({}));
    client.run("1");
    let id = client.start_run(json!({"python_code": "6*7"}));
    client.end_input();
    let result = client.finish(id, &mut |_| None);
    assert_eq!(structured(&result)["return_value"], 42);
}

#[test]
fn logs_go_to_stderr_and_hold_no_code_arguments_or_results() {
    let mut client = Client::start(&["--log", "info"]);
    let tools = json!([tool("add", json!({"a": {"type": "string"}}))]);
    let result = client.run_with(
        "add(a='secret-argument') + 'secret-code'",
        tools,
        &mut |_| Some(json!({"result": "secret-result"})),
    );
    assert_eq!(
        structured(&result)["return_value"],
        "secret-resultsecret-code"
    );
    let log = client.log();
    assert!(!log.contains("secret"), "{log}");
}
