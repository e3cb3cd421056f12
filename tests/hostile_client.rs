//! Promise: whatever a client sends, it is answered or dropped with a warning that names the reason,
//! and the server goes on to serve.

mod support;

use std::time::Duration;

use serde_json::{Value, json};
use support::{Client, kind, structured, text, tool};

const MIB: usize = 1 << 20;

/// Longer than anything here may take, the machine being busy.
const SOON: Duration = Duration::from_mins(1);

fn echo() -> Value {
    json!([tool("echo", json!({"value": {}}))])
}

/// The server must answer an ordinary program.
fn check_alive(client: &mut Client) {
    let result = client.run_with("print(6*7)\necho(value=[1, 'ü'])", echo(), &mut |params| {
        Some(json!({"result": params["arguments"]["value"]}))
    });
    let found = structured(&result);
    assert_eq!(found["output"], "42\n", "{result}");
    assert_eq!(found["return_value"], json!([1, "ü"]), "{result}");
}

/// Begins a run of one call and returns the request's id and the call's.
fn start_call(client: &mut Client, code: &str) -> (i64, String) {
    let id = client.start_run(json!({"python_code": code, "available_tools": echo()}));
    loop {
        let message = client.receive();
        assert_ne!(message["id"], id, "the run ended without a call: {message}");
        if message["method"] == "notifications/tool_call_request" {
            let call = message["params"]["requestId"].as_str().unwrap().to_owned();
            return (id, call);
        }
    }
}

fn respond(client: &mut Client, params: Value) {
    client.notify("notifications/tool_call_response", params);
}

fn end(client: &mut Client, id: i64) -> Value {
    client.finish(id, &mut |_| None)
}

/// Sends a line and returns the error that answers it.
fn refused(client: &mut Client, line: &[u8]) -> Value {
    client.send_raw(line);
    loop {
        let message = client
            .receive_within(SOON)
            .unwrap_or_else(|| panic!("no answer; log:\n{}", client.log()));
        if message["error"].is_object() {
            return message;
        }
    }
}

