//! Promise: what `deploy/` and `server.json` say is what the program knows.

use std::{collections::BTreeSet, fs, path::Path, process::Command};

use regex::Regex;
use serde_json::Value;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(ROOT).join(path)).expect("the file is there")
}

/// Everything that matches in a text.
fn all(pattern: &str, text: &str) -> BTreeSet<String> {
    let pattern = Regex::new(pattern).expect("a pattern");
    let matches = pattern.find_iter(text);
    matches.map(|found| found.as_str().to_owned()).collect()
}

fn help() -> String {
    let helped = Command::new(env!("CARGO_BIN_EXE_callgate"))
        .args(["http", "--help"])
        .output()
        .expect("the binary starts");
    String::from_utf8(helped.stdout).expect("help is text")
}

#[test]
fn every_flag_and_variable_in_the_recipes_and_guides_exists() {
    let help = help();
    let flags = all(r"--[a-z][a-z-]+", &help);
    let variables = all(r"\b(CALLGATE|OTEL)_[A-Z_]+", &help);
    for path in [
        "deploy/Containerfile",
        "deploy/callgate.service",
        "deploy/Caddyfile",
        "deploy/nginx.conf",
        "server.json",
        "docs/http.md",
    ] {
        let text = read(path);
        for variable in all(r"\b(CALLGATE|OTEL)_[A-Z_]+", &text) {
            assert!(variables.contains(&variable), "{path}: {variable}");
        }
        let of_callgate = text.lines().filter(|line| {
            line.contains("callgate http") || line.contains("`--") || line.contains("(--")
        });
        for line in of_callgate {
            for flag in all(r"--[a-z][a-z-]+", line) {
                assert!(flags.contains(&flag), "{path}: {flag} in {line}");
            }
        }
    }
}

#[test]
fn the_registry_entry_has_this_version_and_starts_the_stdio_server() {
    let entry: Value = serde_json::from_str(&read("server.json")).expect("it is JSON");
    assert_eq!(entry["version"], env!("CARGO_PKG_VERSION"));
    // Bounds of the schema of 2025-12-11.
    assert!(entry["description"].as_str().expect("text").len() <= 100);
    assert!(entry["name"].as_str().expect("text").contains('/'));
    let package = &entry["packages"][0];
    assert_eq!(package["transport"]["type"], "stdio");
    assert_eq!(package["packageArguments"][0]["value"], "stdio");
    let identifier = package["identifier"].as_str().expect("text");
    assert!(identifier.ends_with(concat!(":", env!("CARGO_PKG_VERSION"))));
}
