//! What became of the tool calls of a run.

use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The client answered with a value.
    Answered,
    /// The client answered with an error.
    Failed,
    /// No answer came in time: it may have happened.
    TimedOut,
    /// The run ended, or the program gave up, before the answer came: it may have happened.
    Withdrawn,
    /// It was never sent.
    Refused,
}

impl Outcome {
    /// As the wire format has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Failed => "failed",
            Self::TimedOut => "timed_out",
            Self::Withdrawn => "withdrawn",
            Self::Refused => "refused",
        }
    }

    /// For a person.
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Failed => "failed",
            Self::TimedOut => "timed out, may have happened",
            Self::Withdrawn => "withdrawn, may have happened",
            Self::Refused => "refused, was not sent",
        }
    }
}

/// One call of a run.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CallRecord {
    /// Its request id.
    pub request_id: String,
    /// The tool.
    pub tool_name: String,
    /// The server, if the code named one or the tool was offered with one.
    pub server_name: Option<String>,
    /// The beginning of its arguments, for a person.
    #[serde(skip)]
    pub arguments: String,
    /// How it ended.
    pub outcome: Outcome,
    /// From the call to its end, in milliseconds.
    #[serde(rename = "duration_ms", serialize_with = "milliseconds")]
    pub duration: Duration,
}

impl CallRecord {
    /// The beginning of arguments: enough to tell one call from another.
    #[must_use]
    pub(super) fn preview(arguments: &Value) -> String {
        const LONGEST: usize = 120;
        const LONGEST_VALUE: usize = 60;
        let Value::Object(arguments) = arguments else {
            return String::new();
        };
        let mut text = String::new();
        for (name, value) in arguments {
            if text.chars().count() > LONGEST {
                text.push_str(", …");
                break;
            }
            if !text.is_empty() {
                text.push_str(", ");
            }
            text.push_str(&beginning(name, LONGEST_VALUE).replace(['\n', '\r'], " "));
            text.push('=');
            text.push_str(&preview_of(value, LONGEST_VALUE));
        }
        text
    }
}

/// A scalar as JSON has it; of containers only that they are there, for to write them costs time.
fn preview_of(value: &Value, longest: usize) -> String {
    match value {
        Value::Array(_) => "[…]".to_owned(),
        Value::Object(_) => "{…}".to_owned(),
        Value::String(text) => Value::String(beginning(text, longest)).to_string(),
        other => other.to_string(),
    }
}

fn beginning(text: &str, longest: usize) -> String {
    match text.char_indices().nth(longest) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Durations travel as milliseconds, rounded to microseconds.
pub fn milliseconds<S: serde::Serializer>(
    duration: &Duration,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(as_milliseconds(*duration))
}

/// Milliseconds, rounded to microseconds.
#[must_use]
pub fn as_milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}
