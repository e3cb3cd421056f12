//! Promise: the event loop of the guest passes CPython's own tests of asyncio, but for those that
//! `fixtures/asyncio/left_out.toml` names with the reason.

mod support;

use std::{
    collections::{BTreeMap, BTreeSet},
    process::Command,
};

use serde_json::{Value, json};
use support::{Client, structured, text};

/// The versions of Python for whose tests the list of what is left out is right.
const VERSIONS: [&str; 3] = ["3.11", "3.12", "3.13"];

/// The modules, each with the version that brought it.
const MODULES: [(&str, &str); 19] = [
    ("test_base_events", "3.11"),
    ("test_context", "3.11"),
    ("test_eager_task_factory", "3.12"),
    ("test_events", "3.11"),
    ("test_futures", "3.11"),
    ("test_futures2", "3.11"),
    ("test_locks", "3.11"),
    ("test_pep492", "3.11"),
    ("test_protocols", "3.11"),
    ("test_queues", "3.11"),
    ("test_runners", "3.11"),
    ("test_staggered", "3.13"),
    ("test_streams", "3.11"),
    ("test_taskgroups", "3.11"),
    ("test_tasks", "3.11"),
    ("test_threads", "3.11"),
    ("test_timeouts", "3.11"),
    ("test_transports", "3.11"),
    ("test_waitfor", "3.11"),
];

/// Fewer than in any of the versions; of far fewer, this would not be worth its name.
const AT_LEAST: u64 = 1300;

/// The tests of an installed Python: its version, and their text by path.
fn installed_tests() -> Value {
    let mut tried = Vec::new();
    for python in ["python3", "python3.13", "python3.12", "python3.11"] {
        match collect(python) {
            Ok(tests) => return tests,
            Err(reason) => tried.push(format!("{python}: {}", reason.trim())),
        }
    }
    panic!(
        "no Python with the tests of its asyncio, of {VERSIONS:?}, was found; \
         Debian: apt install libpython3-testsuite\n{}",
        tried.join("\n")
    );
}

/// The tests that belong to one interpreter, or why it cannot serve.
fn collect(python: &str) -> Result<Value, String> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/asyncio/collect.py");
    let output = Command::new(python)
        .args(["-I", "-B", script])
        .output()
        .map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let tests: Value = serde_json::from_slice(&output.stdout).expect("collect.py prints JSON");
    let version = tests["version"].as_str().expect("a version is text");
    if VERSIONS.contains(&version) {
        Ok(tests)
    } else {
        Err(format!("left_out.toml is not made for {version}"))
    }
}

/// What the run of one module says in the guest.
fn run_module(client: &mut Client, module: &str, tests: &Value) -> Value {
    let variables = json!({
        "files": tests["files"],
        "version": tests["version"],
        "module": module,
        "left_out": include_str!("../fixtures/asyncio/left_out.toml"),
    });
    let code = include_str!("../fixtures/asyncio/run_module.py");
    let result = client.call(
        json!({"python_code": code, "global_variables": variables}),
        &mut |_| None,
    );
    let report = structured(&result)["return_value"].clone();
    assert!(report.is_object(), "{module} broke off: {}", text(&result));
    report
}

/// The strings of a JSON array.
fn strings(list: &Value) -> Vec<String> {
    serde_json::from_value(list.clone()).expect("a list of strings")
}

#[test]
fn the_loop_passes_cpythons_own_tests() {
    let tests = installed_tests();
    let version = tests["version"].as_str().expect("a version is text");
    let mut client = Client::start(&["--cpu-timeout", "2m", "--run-timeout", "4m"]);
    let (mut ran, mut troubles) = (0, Vec::new());
    let (mut patterns, mut hits) = (BTreeSet::new(), BTreeMap::<String, u64>::new());
    for (module, since) in MODULES {
        if version < since {
            continue;
        }
        let report = run_module(&mut client, module, &tests);
        assert_eq!(report["loop"], "GateLoop", "{module}");
        assert_eq!(report["ran"], report["kept"], "{module}: it broke off");
        ran += report["ran"].as_u64().expect("a number of tests");
        troubles.extend(strings(&report["troubles"]));
        patterns.extend(strings(&report["patterns"]));
        for (pattern, count) in report["hits"].as_object().expect("a count by pattern") {
            *hits.entry(pattern.clone()).or_default() += count.as_u64().expect("a count");
        }
    }
    println!("{ran} tests of {version} ran; left out: {hits:#?}");
    assert!(troubles.is_empty(), "{}", troubles.join("\n"));
    let stale: Vec<&String> = patterns.iter().filter(|p| !hits.contains_key(*p)).collect();
    assert!(
        stale.is_empty(),
        "left_out.toml names what {version} does not have: {stale:#?}"
    );
    assert!(ran >= AT_LEAST, "only {ran} tests of {version} ran");
}
