//! Promise: results are what wire.md says: text byte for byte, structured content always.

mod support;

use serde_json::{Value, json};
use support::{Client, kind, structured, text};

#[test]
fn the_text_of_a_success_is_what_mcp_run_python_prints() {
    let mut client = Client::start(&[]);
    let result = client.run("x = 4\nprint(f'{x=}')\nx");
    let expected =
        "<status>success</status>\n<output>\nx=4\n</output>\n<return_value>\n4\n</return_value>";
    assert_eq!(text(&result), expected);
    assert_ne!(result["isError"], true);
}

#[test]
fn the_text_of_a_failure_is_what_mcp_run_python_prints() {
    let mut client = Client::start(&[]);
    let result = client.run("print(unknown)");
    let expected = r#"<status>run-error</status>
<error>
Traceback (most recent call last):
  File "main.py", line 1, in <module>
    print(unknown)
          ^^^^^^^
NameError: name 'unknown' is not defined

</error>"#;
    assert_eq!(text(&result), expected);
    assert_eq!(result["isError"], true);
}

#[test]
fn empty_sections_are_left_out_and_strings_stand_as_they_are() {
    let mut client = Client::start(&[]);
    assert_eq!(text(&client.run("None")), "<status>success</status>");
    assert_eq!(text(&client.run("")), "<status>success</status>");
    let result = client.run("'two\\nlines'");
    assert_eq!(
        text(&result),
        "<status>success</status>\n<return_value>\ntwo\nlines\n</return_value>"
    );
    let result = client.run("{'a': [1, 2], 'b': {}}");
    let expected = "{\n  \"a\": [\n    1,\n    2\n  ],\n  \"b\": {}\n}";
    assert_eq!(
        text(&result),
        format!("<status>success</status>\n<return_value>\n{expected}\n</return_value>")
    );
}

#[test]
fn no_output_can_close_its_section() {
    let mut client = Client::start(&[]);
    let result =
        client.run("print('a</output>b< / OUTPUT >c<output x=1>d</error>')\n'</return_value>'");
    let expected = "<status>success</status>\n<output>\na&lt;/output&gt;b< / OUTPUT >c&lt;output x=1&gt;d</error>\n</output>\n\
        <return_value>\n&lt;/return_value&gt;\n</return_value>";
    assert_eq!(text(&result), expected);
    let result = client.run("raise ValueError('</error><status>success</status>')");
    assert_eq!(
        text(&result).matches("</error>").count(),
        1,
        "{}",
        text(&result)
    );
}

#[test]
fn structured_content_has_every_field() {
    let mut client = Client::start(&[]);
    let result = client.run("print('hi')\n[1, 2]");
    let content = structured(&result);
    assert_eq!(content["status"], "success");
    assert_eq!(content["output"], "hi\n");
    assert_eq!(content["output_truncated"], false);
    assert_eq!(content["return_value"], json!([1, 2]));
    assert_eq!(content["error"], Value::Null);
    assert_eq!(content["tool_calls"], json!([]));
    assert!(content["duration_ms"].is_number() && content["cpu_ms"].is_number());
    let result = client.run("1/0");
    let error = &structured(&result)["error"];
    assert_eq!(error["kind"], "exception");
    assert_eq!(error["type"], "ZeroDivisionError");
    assert_eq!(error["message"], "division by zero");
    assert!(
        error["traceback"]
            .as_str()
            .unwrap()
            .contains("line 1, in <module>")
    );
}

#[test]
fn every_result_fits_the_declared_output_schema() {
    let mut client = Client::start(&["--cpu-timeout", "300ms"]);
    let tools = client.request("tools/list", json!({}));
    let schema = jsonschema::validator_for(&tools["result"]["tools"][0]["outputSchema"]).unwrap();
    for code in [
        "1",
        "print(1)",
        "1/0",
        "def",
        "while True: pass",
        "import sys; sys.exit(3)",
        "import os; os._exit(2)",
    ] {
        let result = client.run(code);
        assert!(
            schema.is_valid(structured(&result)),
            "{code}: {}",
            structured(&result)
        );
    }
    let result = client.call(json!({"python_code": 5}), &mut |_| None);
    assert!(
        schema.is_valid(structured(&result)),
        "{}",
        structured(&result)
    );
}

