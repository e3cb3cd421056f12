//! A road on which an answer may take only so long.

use std::{sync::Arc, time::Duration};

use super::route::{Route, RouteAnswer, RouteError, ToolCall};

/// A route whose calls have a timeout.
pub struct TimedRoute {
    /// The route itself.
    pub route: Arc<dyn Route>,
    /// How long one call may wait for its answer.
    pub timeout: Duration,
}

impl Route for TimedRoute {
    fn call(&self, call: ToolCall) -> RouteAnswer {
        let answer = tokio::time::timeout(self.timeout, self.route.call(call));
        Box::pin(async move { answer.await.unwrap_or(Err(RouteError::TimedOut)) })
    }

    fn withdraw(&self, request_id: &str, reason: &str) {
        self.route.withdraw(request_id, reason);
    }
}
