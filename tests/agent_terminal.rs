//! Promise: in a terminal, `callgate agent` asks, shows what happens in colours, fits a narrow window, and obeys Ctrl-C.

mod support {
    pub mod agents;
    pub mod toolchain;
}

use std::process::Command;

use serde_json::{Value, json};
use support::agents::{Folder, ScriptedModel, code, stdio};

const TERMINAL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/terminal.py");

/// What a person sees who does these steps, and how the program ended.
fn sit(folder: &Folder, columns: u16, more: &[&str], steps: &Value) -> (String, Option<i32>) {
    support::toolchain::prepare_image();
    let output = Command::new("python3")
        .args([TERMINAL, &columns.to_string(), &steps.to_string()])
        .args([env!("CARGO_BIN_EXE_callgate"), "agent", "run"])
        .arg(folder.path())
        .args(more)
        .env_remove("NO_COLOR")
        .output()
        .expect("python3 is there");
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_ne!(
        output.status.code(),
        Some(99),
        "{}\n{shown}",
        String::from_utf8_lossy(&output.stderr)
    );
    (shown, output.status.code())
}

/// The text without colours and movements.
fn plain(shown: &str) -> String {
    let mut plain = String::new();
    let mut rest = shown;
    while let Some((before, after)) = rest.split_once('\u{1b}') {
        plain.push_str(before);
        let end = after.find(|of: char| of.is_ascii_alphabetic());
        rest = end.map_or("", |end| &after[end + 1..]);
    }
    plain + rest
}

#[test]
fn the_user_is_asked_once_always_or_never() {
    let program = "def attempt(n):\n    try:\n        return echo(text=f'call {n}')\n    except ToolCallError as error:\n        \
        return 'refused'\n[attempt(n) for n in range(4)]";
    let model = ScriptedModel::start(&json!([code(program), {"text": "Done."}]));
    let folder = Folder::with_servers(&model.url, &json!([stdio("real.py", &[])]));
    let question = json!({"expect": "[a]lways"});
    let steps = json!([
        {"expect": "»"}, {"type": "go\r"},
        question, {"type": "n\r"}, question, {"type": "what\r"}, question, {"type": "y\r"}, question, {"type": "a\r"},
        {"expect": "Done."}, {"expect": "»"}, {"type": "\u{4}"}
    ]);
    let (shown, code) = sit(&folder, 100, &[], &steps);
    assert_eq!(code, Some(0), "{shown}");
    let content = model.messages()[3]["content"].as_str().unwrap().to_owned();
    let value: Value = serde_json::from_str(
        content
            .split("<return_value>")
            .nth(1)
            .unwrap()
            .split("</")
            .next()
            .unwrap(),
    )
    .unwrap();
    assert_eq!(value, json!(["refused", "call 1", "call 2", "call 3"]));
    let shown = plain(&shown);
    assert!(shown.contains("real.echo may destroy something"), "{shown}");
    assert!(shown.contains("2 turns · 4 calls"), "{shown}");
}

#[test]
fn python_is_shown_in_colours_and_lines_fit_the_window() {
    let model = ScriptedModel::start(&json!([
        {"text": "I look.", "tool_calls": code("echo(text='x' * 300)\nprint('y' * 300)")["tool_calls"]}, {"text": "Done."}
    ]));
    let folder = Folder::with_servers(&model.url, &json!([stdio("real.py", &[])]));
    let steps = json!([{"expect": "»"}, {"type": "go\r"}, {"expect": "Done."}, {"expect": "»"}, {"type": "\u{4}"}]);
    let (shown, _) = sit(&folder, 40, &["--yes"], &steps);
    assert!(shown.contains("\u{1b}[38;5;"), "{shown:?}");
    let shown = plain(&shown);
    assert!(shown.contains("│ echo(text="), "{shown}");
    for line in shown
        .lines()
        .filter(|line| line.contains('→') || line.contains('←') || line.starts_with("  "))
    {
        assert!(line.trim_end().chars().count() <= 40, "{line:?}");
    }
}

#[test]
fn secrets_are_asked_for_and_not_shown() {
    let model = ScriptedModel::start(&json!([{"text": "Hello."}]));
    let folder = Folder::of(
        &json!({"model": "m", "endpointUrl": model.url, "apiKey": "${input:key}", "servers": [],
        "inputs": [{"id": "key", "description": "Your key", "password": true}]}),
    );
    let steps = json!([{"expect": "Your key"}, {"type": "s3cret-1618\r"}, {"expect": "»"}, {"type": "hi\r"},
        {"expect": "Hello."}, {"expect": "»"}, {"type": "\u{4}"}]);
    let (shown, code) = sit(&folder, 80, &[], &steps);
    assert_eq!(code, Some(0), "{shown}");
    assert!(!shown.contains("s3cret"), "{shown}");
    assert_eq!(model.requests()[0]["authorization"], "Bearer s3cret-1618");
}

#[test]
fn ctrl_c_works_everywhere() {
    let model = ScriptedModel::start(&json!([
        {"text": "Half of what I want to say", "stall": 100}, code("echo(text='x')"), {"text": "Never."}
    ]));
    let folder = Folder::with_servers(&model.url, &json!([stdio("real.py", &[])]));
    let interrupt = json!({"type": "\u{3}"});
    let steps = json!([
        {"expect": "»"}, {"type": "first\r"}, {"expect": "Half"}, interrupt, {"expect": "interrupted"},
        {"expect": "»"}, {"type": "second\r"}, {"expect": "[a]lways"}, interrupt, {"expect": "interrupted"},
        {"expect": "»"}, interrupt
    ]);
    let (shown, code) = sit(&folder, 80, &[], &steps);
    assert_eq!(code, Some(130), "{shown}");
    assert!(!shown.contains("Never."), "{shown}");
}
