//! What is looked at in a message before rmcp gets it, whatever the transport.

use rmcp::{RoleServer, service::RxJsonRpcMessage};
use serde::Deserialize;
use serde_json::{Value, json};

/// The notification by which a client answers a tool call.
pub const RESPONSE_METHOD: &str = "notifications/tool_call_response";

/// The request that may become a run.
pub const CALL_METHOD: &str = "tools/call";

/// The request that begins a session.
pub const INITIALIZE_METHOD: &str = "initialize";

/// Where the method's name is looked for (bytes).
const NEAR_AN_END: usize = 4 << 10;

/// The outside of a message.
#[derive(Debug, Default, Deserialize)]
pub struct Envelope {
    /// What is asked or told; responses have none.
    #[serde(default)]
    pub method: Option<String>,
    /// Names the request; notifications have none.
    #[serde(default)]
    pub id: Option<Value>,
}

#[derive(Deserialize)]
struct WithParams {
    #[serde(default)]
    params: Value,
}

/// The `params` of a message.
///
/// # Errors
/// When they can't be read.
pub fn params(message: &[u8]) -> Result<Value, Refusal> {
    let read = serde_json::from_slice::<WithParams>(message);
    let read = read.map_err(|error| explain(message, &error))?;
    Ok(read.params)
}

/// What is wrong with a message, as the error of a JSON-RPC response.
#[derive(Debug)]
pub struct Refusal {
    /// The request's id, where it could be read.
    pub id: Value,
    /// JSON-RPC error code.
    pub code: i32,
    /// What is wrong and what would be right.
    pub message: String,
    /// Nobody waits for an answer to a notification.
    pub is_notification: bool,
}

impl Refusal {
    /// A refusal of what can't be named.
    #[must_use]
    pub fn without_id(code: i32, message: String) -> Self {
        Self {
            id: Value::Null,
            code,
            message,
            is_notification: false,
        }
    }

    /// The response.
    #[must_use]
    pub fn response(&self) -> Value {
        json!({"jsonrpc": "2.0", "id": self.id,
            "error": {"code": self.code, "message": self.message}})
    }
}

/// Reads the outside of a message.
///
/// # Errors
/// When it is not one JSON-RPC message.
pub fn envelope(message: &[u8]) -> Result<Envelope, Refusal> {
    serde_json::from_slice(message).map_err(|error| explain(message, &error))
}

/// Reads a message.
///
/// # Errors
/// When it is not one that the protocol has.
pub fn parse(message: &[u8]) -> Result<RxJsonRpcMessage<RoleServer>, Refusal> {
    serde_json::from_slice(message).map_err(|error| explain(message, &error))
}

/// Says why a message could not be read.
fn explain(message: &[u8], error: &serde_json::Error) -> Refusal {
    let message = match serde_json::from_slice::<Value>(message) {
        Ok(message) => message,
        Err(error) => {
            let message = format!("not JSON: {error}; send one JSON-RPC message at a time");
            return Refusal::without_id(-32700, message);
        }
    };
    if message.is_array() {
        let message = "JSON-RPC batches are not supported; send one message at a time";
        return Refusal::without_id(-32600, message.to_owned());
    }
    let (code, reason) = match message.get("method") {
        Some(Value::String(method)) => (
            -32602,
            format!("the parameters of `{method}` are not as the protocol has them: {error}"),
        ),
        _ => (-32600, format!("not a JSON-RPC message: {error}")),
    };
    Refusal {
        is_notification: message.get("method").is_some() && message.get("id").is_none(),
        id: message.get("id").cloned().unwrap_or_default(),
        code,
        message: reason,
    }
}

/// The call that a response answers, by the ends of a response too long to be read; `None` if it is something
/// else.
#[must_use]
pub fn answered_call(ends: &[u8]) -> Option<String> {
    mentions_response(ends).then(|| request_id(ends))?
}

/// Whether a message can be a response to a tool call; parsing decides.
#[must_use]
pub fn mentions_response(message: &[u8]) -> bool {
    // The name stands near one end of the message in whatever order the keys are.
    let window = NEAR_AN_END.min(message.len());
    let find = |part: &[u8]| {
        part.windows(RESPONSE_METHOD.len())
            .any(|window| window == RESPONSE_METHOD.as_bytes())
    };
    find(&message[..window]) || find(&message[message.len() - window..])
}

/// The value of `"requestId"` in the ends of a message.
fn request_id(ends: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(ends);
    let (_, rest) = text.split_once("\"requestId\"")?;
    let rest = rest
        .trim_start()
        .strip_prefix(':')?
        .trim_start()
        .strip_prefix('"')?;
    rest.split_once('"').map(|(id, _)| id.to_owned())
}
