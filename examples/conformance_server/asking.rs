//! Tools that ask the client something while they run, as is done up to 2025-11-25.
#![expect(
    deprecated,
    reason = "sampling is deprecated from 2026-07-28 on; the suites ask for it in older revisions"
)]

use rmcp::{
    RoleServer,
    model::{
        CallToolRequestParams, CallToolResult, CreateMessageRequestParams, ElicitRequestParams,
        SamplingMessage, Tool,
    },
    service::{RequestContext, ServiceError},
};
use serde_json::{Value, json};

use crate::answer::{argument, failure, plain, text, with_parameters};

/// The tools.
pub fn tools() -> Vec<Tool> {
    vec![
        with_parameters(
            "test_sampling",
            "Asks the client's model",
            json!({"prompt": {"type": "string", "description": "What to ask"}}),
        ),
        with_parameters(
            "test_elicitation",
            "Asks the client's user",
            json!({"message": {"type": "string", "description": "What to ask"}}),
        ),
        plain(
            "test_elicitation_sep1034_defaults",
            "Asks the client's user, and suggests every answer (SEP-1034)",
        ),
        plain(
            "test_elicitation_sep1330_enums",
            "Lets the client's user choose, in every way there is (SEP-1330)",
        ),
    ]
}

/// The answer, if the tool is one of these.
pub async fn call(
    request: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Option<CallToolResult> {
    let arguments = request.arguments.as_ref();
    let answered = match &*request.name {
        "test_sampling" => sample(argument(arguments, "prompt"), context).await,
        "test_elicitation" => {
            let schema = json!({
                "type": "object",
                "properties": {
                    "username": {"type": "string", "description": "User's response"},
                    "email": {"type": "string", "description": "User's email address"},
                },
                "required": ["username", "email"],
            });
            elicit(argument(arguments, "message"), schema, context).await
        }
        "test_elicitation_sep1034_defaults" => {
            elicit("Are these values right?", with_defaults(), context).await
        }
        "test_elicitation_sep1330_enums" => elicit("Please choose", with_choices(), context).await,
        _ => return None,
    };
    Some(answered.unwrap_or_else(|error| failure(format!("the client did not answer: {error}"))))
}

async fn sample(
    prompt: &str,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResult, ServiceError> {
    let params = CreateMessageRequestParams::new(vec![SamplingMessage::user_text(prompt)], 100);
    let answer = context.peer.create_message(params).await?;
    let said = answer.message.content.first();
    let said = said.and_then(|content| content.as_text());
    let said = said.map_or("", |content| content.text.as_str());
    Ok(text(format!("LLM response: {said}")))
}

async fn elicit(
    message: &str,
    schema: Value,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResult, ServiceError> {
    let params = ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: message.to_owned(),
        requested_schema: serde_json::from_value(schema).expect("rmcp knows these schemas"),
    };
    let answer = context.peer.create_elicitation(params).await?;
    let filled_in = answer.content.unwrap_or_default();
    let action = json!(answer.action);
    Ok(text(format!(
        "User response: action={action}, content={filled_in}"
    )))
}

fn with_defaults() -> Value {
    json!({
        "type": "object",
        "properties": {
            "name": {"type": "string", "default": "John Doe"},
            "age": {"type": "integer", "default": 30},
            "score": {"type": "number", "default": 95.5},
            "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
            "verified": {"type": "boolean", "default": true},
        },
    })
}

fn with_choices() -> Value {
    let options = ["option1", "option2", "option3"];
    let titled = json!([
        {"const": "value1", "title": "First Option"},
        {"const": "value2", "title": "Second Option"},
        {"const": "value3", "title": "Third Option"},
    ]);
    json!({
        "type": "object",
        "properties": {
            "untitledSingle": {"type": "string", "enum": options},
            "titledSingle": {"type": "string", "oneOf": titled},
            "legacyEnum": {
                "type": "string",
                "enum": ["opt1", "opt2", "opt3"],
                "enumNames": ["Option One", "Option Two", "Option Three"],
            },
            "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
            "titledMulti": {"type": "array", "items": {"anyOf": titled}},
        },
    })
}
