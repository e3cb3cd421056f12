//! Promise: calls that cannot work are reported before anything runs, and no call that could is.

mod support;

use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};
use serde_json::{Value, json};
use support::{Client, kind, structured, text, tool};

const RIGHT: &str = include_str!("../fixtures/precheck/right.py");
const WRONG: &str = include_str!("../fixtures/precheck/wrong.py");

/// The programs of a corpus, with their titles.
fn programs(corpus: &'static str) -> Vec<(&'static str, &'static str)> {
    let (_, programs) = corpus.split_once("#%% ").unwrap();
    programs
        .split("\n#%% ")
        .map(|program| program.split_once('\n').unwrap())
        .collect()
}

fn tools() -> Value {
    let text = json!({"type": "string"});
    let strict = |properties: Value, required: Value| json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false});
    json!([
        {"name": "find", "description": "Finds.", "parameters": strict(
            json!({"query": text, "limit": {"type": "integer", "minimum": 1, "default": 10}, "kind": {"enum": ["news", "all"]}}),
            json!(["query"])
        )},
        {"name": "web-search", "parameters": strict(json!({"query": text}), json!(["query"]))},
        {"name": "send", "parameters": {"type": "object", "properties": {"to": text, "subject": text, "body": text}, "required": ["to"]}},
        {"name": "note", "parameters": {"type": "object"}},
        {"name": "twice", "parameters": strict(json!({"a": {"type": "integer"}, "b": {"type": "number"}}), json!(["a", "b"]))},
        {"name": "plan", "parameters": strict(json!({"steps": {"type": "array", "items": strict(json!({"do": text}), json!(["do"]))}}), json!(["steps"]))},
        {"name": "either", "parameters": {"type": "object", "anyOf": [
            {"required": ["number"], "properties": {"number": {"type": "integer"}}},
            {"required": ["text"], "properties": {"text": text}}
        ]}},
        {"name": "conditional", "parameters": {"type": "object", "properties": {"kind": text, "url": text},
            "if": {"properties": {"kind": {"const": "url"}}, "required": ["kind"]}, "then": {"required": ["url"]}}},
        {"name": "free"}
    ])
}

fn answered(client: &mut Client, code: &str) -> Value {
    client.run_with(code, tools(), &mut |_| Some(json!({"result": 1})))
}

/// The lines that a report names.
fn reported_lines(result: &Value) -> Vec<u32> {
    text(result)
        .lines()
        .filter_map(|line| line.trim().strip_prefix("File \"main.py\", line "))
        .map(|line| line.parse().unwrap())
        .collect()
}

#[test]
fn no_program_of_the_corpus_is_flagged_falsely() {
    let mut client = Client::start(&[]);
    let programs = programs(RIGHT);
    assert!(programs.len() > 40);
    for (title, code) in programs {
        let result = answered(&mut client, code);
        assert_eq!(kind(&result), "none", "{title}: {}", text(&result));
        if title == "every way of calling" {
            let calls = structured(&result)["tool_calls"].as_array().unwrap();
            assert_eq!(calls.len(), code.lines().count(), "a call was not made");
        }
    }
}

#[test]
fn every_wrong_call_of_the_corpus_is_reported_before_any_is_made() {
    let mut client = Client::start(&[]);
    let mut unchecked = Client::start(&["--no-precheck"]);
    let programs = programs(WRONG);
    assert!(programs.len() > 20);
    for (title, code) in programs {
        let (title, lines) = title.rsplit_once(": ").unwrap();
        let lines: Vec<u32> = lines
            .split(", ")
            .map(|line| line.parse().unwrap())
            .collect();
        let result = client.run_with(code, tools(), &mut |call| panic!("{title}: {call}"));
        assert_eq!(kind(&result), "precheck", "{title}: {}", text(&result));
        assert_eq!(reported_lines(&result), lines, "{title}: {}", text(&result));
        assert_eq!(structured(&result)["tool_calls"], json!([]), "{title}");
        assert_eq!(structured(&result)["output"], "", "{title}");

        // What was flagged is really wrong.
        let result = answered(&mut unchecked, code);
        assert_eq!(kind(&result), "exception", "{title}: {}", text(&result));
        let kind = structured(&result)["error"]["type"].as_str().unwrap();
        assert!(
            ["ToolCallError", "TypeError"].contains(&kind),
            "{title}: {}",
            text(&result)
        );
    }
}

