//! The frames between guest and host (docs/host-calls.md).

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::{Value, json};

use super::precheck::PlainCall;
use crate::sandbox::Held;

/// What the guest asks for.
#[derive(Debug, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub(super) enum Request<'a> {
    /// What to run.
    Start,
    /// Tell what is wrong with the calls that stand in the source.
    Precheck {
        /// The calls.
        calls: Vec<PlainCall>,
    },
    /// Call a tool and wait.
    #[serde(borrow)]
    Call(Call<'a>),
    /// Call a tool and go on.
    #[serde(borrow)]
    Submit(Call<'a>),
    /// Wait for the first of the submitted calls.
    Wait {
        /// At most this long, in milliseconds.
        #[serde(default)]
        timeout_ms: Option<f64>,
        /// When the time is over, the program will only give up waiting.
        #[serde(default)]
        patient: bool,
    },
    /// Tell what the operator's servers have.
    Servers {
        /// One of them, or all.
        #[serde(default)]
        server: Option<String>,
    },
    /// Give up a submitted call.
    Cancel {
        /// Its number.
        call: u64,
    },
    /// How the program ended.
    Finish(Finish),
}

/// A tool call.
#[derive(Debug, Deserialize)]
pub(super) struct Call<'a> {
    #[serde(borrow)]
    pub(super) tool: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(super) server: Option<Cow<'a, str>>,
    #[serde(default)]
    pub(super) arguments: Value,
}

/// How the program ended, as the prelude tells it.
#[derive(Debug, Clone, Deserialize)]
pub struct Finish {
    /// Whether it came to its end without an error.
    pub status: FinishStatus,
    /// The value of its last expression.
    #[serde(default)]
    pub return_value: Value,
    /// What went wrong.
    #[serde(default)]
    pub error: Option<ProgramError>,
    /// The code that it left with, if it left by `SystemExit`.
    #[serde(default)]
    pub exit_code: Option<i64>,
}

/// The two ways in which a program can end by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FinishStatus {
    /// It came to its end.
    Success,
    /// An exception was not caught.
    RunError,
}

/// What went wrong in a program.
#[derive(Debug, Clone, Deserialize)]
pub struct ProgramError {
    /// One of wire.md's kinds.
    pub kind: String,
    /// The exception's type.
    #[serde(default, rename = "type")]
    pub type_name: Option<String>,
    /// The exception's text.
    #[serde(default)]
    pub message: String,
    /// The traceback, ready to show.
    #[serde(default)]
    pub traceback: Option<String>,
}

/// The kinds of error that the prelude tells of; clients know the others from the host.
pub(super) const KINDS: [&str; 5] = [
    "exception",
    "syntax",
    "precheck",
    "memory_limit",
    "output_limit",
];

/// Deepest nesting of arguments and results: many JSON readers give up at 128, and messages have
/// some levels of their own around it. The prelude keeps to less.
pub(super) const DEEPEST: usize = 110;

/// How many containers are inside each other.
pub(super) fn depth(value: &Value) -> usize {
    let inner = match value {
        Value::Array(items) => items.iter().map(depth).max(),
        Value::Object(members) => members.values().map(depth).max(),
        _ => return 0,
    };
    1 + inner.unwrap_or(0)
}

/// How a call ended, as the program hears it.
pub(super) enum CallEnd {
    /// With a value: JSON text, and its room.
    Value(String, Held),
    /// Without.
    Failure {
        /// Why, for the program.
        reason: String,
        /// The call's id, if it got one.
        request_id: Option<String>,
    },
}

impl CallEnd {
    /// The failure of a call that was given an id.
    pub(super) fn failure(reason: String, request_id: &str) -> Self {
        Self::Failure {
            reason,
            request_id: Some(request_id.to_owned()),
        }
    }

    /// The frame.
    pub(super) fn into_frame(self) -> Vec<u8> {
        self.frame(None).0
    }

    /// The frame for a submitted call, and what counts its memory.
    pub(super) fn into_numbered_frame(self, number: u64) -> (Vec<u8>, Option<Held>) {
        self.frame(Some(number))
    }

    fn frame(self, number: Option<u64>) -> (Vec<u8>, Option<Held>) {
        let number = number.map_or_else(String::new, |number| format!("\"call\":{number},"));
        match self {
            // Not parsed and written again: a value may be megabytes.
            Self::Value(json, held) => {
                let frame = format!(r#"{{{number}"ok":true,"value":{json}}}"#);
                (frame.into_bytes(), Some(held))
            }
            Self::Failure { reason, request_id } => {
                let reason = json!(reason);
                let request_id = json!(request_id);
                let frame = format!(
                    r#"{{{number}"ok":false,"message":{reason},"request_id":{request_id}}}"#
                );
                (frame.into_bytes(), None)
            }
        }
    }
}

/// `{"ok": true}`
pub(super) fn done() -> Vec<u8> {
    br#"{"ok": true}"#.to_vec()
}

/// `{"ok": true, "done": […]}` around the frames of ended calls.
pub(super) fn ended(frames: &[Vec<u8>]) -> Vec<u8> {
    [
        br#"{"ok":true,"done":["#,
        frames.join(&b',').as_slice(),
        b"]}",
    ]
    .concat()
}

/// A failure that is not a call's, or a call's that was never made.
pub(super) fn failure(reason: &str) -> Vec<u8> {
    let reason = reason.to_owned();
    CallEnd::Failure {
        reason,
        request_id: None,
    }
    .into_frame()
}

/// A frame as bytes.
pub(super) fn bytes(frame: &Value) -> Vec<u8> {
    frame.to_string().into_bytes()
}
