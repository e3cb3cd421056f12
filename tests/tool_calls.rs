//! Promise: code calls the client's tools, as wire.md says, over stdio.

mod support;

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::{Client, kind, structured, text, tool};

fn search() -> Value {
    json!([tool("web_search", json!({"query": {"type": "string"}}))])
}

/// Runs code with `web_search`, which answers with what `answer` makes of the arguments.
fn run_search(client: &mut Client, code: &str, mut answer: impl FnMut(&Value) -> Value) -> Value {
    client.run_with(code, search(), &mut |call| Some(answer(&call["arguments"])))
}

#[test]
fn a_call_travels_in_the_exact_format() {
    let mut client = Client::start(&[]);
    let id = client
        .start_run(json!({"python_code": "web_search(query='x')", "available_tools": search()}));
    let request = client.receive();
    assert_eq!(request["jsonrpc"], "2.0");
    assert_eq!(request["method"], "notifications/tool_call_request");
    assert!(request.get("id").is_none());
    let params = request["params"].as_object().unwrap();
    assert_eq!(params["toolName"], "web_search");
    assert_eq!(params["arguments"], json!({"query": "x"}));
    assert_eq!(params["_meta"]["callgate/originatingRequestId"], id);
    let request_id = uuid::Uuid::parse_str(params["requestId"].as_str().unwrap()).unwrap();
    assert_eq!(request_id.get_version_num(), 4);
    assert!(!params.contains_key("serverName"));
    client.notify(
        "notifications/tool_call_response",
        json!({"requestId": params["requestId"], "result": {"hits": [1, 2]}}),
    );
    let result = client.finish(id, &mut |_| None);
    assert_eq!(structured(&result)["return_value"], json!({"hits": [1, 2]}));
}

#[test]
fn every_way_of_calling_reaches_the_tool() {
    let mut client = Client::start(&[]);
    for code in [
        "call_tool('web_search', query='x')",
        "web_search(query='x')",
        "web_search('x')",
        "await call_tool_async('web_search', query='x')",
        "await web_search.aio(query='x')",
        "import asyncio\nasyncio.run(web_search.aio('x'))",
    ] {
        let result = run_search(
            &mut client,
            code,
            |arguments| json!({"result": arguments["query"]}),
        );
        assert_eq!(
            structured(&result)["return_value"],
            "x",
            "{code}: {}",
            text(&result)
        );
    }
}

#[test]
fn gather_runs_calls_in_parallel() {
    let mut client = Client::start(&[]);
    let code =
        "import asyncio\nawait asyncio.gather(*(web_search.aio(query=str(i)) for i in range(8)))";
    let id = client.start_run(json!({"python_code": code, "available_tools": search()}));
    let calls: Vec<Value> = (0..8).map(|_| client.receive()["params"].clone()).collect();
    for call in calls.iter().rev() {
        client.notify(
            "notifications/tool_call_response",
            json!({"requestId": call["requestId"], "result": call["arguments"]["query"]}),
        );
    }
    let result = client.finish(id, &mut |_| None);
    let expected: Vec<String> = (0..8).map(|number: i32| number.to_string()).collect();
    assert_eq!(structured(&result)["return_value"], json!(expected));
}

#[test]
fn answers_become_the_values_that_a_programmer_expects() {
    let mut client = Client::start(&[]);
    let text_block = |text: &str| json!({"type": "text", "text": text});
    let cases = [
        (json!({"result": null}), Value::Null),
        (json!({}), Value::Null),
        (json!({"result": [1, {"a": 2.5}]}), json!([1, {"a": 2.5}])),
        (
            json!({"result": {"content": [text_block("{\"a\": 1}")]}}),
            json!({"a": 1}),
        ),
        (
            json!({"result": {"content": [text_block("plain")], "isError": false}}),
            json!("plain"),
        ),
        (
            json!({"result": {"content": [text_block("x")], "structuredContent": {"b": 2}}}),
            json!({"b": 2}),
        ),
        (
            json!({"result": {"content": [{"type": "image", "data": "eA==", "mimeType": "image/png"}], "resultType": "complete"}}),
            json!([{"type": "image", "data": "eA==", "mimeType": "image/png"}]),
        ),
        // An ordinary object that happens to have such a field is left alone.
        (
            json!({"result": {"content": "a page", "title": "t"}}),
            json!({"content": "a page", "title": "t"}),
        ),
        (
            json!({"result": {"content": [text_block("x")], "rows": 1}}),
            json!({"content": [text_block("x")], "rows": 1}),
        ),
        (
            json!({"result": {"content": [{"type": "paragraph"}]}}),
            json!({"content": [{"type": "paragraph"}]}),
        ),
    ];
    for (answer, expected) in cases {
        let result = run_search(&mut client, "web_search(query='x')", |_| answer.clone());
        assert_eq!(structured(&result)["return_value"], expected, "{answer}");
    }
}