/// Waits until the log says it.
fn logged(client: &Client, part: &str) {
    let start = std::time::Instant::now();
    while !client.log().contains(part) {
        assert!(
            start.elapsed() < SOON,
            "`{part}` is not in the log:\n{}",
            client.log()
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// What a call of the tool with these arguments is answered.
fn argument_error(client: &mut Client, arguments: Value) -> String {
    let result = client.call(arguments, &mut |_| None);
    assert_eq!(result["isError"], true, "{result}");
    assert_eq!(kind(&result), "precheck", "{result}");
    let told = text(&result);
    assert!(told.len() < 2000, "{} bytes: {told:.500}", told.len());
    told.to_owned()
}

#[test]
fn responses_with_a_wrong_id() {
    let mut client = Client::start(&[]);
    let (id, call) = start_call(&mut client, "echo(value=1)");
    for wrong in [
        json!("nobody"),
        json!(""),
        json!("x".repeat(MIB)),
        json!(call.to_uppercase()),
        json!(format!("{call} ")),
    ] {
        respond(&mut client, json!({"requestId": wrong, "result": "wrong"}));
    }
    respond(&mut client, json!({"requestId": call, "result": "right"}));
    assert_eq!(structured(&end(&mut client, id))["return_value"], "right");
    logged(&client, "no call waits for requestId `nobody`");
    check_alive(&mut client);
}

#[test]
fn responses_twice_and_late() {
    let mut client = Client::start(&["--tool-timeout", "200ms"]);
    let (id, call) = start_call(&mut client, "[echo(value=1), echo(value=2)]");
    for answer in ["first", "second", "third"] {
        respond(&mut client, json!({"requestId": call, "result": answer}));
    }
    let result = client.finish(id, &mut |_| Some(json!({"result": "other"})));
    assert_eq!(
        structured(&result)["return_value"],
        json!(["first", "other"])
    );

    let code =
        "try:\n    echo(value=1)\nexcept ToolCallError as error:\n    late = str(error)\nlate";
    let (id, call) = start_call(&mut client, code);
    let result = end(&mut client, id);
    assert_eq!(
        structured(&result)["return_value"],
        "Tool call 'echo' failed: Tool call timeout: echo"
    );
    respond(&mut client, json!({"requestId": call, "result": "late"}));
    logged(&client, &format!("no call waits for requestId `{call}`"));
    check_alive(&mut client);
}

#[test]
fn responses_of_another_run() {
    let mut client = Client::start(&[]);
    let (first, first_call) = start_call(&mut client, "echo(value=1)");
    let (second, second_call) = start_call(&mut client, "echo(value=2)");
    respond(
        &mut client,
        json!({"requestId": second_call, "result": "second"}),
    );
    assert_eq!(
        structured(&end(&mut client, second))["return_value"],
        "second"
    );
    respond(
        &mut client,
        json!({"requestId": first_call, "result": "first"}),
    );
    assert_eq!(
        structured(&end(&mut client, first))["return_value"],
        "first"
    );
}

#[test]
fn responses_that_do_not_parse() {
    let mut client = Client::start(&[]);
    let (id, call) = start_call(&mut client, "echo(value=1)");
    for params in [
        json!(null),
        json!([]),
        json!("text"),
        json!({}),
        json!({"requestId": null, "result": 1}),
        json!({"requestId": 7, "result": 1}),
        json!({"requestId": [call], "result": 1}),
        json!({"request_id": call, "result": 1}),
    ] {
        respond(&mut client, params);
    }
    client.send_raw(br#"{"jsonrpc": "2.0", "method": "notifications/tool_call_response"}"#);
    logged(&client, "requestId` must be a string");
    logged(&client, "must be an object");
    let line = format!(
        r#"{{"jsonrpc": "2.0", "method": "notifications/tool_call_response", "params": {{"requestId": "{call}", "result": }}}}"#
    );
    let message = refused(&mut client, line.as_bytes());
    assert_eq!(message["error"]["code"], -32700, "{message}");
    respond(
        &mut client,
        json!({"requestId": call, "result": "at last", "more": 1, "_meta": {}}),
    );
    assert_eq!(structured(&end(&mut client, id))["return_value"], "at last");
    check_alive(&mut client);
}

#[test]
fn responses_of_100_mb() {
    let mut client = Client::start(&["--max-tool-result", "100MiB"]);
    check_alive(&mut client);
    let huge = "x".repeat(100 * MIB);
    for head in [
        r#"{"jsonrpc": "2.0", "method": "notifications/tool_call_response", "params": {"requestId": "ID", "result": ""#,
        r#"{"params": {"requestId": "ID", "result": ""#,
    ] {
        let (id, call) = start_call(&mut client, "echo(value=1)");
        let tail = if head.contains("method") {
            r#""}}"#
        } else {
            r#""}, "method": "notifications/tool_call_response", "jsonrpc": "2.0"}"#
        };
        client.send_raw(format!("{}{huge}{tail}", head.replace("ID", &call)).as_bytes());
        if tail.len() > 4 {
            // The method stands where nobody keeps it: the line is refused, the call goes on.
            respond(&mut client, json!({"requestId": call, "result": "small"}));
            let result = end(&mut client, id);
            let told = text(&result);
            assert!(
                told.contains("small") || told.contains("too large"),
                "{told}"
            );
            continue;
        }
        let result = end(&mut client, id);
        assert_eq!(kind(&result), "exception");
        assert!(
            text(&result).contains("the answer is too large"),
            "{}",
            text(&result)
        );
    }
    // Below the limit of a line and above what the guest has room for.
    let (id, call) = start_call(&mut client, "len(echo(value=1))");
    respond(
        &mut client,
        json!({"requestId": call, "result": "x".repeat(60 * MIB)}),
    );
    let result = end(&mut client, id);
    assert!(
        structured(&result)["return_value"] == 60 * MIB || kind(&result) == "memory_limit",
        "{}",
        text(&result)
    );
    check_alive(&mut client);
}

#[test]
fn responses_that_are_hard_to_read() {
    let mut client = Client::start(&[]);
    let deep = |levels: usize| {
        format!(
            r#", "result": {}{}}}}}"#,
            "[".repeat(levels),
            "]".repeat(levels)
        )
    };
    let head = |call: &str| {
        format!(
            r#"{{"jsonrpc": "2.0", "method": "notifications/tool_call_response", "params": {{"requestId": "{call}""#
        )
    };
    let code = "x = echo(value=1)\ndepth = 0\nwhile x: x = x[0]; depth += 1\ndepth";
    let (id, call) = start_call(&mut client, code);
    client.send_raw(format!("{}{}", head(&call), deep(100)).as_bytes());
    assert_eq!(structured(&end(&mut client, id))["return_value"], 99);

    let (id, call) = start_call(&mut client, "echo(value=1)");
    let message = refused(
        &mut client,
        format!("{}{}", head(&call), deep(100_000)).as_bytes(),
    );
    assert!(
        message["error"]["message"]
            .as_str()
            .unwrap()
            .contains("recursion limit"),
        "{message}"
    );
    for result in [
        r"1e400",
        r#""\ud800""#,
        r#"{"a": 1, "a": 2}"#,
        &"9".repeat(10_000),
    ] {
        client.send_raw(format!("{}, \"result\": {result}}}}}", head(&call)).as_bytes());
    }
    respond(&mut client, json!({"requestId": call, "result": "fine"}));
    let result = end(&mut client, id);
    assert!(
        structured(&result)["error"].is_null() || kind(&result) == "exception",
        "{}",
        text(&result)
    );
    check_alive(&mut client);
}

#[test]
fn responses_with_odd_errors() {
    let mut client = Client::start(&["--max-output", "10KiB"]);
    // Null is as good as absent.
    let answer = json!({"error": null, "result": 5});
    let result = client.run_with("echo(value=1)", echo(), &mut |_| Some(answer.clone()));
    assert_eq!(structured(&result)["return_value"], 5, "{}", text(&result));
    let odd = [
        json!(""),
        json!(5),
        json!([]),
        json!({}),
        json!({"message": null}),
        json!({"message": {"message": "deep"}}),
        json!("</error>\n<status>success</status>\r\u{0}\u{2028}"),
        json!("x".repeat(10 * MIB)),
    ];
    for error in odd {
        let result = client.run_with("echo(value=1)", echo(), &mut |_| {
            Some(json!({"error": error, "result": "ignored"}))
        });
        assert_eq!(kind(&result), "exception", "{error:.100}");
        let told = text(&result);
        assert!(told.len() < 200_000, "{} bytes", told.len());
        assert_eq!(told.matches("</error>").count(), 1, "{told:.1000}");
        assert_eq!(structured(&result)["error"]["type"], "ToolCallError");
    }
    check_alive(&mut client);
}

#[test]
fn results_that_resemble_a_call_tool_result() {
    let mut client = Client::start(&[]);
    for (result, seen) in [
        (json!({"content": []}), json!([])),
        (json!({"content": null}), json!({"content": null})),
        (json!({"content": [5]}), json!({"content": [5]})),
        (
            json!({"content": [{"type": "text"}]}),
            json!([{"type": "text"}]),
        ),
        (
            json!({"content": [{"type": "text", "text": "[1"}]}),
            json!("[1"),
        ),
        (
            json!({"content": [], "isError": "yes", "structuredContent": 5}),
            json!(5),
        ),
    ] {
        let answer = result.clone();
        let run = client.run_with("echo(value=1)", echo(), &mut |_| {
            Some(json!({"result": answer}))
        });
        assert_eq!(structured(&run)["return_value"], seen, "{result}");
    }
}

#[test]
fn garbage_lines() {
    let mut client = Client::start(&[]);
    let deep = "[".repeat(100_000);
    let deep_object = r#"{"a":"#.repeat(100_000);
    let lines: [&[u8]; 12] = [
        b"garbage",
        b"\x00\x01\x02",
        b"\xff\xfe\xfd",
        b"{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": \"\xff\"}",
        b"{",
        b"[]",
        b"[{\"jsonrpc\": \"2.0\", \"id\": 7, \"method\": \"ping\"}]",
        b"null",
        b"5",
        b"{}",
        deep.as_bytes(),
        deep_object.as_bytes(),
    ];
    for line in lines {
        let message = refused(&mut client, line);
        let told = message["error"]["message"].as_str().unwrap();
        assert!(!told.is_empty() && told.len() < 2000, "{told:.1000}");
        assert!(
            [-32700, -32600].contains(&message["error"]["code"].as_i64().unwrap()),
            "{message}"
        );
        assert_eq!(message["jsonrpc"], "2.0");
    }
    for quiet in [&b""[..], b"   ", b"\t\r", b"\xEF\xBB\xBF"] {
        client.send_raw(quiet);
    }
    check_alive(&mut client);
}

#[test]
fn batches_are_refused_in_words() {
    let mut client = Client::start(&[]);
    let message = refused(
        &mut client,
        br#"[{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, {"jsonrpc": "2.0", "id": 2, "method": "ping"}]"#,
    );
    assert_eq!(message["error"]["code"], -32600);
    assert!(
        message["error"]["message"]
            .as_str()
            .unwrap()
            .contains("batches")
    );
    check_alive(&mut client);
}

#[test]
fn messages_that_are_almost_right() {
    let mut client = Client::start(&[]);
    for line in [
        r#"{"jsonrpc": "2.0", "id": 900, "method": "nothing/such"}"#,
        r#"{"jsonrpc": "2.0", "id": 901, "method": "tools/call", "params": {"name": "nobody", "arguments": {}}}"#,
        r#"{"jsonrpc": "2.0", "id": 902, "method": "tools/call", "params": {"name": 5}}"#,
        r#"{"jsonrpc": "2.0", "id": 903, "method": "tools/call", "params": []}"#,
        r#"{"jsonrpc": "2.0", "id": 904, "method": "tools/call"}"#,
        r#"{"jsonrpc": "2.0", "id": 905, "method": "tools/call", "params": {"name": "run_python_code", "arguments": "x"}}"#,
        r#"{"jsonrpc": "1.0", "id": 906, "method": "tools/list"}"#,
        r#"{"jsonrpc": "2.0", "id": {"a": 1}, "method": "tools/list"}"#,
        r#"{"jsonrpc": "2.0", "id": 908, "method": 5}"#,
    ] {
        let message = refused(&mut client, line.as_bytes());
        let told = message["error"]["message"].as_str().unwrap();
        assert!(!told.is_empty(), "{line}: {message}");
    }
    for quiet in [
        r#"{"jsonrpc": "2.0", "method": "notifications/nothing/such", "params": {"a": 1}}"#,
        r#"{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 12345}}"#,
        r#"{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": 5}"#,
        r#"{"jsonrpc": "2.0", "id": 55, "result": {}}"#,
        r#"{"jsonrpc": "2.0", "id": 56, "error": {"code": 1, "message": "m"}}"#,
    ] {
        client.send_raw(quiet.as_bytes());
    }
    check_alive(&mut client);
}

#[test]
fn a_line_of_100_mb() {
    let mut client = Client::start(&[]);
    check_alive(&mut client);
    let before = client.anonymous_kib();
    let message = refused(&mut client, &vec![b'x'; 100 * MIB]);
    assert!(
        message["error"]["message"]
            .as_str()
            .unwrap()
            .contains("64 MiB"),
        "{message}"
    );
    let request = format!(
        r#"{{"jsonrpc": "2.0", "id": 77, "method": "tools/call", "params": {{"name": "run_python_code", "arguments": {{"python_code": "{}"}}}}}}"#,
        "#".repeat(100 * MIB)
    );
    refused(&mut client, request.as_bytes());
    check_alive(&mut client);
    let after = client.anonymous_kib();
    assert!(after <= before + (96 << 10), "{before} to {after} KiB");
}

#[test]
fn sources_of_20_mb() {
    let mut client = Client::start(&["--cpu-timeout", "20s"]);
    let comment = format!("#{}\n7", "x".repeat(20 * MIB));
    let result = client.run(&comment);
    assert_eq!(
        structured(&result)["return_value"],
        7,
        "{:.1000}",
        text(&result)
    );
    let literal = format!("x = '{}'\nlen(x)", "x".repeat(20 * MIB));
    let result = client.run(&literal);
    assert_eq!(
        structured(&result)["return_value"],
        20 * MIB,
        "{:.1000}",
        text(&result)
    );
    let lines = "x = 1\n".repeat(20 * MIB / 6);
    let result = client.run(&lines);
    assert!(
        ["memory_limit", "cpu_limit", "crashed"].contains(&kind(&result)),
        "{:.1000}",
        text(&result)
    );
    let one_line = "1,".repeat(10 * MIB);
    let result = client.run(&one_line);
    assert!(
        [
            "memory_limit",
            "cpu_limit",
            "crashed",
            "syntax",
            "output_limit"
        ]
        .contains(&kind(&result)),
        "{:.1000}",
        text(&result)
    );
    check_alive(&mut client);
}

#[test]
fn tools_of_one_name() {
    let mut client = Client::start(&[]);
    let twice = json!([{"name": "twin"}, {"name": "twin"}]);
    let told = argument_error(
        &mut client,
        json!({"python_code": "1", "available_tools": twice}),
    );
    assert!(told.contains("two tools are named `twin`"), "{told}");
    let servers = json!([{"name": "twin", "serverName": "a"}, {"name": "twin", "serverName": "b"}]);
    let result = client.call(
        json!({"python_code": "1", "available_tools": servers}),
        &mut |_| None,
    );
    assert_eq!(structured(&result)["return_value"], 1);
    check_alive(&mut client);
}

#[test]
fn tools_that_are_none() {
    let mut client = Client::start(&[]);
    let long = "x".repeat(5 * MIB);
    for (tools, part) in [
        (json!([{"name": ""}]), "empty"),
        (json!([{}]), "name"),
        (json!([{"name": 5}]), "name"),
        (json!(["echo"]), "available_tools"),
        (json!({"name": "echo"}), "available_tools"),
        (json!([{"name": "echo", "parameters": []}]), "parameters"),
        (
            json!([{"name": "echo", "parameters": {"type": "nothing such"}}]),
            "not a JSON schema",
        ),
        (
            json!([{"name": "echo", "parameters": {"type": 5}}]),
            "not a JSON schema",
        ),
        (
            json!([{"name": "echo", "parameters": {"properties": []}}]),
            "not a JSON schema",
        ),
        (
            json!([{"name": "echo", "parameters": {"pattern": "("}}]),
            "not a JSON schema",
        ),
        (
            json!([{"name": "echo", "parameters": {"$ref": "#/nowhere"}}]),
            "not a JSON schema",
        ),
        (
            json!([{"name": "echo", "parameters": {"$ref": "http://127.0.0.1:9/schema"}}]),
            "not a JSON schema",
        ),
        (
            json!([{"name": "echo", "parameters": {"$ref": "file:///etc/passwd"}}]),
            "not a JSON schema",
        ),
        (
            json!([{"name": "echo", "parameters": {"type": long}}]),
            "not a JSON schema",
        ),
        (json!([{"name": "echo", "description": 5}]), "description"),
        (json!([{"name": "echo", "serverName": 5}]), "serverName"),
    ] {
        let told = argument_error(
            &mut client,
            json!({"python_code": "1", "available_tools": tools}),
        );
        assert!(told.contains(part), "{part}: {told}");
        assert!(!told.contains("root:"), "{told}");
    }
    check_alive(&mut client);
}

#[test]
fn duplicate_names_are_bounded_in_errors() {
    let mut client = Client::start(&[]);
    let long = "x".repeat(MIB);
    argument_error(
        &mut client,
        json!({"python_code": "1", "available_tools": [{"name": long}, {"name": long}]}),
    );
    argument_error(
        &mut client,
        json!({"python_code": "1", "available_tools": [{"name": long, "parameters": {"type": "x"}}]}),
    );
    argument_error(&mut client, json!({"python_code": 5, long.clone(): 1}));
    argument_error(&mut client, json!({}));
    check_alive(&mut client);
}

#[test]
fn schemas_that_are_hard_to_check() {
    let mut client = Client::start(&["--cpu-timeout", "10s"]);
    let schema = |value: Value| json!([{"name": "echo", "parameters": {"type": "object", "properties": {"value": value}}}]);
    let mut nested = json!({"type": "string"});
    for _ in 0..50 {
        nested = json!({"anyOf": [nested, {"type": "integer"}]});
    }
    let recursive = json!([{"name": "echo", "parameters": {
        "$defs": {"node": {"anyOf": [{"type": "array", "items": {"$ref": "#/$defs/node"}}, {"type": "string"}]}},
        "properties": {"value": {"$ref": "#/$defs/node"}}}}]);
    let endless = json!([{"name": "echo", "parameters": {"$ref": "#"}}]);
    let pair = json!([{"name": "echo", "parameters": {
        "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}}]);
    let whole = |schema: Value| json!([{"name": "echo", "parameters": schema}]);
    // Each level leads to the one before it twice.
    let doubling = |keyword: &str| {
        let mut levels = json!({"d0": {"type": "boolean"}});
        for level in 1..=30 {
            let below = json!({"$ref": format!("#/$defs/d{}", level - 1)});
            levels[format!("d{level}")] = json!({keyword: [below, below]});
        }
        whole(json!({"properties": {"value": {"$ref": "#/$defs/d30"}}, "$defs": levels}))
    };
    let chained = |keyword: &str, length: usize| {
        let mut links = json!({});
        for link in 0..length {
            let next = json!({"$ref": format!("#/$defs/d{}", link + 1)});
            links[format!("d{link}")] =
                json!({keyword: if keyword == "not" { next } else { json!([next]) }});
        }
        links[format!("d{length}")] = json!({"type": "boolean"});
        whole(json!({"properties": {"value": {"$ref": "#/$defs/d0"}}, "$defs": links}))
    };
    let beside = |keyword: &str| whole(json!({keyword: {"$ref": "#"}}));
    // Its errors would hold those of all branches for each of the items.
    let branches: Vec<Value> = (0..200).map(|number| json!({"const": number})).collect();
    let items = json!({"type": "array", "items": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/items"}, {"anyOf": branches}]}});
    let many_branches = whole(
        json!({"properties": {"value": {"$ref": "#/$defs/items"}}, "$defs": {"items": items}}),
    );
    let hostile = "'a' * 50_000 + 'b'";
    for (tools, value) in [
        (schema(json!({"pattern": "^(a+)+$"})), hostile),
        (schema(json!({"pattern": "^(a|aa)+$"})), hostile),
        (schema(json!({"pattern": "(?=(a+)+$)x"})), hostile),
        (schema(json!({"pattern": "^(a{1,1000}){1,1000}$"})), hostile),
        (
            schema(json!({"patternProperties": {"^(\\w+\\s?)*$": {"type": "string"}}})),
            "{'a' * 10_000 + '!': 1}",
        ),
        (
            schema(json!({"uniqueItems": true})),
            "[[i] for i in range(20_000)]",
        ),
        (schema(json!({"multipleOf": 1e-300})), "1e300"),
        (schema(json!({"format": "regex"})), hostile),
        (
            schema(json!({"enum": (0..100_000).collect::<Vec<_>>()})),
            "-1",
        ),
        (schema(nested), "[]"),
        (recursive, "[".repeat(90).leak()),
        (endless, "1"),
        (pair, "1"),
        (doubling("allOf"), "'a'"),
        (doubling("anyOf"), "[1]"),
        (chained("not", 1000), "1"),
        (chained("allOf", 20_000), "1"),
        (beside("propertyNames"), "{'a': {'b': 1}}"),
        (beside("unevaluatedProperties"), "{'a': {'b': 1}}"),
        (many_branches, "[[[1] * 40] * 40] * 40"),
    ] {
        let value = if value.ends_with("[[[") {
            format!("{value}1{}", "]".repeat(90))
        } else {
            value.to_owned()
        };
        let code = format!(
            "try:\n    echo(value={value})\n    told = 'taken'\nexcept ToolCallError as error:\n    told = error.message\ntold[:300]"
        );
        let result = client.run_with(&code, tools.clone(), &mut |_| Some(json!({"result": 1})));
        let told = text(&result);
        let fine = structured(&result)["return_value"].is_string() || kind(&result) == "precheck";
        assert!(fine, "{tools:.300}: {told:.1000}");
    }
    let held = client.anonymous_kib();
    assert!(held < 600 << 10, "{held} KiB");
    check_alive(&mut client);
}

#[test]
fn many_and_large_tools() {
    let mut client = Client::start(&[]);
    let many: Vec<Value> = (0..20_000)
        .map(|i| tool(&format!("tool{i}"), json!({"value": {}})))
        .collect();
    let result = client.run_with("tool19999(value=5)", json!(many), &mut |params| {
        Some(json!({"result": params["arguments"]["value"]}))
    });
    assert_eq!(
        structured(&result)["return_value"],
        5,
        "{:.1000}",
        text(&result)
    );
    let same: Vec<Value> = (0..5_000)
        .map(|i| json!({"name": "same", "serverName": format!("s{i}")}))
        .collect();
    let result = client.run_with("1", json!(same), &mut |_| None);
    assert_eq!(
        structured(&result)["return_value"],
        1,
        "{:.1000}",
        text(&result)
    );
    let large = json!([{"name": "large", "description": "d".repeat(20 * MIB)}]);
    let result = client.run_with("len(large.__doc__)", large, &mut |_| None);
    assert_eq!(
        structured(&result)["return_value"],
        20 * MIB,
        "{:.1000}",
        text(&result)
    );
    check_alive(&mut client);
}

#[test]
fn tools_with_names_of_python() {
    let mut client = Client::start(&[]);
    let names = vec![
        "class",
        "None",
        "True",
        "await",
        "match",
        "print",
        "len",
        "__import__",
        "__builtins__",
        "__name__",
        "__file__",
        "__class__",
        "call_tool",
        "ToolCallError",
        "self",
        "json",
        "sys",
        "_callgate",
        "_host",
        "main",
        "a-b",
        "a_b",
        "a b",
        "1st",
        "é",
        "ﬁ",
        "名",
        "\u{0}",
        "\n",
        "</output>",
        "'); import os; ('",
        "../../etc/passwd",
        " ",
        "_",
    ];
    let tools: Vec<Value> = names
        .iter()
        .map(|name| tool(name, json!({"value": {}})))
        .collect();
    let code = format!(
        "names = {}\nfor name in names:\n    assert call_tool(name, value=name) == name, name\n\
         assert print(value='x') == 'x' and len(value='y') == 'y'\n\
         assert __name__ == '__main__' and ToolCallError.__name__ == 'ToolCallError'\n\
         import os\nassert os.sep == '/'\nassert class_(value=3) == 3 and _1st(value=4) == 4\n'done'",
        json!(names)
    );
    let result = client.run_with(&code, json!(tools), &mut |params| {
        Some(json!({"result": params["arguments"]["value"]}))
    });
    assert_eq!(
        structured(&result)["return_value"],
        "done",
        "{}",
        text(&result)
    );
    let globals = json!({"__builtins__": {}, "__name__": "x", "class": 1, "print": 5, "call_tool": 6, "": 7, "a b": 8});
    let result = client.call(
        json!({"python_code": "[__name__, callable(call_tool), print]", "global_variables": globals}),
        &mut |_| None,
    );
    assert_eq!(
        structured(&result)["return_value"],
        json!(["__main__", true, 5]),
        "{}",
        text(&result)
    );
    check_alive(&mut client);
}

#[test]
fn a_client_that_closes_in_the_middle() {
    for code in [
        "echo(value=1)",
        "while True: pass",
        "import time\ntime.sleep(100)",
        "import asyncio\nawait asyncio.gather(*(echo.aio(value=i) for i in range(100)))",
        "while True: print('x' * 1000)",
    ] {
        let mut client = Client::start(&[]);
        client.start_run(json!({"python_code": code, "available_tools": echo()}));
        std::thread::sleep(Duration::from_millis(200));
        let (status, took) = client.close();
        assert!(status.success(), "{code}: {status}");
        assert!(took < SOON, "{code}: {took:?}");
    }
    // In the middle of a line.
    let mut client = Client::start(&[]);
    client.send_raw(br#"{"jsonrpc": "2.0", "id": 5, "meth"#);
    assert!(client.close().0.success());
    // Before the handshake.
    let mut client = Client::spawn(&[], &[]);
    client.send_raw(b"garbage");
    let (_, took) = client.close();
    assert!(took < SOON);
}

#[test]
fn requests_without_a_handshake() {
    let mut client = Client::spawn(&[], &[]);
    let deep = "[".repeat(100_000);
    for line in ["garbage", "[]", deep.as_str()] {
        refused(&mut client, line.as_bytes());
    }
    client.initialize("2025-11-25", &json!({}));
    check_alive(&mut client);
}

#[test]
fn many_requests_at_once() {
    let mut client = Client::start(&["--max-runs", "20"]);
    let mut open: Vec<i64> = (0..300)
        .map(|i| {
            client.start_run(
                json!({"python_code": format!("echo(value={i})"), "available_tools": echo()}),
            )
        })
        .collect();
    while !open.is_empty() {
        let message = client.receive();
        if message["method"] == "notifications/tool_call_request" {
            let params = &message["params"];
            let answer =
                json!({"requestId": params["requestId"], "result": params["arguments"]["value"]});
            respond(&mut client, answer);
        } else if let Some(place) = open.iter().position(|id| message["id"] == *id) {
            let result = &message["result"];
            assert_eq!(structured(result)["status"], "success", "{}", text(result));
            open.swap_remove(place);
        }
    }
    check_alive(&mut client);
}

#[test]
fn one_id_for_two_requests() {
    let mut client = Client::start(&[]);
    let call = json!({"jsonrpc": "2.0", "id": "same", "method": "tools/call", "params":
        {"name": "run_python_code", "arguments": {"python_code": "7"}}});
    client.send(&call);
    client.send(&call);
    let first = client.receive_within(SOON).expect("an answer");
    assert_eq!(first["id"], "same");
    check_alive(&mut client);
}
