//! Results that servers wrap, because structured content has to be an object: `{"result": […]}` for a list.

use rmcp::model::{CallToolResult, Tool};
use serde_json::{Map, Value};

/// The one property of a wrapper.
const RESULT: &str = "result";

/// The result with its value as the tool returned it, where its server has wrapped that.
pub(super) fn unwrapped(tool: Option<&Tool>, mut result: CallToolResult) -> CallToolResult {
    let schema = tool.and_then(|tool| tool.output_schema.as_deref());
    if !schema.is_some_and(is_wrapper) {
        return result;
    }
    result.structured_content = match result.structured_content {
        Some(Value::Object(mut wrapper)) if wrapper.len() == 1 => match wrapper.remove(RESULT) {
            Some(value) => Some(value),
            None => Some(Value::Object(wrapper)),
        },
        other => other,
    };
    result
}

/// Whether this is the schema of a wrapper: `FastMCP` says so, the official package names it after the tool.
fn is_wrapper(schema: &Map<String, Value>) -> bool {
    if schema.get("x-fastmcp-wrap-result") == Some(&Value::Bool(true)) {
        return true;
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    let has_only_result = properties.is_some_and(|all| all.len() == 1 && all.contains_key(RESULT));
    let title = schema.get("title").and_then(Value::as_str);
    has_only_result && title.is_some_and(|title| title.ends_with("Output"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rmcp::model::{CallToolResult, Tool};
    use serde_json::{Value, json};

    use super::unwrapped;

    fn value(schema: &Value, structured: &Value) -> Value {
        let mut tool = Tool::new("t", "", Arc::default());
        tool.output_schema = schema.as_object().cloned().map(Arc::new);
        let result = unwrapped(Some(&tool), CallToolResult::structured(structured.clone()));
        result.structured_content.unwrap()
    }

    #[test]
    fn only_wrappers_are_opened() {
        let wrapped = json!({"result": [1]});
        let official = json!({"title": "tOutput", "properties": {"result": {}}});
        assert_eq!(value(&official, &wrapped), json!([1]));
        let fastmcp = json!({"x-fastmcp-wrap-result": true, "properties": {"result": {}}});
        assert_eq!(value(&fastmcp, &wrapped), json!([1]));
        for own in [
            json!({"title": "Sum", "properties": {"result": {}}}),
            json!({"title": "tOutput", "properties": {"result": {}, "more": {}}}),
        ] {
            assert_eq!(value(&own, &wrapped), wrapped);
        }
        let more = json!({"result": 1, "more": 2});
        assert_eq!(value(&official, &more), more);
    }
}