#[test]
fn a_tool_may_be_offered_as_tools_list_has_it() {
    let mut client = Client::start(&[]);
    let schema = json!({"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"], "additionalProperties": false});
    let offer = json!([{"name": "find", "description": "Finds.", "inputSchema": schema}]);
    let result = client.run_with(
        "[find('x'), str(find.__signature__)]",
        offer.clone(),
        &mut |call| Some(json!({"result": call["arguments"]})),
    );
    assert_eq!(
        structured(&result)["return_value"],
        json!([{"query": "x"}, "(query: str)"])
    );
    let result = client.run_with("find(qery='x')", offer, &mut |call| panic!("{call}"));
    assert_eq!(kind(&result), "precheck");
}

#[test]
fn a_schema_of_alternatives_says_what_was_meant() {
    let mut client = Client::start(&[]);
    let address = json!({"type": "object", "properties": {"zip": {"type": "string"}}, "required": ["zip"], "additionalProperties": false});
    let offer = json!([{"name": "order", "parameters": {"type": "object", "properties": {
        "plan": {"anyOf": [{"enum": ["free", "pro"]}, {"type": "null"}]},
        "to": {"anyOf": [address, {"type": "null"}], "default": null}
    }}}]);
    let code = "\
found = []\nfor arguments in ({'plan': 'gold'}, {'to': {'zip': 5}}, {'to': {'zop': '1'}}):\n    \
    try:\n        order(**arguments)\n    except ToolCallError as error:\n        found.append(error.message.partition('schema: ')[2])\nfound";
    let result = client.run_with(code, offer, &mut |call| panic!("{call}"));
    assert_eq!(
        structured(&result)["return_value"],
        json!([
            "`plan`: \"gold\" is not one of \"free\" or \"pro\"",
            "`to/zip`: 5 is not of type \"string\"",
            "`to`: unknown argument `zop`; `to`: missing argument `zip`"
        ]),
        "{}",
        text(&result)
    );
}

#[test]
fn errors_become_tool_call_errors() {
    let mut client = Client::start(&[]);
    let code = "try:\n    web_search(query='x')\nexcept ToolCallError as e:\n    value = [e.tool_name, e.message, str(e), len(e.request_id)]\nvalue";
    let cases = [
        (json!({"error": "no luck"}), "no luck"),
        (json!({"error": {"message": "quota", "code": 7}}), "quota"),
        (json!({"error": "both", "result": 1}), "both"),
        (
            json!({"result": {"content": [{"type": "text", "text": "bad"}], "isError": true}}),
            "bad",
        ),
    ];
    for (answer, reason) in cases {
        let result = run_search(&mut client, code, |_| answer.clone());
        let told = format!("Tool call 'web_search' failed: {reason}");
        assert_eq!(
            structured(&result)["return_value"],
            json!(["web_search", reason, told, 36]),
            "{answer}"
        );
        assert_eq!(structured(&result)["tool_calls"][0]["outcome"], "failed");
    }
}

