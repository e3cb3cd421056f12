//! Promise: `callgate run` is the sandbox from a shell, and bad flags are told clearly.

use std::{
    io::Write,
    process::{Command, Output, Stdio},
};

fn callgate(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_callgate"))
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("the binary starts")
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn code_prints_and_its_value_is_printed() {
    let output = callgate(&["run", "-c", "print('hi')\n[1]"]);
    assert_eq!(stdout(&output), "hi\n[\n  1\n]\n");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn a_file_and_standard_input_are_run() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("program.py");
    std::fs::write(&file, "print(6 * 7)").unwrap();
    assert_eq!(stdout(&callgate(&["run", file.to_str().unwrap()])), "42\n");
    let mut child = Command::new(env!("CARGO_BIN_EXE_callgate"))
        .args(["run", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(b"print(6 * 7)")
        .unwrap();
    assert_eq!(stdout(&child.wait_with_output().unwrap()), "42\n");
    let missing = callgate(&["run", "no_such_file.py"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(
        stderr(&missing).contains("no_such_file.py"),
        "{}",
        stderr(&missing)
    );
}

#[test]
fn an_exception_goes_to_stderr_with_exit_code_1() {
    let output = callgate(&[
        "run",
        "-c",
        "import sys\nprint('out')\nprint('err', file=sys.stderr)\n1/0",
    ]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stdout(&output), "out\n");
    assert!(
        stderr(&output).starts_with("err\nTraceback"),
        "{}",
        stderr(&output)
    );
    assert!(
        stderr(&output).ends_with("ZeroDivisionError: division by zero\n"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn the_exit_code_is_that_of_system_exit() {
    for (code, expected) in [
        ("raise SystemExit(7)", 7),
        ("exit()", 0),
        ("import os; os._exit(9)", 9),
        ("import sys; sys.exit('no')", 1),
    ] {
        assert_eq!(
            callgate(&["run", "-c", code]).status.code(),
            Some(expected),
            "{code}"
        );
    }
}

#[test]
fn a_time_limit_is_exit_code_124() {
    let output = callgate(&["run", "--cpu-timeout", "200ms", "-c", "while True: pass"]);
    assert_eq!(output.status.code(), Some(124));
    assert!(
        stderr(&output).contains("--cpu-timeout"),
        "{}",
        stderr(&output)
    );
    let output = callgate(&[
        "run",
        "--run-timeout",
        "200ms",
        "-c",
        "import time; time.sleep(100)",
    ]);
    assert_eq!(output.status.code(), Some(124));
}

#[test]
fn flags_that_make_no_sense_are_refused_with_an_example() {
    for (flag, value, part) in [
        ("--max-memory", "lots", "write it like 64MiB"),
        ("--max-memory", "1MiB", "at least 80 MiB"),
        ("--cpu-timeout", "soon", "write it like 30s"),
        ("--cpu-timeout", "0s", "would stop every run at once"),
        ("--max-runs", "0", "1..=10000"),
    ] {
        let output = callgate(&["run", flag, value, "-c", "1"]);
        assert_eq!(output.status.code(), Some(2), "{flag} {value}");
        assert!(
            stderr(&output).contains(part),
            "{flag} {value}: {}",
            stderr(&output)
        );
    }
    assert!(
        stderr(&callgate(&["run"])).contains("<FILE|-c <CODE>>"),
        "{}",
        stderr(&callgate(&["run"]))
    );
}

#[test]
fn every_flag_has_an_environment_variable_and_a_default() {
    let help = stdout(&callgate(&["--help"]));
    for (flag, variable, default) in [
        ("--max-memory", "CALLGATE_MAX_MEMORY", "256MiB"),
        ("--cpu-timeout", "CALLGATE_CPU_TIMEOUT", "30s"),
        ("--run-timeout", "CALLGATE_RUN_TIMEOUT", "5m"),
        ("--tool-timeout", "CALLGATE_TOOL_TIMEOUT", "30s"),
        ("--max-output", "CALLGATE_MAX_OUTPUT", "1MiB"),
        ("--max-result", "CALLGATE_MAX_RESULT", "4MiB"),
        ("--max-tool-calls", "CALLGATE_MAX_TOOL_CALLS", "10000"),
        ("--max-scratch", "CALLGATE_MAX_SCRATCH", "64MiB"),
        ("--max-files", "CALLGATE_MAX_FILES", "1000"),
        ("--max-runs", "CALLGATE_MAX_RUNS", "1000"),
    ] {
        let (_, rest) = help
            .split_once(&format!("{flag} <"))
            .unwrap_or_else(|| panic!("{flag} is not in {help}"));
        let entry: String = rest
            .split_whitespace()
            .take(60)
            .collect::<Vec<_>>()
            .join(" ");
        assert!(
            entry.contains(&format!("[env: {variable}=")),
            "{flag}: {entry}"
        );
        assert!(
            entry.contains(&format!("[default: {default}]")),
            "{flag}: {entry}"
        );
    }
}