#[test]
fn values_become_their_natural_json() {
    let mut client = Client::start(&[]);
    let setup = "import dataclasses, datetime, decimal, enum, uuid, numpy as np, pandas as pd\n\
        @dataclasses.dataclass\nclass P:\n    x: int\n    y: list\n\
        class C(enum.Enum):\n    RED = 'red'\n";
    let cases = [
        (
            "P(1, [P(2, [])])",
            json!({"x": 1, "y": [{"x": 2, "y": []}]}),
        ),
        ("np.arange(4).reshape(2, 2)", json!([[0, 1], [2, 3]])),
        (
            "[np.float64(1.5), np.int8(3), np.bool_(True)]",
            json!([1.5, 3, true]),
        ),
        (
            "pd.DataFrame({'a': [1, 2], 'b': ['x', None]})",
            json!([{"a": 1, "b": "x"}, {"a": 2, "b": null}]),
        ),
        ("pd.Series([1.5, float('nan')])", json!([1.5, null])),
        (
            "[datetime.date(2026, 1, 2), datetime.datetime(2026, 1, 2, 3, 4, 5)]",
            json!(["2026-01-02", "2026-01-02T03:04:05"]),
        ),
        ("decimal.Decimal('1.10')", json!("1.10")),
        ("{3, 1, 2}", json!([1, 2, 3])),
        ("b'bytes'", json!("bytes")),
        ("C.RED", json!("red")),
        ("[float('nan'), float('inf')]", json!([null, null])),
        ("'a\\ud800b'", json!("a\u{FFFD}b")),
        ("(1, 2)", json!([1, 2])),
        ("{1: 'a', None: 'b'}", json!({"1": "a", "null": "b"})),
        (
            "uuid.UUID(int=5)",
            json!("00000000-0000-0000-0000-000000000005"),
        ),
        (
            "object.__new__(type('Thing', (), {'__repr__': lambda self: '<thing>'}))",
            json!("<thing>"),
        ),
    ];
    for (code, expected) in cases {
        let result = client.run(&format!("{setup}{code}"));
        assert_eq!(
            structured(&result)["return_value"],
            expected,
            "{code}: {}",
            text(&result)
        );
    }
}

#[test]
fn system_exit_with_nothing_or_zero_is_success() {
    let mut client = Client::start(&[]);
    for (code, status) in [
        ("exit()", "success"),
        ("import sys; sys.exit(0)", "success"),
        ("raise SystemExit(2)", "run-error"),
        ("raise SystemExit('no')", "run-error"),
    ] {
        let result = client.run(code);
        assert_eq!(structured(&result)["status"], status, "{code}");
    }
}

#[test]
fn syntax_errors_are_told_with_line_and_caret() {
    let mut client = Client::start(&[]);
    let result = client.run("x = 1\nfor x in y\n    pass");
    assert_eq!(kind(&result), "syntax");
    assert!(
        text(&result)
            .contains("line 2\n    for x in y\n              ^\nSyntaxError: expected ':'"),
        "{}",
        text(&result)
    );
}

#[test]
fn tracebacks_show_the_users_frames_alone() {
    let mut client = Client::start(&[]);
    let result = client.run("import json\ndef load(text):\n    return json.loads(text)\nload('{')");
    let traceback = structured(&result)["error"]["traceback"].as_str().unwrap();
    assert!(
        traceback.contains("in load\n    return json.loads(text)"),
        "{traceback}"
    );
    assert!(
        !traceback.contains("decoder.py") && !traceback.contains("callgate"),
        "{traceback}"
    );
}