#[test]
fn an_uncaught_error_names_the_tool_and_lists_what_happened() {
    let mut client = Client::start(&[]);
    let mut calls = 0;
    let result = run_search(
        &mut client,
        "web_search(query='a')\nweb_search(query='b')",
        |_| {
            calls += 1;
            if calls == 1 {
                json!({"result": 1})
            } else {
                json!({"error": "gone"})
            }
        },
    );
    assert_eq!(result["isError"], true);
    assert_eq!(structured(&result)["error"]["type"], "ToolCallError");
    assert!(
        text(&result).contains("ToolCallError: Tool call 'web_search' failed: gone"),
        "{}",
        text(&result)
    );
    assert!(
        text(&result)
            .ends_with("<tool_calls>\nweb_search(query=\"a\"): answered\nweb_search(query=\"b\"): failed\n</tool_calls>"),
        "{}",
        text(&result)
    );
}

#[test]
fn a_call_without_an_answer_times_out_and_is_withdrawn() {
    let mut client = Client::start(&["--tool-timeout", "300ms"]);
    let id = client.start_run(json!({
        "python_code": "try:\n    web_search(query='x')\nexcept ToolCallError as e:\n    value = e.message\nvalue",
        "available_tools": search(),
    }));
    let request = client.receive();
    let cancelled = client.receive();
    assert_eq!(cancelled["method"], "notifications/tool_call_cancelled");
    assert_eq!(
        cancelled["params"]["requestId"],
        request["params"]["requestId"]
    );
    assert_eq!(cancelled["params"]["reason"], "timeout");
    let result = client.finish(id, &mut |_| None);
    assert_eq!(
        structured(&result)["return_value"],
        "Tool call timeout: web_search"
    );
    assert_eq!(structured(&result)["tool_calls"][0]["outcome"], "timed_out");
}

#[test]
fn a_name_that_was_not_offered_is_refused_without_asking() {
    let mut client = Client::start(&[]);
    let result = run_search(
        &mut client,
        "name = 'send_mail'\ncall_tool(name, to='x')",
        |_| panic!("the client was asked"),
    );
    assert!(
        text(&result).contains("no tool `send_mail` was offered; offered: web_search"),
        "{}",
        text(&result)
    );
    assert_eq!(structured(&result)["tool_calls"][0]["outcome"], "refused");
}

#[test]
fn arguments_that_break_the_schema_are_not_sent() {
    let mut client = Client::start(&[]);
    for code in [
        "arguments = {'query': 5}\nweb_search(**arguments)",
        "arguments = {}\nweb_search(**arguments)",
        "arguments = {'query': 'x', 'limit': 3}\nweb_search(**arguments)",
    ] {
        let result = run_search(&mut client, code, |_| panic!("the client was asked"));
        assert_eq!(
            structured(&result)["error"]["type"],
            "ToolCallError",
            "{code}"
        );
        assert!(
            text(&result).contains("do not fit the tool's schema"),
            "{}",
            text(&result)
        );
    }
}

#[test]
fn tools_have_signatures_docstrings_and_reachable_names() {
    let mut client = Client::start(&[]);
    let tools = json!([
        tool(
            "get-weather",
            json!({"city": {"type": "string"}, "days": {"type": "integer"}})
        ),
        tool("class", json!({})),
    ]);
    let code = "import inspect\n[list(inspect.signature(get_weather).parameters), 'The tool get-weather.' in get_weather.__doc__, \
        get_weather('Oslo', 2), class_(), call_tool('get-weather', city='Rome', days=1)]";
    let result = client.run_with(code, tools, &mut |call| {
        Some(json!({"result": call["arguments"]}))
    });
    assert_eq!(
        structured(&result)["return_value"],
        json!([["city", "days"], true, {"city": "Oslo", "days": 2}, {}, {"city": "Rome", "days": 1}]),
        "{}",
        text(&result)
    );
    let result = client.run_with("help(web_search)", search(), &mut |_| None);
    for part in ["web_search(query: str)", "The tool web_search.", "query"] {
        assert!(
            text(&result).contains(part),
            "{part} is not in {}",
            text(&result)
        );
    }
}

