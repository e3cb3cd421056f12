//! What a client's answer means in Python (wire.md, "Client to server").

use serde_json::{Map, Value};

use super::{pending::Answered, route::RouteError};

/// Keys that an MCP `CallToolResult` may have; one more and it is an ordinary object.
const RESULT_KEYS: [&str; 5] = [
    "content",
    "structuredContent",
    "isError",
    "_meta",
    "resultType",
];

/// Types of content block that MCP knows.
const BLOCK_TYPES: [&str; 5] = ["text", "image", "audio", "resource", "resource_link"];

/// The reason when an error names none.
const NO_REASON: &str = "the tool reported an error without a message";

/// Turns a `result` into the value that the program gets: an MCP `CallToolResult` is unwrapped,
/// anything else stays as it is.
///
/// # Errors
/// The text of a `CallToolResult` that says `isError: true`.
pub fn unwrap(result: Value) -> Result<Value, String> {
    let Value::Object(mut result) = result else {
        return Ok(result);
    };
    if !is_call_tool_result(&result) {
        return Ok(Value::Object(result));
    }
    let content = result.remove("content").unwrap_or_default();
    let text = all_text(&content);
    if result.get("isError") == Some(&Value::Bool(true)) {
        return Err(text
            .filter(|text| !text.is_empty())
            .unwrap_or_else(|| NO_REASON.to_owned()));
    }
    match result.remove("structuredContent") {
        Some(structured) if !structured.is_null() => Ok(structured),
        _ => Ok(text.map_or(content, |text| {
            serde_json::from_str(&text).unwrap_or(Value::String(text))
        })),
    }
}

/// What a client's answer to a call means: the error, if there is one, else the result.
///
/// # Errors
/// When the answer is one, or its result says that it is.
pub fn read(result: Option<Value>, error: Option<Value>) -> Answered {
    match error {
        Some(error) => Err(RouteError::Failed(error_text(&error))),
        None => unwrap(result.unwrap_or(Value::Null)).map_err(RouteError::Failed),
    }
}

/// The reason in an `error`: text, or an object with `message`.
fn error_text(error: &Value) -> String {
    let message = match error {
        Value::Object(object) => object.get("message").unwrap_or(error),
        other => other,
    };
    match message {
        Value::String(text) if !text.is_empty() => text.clone(),
        Value::String(_) | Value::Null => NO_REASON.to_owned(),
        other => other.to_string(),
    }
}

fn is_call_tool_result(object: &Map<String, Value>) -> bool {
    let known_keys = object.keys().all(|key| RESULT_KEYS.contains(&key.as_str()));
    let Some(Value::Array(blocks)) = object.get("content") else {
        return false;
    };
    let known_block = |block: &Value| {
        block["type"]
            .as_str()
            .is_some_and(|kind| BLOCK_TYPES.contains(&kind))
    };
    known_keys && blocks.iter().all(known_block)
}

/// The text of a content list, blocks joined by line breaks; `None` when a block is not text.
fn all_text(content: &Value) -> Option<String> {
    let blocks = content.as_array()?;
    let texts: Option<Vec<&str>> = blocks
        .iter()
        .map(|block| {
            if block["type"] == "text" {
                block["text"].as_str()
            } else {
                None
            }
        })
        .collect();
    texts
        .filter(|texts| !texts.is_empty())
        .map(|texts| texts.join("\n"))
}
