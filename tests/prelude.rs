//! Promise: the prelude's own unit tests pass under an ordinary CPython.

use std::process::Command;

#[test]
fn the_unit_tests_of_the_prelude_pass() {
    let root = env!("CARGO_MANIFEST_DIR");
    let output = Command::new("python3")
        .args([
            "-B",
            "-m",
            "unittest",
            "discover",
            "-s",
            "python-wasm/prelude/tests",
            "-t",
            "python-wasm/prelude",
        ])
        .current_dir(root)
        .output()
        .expect("python3 runs: it is needed to build and test callgate");
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{log}");
    let ran = log
        .lines()
        .find_map(|line| line.strip_prefix("Ran "))
        .and_then(|line| line.split(' ').next()?.parse::<u32>().ok());
    assert!(ran.is_some_and(|ran| ran > 100), "{log}");
}
