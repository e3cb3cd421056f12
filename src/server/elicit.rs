//! Tool calls as elicitations, for programmatic clients: a form with the call in its message, and fields for the result
//! or the error.

use rmcp::model::{
    ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema,
    InputRequest, InputRequests, InputRequiredResult, InputResponses,
};
use serde_json::{Value, json};

use super::answers::Answer;
use crate::gate::ToolCall;

/// Rounds that clients make before they give up (the official SDKs' default).
pub const ROUNDS: usize = 10;

/// Why calls of an eleventh round fail.
pub const TOO_MANY_ROUNDS: &str = "the client answers ten rounds of elicitation for one run, and they are over; make \
     calls side by side (asyncio.gather): those of one round travel together";

/// What the message of an elicitation says of a call.
fn message(call: &ToolCall) -> String {
    let mut message = json!({
        "requestId": call.request_id,
        "toolName": call.tool,
        "arguments": call.arguments.value(),
    });
    if let Some(server) = &call.server {
        message["serverName"] = json!(server);
    }
    message.to_string()
}

/// The form that asks for one call.
///
/// # Errors
/// When it can't be made.
pub fn form(call: &ToolCall) -> Result<ElicitRequestParams, String> {
    let schema = json!({
        "type": "object",
        "properties": {
            "result": {"type": "string", "description": "What the tool returned, as JSON text."},
            "error": {"type": "string", "description": "What went wrong, if the call failed."}
        }
    });
    let schema = serde_json::from_value::<ElicitationSchema>(schema);
    Ok(ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: message(call),
        requested_schema: schema.map_err(|error| error.to_string())?,
    })
}

/// Asks for all calls by an `input_required` result.
///
/// # Errors
/// When the forms can't be made.
pub fn input_required(handle: String, calls: &[ToolCall]) -> Result<InputRequiredResult, String> {
    let mut requests = InputRequests::new();
    for call in calls {
        let request = InputRequest::Elicitation(ElicitRequest::new(form(call)?));
        requests.insert(call.request_id.clone(), request);
    }
    Ok(InputRequiredResult::new(Some(requests), Some(handle)))
}

/// The answers in a retried request.
///
/// # Errors
/// For the first that is not an answer to an elicitation.
pub fn answers(responses: InputResponses) -> Result<Vec<Answer>, String> {
    let read = |(request_id, response): (String, Value)| {
        let response = serde_json::from_value::<ElicitResult>(response);
        let response = response.map_err(|error| {
            format!("inputResponses: `{request_id}` is not the result of an elicitation: {error}")
        })?;
        Ok(answer(&request_id, response))
    };
    responses.into_iter().map(read).collect()
}

/// What the client's answer means.
pub fn answer(request_id: &str, answered: ElicitResult) -> Answer {
    let mut content = answered.content.unwrap_or_default();
    let field = |content: &mut Value, name: &str| match content.get_mut(name).map(Value::take) {
        Some(Value::String(text)) if text.is_empty() => None,
        Some(Value::Null) | None => None,
        Some(value) => Some(value),
    };
    let error = match answered.action {
        ElicitationAction::Accept => field(&mut content, "error"),
        ElicitationAction::Decline => Some(json!("the client declined the call")),
        _ => Some(json!("the client cancelled the call")),
    };
    let result = field(&mut content, "result").map(|result| match result {
        // What is no JSON is meant as a text.
        Value::String(text) => serde_json::from_str(&text).unwrap_or(Value::String(text)),
        other => other,
    });
    Answer {
        request_id: request_id.to_owned(),
        result,
        error,
    }
}