#[test]
fn the_preludes_names_beat_tools_and_tools_beat_variables() {
    let mut client = Client::start(&[]);
    let result = client.call(
        json!({
            "python_code": "[callable(len), len(x=1), call_tool('call_tool', x=2), rate, callable(call_tool)]",
            "available_tools": [tool("len", json!({"x": {"type": "integer"}})), tool("call_tool", json!({"x": {"type": "integer"}}))],
            "global_variables": {"len": 5, "rate": 2.5, "for": 1},
        }),
        &mut |call| Some(json!({"result": call["arguments"]["x"]})),
    );
    assert_eq!(
        structured(&result)["return_value"],
        json!([true, 1, 2, 2.5, true]),
        "{}",
        text(&result)
    );
}

#[test]
fn tools_of_a_named_server_are_called_by_server_and_name() {
    let mut client = Client::start(&[]);
    let mut issues = tool("search_issues", json!({"q": {"type": "string"}}));
    issues["serverName"] = json!("github");
    let tools = json!([issues]);
    let mut server = Value::Null;
    let result = client.run_with(
        "call_mcp_tool('github', 'search_issues', q='x')",
        tools.clone(),
        &mut |call| {
            server = call["serverName"].clone();
            Some(json!({"result": call["arguments"]["q"]}))
        },
    );
    assert_eq!(
        structured(&result)["return_value"],
        "x",
        "{}",
        text(&result)
    );
    assert_eq!(server, "github");
    assert_eq!(structured(&result)["tool_calls"][0]["serverName"], "github");
    // Whoever offered it has to know which of its tools is meant, however the code calls it.
    let result = client.run_with("search_issues(q='x')", tools.clone(), &mut |call| {
        server = call["serverName"].clone();
        Some(json!({"result": server}))
    });
    assert_eq!(structured(&result)["return_value"], "github", "{result}");
    assert_eq!(structured(&result)["tool_calls"][0]["serverName"], "github");
    let result = client.run_with(
        "call_mcp_tool('gitlab', 'search_issues', q='x')",
        tools,
        &mut |_| panic!("the client was asked"),
    );
    assert!(
        text(&result).contains("there is no server `gitlab`; servers: github"),
        "{}",
        text(&result)
    );
}

#[test]
fn offers_that_make_no_sense_are_argument_errors() {
    let mut client = Client::start(&[]);
    let cases = [
        (json!([{"name": ""}]), "the name is empty"),
        (
            json!([{"name": "a"}, {"name": "a"}]),
            "two tools are named `a`",
        ),
        (
            json!([{"name": "a", "parameters": {"type": "strnig"}}]),
            "not a JSON schema",
        ),
        (
            json!([{"description": "x"}]),
            "\"name\" is a required property",
        ),
        (json!("web_search"), "is not of type \"array\""),
    ];
    for (tools, reason) in cases {
        let result = client.run_with("1", tools.clone(), &mut |_| None);
        assert_eq!(result["isError"], true, "{tools}");
        assert_eq!(kind(&result), "precheck", "{tools}");
        assert!(text(&result).contains(reason), "{tools}: {}", text(&result));
    }
}

#[test]
fn a_response_that_nobody_waits_for_harms_nothing_and_is_logged() {
    let mut client = Client::start(&[]);
    client.notify(
        "notifications/tool_call_response",
        json!({"requestId": "nobody", "result": 1}),
    );
    client.notify("notifications/tool_call_response", json!({"result": 1}));
    client.notify("notifications/tool_call_response", json!({"requestId": 5}));
    client.notify("notifications/tool_call_response", json!([1]));
    let result = run_search(
        &mut client,
        "web_search(query='x')",
        |_| json!({"result": "fine"}),
    );
    assert_eq!(structured(&result)["return_value"], "fine");
    let log = client.log();
    assert!(
        log.contains("no call waits for requestId `nobody`"),
        "{log}"
    );
    assert!(log.contains("`params.requestId` must be a string"), "{log}");
}

#[test]
fn a_second_answer_changes_nothing() {
    let mut client = Client::start(&[]);
    let id = client.start_run(json!({"python_code": "[web_search(query='a'), web_search(query='b')]", "available_tools": search()}));
    let first = client.receive()["params"]["requestId"].clone();
    for value in ["one", "two"] {
        client.notify(
            "notifications/tool_call_response",
            json!({"requestId": first, "result": value}),
        );
    }
    let second = client.receive()["params"]["requestId"].clone();
    client.notify(
        "notifications/tool_call_response",
        json!({"requestId": second, "result": "three"}),
    );
    let result = client.finish(id, &mut |_| None);
    assert_eq!(structured(&result)["return_value"], json!(["one", "three"]));
}