#[test]
fn the_report_says_what_was_wrong_and_what_would_be_right() {
    let mut client = Client::start(&[]);
    let code =
        "hits = find(quer='x', limit='ten')\nfor hit in hits:\n    find(\n        limit=3)\n";
    let result = answered(&mut client, code);
    let expected = "\
<status>run-error</status>
<error>
Nothing was run: 2 tool calls in the program cannot work.

  File \"main.py\", line 1
    hits = find(quer='x', limit='ten')
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^
  `limit`: \"ten\" is not of type \"integer\"
  unknown argument `quer`; did you mean `query`?
  missing argument `query`
  The tool is find(query: str, limit: int = 10, kind: Literal['news', 'all'] = ...)

  File \"main.py\", line 3
    find(
    ^^^^^
  missing argument `query`
  The tool is find(query: str, limit: int = 10, kind: Literal['news', 'all'] = ...)

A call inside `try` is not checked beforehand.

</error>";
    assert_eq!(text(&result), expected);
    assert_eq!(structured(&result)["error"]["type"], "PrecheckError");
    assert_eq!(result["isError"], true);
}

#[test]
fn syntax_errors_are_reported_with_line_caret_and_what_was_expected() {
    let mut client = Client::start(&[]);
    for (code, line, message) in [
        ("x = 1\nif x\n    pass", 2, "expected ':'"),
        ("print('a'", 1, "'(' was never closed"),
        (
            "for i in range(3):\nprint(i)",
            2,
            "expected an indented block after 'for' statement on line 1",
        ),
        ("x = = 1", 1, "invalid syntax"),
        ("print 'a'", 1, "Missing parentheses in call to 'print'"),
        ("return 5", 1, "'return' outside function"),
        ("find(query='x'", 1, "'(' was never closed"),
    ] {
        let result = client.run_with(code, tools(), &mut |call| panic!("{call}"));
        assert_eq!(kind(&result), "syntax", "{code}: {}", text(&result));
        let told = text(&result);
        assert!(
            told.contains(&format!("File \"main.py\", line {line}\n")),
            "{told}"
        );
        assert!(told.contains('^'), "{told}");
        assert!(told.contains(message), "{told}");
    }
}

#[test]
fn without_tools_there_is_nothing_to_check() {
    let mut client = Client::start(&[]);
    let result = client.run("def find(**k): return k\nfind(wrong=1)");
    assert_eq!(structured(&result)["return_value"], json!({"wrong": 1}));
    let result = client.run("try:\n    call_tool('x')\nexcept ToolCallError as error:\n    message = str(error)\nmessage");
    assert!(
        structured(&result)["return_value"]
            .as_str()
            .unwrap()
            .contains("no tool `x` was offered")
    );
}

#[test]
fn many_wrong_calls_make_a_short_report() {
    let mut client = Client::start(&[]);
    let code = "find(wrong=1)\n".repeat(3000);
    let result = client.run_with(&code, tools(), &mut |call| panic!("{call}"));
    assert_eq!(kind(&result), "precheck");
    let beginning = "<status>run-error</status>\n<error>\nNothing was run: 20 or more tool calls";
    assert!(text(&result).starts_with(beginning), "{}", text(&result));
    assert!(text(&result).len() < 10_000);
}

/// A literal as Python writes it.
fn literal() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "1", "0", "-3", "2.5", "2.0", "'x'", "''", "'news'", "True", "None", "[]", "[1, 'a']",
        "{}", "{'a': 1}", "(1, 2)", "{1}", "b'x'", "1e400", "10 ** 3", "'a' * 3", "1j", "...",
    ])
}

/// A part of a schema.
fn part() -> impl Strategy<Value = Value> {
    prop::sample::select(vec![
        json!({"type": "string"}),
        json!({"type": "string", "minLength": 1}),
        json!({"type": "integer", "minimum": 0}),
        json!({"type": "number"}),
        json!({"type": ["string", "null"]}),
        json!({"type": "boolean"}),
        json!({"enum": ["news", 1, null]}),
        json!({"type": "array", "items": {"type": "integer"}}),
        json!({"type": "object", "additionalProperties": {"type": "integer"}}),
        json!({"anyOf": [{"type": "integer"}, {"type": "array"}]}),
        json!({"$ref": "#/$defs/text"}),
        json!(true),
    ])
}

