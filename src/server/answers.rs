//! Results of tool calls that a client brings back, and what is wrong with them.

use std::collections::HashSet;

use serde::Deserialize;
use serde_json::Value;

use super::active::ActiveRun;
use crate::gate::{Batch, RouteError, read_answer};

/// The answer to one call.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    /// Which call.
    pub request_id: String,
    /// Its value.
    #[serde(default)]
    pub result: Option<Value>,
    /// Why there is none.
    #[serde(default)]
    pub error: Option<Value>,
}

/// What is wrong with answers to the calls of a run, if anything is.
///
/// # Errors
/// With the first answer that is to no call that waits, and the list of those that do.
pub fn check(answers: &[Answer], run: &ActiveRun) -> Result<(), String> {
    let waiting = run.gate.batch().calls();
    let mut seen = HashSet::new();
    for (index, answer) in answers.iter().enumerate() {
        let id = answer.request_id.as_str();
        if !waiting.iter().any(|call| call.request_id == id) {
            let ids: Vec<&str> = waiting
                .iter()
                .take(20)
                .map(|call| call.request_id.as_str())
                .collect();
            return Err(format!(
                "results[{index}]: no call `{}` waits in this run; waiting: {}. Nothing was lost, and the handle is \
                 still good",
                id.chars().take(100).collect::<String>().escape_debug(),
                ids.join(", ")
            ));
        }
        if !seen.insert(id) {
            return Err(format!(
                "results[{index}]: the call `{id}` is answered twice; give one result for each call. Nothing was \
                 lost, and the handle is still good"
            ));
        }
    }
    Ok(())
}

/// What an answer means for its call.
///
/// # Errors
/// When the call failed.
pub fn read(answer: Answer) -> Result<Value, RouteError> {
    read_answer(answer.result, answer.error)
}

/// Hands the answers to the calls.
pub fn deliver(answers: Vec<Answer>, batch: &Batch) {
    for answer in answers {
        let request_id = answer.request_id.clone();
        batch.answer(&request_id, read(answer));
    }
}
