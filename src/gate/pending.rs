//! Calls that were sent to a client and wait for its answer.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use serde::Deserialize;
use serde_json::Value;
use tokio::sync::oneshot;

use super::{Principal, answer, offered::bounded, route::RouteError};

/// What becomes of a call.
pub type Answered = Result<Value, RouteError>;

/// The calls of the whole process that wait, by request id.
#[derive(Debug, Default)]
pub struct PendingCalls {
    waiting: Mutex<HashMap<String, Waiter>>,
}

#[derive(Debug)]
struct Waiter {
    /// Whom the call was sent to.
    principal: Principal,
    answer: oneshot::Sender<Answered>,
}

/// Why a response was dropped. It harms nothing; the reason goes to the log.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Dropped {
    /// `params` is not what the format says.
    #[error("tool_call_response dropped: {0}")]
    Malformed(String),
    /// Nobody waits for this id: unknown, answered, expired, or another principal's.
    #[error(
        "tool_call_response dropped: no call waits for requestId `{}` (unknown, already answered, or expired)",
        .0.escape_debug()
    )]
    NobodyWaits(String),
}

/// `params` of `notifications/tool_call_response` (wire.md).
#[derive(Debug, Deserialize)]
struct Response {
    #[serde(rename = "requestId")]
    request_id: String,
    #[serde(default)]
    result: Option<Value>,
    /// Null is as good as absent: many serializers write the fields that are not set.
    #[serde(default)]
    error: Option<Value>,
}

impl PendingCalls {
    /// Waits for the answer of `principal` to `request_id`.
    pub fn wait_for(&self, request_id: &str, principal: &Principal) -> oneshot::Receiver<Answered> {
        let (answer, receiver) = oneshot::channel();
        let principal = principal.clone();
        let waiter = Waiter { principal, answer };
        self.lock().insert(request_id.to_owned(), waiter);
        receiver
    }

    /// Stops waiting. False if the answer had come already.
    pub fn forget(&self, request_id: &str) -> bool {
        self.lock().remove(request_id).is_some()
    }

    /// How many calls wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether no call waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Hands a response of `principal` to the call that waits for it.
    ///
    /// # Errors
    /// When it can't be handed to anyone; the error is for the log.
    pub fn resolve(&self, principal: &Principal, params: Value) -> Result<(), Dropped> {
        if !params.is_object() {
            return Err(Dropped::Malformed(
                "`params` must be an object with `requestId` and `result` or `error`".to_owned(),
            ));
        }
        if !params["requestId"].is_string() {
            return Err(Dropped::Malformed(
                "`params.requestId` must be a string".to_owned(),
            ));
        }
        let response: Response = serde_json::from_value(params)
            .map_err(|error| Dropped::Malformed(format!("`params`: {error}")))?;
        let answered = answer::read(response.result, response.error);
        self.answer(principal, &response.request_id, answered)
    }

    /// Ends the call that waits for an answer of `principal` to `request_id`.
    ///
    /// # Errors
    /// When nobody waits for it.
    pub fn answer(
        &self,
        principal: &Principal,
        request_id: &str,
        answered: Answered,
    ) -> Result<(), Dropped> {
        let sent = self
            .take(principal, request_id)
            .and_then(|waiter| waiter.answer.send(answered).ok());
        sent.ok_or_else(|| Dropped::NobodyWaits(bounded(request_id)))
    }

    /// A call of another principal stays where it is.
    fn take(&self, principal: &Principal, request_id: &str) -> Option<Waiter> {
        let mut waiting = self.lock();
        if waiting.get(request_id)?.principal != *principal {
            tracing::warn!(%principal, "a tool_call_response for another principal's call");
            return None;
        }
        waiting.remove(request_id)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Waiter>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
