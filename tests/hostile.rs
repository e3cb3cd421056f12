//! Promise: whatever code does, its run ends with a result that says what happened, and the server,
//! one process for all of it, goes on to serve the next.
//!
//! Each program in `fixtures/hostile` begins with comments that say how it must end.

mod support;

use std::{collections::BTreeMap, fs, path::Path};

use serde_json::{Value, json};
use support::{Client, structured, text, tool};

/// Short, so that the programs which run into them do so soon; not so short that a busy machine makes
/// others run into them.
const LIMITS: [&str; 10] = [
    "--callbacks",
    "notify",
    "--cpu-timeout",
    "2s",
    "--run-timeout",
    "12s",
    "--tool-timeout",
    "1s",
    "--max-tool-calls",
    "1000",
];

/// Anonymous memory that the server may have gained between the end of the warm-up and the end of
/// all programs (KiB). With over 260 programs, half a MiB that is lost in each would show.
const MARGIN_KIB: u64 = 128 << 10;

/// Programs that make the host or the guest use much memory at once, to begin with: what they leave
/// behind in allocators, stacks and the pool of instances is kept for the next, and is not growth.
const WARM_UP: [&str; 14] = [
    "cpu_json_text_of_large_value_is_cheap_for_the_host",
    "cpu_text_to_huge_integer",
    "files_huge_reads",
    "files_scratch_filled",
    "host_forged_error_of_4_mb",
    "host_huge_frame_of_small_pieces",
    "memory_full_at_the_end",
    "memory_growing_list",
    "nesting_dicts_and_tuples_collected",
    "output_half_tags_printed",
    "output_half_tags_returned",
    "recursion_without_a_limit",
    "return_exponential_sets_and_dicts",
    "tools_large_arguments_in_flight",
];

/// How often: what is kept depends a little on the order in which threads took part.
const WARM_UPS: usize = 3;

/// Kinds of error that a result may have.
const KINDS: [&str; 10] = [
    "exception",
    "syntax",
    "precheck",
    "cpu_limit",
    "time_limit",
    "memory_limit",
    "output_limit",
    "call_limit",
    "cancelled",
    "crashed",
];

/// What a program's first lines say.
struct Case {
    name: String,
    source: String,
    header: BTreeMap<String, String>,
    expected: Vec<String>,
}

impl Case {
    fn read(path: &Path) -> Self {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let source = fs::read_to_string(path).expect("a program is text");
        let mut header = BTreeMap::new();
        let mut expected = Vec::new();
        for line in source.lines() {
            let Some((key, value)) = line
                .strip_prefix("# ")
                .and_then(|line| line.split_once(": "))
            else {
                break;
            };
            match key {
                "expect" => expected.push(value.to_owned()),
                _ => drop(header.insert(key.to_owned(), value.to_owned())),
            }
        }
        assert!(!expected.is_empty(), "{name} does not say how it must end");
        assert!(
            header.contains_key("why"),
            "{name} does not say what it is for"
        );
        Self {
            name,
            source,
            header,
            expected,
        }
    }

    /// What is wrong with a result, if anything is.
    fn complaint(&self, result: &Value) -> Option<String> {
        let found = structured(result);
        let error = &found["error"];
        let kind = error["kind"].as_str();
        let expected = self.expected.iter().any(|expected| match kind {
            None => expected == "success",
            Some(kind) => expected
                .strip_prefix("run-error ")
                .is_some_and(|kinds| kinds.split('|').any(|allowed| allowed == kind)),
        });
        if !expected {
            return Some(format!("expected {:?}", self.expected));
        }
        let says = |key: &str, check: &dyn Fn(&str) -> bool| {
            self.header
                .get(key)
                .is_none_or(|expected| check(&expected.replace("\\ufffd", "\u{fffd}")))
        };
        let value = |expected: &str| {
            serde_json::from_str::<Value>(expected).expect("`return` is JSON")
                == found["return_value"]
        };
        let contains =
            |field: &Value, part: &str| field.as_str().is_some_and(|text| text.contains(part));
        let outcomes = |expected: &str| {
            let calls = found["tool_calls"].as_array().unwrap();
            !calls.is_empty()
                && calls.iter().all(|call| {
                    expected
                        .split('|')
                        .any(|outcome| call["outcome"] == outcome)
                })
        };
        // An exception's type and text are only there where it was one.
        let raised = matches!(
            kind,
            Some("exception" | "syntax" | "memory_limit" | "output_limit" | "call_limit")
        );
        let checks = [
            (
                "return",
                kind.is_some() || says("return", &|expected| value(expected)),
            ),
            (
                "type",
                !raised
                    || says("type", &|expected| {
                        expected.split('|').any(|name| error["type"] == name)
                    }),
            ),
            (
                "message",
                !raised || says("message", &|part| contains(&error["message"], part)),
            ),
            (
                "output",
                says("output", &|part| contains(&found["output"], part)),
            ),
            (
                "truncated",
                says("truncated", &|expected| {
                    found["output_truncated"] == (expected == "true")
                }),
            ),
            ("outcomes", says("outcomes", &outcomes)),
        ];
        checks
            .iter()
            .find(|(_, holds)| !holds)
            .map(|(key, _)| format!("expected {key} {:?}", self.header[*key]))
    }
}

