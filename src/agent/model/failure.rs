//! What goes wrong between us and a model.

use std::time::Duration;

use serde_json::Value;

/// Of an error's text, this much is told (characters).
const TOLD: usize = 600;

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// The server can't be reached.
    #[error("the model can't be reached: {0}")]
    Unreachable(String),
    /// It answered with an error.
    #[error("the model's server answered {status}: {message}")]
    Status {
        /// The HTTP status.
        status: u16,
        /// What it said.
        message: String,
        /// When it wants to be asked again.
        retry_after: Option<Duration>,
    },
    /// The answer broke off with an error.
    #[error("the model's server reports an error in the middle of its answer: {0}")]
    InStream(String),
    /// The answer broke off.
    #[error("the model's answer broke off: {0}")]
    Broken(String),
    /// Nothing more came.
    #[error("the model has said nothing for {} s", .0.as_secs())]
    Stalled(Duration),
    /// What came is no answer.
    #[error("what the model's server sent is no chat completion: {0}")]
    Nonsense(String),
}

impl ModelError {
    /// Whether the same request may succeed later.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Status { status, .. } => matches!(status, 408 | 409 | 425 | 429 | 500..=599),
            Self::Nonsense(_) => false,
            _ => true,
        }
    }

    /// How long the server asked to wait.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Status { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

/// What an error's body says, in any of the forms that servers have.
pub(super) fn message_of_body(body: &str) -> String {
    match serde_json::from_str::<Value>(body) {
        Ok(value) => message_of(value.get("error").unwrap_or(&value)),
        Err(_) => bounded(body.trim()),
    }
}

/// The text of an error, which may be one itself or an object with it.
pub(super) fn message_of(error: &Value) -> String {
    let text = ["message", "detail", "details", "error"]
        .iter()
        .find_map(|key| error.get(key))
        .unwrap_or(error);
    match text {
        Value::String(text) => bounded(text),
        other => bounded(&other.to_string()),
    }
}

/// On one line, and not too long.
pub(super) fn bounded(text: &str) -> String {
    if text.is_empty() {
        return "(nothing)".to_owned();
    }
    let mut short: String = text.chars().take(TOLD).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short.split_whitespace().collect::<Vec<_>>().join(" ")
}