/// A schema for arguments `a`, `b` and `c`, with keywords whose verdict depends on other arguments.
fn schema() -> impl Strategy<Value = Value> {
    let further = prop::sample::select(vec![
        json!({}),
        json!({"additionalProperties": false}),
        json!({"additionalProperties": {"type": "integer"}}),
        json!({"dependentRequired": {"a": ["b"]}}),
        json!({"if": {"properties": {"a": {"const": 1}}, "required": ["a"]}, "then": {"required": ["c"]}, "else": {"properties": {"b": {"type": "string"}}}}),
        json!({"anyOf": [{"required": ["a"]}, {"required": ["b", "c"]}]}),
        json!({"oneOf": [{"properties": {"a": {"type": "integer"}}}, {"required": ["c"]}]}),
        json!({"not": {"properties": {"a": {"const": "x"}}, "required": ["a"]}}),
        json!({"allOf": [{"required": ["b"]}, {"properties": {"c": {"type": "string"}}}]}),
        json!({"$ref": "#/$defs/all", "unevaluatedProperties": false}),
        json!({"propertyNames": {"maxLength": 1}}),
        json!({"maxProperties": 2}),
    ]);
    let required = prop::sample::subsequence(vec!["a", "b", "c"], 0..=2);
    ([part(), part(), part()], required, further).prop_map(|([a, b, c], required, further)| {
        let mut schema = json!({
            "type": "object",
            "$defs": {"text": {"type": "string"}, "all": {"properties": {"a": true}}},
            "properties": {"a": a, "b": b, "c": c},
            "required": required,
        });
        for (key, value) in further.as_object().unwrap() {
            schema[key] = value.clone();
        }
        schema
    })
}

/// The arguments of a call: which, as what, and whether their values are hidden in variables.
fn arguments() -> impl Strategy<Value = Vec<(&'static str, &'static str, bool)>> {
    let names = prop::sample::subsequence(vec!["a", "b", "c", "dd"], 0..=4);
    names.prop_flat_map(|names| {
        let count = names.len();
        (
            Just(names),
            prop::collection::vec((literal(), any::<bool>()), count),
        )
            .prop_map(|(names, values)| {
                names
                    .into_iter()
                    .zip(values)
                    .map(|(name, (value, hidden))| (name, value, hidden))
                    .collect()
            })
    })
}

#[test]
fn what_is_flagged_would_be_refused_and_what_is_wholly_known_is_judged_alike() {
    let mut checked = Client::start(&[]);
    let mut unchecked = Client::start(&["--no-precheck"]);
    let mut runner = TestRunner::new(Config {
        cases: 600,
        failure_persistence: None,
        ..Config::default()
    });
    let cases = (schema(), arguments(), any::<bool>());
    let checked = std::cell::RefCell::new(&mut checked);
    let unchecked = std::cell::RefCell::new(&mut unchecked);
    let flagged_ones = std::cell::Cell::new(0);
    runner
        .run(&cases, |(schema, arguments, starred)| {
            let mut lines = Vec::new();
            let mut written = Vec::new();
            for (name, value, hidden) in &arguments {
                if *hidden {
                    lines.push(format!("value_{name} = {value}"));
                    written.push(format!("{name}=value_{name}"));
                } else {
                    written.push(format!("{name}={value}"));
                }
            }
            if starred {
                written.push("**{}".to_owned());
            }
            lines.push(format!("t({})", written.join(", ")));
            let code = lines.join("\n");
            let offer = json!([{"name": "t", "parameters": schema}]);
            let answer = &mut |_: &Value| Some(json!({"result": 1}));
            let before = checked.borrow_mut().run_with(&code, offer.clone(), answer);
            let after = unchecked.borrow_mut().run_with(&code, offer, answer);
            let flagged = kind(&before) == "precheck";
            let refused = kind(&after) != "none";
            flagged_ones.set(flagged_ones.get() + u32::from(flagged));
            prop_assert!(
                !flagged || refused,
                "flagged, but right: {code}\n{schema}\n{}",
                text(&before)
            );
            prop_assert_eq!(kind(&before) != "none", refused, "{}", code);
            let known = !starred
                && arguments
                    .iter()
                    .all(|(_, value, hidden)| !hidden && is_plain(value));
            prop_assert!(
                !known || flagged == refused,
                "not flagged: {code}\n{schema}\n{}",
                text(&after)
            );
            Ok(())
        })
        .unwrap();
    assert!(
        flagged_ones.get() > 100,
        "only {} were flagged",
        flagged_ones.get()
    );
}

/// Whether a value is written as a literal that JSON has.
fn is_plain(value: &str) -> bool {
    !["10 ** 3", "'a' * 3", "1j", "...", "1e400"].contains(&value)
}

#[test]
fn a_tool_named_like_ours_is_out_of_reach_and_not_checked() {
    let mut client = Client::start(&[]);
    let offered = json!([
        tool("call_tool", json!({"a": {"type": "integer"}})),
        tool("tools", json!({}))
    ]);
    let result = client.run_with(
        "[call_tool('call_tool', a=1), tools()]",
        offered,
        &mut |_| Some(json!({"result": 1})),
    );
    assert_eq!(
        structured(&result)["return_value"],
        json!([1, 1]),
        "{}",
        text(&result)
    );
}
