//! What an agent tells while it works.

use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use super::model::Usage;

/// Something that has happened.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    /// A server is up.
    ServerUp {
        /// Its name.
        server: String,
        /// How many tools it has that the agent may use.
        tools: usize,
    },
    /// A server can't be used; the others can.
    ServerDown {
        /// Its name.
        server: String,
        /// Why.
        reason: String,
    },
    /// The model is asked.
    Turn {
        /// How often it was asked for this task, this time included.
        number: usize,
    },
    /// It thinks.
    Reasoning {
        /// Some words of it.
        text: String,
    },
    /// It speaks.
    Text {
        /// Some words of it.
        text: String,
    },
    /// Its answer failed and is asked for again; what it has said in this turn is void.
    Retry {
        /// What went wrong.
        reason: String,
        /// How long until then.
        #[serde(rename = "pause_ms", serialize_with = "milliseconds")]
        pause: Duration,
    },
    /// It has written a program, which is about to run.
    Code {
        /// Names the program.
        id: String,
        /// The program.
        code: String,
    },
    /// A program has ended.
    CodeResult {
        /// Which.
        id: String,
        /// `success` or `run-error`.
        status: String,
        /// What the model reads of it.
        text: String,
        /// How long it took.
        #[serde(rename = "duration_ms", serialize_with = "milliseconds")]
        duration: Duration,
    },
    /// A tool is called.
    Call {
        /// Names the call.
        id: String,
        /// The tool's server.
        server: String,
        /// The tool.
        tool: String,
        /// Its arguments.
        arguments: Value,
        /// Whether a program calls it.
        from_code: bool,
    },
    /// A call has ended.
    CallResult {
        /// Which.
        id: String,
        /// What the tool said.
        text: String,
        /// Whether it failed.
        is_error: bool,
        /// How long it took.
        #[serde(rename = "duration_ms", serialize_with = "milliseconds")]
        duration: Duration,
    },
    /// The task is over.
    End(Summary),
}

/// How a task has ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// Why it is over.
    pub reason: EndReason,
    /// What the model said last.
    pub answer: String,
    /// What went wrong, if something did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// How often the model was asked.
    pub turns: usize,
    /// How many tools were called, by programs or by the model.
    pub calls: usize,
    /// Tokens, as the server counts them; `None` if it never said.
    pub usage: Option<Usage>,
    /// How long it took.
    #[serde(rename = "duration_ms", serialize_with = "milliseconds")]
    pub duration: Duration,
}

/// Why a task is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// The model has answered.
    Answered,
    /// It called `task_complete`.
    TaskComplete,
    /// It called `ask_question`: the user is to answer.
    AskQuestion,
    /// Its answer was cut off at the largest length that its server allows.
    Cut,
    /// It was asked as often as it may be.
    TurnLimit,
    /// It can't be asked.
    ModelError,
}

fn milliseconds<S: serde::Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(crate::gate::as_milliseconds(*time))
}
