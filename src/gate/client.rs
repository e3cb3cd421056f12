//! The client route: a call becomes a notification to the client that started the run.

use std::sync::Arc;

use super::{
    Principal,
    pending::PendingCalls,
    route::{Route, RouteAnswer, RouteError, ToolCall},
};

/// Sends notifications to one client, about one of its requests.
pub trait ClientChannel: Send + Sync {
    /// Sends `notifications/tool_call_request`. Ends when it has been handed to the transport.
    fn request(
        &self,
        call: ToolCall,
    ) -> std::pin::Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

    /// Sends `notifications/tool_call_cancelled`, without waiting for it.
    fn cancelled(&self, request_id: &str, reason: &str);
}

/// Asks the client, and waits for its `notifications/tool_call_response`.
pub struct ClientRoute {
    /// The calls that wait.
    pub pending: Arc<PendingCalls>,
    /// Who the client is.
    pub principal: Principal,
    /// The way to the client.
    pub channel: Arc<dyn ClientChannel>,
}

impl Route for ClientRoute {
    fn call(&self, call: ToolCall) -> RouteAnswer {
        let request_id = call.request_id.clone();
        // Waiting begins before sending: the answer may be faster than this task.
        let answer = self.pending.wait_for(&request_id, &self.principal);
        let waiting = Waiting {
            pending: Arc::clone(&self.pending),
            request_id,
        };
        let sent = self.channel.request(call);
        Box::pin(async move {
            let _waiting = waiting;
            sent.await.map_err(RouteError::NotSent)?;
            answer.await.unwrap_or_else(|_| {
                Err(RouteError::Failed(
                    "the connection to the client has closed".to_owned(),
                ))
            })
        })
    }

    fn withdraw(&self, request_id: &str, reason: &str) {
        self.channel.cancelled(request_id, reason);
    }
}

/// Takes the call out of the pending ones however its wait ends.
struct Waiting {
    pending: Arc<PendingCalls>,
    request_id: String,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.pending.forget(&self.request_id);
    }
}