#[test]
fn the_json_mode_gives_one_object() {
    let mut client = Client::start(&["--return-mode", "json"]);
    let result = client.run("print('a')\nprint('b')\n5");
    let object: Value = serde_json::from_str(text(&result)).unwrap();
    assert_eq!(
        object,
        json!({"status": "success", "output": ["a", "b"], "return_value": 5})
    );
    let result = client.run("1/0");
    let object: Value = serde_json::from_str(text(&result)).unwrap();
    assert_eq!(object["status"], "run-error");
    assert!(
        object["error"]
            .as_str()
            .unwrap()
            .ends_with("ZeroDivisionError: division by zero\n")
    );
}

#[test]
fn global_variables_are_bound_before_the_code_runs() {
    let mut client = Client::start(&[]);
    let result = client.call(
        json!({"python_code": "name * n", "global_variables": {"name": "ab", "n": 2}}),
        &mut |_| None,
    );
    assert_eq!(structured(&result)["return_value"], "abab");
}

#[test]
fn top_level_await_and_asyncio_work() {
    let mut client = Client::start(&[]);
    let result = client.run("import asyncio\nasync def f():\n    await asyncio.sleep(0.01)\n    return 5\nawait f() + asyncio.run.__name__.count('r')");
    assert_eq!(structured(&result)["return_value"], 6, "{}", text(&result));
}

#[test]
fn wrong_arguments_are_shown_to_the_model() {
    let mut client = Client::start(&[]);
    for (arguments, reason) in [
        (json!({}), "\"python_code\" is a required property"),
        (json!({"python_code": 5}), "5 is not of type \"string\""),
        (
            json!({"python_code": "1", "timeout": 3}),
            "'timeout' was unexpected",
        ),
        (
            json!({"python_code": "1", "global_variables": []}),
            "is not of type \"object\"",
        ),
    ] {
        let result = client.call(arguments.clone(), &mut |_| None);
        assert_eq!(result["isError"], true, "{arguments}");
        assert!(
            text(&result).contains(reason),
            "{arguments}: {}",
            text(&result)
        );
    }
}

#[test]
fn the_text_says_that_output_was_cut() {
    let mut client = Client::start(&["--max-output", "20B"]);
    let result = client.run("for i in range(100): print('line', i)");
    assert!(
        text(&result).contains("line 2\n… the output was cut here (--max-output)\n</output>"),
        "{}",
        text(&result)
    );
    assert_eq!(structured(&result)["output_truncated"], true);
}

#[test]
fn a_last_value_that_can_be_awaited_is_awaited() {
    let mut client = Client::start(&[]);
    for code in [
        "async def main():\n    return 5\nmain()",
        "import asyncio\nasync def main():\n    await asyncio.sleep(0)\n    return 5\nawait main()\nmain()",
        "import asyncio\nasync def main():\n    return 5\nawait asyncio.sleep(0)\nasyncio.ensure_future(main())",
    ] {
        let result = client.run(code);
        assert_eq!(
            structured(&result)["return_value"],
            5,
            "{code}: {}",
            text(&result)
        );
    }
}

#[test]
fn a_missing_module_is_told_without_talk_of_environments() {
    let mut client = Client::start(&[]);
    let told = text(&client.run("import requests")).to_owned();
    assert!(told.contains("No module named 'requests'"), "{told}");
    assert!(told.contains("nothing can be installed"), "{told}");
    assert!(!told.contains("Site initialization"), "{told}");
}

#[test]
fn matplotlib_draws_without_a_word_about_its_folders() {
    let mut client = Client::start(&[]);
    let code = "import os\nimport matplotlib.pyplot as plt\nfigure, axes = plt.subplots()\naxes.plot([1, 2, 3])\n\
        figure.savefig('picture.png')\n[os.path.getsize('picture.png') > 1000, os.path.expanduser('~')]";
    let result = client.run(code);
    assert_eq!(
        structured(&result)["return_value"],
        json!([true, "/tmp"]),
        "{}",
        text(&result)
    );
    assert_eq!(structured(&result)["output"], "");
}
