//! Promise: with `clients/python`, an agent serves tool calls in three lines, whatever library it uses.

mod support;

use std::{path::Path, process::Command};

use support::toolchain::{prepare_image, python_with, run};

const PACKAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/clients/python");

/// `mcp` 2, `FastMCP` and pydantic-ai.
const CURRENT: &str = "mcp2";

/// `mcp` 1 and `huggingface_hub`, which can't be installed beside those.
const PREVIOUS: &str = "mcp1";

/// What only `PREVIOUS` has the libraries for, as a pattern.
const OF_PREVIOUS: &str = r"(mcp1|huggingface|scripted_model)\.py$";

/// Neither is of one environment: a program for the sandbox, and a server for both.
const OF_NEITHER: &str = r"tests/(demo|other_server)\.py$";

/// A module of an environment, run in the folder of the package.
fn module(environment: &str, name: &str) -> Command {
    let lists = Path::new(PACKAGE).join("tests/requirements");
    let list = lists.join(format!("{environment}.txt"));
    let python = python_with(&format!("library-{environment}"), &list);
    let cache = format!("mypy-{environment}");
    let mut command = Command::new(python);
    command
        .args(["-m", name])
        .current_dir(PACKAGE)
        .env("CALLGATE_BIN", env!("CARGO_BIN_EXE_callgate"))
        // The sources stay as they are.
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env(
            "MYPY_CACHE_DIR",
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(cache),
        );
    command
}

/// Runs test files of the package on the real binary.
fn passes(environment: &str, files: &[&str]) {
    prepare_image();
    let files = files.iter().map(|name| format!("tests/test_{name}.py"));
    run(module(environment, "pytest").arg("-q").args(files));
}

#[test]
fn mcp_2_serves_tool_calls() {
    passes(CURRENT, &["mcp2"]);
}

#[test]
fn fastmcp_serves_tool_calls() {
    passes(CURRENT, &["fastmcp"]);
}

#[test]
fn agents_of_pydantic_ai_serve_tool_calls() {
    passes(CURRENT, &["pydantic_ai"]);
}

#[test]
fn mcp_1_serves_tool_calls() {
    passes(PREVIOUS, &["mcp1"]);
}

#[test]
fn agents_of_huggingface_hub_serve_tool_calls() {
    passes(PREVIOUS, &["huggingface"]);
}

#[test]
fn its_parts_and_its_readme_keep_their_word() {
    passes(
        CURRENT,
        &["values", "tools", "calls", "connections", "package"],
    );
}

#[test]
fn it_is_formatted_and_has_no_lints() {
    run(module(CURRENT, "ruff").args(["format", "--no-cache", "--check", "."]));
    run(module(CURRENT, "ruff").args(["check", "--no-cache", "."]));
}

#[test]
fn its_types_fit_the_libraries() {
    let everything = ["src", "tests", "examples"];
    let excluded = ["--exclude", OF_PREVIOUS, "--exclude", OF_NEITHER];
    run(module(CURRENT, "mypy").args(everything).args(excluded));

    // pydantic-ai is for newer Pythons than the rest.
    let oldest = ["--python-version", "3.10", "--exclude", "pydantic_ai"];
    let excluded = ["--exclude", OF_PREVIOUS];
    run(module(CURRENT, "mypy")
        .arg("src")
        .args(oldest)
        .args(excluded));

    let of_library = |name: &str| {
        [
            format!("src/callgate_client/{name}.py"),
            format!("tests/test_{name}.py"),
            format!("examples/with_{name}.py"),
        ]
    };
    let files = ["mcp1", "huggingface"].map(of_library).concat();
    run(module(PREVIOUS, "mypy").args(files));
}
