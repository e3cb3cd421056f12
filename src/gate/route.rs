//! Where a tool call goes once the gate has let it through.

use std::{future::Future, pin::Pin};

use serde_json::Value;

use super::Arguments;

/// A call on its way out.
#[derive(Debug, Clone)]
pub struct ToolCall {
    /// Names this call, for whoever answers it: a `UUIDv4`.
    pub request_id: String,
    /// Which call of its run it is.
    pub number: usize,
    /// The tool, as it was offered.
    pub tool: String,
    /// The server that the tool belongs to, if the code named one or the tool was offered with one.
    pub server: Option<String>,
    /// Whether it goes to one of the operator's own servers.
    pub is_upstream: bool,
    /// The arguments: an object that satisfies the tool's schema.
    pub arguments: Arguments,
    /// The trace that the call is part of.
    pub trace: TraceContext,
}

/// W3C Trace Context: what joins the spans of many processes into one trace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TraceContext {
    /// Trace, parent and flags.
    pub traceparent: Option<String>,
    /// What vendors add to it.
    pub tracestate: Option<String>,
}

/// Why a call that was sent has no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// The other side answered with an error.
    #[error("{0}")]
    Failed(String),
    /// It could not be sent: nothing has happened.
    #[error("{0}")]
    NotSent(String),
    /// No answer came in time: it may have happened.
    #[error("no answer came in time")]
    TimedOut,
}

/// The answer to a call, under way.
pub type RouteAnswer = Pin<Box<dyn Future<Output = Result<Value, RouteError>> + Send>>;

/// A road out of the sandbox.
pub trait Route: Send + Sync {
    /// Sends the call; the future ends when its answer has come. Dropping the future means that
    /// nobody waits for it any more; [`Route::withdraw`] tells the other side why.
    fn call(&self, call: ToolCall) -> RouteAnswer;

    /// Tells the other side that nobody waits for the answer to this request any more.
    fn withdraw(&self, request_id: &str, reason: &str);
}
