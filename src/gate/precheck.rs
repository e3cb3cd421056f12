//! Calls that stand plainly in the source, checked before the program runs.
//!
//! The guest reads the calls off the source and asks whether they could work; it is the same schema
//! that a call meets at run time. Of an argument whose value is not known yet only the name counts.

use std::collections::HashSet;

use jsonschema::{ValidationError, error::ValidationErrorKind};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{frame, offered::OfferedTools, schema::Verdict, servers::Servers, violation};

/// Problems of one call that are told.
const TOLD: usize = 10;

/// A call as it stands in the source.
#[derive(Debug, Deserialize)]
pub(super) struct PlainCall {
    tool: String,
    #[serde(default)]
    server: Option<String>,
    /// Arguments that are literals.
    arguments: Map<String, Value>,
    /// Arguments whose value is known only when the call is made.
    #[serde(default)]
    unknown: Vec<String>,
    /// Whether there may be further arguments, as with `**more`.
    #[serde(default)]
    open: bool,
}

/// Calls that are checked; the guest sends no more.
const CHECKED: usize = 500;

/// Once so many calls were found wrong, the rest can wait until those are right.
const WRONG: usize = 20;

/// Bytes of the request; source that needs more is not checked.
pub(super) const LARGEST: u64 = 1 << 20;

/// The frame that tells, for each call, what is wrong with it.
pub(super) fn answer(
    calls: &[PlainCall],
    offered: &OfferedTools,
    servers: &dyn Servers,
) -> Vec<u8> {
    let mut wrong = 0;
    let mut found = Vec::new();
    for call in calls.iter().take(CHECKED) {
        let problems = problems(call, offered, servers);
        wrong += usize::from(!problems.is_empty());
        found.push(problems);
        if wrong == WRONG {
            break;
        }
    }
    let problems = found;
    frame::bytes(&json!({"ok": true, "problems": problems}))
}

/// What would make the call fail whatever the unknown values are.
fn problems(call: &PlainCall, offered: &OfferedTools, servers: &dyn Servers) -> Vec<String> {
    let server = call.server.as_deref();
    if server.is_some_and(|server| servers.has(server)) {
        return Vec::new();
    }
    let tool = match offered.find(&call.tool, server, servers) {
        Ok(tool) => tool,
        Err(reason) => return vec![reason],
    };
    let mut arguments = call.arguments.clone();
    for name in &call.unknown {
        arguments.insert(name.clone(), Value::Null);
    }
    let arguments = Value::Object(arguments);
    let known_whole = call.unknown.is_empty() && !call.open;
    let unknown: HashSet<&str> = call.unknown.iter().map(String::as_str).collect();
    // What can't be told now is told when the call is made.
    let Verdict::Errors(errors) = tool.verdict(&arguments) else {
        return Vec::new();
    };
    errors
        .iter()
        .filter(|error| known_whole || is_certain(error, &unknown, call.open))
        .take(TOLD)
        .map(|error| violation::describe(error, &tool.arguments))
        .collect()
}

/// Whether an error stays one whatever values the unknown arguments get, and further ones.
///
/// Certain is what a keyword says that must hold by itself: that of a root schema, or of one that the
/// root includes by `allOf` or `$ref`. Within `anyOf`, `if` and the like an unknown value may help.
fn is_certain(error: &ValidationError<'_>, unknown: &HashSet<&str>, open: bool) -> bool {
    let path = error.evaluation_path().to_string();
    let mut keywords = path.split('/').skip(1).peekable();
    while let Some(keyword) = keywords.next() {
        match keyword {
            "$ref" => {}
            "allOf" => {
                keywords.next();
            }
            "required" => return !open,
            "properties" | "additionalProperties" => break,
            _ => return false,
        }
    }
    match error.kind() {
        ValidationErrorKind::AdditionalProperties { .. } if is_root(error) => true,
        _ => argument_of(error).is_some_and(|name| !unknown.contains(name.as_str())),
    }
}

fn is_root(error: &ValidationError<'_>) -> bool {
    error.instance_path().to_string().is_empty()
}

/// The argument in which an error is.
fn argument_of(error: &ValidationError<'_>) -> Option<String> {
    let path = error.instance_path().to_string();
    let first = path.split('/').nth(1)?;
    Some(first.replace("~1", "/").replace("~0", "~"))
}