#[test]
fn calls_that_are_open_when_the_run_ends_are_withdrawn_before_the_result() {
    let mut client = Client::start(&["--run-timeout", "500ms"]);
    let id = client.start_run(json!({"python_code": "print('begun')\nweb_search(query='x')", "available_tools": search()}));
    let request = client.receive();
    let cancelled = client.receive();
    assert_eq!(
        cancelled["method"], "notifications/tool_call_cancelled",
        "{cancelled}"
    );
    assert_eq!(
        cancelled["params"]["requestId"],
        request["params"]["requestId"]
    );
    let result = client.finish(id, &mut |_| None);
    assert_eq!(kind(&result), "time_limit");
    assert_eq!(structured(&result)["output"], "begun\n");
    assert_eq!(structured(&result)["tool_calls"][0]["outcome"], "withdrawn");
    assert!(
        text(&result).contains("web_search(query=\"x\"): withdrawn, may have happened"),
        "{}",
        text(&result)
    );
}

#[test]
fn several_runs_share_a_connection() {
    let mut client = Client::start(&[]);
    let ids: Vec<i64> = (0..10)
        .map(|number| client.start_run(json!({"python_code": format!("web_search(query='{number}')"), "available_tools": search()})))
        .collect();
    let calls: Vec<Value> = ids
        .iter()
        .map(|_| client.receive()["params"].clone())
        .collect();
    for call in calls.iter().rev() {
        client.notify(
            "notifications/tool_call_response",
            json!({"requestId": call["requestId"], "result": call["arguments"]["query"]}),
        );
    }
    let mut values = std::collections::BTreeMap::new();
    while values.len() < ids.len() {
        let message = client.receive();
        values.insert(
            message["id"].as_i64().unwrap(),
            structured(&message["result"])["return_value"].clone(),
        );
    }
    for (number, id) in ids.iter().enumerate() {
        assert_eq!(values[id], number.to_string());
    }
}

#[test]
fn a_cancelled_request_stops_and_gets_no_response() {
    let mut client = Client::start(&[]);
    let id = client
        .start_run(json!({"python_code": "web_search(query='x')", "available_tools": search()}));
    client.receive();
    client.notify(
        "notifications/cancelled",
        json!({"requestId": id, "reason": "enough"}),
    );
    let cancelled = client.receive();
    assert_eq!(cancelled["method"], "notifications/tool_call_cancelled");
    assert_eq!(client.receive_within(Duration::from_millis(500)), None);
    assert_eq!(structured(&client.run("6*7"))["return_value"], 42);
}

#[test]
fn callbacks_are_refused_where_nobody_would_answer() {
    let start = Instant::now();
    let mut client = Client::start(&["--callbacks", "refuse"]);
    let result = run_search(&mut client, "web_search(query='x')", |_| {
        panic!("the client was asked")
    });
    assert!(
        text(&result).contains("--callbacks refuse"),
        "{}",
        text(&result)
    );
    assert_eq!(structured(&result)["tool_calls"][0]["outcome"], "refused");
    assert!(
        start.elapsed() < Duration::from_secs(25),
        "it waited for a timeout"
    );
}

#[test]
fn a_call_that_was_given_up_before_it_was_sent_did_not_happen() {
    let mut client = Client::start(&["--callbacks", "refuse"]);
    let code = "import asyncio\n\
        await asyncio.gather(*(search.aio(query=str(i)) for i in range(50)))";
    let search = tool("search", json!({"query": {"type": "string"}}));
    let result = client.run_with(code, json!([search]), &mut |_| {
        panic!("it must not be asked")
    });
    let calls = structured(&result)["tool_calls"]
        .as_array()
        .expect("a list");
    assert_eq!(calls.len(), 50);
    for call in calls {
        assert_eq!(call["outcome"], "refused", "{call}");
    }
}
