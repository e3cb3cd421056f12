//! Promise: the agents of `examples/typescript` work as they stand, on both libraries and over both
//! transports, and type-check.

mod support;

use std::{
    fs,
    os::unix::fs::symlink,
    path::Path,
    process::{Command, Output},
};

use support::{http::HttpServer, toolchain::Node};
use tempfile::TempDir;

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/typescript");

const CALLGATE: &str = env!("CARGO_BIN_EXE_callgate");

/// What the program returns: rooms where the sun shines.
const BOOKED: &str =
    "<return_value>\n{\n  \"Lisbon\": \"LISBON-2\",\n  \"Quito\": \"QUITO-2\"\n}\n</return_value>";

#[test]
fn sdk_1_works_over_stdio() {
    assert_rooms_are_booked(&over_stdio("sdk_1.ts"));
}

#[test]
fn sdk_1_works_over_http() {
    assert_rooms_are_booked(&over_http("sdk_1.ts"));
}

#[test]
fn client_2_works_over_stdio() {
    let printed = over_stdio("client_2.ts");
    assert!(printed.starts_with("MCP 2026-07-28\n"), "{printed}");
    assert_rooms_are_booked(&printed);
}

#[test]
fn client_2_works_over_http() {
    let printed = over_http("client_2.ts");
    assert!(printed.starts_with("MCP 2026-07-28\n"), "{printed}");
    assert_rooms_are_booked(&printed);
}

#[test]
fn the_types_are_right() {
    let example = Example::install();
    let compiler = example.node.file("typescript/bin/tsc");
    printed(&example.node(&compiler, &["--noEmit"]));
}

#[test]
fn a_failed_run_is_a_failure_of_the_agent() {
    let example = Example::install();
    let command = ["--", CALLGATE, "--callbacks", "refuse"];
    let output = example.node(Path::new("sdk_1.ts"), &command);
    assert_eq!(output.status.code(), Some(1), "{}", shown(&output));
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(
        printed.starts_with("<status>run-error</status>"),
        "{printed}"
    );
}

/// The files of the example beside its packages: Node looks for packages where a file lies, and the
/// sources are to stay as they are.
struct Example {
    node: Node,
    folder: TempDir,
}

impl Example {
    fn install() -> Self {
        prepare_image();
        let sources = Path::new(EXAMPLE);
        let node = Node::with_packages("npm-typescript-examples", sources);
        let folder = tempfile::tempdir().expect("there is a place for temporary files");
        for entry in fs::read_dir(sources).expect("the example is there") {
            let file = entry.expect("the folder can be read").path();
            // Not `node_modules`, if someone has tried the example there.
            if let (true, Some(name)) = (file.is_file(), file.file_name()) {
                fs::copy(&file, folder.path().join(name)).expect("files can be copied");
            }
        }
        let modules = folder.path().join("node_modules");
        symlink(node.modules(), modules).expect("links can be made");
        Self { node, folder }
    }

    /// Runs a file with Node, in the folder of the example.
    fn node(&self, file: &Path, arguments: &[&str]) -> Output {
        self.node
            .command()
            .current_dir(self.folder.path())
            .arg(file)
            .args(arguments)
            .env("CALLGATE_BIN", CALLGATE)
            .output()
            .expect("Node starts")
    }
}

/// Makes the image if there is none: the clients give up connecting after a minute.
fn prepare_image() {
    let output = Command::new(CALLGATE).args(["run", "-c", "1"]).output();
    let output = output.expect("the binary starts");
    assert!(output.status.success(), "{}", shown(&output));
}

fn over_stdio(program: &str) -> String {
    printed(&Example::install().node(Path::new(program), &[]))
}

fn over_http(program: &str) -> String {
    let example = Example::install();
    let server = HttpServer::start(&[]);
    printed(&example.node(Path::new(program), &["--http", server.url()]))
}

/// What a program that succeeded has printed.
fn printed(output: &Output) -> String {
    assert!(output.status.success(), "{}", shown(output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What both streams have, for a message.
fn shown(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!(
        "{}\n{}{}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    )
}

/// Calls side by side, one cancelled and two that failed at first, and the result.
fn assert_rooms_are_booked(printed: &str) {
    let expected = [
        r#"list_cities({}) -> ["Atlantis","Lisbon","Oslo","Quito"]"#,
        r#"forecast({"city":"Lisbon"}) -> {"sky":"sunny","degrees":24}"#,
        r#"forecast({"city":"Oslo"}) -> {"sky":"rainy","degrees":11}"#,
        r#"forecast({"city":"Quito"}) -> {"sky":"sunny","degrees":19}"#,
        r#"book_room({"city":"Lisbon","guests":2}) -> {"confirmation":"LISBON-2"}"#,
        r#"book_room({"city":"Quito","guests":2}) -> {"confirmation":"QUITO-2"}"#,
        "no weather from Atlantis",
        "Lisbon: the line is busy",
        "Quito: the line is busy",
    ];
    for line in expected {
        let times = printed.lines().filter(|other| *other == line).count();
        assert_eq!(times, 1, "{line}\n\n{printed}");
    }
    assert!(printed.trim_end().ends_with(BOOKED), "{printed}");
    // Atlantis was asked first, and waited for longest.
    let stopped = position(printed, "\nforecast({\"city\":\"Atlantis\"}): stopped, ");
    assert!(
        position(printed, "\nforecast({\"city\":\"Quito\"}) -> ") < stopped,
        "{printed}"
    );
    // The first line of a result.
    assert!(
        stopped < position(printed, "\n<status>success</status>\n"),
        "{printed}"
    );
}

fn position(text: &str, part: &str) -> usize {
    text.find(part)
        .unwrap_or_else(|| panic!("no {part:?}:\n{text}"))
}
