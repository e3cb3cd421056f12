//! The way from the gate to the client: notifications that belong to one request.

use std::{future::Future, pin::Pin, sync::Arc};

use rmcp::{
    RoleServer,
    model::{CustomNotification, RequestId, ServerNotification},
    service::{OriginatingRequestId, Peer},
};
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot};

use crate::gate::{ClientChannel, ToolCall, TraceContext};

/// `_meta` key that names the `tools/call` request a callback belongs to.
const ORIGINATING_REQUEST: &str = "callgate/originatingRequestId";

/// Sends notifications about one request to the client that made it.
pub struct PeerChannel {
    peer: Peer<RoleServer>,
    request: RequestId,
    withdrawals: mpsc::UnboundedSender<Withdrawal>,
}

/// What the task that sends withdrawals is to do.
enum Withdrawal {
    Send(CustomNotification),
    /// Say that all before this have been sent.
    Flush(oneshot::Sender<()>),
}

impl PeerChannel {
    /// A channel for callbacks of `request`.
    #[must_use]
    pub fn open(peer: Peer<RoleServer>, request: RequestId) -> Arc<Self> {
        let (withdrawals, queue) = mpsc::unbounded_channel();
        tokio::spawn(send_withdrawals(peer.clone(), queue));
        Arc::new(Self {
            peer,
            request,
            withdrawals,
        })
    }

    /// Waits until all withdrawals so far are sent: they come before the result.
    pub async fn flush(&self) {
        let (flushed, done) = oneshot::channel();
        if self.withdrawals.send(Withdrawal::Flush(flushed)).is_ok() {
            // An error means that the task has ended with its runtime.
            let _ = done.await;
        }
    }

    fn notification(
        &self,
        method: &str,
        mut params: Value,
        mut meta: Map<String, Value>,
    ) -> CustomNotification {
        meta.insert(ORIGINATING_REQUEST.to_owned(), json!(self.request));
        params["_meta"] = Value::Object(meta);
        let mut notification = CustomNotification::new(method, Some(params));
        notification
            .extensions
            .insert(OriginatingRequestId(self.request.clone()));
        notification
    }
}

/// Withdrawals are told from places that can't wait, so a task sends them, in order.
async fn send_withdrawals(peer: Peer<RoleServer>, mut queue: mpsc::UnboundedReceiver<Withdrawal>) {
    while let Some(withdrawal) = queue.recv().await {
        let notification = match withdrawal {
            Withdrawal::Send(notification) => notification,
            Withdrawal::Flush(flushed) => {
                let _ = flushed.send(());
                continue;
            }
        };
        let notification = ServerNotification::CustomNotification(notification);
        if let Err(error) = peer.send_notification(notification).await {
            tracing::debug!("a withdrawal was not sent: {error}");
        }
    }
}

impl ClientChannel for PeerChannel {
    fn request(&self, call: ToolCall) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send>> {
        let mut params = json!({"requestId": call.request_id, "toolName": call.tool, "arguments": call.arguments.value()});
        if let Some(server) = call.server {
            params["serverName"] = json!(server);
        }
        let mut meta = Map::new();
        let TraceContext {
            traceparent,
            tracestate,
        } = call.trace;
        for (key, value) in [("traceparent", traceparent), ("tracestate", tracestate)] {
            meta.extend(value.map(|value| (key.to_owned(), Value::String(value))));
        }
        let notification = self.notification("notifications/tool_call_request", params, meta);
        let peer = self.peer.clone();
        Box::pin(async move {
            let sent = peer
                .send_notification(ServerNotification::CustomNotification(notification))
                .await;
            sent.map_err(|error| format!("the call could not be sent to the client: {error}"))
        })
    }

    fn cancelled(&self, request_id: &str, reason: &str) {
        let params = json!({"requestId": request_id, "reason": reason});
        let notification =
            self.notification("notifications/tool_call_cancelled", params, Map::new());
        // The receiver lives until the last channel is dropped.
        let _ = self.withdrawals.send(Withdrawal::Send(notification));
    }
}
