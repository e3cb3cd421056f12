//! Promise: callgate's transport is the protocol's, in both eras, as the protocol's own conformance suites see it.
//!
//! The suites want tools, resources and prompts that callgate does not have. A server that has them
//! stands behind the same transport (`examples/conformance_server`), and nothing may fail there. Of what
//! fails at callgate itself, `fixtures/conformance` has a list with reasons: nothing else may fail, and
//! nothing in the list may pass.

mod support;

use std::{
    fmt::Write as _,
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex, PoisonError},
};

use serde_json::Value;
use support::toolchain::Node;

/// The suite that npm calls the latest.
const RELEASED: Suite = Suite {
    program: "conformance-latest/dist/index.js",
    baseline: "0.1.16.yaml",
};

/// The newest one: it knows 2026-07-28.
const NEWEST: Suite = Suite {
    program: "conformance-alpha/dist/index.js",
    baseline: "0.2.0-alpha.12.yaml",
};

/// The baseline of a server that has everything.
const NOTHING_FAILS: &str = "everything-passes.yaml";

/// Scenarios wait for half a second here and there, and no longer: they don't share the processor.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

#[test]
fn a_server_with_every_fixture_passes_the_released_suite() {
    let server = Server::with_every_fixture();
    server.passes(&RELEASED, &["--suite", "all"], 46);
}

#[test]
fn a_server_with_every_fixture_meets_the_requirements_of_both_eras() {
    let server = Server::with_every_fixture();
    server.passes(&NEWEST, &["--requirements", "2025-11-25"], 83);
    server.passes(&NEWEST, &["--requirements", "2026-07-28"], 197);
}

/// With the extensions and what came after the revisions: no requirements, but they count here.
#[test]
fn a_server_with_every_fixture_passes_all_of_the_newest_suite() {
    let server = Server::with_every_fixture();
    server.passes(&NEWEST, &["--suite", "all"], 275);
}

#[test]
fn callgate_fails_nothing_of_the_released_suite_but_what_it_does_not_have() {
    let server = Server::shipped();
    server.keeps_to(&RELEASED, RELEASED.baseline, &["--suite", "all"]);
}

#[test]
fn callgate_fails_nothing_of_the_newest_suite_but_what_it_does_not_have() {
    let server = Server::shipped();
    for scenarios in [
        ["--requirements", "2025-11-25"],
        ["--requirements", "2026-07-28"],
        ["--suite", "all"],
    ] {
        server.keeps_to(&NEWEST, NEWEST.baseline, &scenarios);
    }
}

struct Suite {
    /// Its program, in the folder of packages.
    program: &'static str,
    /// What callgate itself fails there, in `fixtures/conformance`.
    baseline: &'static str,
}

/// A server at a port of its own.
struct Server {
    process: Child,
    url: String,
    log: Arc<Mutex<String>>,
}

impl Server {
    fn with_every_fixture() -> Self {
        Self::start(Command::new(example()).args(["--listen", "127.0.0.1:0"]))
    }

    fn shipped() -> Self {
        let binary = env!("CARGO_BIN_EXE_callgate");
        Self::start(Command::new(binary).args(["http", "--listen", "127.0.0.1:0"]))
    }

    /// Starts a server and waits until it says where it is.
    fn start(command: &mut Command) -> Self {
        let mut process = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let log = Arc::new(Mutex::new(String::new()));
        let url = lines.by_ref().map_while(Result::ok).find_map(|line| {
            let url = line
                .split_once("serving MCP at ")
                .map(|(_, url)| url.to_owned());
            note(&log, &line);
            url
        });
        let kept = Arc::clone(&log);
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                note(&kept, &line);
            }
        });
        let Some(url) = url else {
            panic!("{command:?} did not say where it is:\n{}", text(&log));
        };
        Self { process, url, log }
    }

    /// Nothing fails, no warning is given, and no check is missing.
    fn passes(&self, suite: &Suite, scenarios: &[&str], checks: usize) {
        let output = self.keeps_to(suite, NOTHING_FAILS, scenarios);
        let total = format!("Total: {checks} passed, 0 failed");
        assert!(output.contains(&total), "not `{total}`:\n{output}");
    }

    /// Fails what a baseline says, and nothing else. Returns what the suite printed.
    fn keeps_to(&self, suite: &Suite, baseline: &str, scenarios: &[&str]) -> String {
        let node = Node::install();
        let baseline =
            Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/conformance")).join(baseline);
        let results = tempfile::tempdir().unwrap();
        let turn = ONE_AT_A_TIME.lock();
        let _turn = turn.unwrap_or_else(PoisonError::into_inner);
        let run = node
            .command()
            .arg(node.file(suite.program))
            .args(["server", "--url", &self.url])
            .args(scenarios)
            .arg("--expected-failures")
            .arg(&baseline)
            .arg("--output-dir")
            .arg(results.path())
            .output()
            .unwrap();
        let output = String::from_utf8_lossy(&run.stdout).into_owned();
        assert!(
            run.status.success(),
            "{} {scenarios:?} against {}: {}\n{output}{}\nWhat failed, expected or not:\n{}\nThe server's log:\n{}",
            suite.program,
            baseline.display(),
            run.status,
            String::from_utf8_lossy(&run.stderr),
            failures(results.path()),
            text(&self.log),
        );
        output
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn note(log: &Mutex<String>, line: &str) {
    let mut log = log.lock().unwrap();
    log.push_str(line);
    log.push('\n');
}

fn text(log: &Mutex<String>) -> String {
    log.lock().unwrap().clone()
}

/// The checks that failed: the suites print them only when they run one scenario.
fn failures(results: &Path) -> String {
    let mut list = String::new();
    for scenario in fs::read_dir(results).unwrap() {
        let scenario = scenario.unwrap();
        let Ok(checks) = fs::read(scenario.path().join("checks.json")) else {
            continue;
        };
        let checks: Vec<Value> = serde_json::from_slice(&checks).unwrap();
        for check in checks {
            if check["status"] == "FAILURE" || check["status"] == "WARNING" {
                let name = scenario.file_name();
                let (id, error) = (&check["id"], &check["errorMessage"]);
                writeln!(list, "{}: {id}: {error}", name.display()).unwrap();
            }
        }
    }
    list
}

/// The example, where `cargo test` puts it.
fn example() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let profile = test.parent().and_then(Path::parent).unwrap();
    let name = format!("conformance_server{}", std::env::consts::EXE_SUFFIX);
    let example = profile.join("examples").join(name);
    assert!(
        example.exists(),
        "{} is not there. `cargo test` builds examples, `cargo test --test conformance` does not: run \
         `cargo build --example conformance_server` first, with the same profile",
        example.display()
    );
    example
}