fn cases() -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/hostile");
    let mut paths: Vec<_> = fs::read_dir(folder)
        .expect("the fixtures are there")
        .map(|entry| entry.expect("a readable folder").path())
        .collect();
    paths.sort();
    paths.iter().map(|path| Case::read(path)).collect()
}

/// A tool that is answered with its argument, and two that are not answered at all.
fn tools() -> Value {
    json!([tool("echo", json!({"value": {}})), {"name": "silent", "parameters": {"type": "object"}}, {"name": "silent_any"},
        {"name": "plan", "parameters": {"type": "object", "properties": {"steps": {"type": "array", "items": {"anyOf": [
            {"type": "string"}, {"type": "object", "required": ["a", "b"]}]}}}}}])
}

fn run(client: &mut Client, source: &str) -> Value {
    client.run_with(source, tools(), &mut |params| {
        (params["toolName"] == "echo").then(|| json!({"result": params["arguments"]["value"]}))
    })
}

/// What is wrong with the form of a result, whatever it says.
fn malformed(result: &Value) -> Option<&'static str> {
    let found = structured(result);
    let failed = !found["error"].is_null();
    let status = if failed { "run-error" } else { "success" };
    if found["status"] != status || result["isError"].as_bool().unwrap_or(false) != failed {
        return Some("status, error and isError contradict each other");
    }
    let kind = found["error"]["kind"].as_str();
    if failed && !kind.is_some_and(|kind| KINDS.contains(&kind)) {
        return Some("the kind is not one of the format's");
    }
    let Some(sections) = sections(text(result)) else {
        return Some("the text is not made of sections");
    };
    let mut expected = vec!["status"];
    let mut expect = |tag, there: bool| expected.extend(there.then_some(tag));
    expect("output", found["output"] != "");
    expect("return_value", !found["return_value"].is_null());
    expect("error", failed);
    expect("tool_calls", failed && found["tool_calls"] != json!([]));
    (sections != expected).then_some("the text has other sections than it should")
}

/// The sections of a text as a strict reader finds them: each ends at the first tag that closes it.
fn sections(text: &str) -> Option<Vec<&str>> {
    let mut found = Vec::new();
    let mut rest = text;
    loop {
        let (tag, after) = rest.strip_prefix('<')?.split_once('>')?;
        let (content, after) = after.split_once(&format!("</{tag}>"))?;
        if tag != "status" && !(content.starts_with('\n') && content.ends_with('\n')) {
            return None;
        }
        found.push(tag);
        if after.is_empty() {
            return Some(found);
        }
        rest = after.strip_prefix('\n')?;
    }
}

/// The server must answer an ordinary program after whatever came before.
fn check_alive(client: &mut Client, after: &str) {
    let result = run(client, "print(6*7)\necho(value=[1, 'ü'])");
    let found = structured(&result);
    assert_eq!(found["output"], "42\n", "after {after}: {result}");
    assert_eq!(
        found["return_value"],
        json!([1, "ü"]),
        "after {after}: {result}"
    );
    assert_eq!(
        found["tool_calls"][0]["outcome"], "answered",
        "after {after}"
    );
}

#[test]
fn hostile_programs() {
    let cases = cases();
    let mut client = Client::start(&LIMITS);
    let process = client.pid();
    for name in [WARM_UP; WARM_UPS].concat() {
        let case = cases
            .iter()
            .find(|case| case.name == name)
            .expect("a case to warm up with");
        run(&mut client, &case.source);
    }
    check_alive(&mut client, "the first programs");
    let before = client.anonymous_kib();
    let mut complaints = Vec::new();
    for case in &cases {
        let result = run(&mut client, &case.source);
        let told: String = text(&result).chars().take(400).collect();
        for complaint in [
            case.complaint(&result),
            malformed(&result).map(str::to_owned),
        ]
        .into_iter()
        .flatten()
        {
            complaints.push(format!("{}: {complaint}; found:\n{told}", case.name));
        }
        if case.header.contains_key("differs") {
            let again = run(&mut client, &case.source);
            let value = |result: &Value| structured(result)["return_value"].clone();
            if value(&result) == value(&again) {
                complaints.push(format!("{}: two runs were the same", case.name));
            }
        }
        check_alive(&mut client, &case.name);
    }
    let after = client.anonymous_kib();
    assert_eq!(client.pid(), process);
    assert!(
        complaints.is_empty(),
        "{} of {} programs:\n\n{}",
        complaints.len(),
        cases.len(),
        complaints.join("\n\n")
    );
    println!("anonymous memory: {before} KiB, then {after} KiB");
    assert!(
        after <= before + MARGIN_KIB,
        "anonymous memory grew from {before} to {after} KiB"
    );
    let log = client.log();
    assert!(!log.contains("panicked"), "the server panicked:\n{log}");
    assert!(
        client.close().0.success(),
        "the server ends as it should, when it should"
    );
}
