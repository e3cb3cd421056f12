//! What became of the tool calls of a run.

use std::time::Duration;

use serde::Serialize;

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
    /// The server, if the code named one.
    pub server_name: Option<String>,
    /// How it ended.
    pub outcome: Outcome,
    /// From the call to its end, in milliseconds.
    #[serde(rename = "duration_ms", serialize_with = "milliseconds")]
    pub duration: Duration,
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
