//! What tools answer with, in few words.

use rmcp::{
    ErrorData,
    model::{CallToolResponse, CallToolResult, ContentBlock, JsonObject, Tool},
};
use serde_json::{Value, json};

/// What becomes of a tool call.
pub type Answer = Result<CallToolResponse, ErrorData>;

/// A result of one text.
pub fn text(text: impl Into<String>) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(text.into())])
}

/// The error of a tool that ran and failed.
pub fn failure(text: impl Into<String>) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(text.into())])
}

/// A tool without parameters.
pub fn plain(name: &'static str, description: &'static str) -> Tool {
    with_parameters(name, description, json!({}))
}

/// A tool with parameters, all of them required.
pub fn with_parameters(name: &'static str, description: &'static str, properties: Value) -> Tool {
    let mut schema = json!({"type": "object"});
    if let Some(names) = properties.as_object().filter(|names| !names.is_empty()) {
        schema["required"] = names.keys().cloned().collect();
    }
    schema["properties"] = properties;
    with_schema(name, description, schema)
}

/// A tool whose whole schema is given.
pub fn with_schema(name: &'static str, description: &'static str, schema: Value) -> Tool {
    Tool::new(name, description, object(schema))
}

/// A string argument; empty if there is none.
pub fn argument<'a>(arguments: Option<&'a JsonObject>, name: &str) -> &'a str {
    let value = arguments.and_then(|arguments| arguments.get(name));
    value.and_then(Value::as_str).unwrap_or_default()
}

fn object(value: Value) -> JsonObject {
    match value {
        Value::Object(object) => object,
        other => panic!("a schema is an object: {other}"),
    }
}
