//! Tools that answer at once, each with another kind of content.

use rmcp::model::{
    AudioContent, CallToolRequestParams, CallToolResult, ContentBlock, ResourceContents, Tool,
};
use serde_json::json;

use crate::answer::{self, argument, failure, text};

/// One grey pixel.
pub const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR42mNoAAAAggCB2kUIOwAAAABJRU5ErkJggg==";

/// Half a millisecond of silence.
const WAV: &str = "UklGRigAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQQAAACAgICA";

/// The tools. The first one can be called without arguments: the suites use whichever is first.
pub fn tools() -> Vec<Tool> {
    let plain = answer::plain;
    vec![
        plain("test_simple_text", "Answers with one text"),
        plain("test_image_content", "Answers with an image"),
        plain("test_audio_content", "Answers with a sound"),
        plain("test_embedded_resource", "Answers with a resource"),
        plain(
            "test_multiple_content_types",
            "Answers with a text, an image and a resource",
        ),
        plain("test_error_handling", "Always fails"),
        answer::with_parameters(
            "test_parameter_in_header",
            "Its parameter is repeated in a header, for those between client and server (SEP-2243)",
            json!({"region": {"type": "string", "x-mcp-header": "Region"}}),
        ),
        answer::with_schema(
            "json_schema_2020_12_tool",
            "Its schema uses words that a server might lose (SEP-1613, SEP-2106)",
            json!({
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "type": "object",
                "$defs": {
                    "address": {
                        "$anchor": "addressDef",
                        "type": "object",
                        "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
                    },
                },
                "properties": {
                    "name": {"type": "string"},
                    "address": {"$ref": "#/$defs/address"},
                    "contactMethod": {"type": "string", "enum": ["phone", "email"]},
                    "phone": {"type": "string"},
                    "email": {"type": "string"},
                },
                "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
                "if": {
                    "properties": {"contactMethod": {"const": "phone"}},
                    "required": ["contactMethod"],
                },
                "then": {"required": ["phone"]},
                "else": {"required": ["email"]},
                "additionalProperties": false,
            }),
        ),
    ]
}

/// The answer, if the tool is one of these.
pub fn call(request: &CallToolRequestParams) -> Option<CallToolResult> {
    let blocks = match &*request.name {
        "test_simple_text" => {
            return Some(text("This is a simple text response for testing."));
        }
        "test_error_handling" => {
            return Some(failure(
                "This tool intentionally returns an error for testing",
            ));
        }
        "test_parameter_in_header" => {
            let region = argument(request.arguments.as_ref(), "region");
            return Some(text(format!("the region is {region}")));
        }
        "json_schema_2020_12_tool" => {
            let name = argument(request.arguments.as_ref(), "name");
            return Some(text(format!("the name is {name}")));
        }
        "test_image_content" => vec![ContentBlock::image(PNG, "image/png")],
        "test_audio_content" => vec![ContentBlock::Audio(AudioContent::new(WAV, "audio/wav"))],
        "test_embedded_resource" => vec![ContentBlock::resource(ResourceContents::text(
            "This is an embedded resource content.",
            "test://embedded-resource",
        ))],
        "test_multiple_content_types" => vec![
            ContentBlock::text("Multiple content types test:"),
            ContentBlock::image(PNG, "image/png"),
            ContentBlock::resource(
                ResourceContents::text(
                    json!({"test": "data", "value": 123}).to_string(),
                    "test://mixed-content-resource",
                )
                .with_mime_type("application/json"),
            ),
        ],
        _ => return None,
    };
    Some(CallToolResult::success(blocks))
}
