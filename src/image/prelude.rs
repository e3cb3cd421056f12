//! The prelude: callgate's own Python modules, which are put into the guest when it is snapshotted.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// Executed once in the guest, at snapshot time: fetches and installs the modules.
pub const BOOTSTRAP: &str = include_str!("../../python-wasm/bootstrap.py");

const PREIMPORTS: &str = include_str!("../../python-wasm/preimports.txt");

/// A prelude module: its dotted name and its source.
macro_rules! modules {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../../python-wasm/prelude/_callgate/", $name, ".py")))),*]
    };
}

/// The modules of the package `_callgate`.
const MODULES: &[(&str, &str)] = &modules![
    "__init__",
    "annotations",
    "arrays",
    "blocks",
    "catalogue",
    "convert",
    "errors",
    "executors",
    "host",
    "loop",
    "names",
    "plain_calls",
    "pools",
    "precheck",
    "randomness",
    "ranking",
    "repair",
    "run",
    "servers",
    "signatures",
    "source",
    "streams",
    "texts",
    "threads",
    "tools",
    "tracebacks",
    "values",
    "warm",
];

/// What the default image has imported.
#[must_use]
pub fn default_preimports() -> Vec<String> {
    PREIMPORTS
        .lines()
        .filter(|line| !line.starts_with('#'))
        .flat_map(str::split_whitespace)
        .map(str::to_owned)
        .collect()
}

/// The answer to the guest's `build` call (docs/host-calls.md).
#[must_use]
pub fn build_frame(preimports: &[String]) -> Value {
    let modules: Vec<Value> = MODULES
        .iter()
        .map(|(name, source)| match *name {
            "__init__" => json!(["_callgate", source, true]),
            name => json!([format!("_callgate.{name}"), source, false]),
        })
        .collect();
    json!({"modules": modules, "preimports": preimports, "immortal": true})
}

/// Adds everything here to the key of an image.
pub(super) fn hash_into(hasher: &mut Sha256) {
    hasher.update(BOOTSTRAP);
    for (name, source) in MODULES {
        hasher.update(name);
        hasher.update(source);
    }
}
