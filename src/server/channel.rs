//! The way from the gate to the client: notifications that belong to one request.

use std::{future::Future, pin::Pin, sync::Arc};

use rmcp::{
    RoleServer,
    model::{CustomNotification, RequestId, ServerNotification},
    service::{OriginatingRequestId, Peer},
};
use serde_json::{Value, json};
use tokio::{sync::mpsc, task::JoinHandle};

use crate::gate::{ClientChannel, Route, RouteAnswer, RouteError, ToolCall};

/// `_meta` key that names the `tools/call` request a callback belongs to.
const ORIGINATING_REQUEST: &str = "callgate/originatingRequestId";

/// Sends notifications about one request to the client that made it.
pub struct PeerChannel {
    peer: Peer<RoleServer>,
    request: RequestId,
    withdrawals: mpsc::UnboundedSender<CustomNotification>,
}

/// Sends withdrawals in the background, in order.
pub struct Withdrawals(JoinHandle<()>);

impl PeerChannel {
    /// A channel for callbacks of `request`, and the sender of its withdrawals.
    #[must_use]
    pub fn open(peer: Peer<RoleServer>, request: RequestId) -> (Arc<Self>, Withdrawals) {
        let (withdrawals, mut queue) = mpsc::unbounded_channel();
        let sender = peer.clone();
        let task = tokio::spawn(async move {
            while let Some(notification) = queue.recv().await {
                if let Err(error) = sender
                    .send_notification(ServerNotification::CustomNotification(notification))
                    .await
                {
                    tracing::debug!("a withdrawal was not sent: {error}");
                }
            }
        });
        (
            Arc::new(Self {
                peer,
                request,
                withdrawals,
            }),
            Withdrawals(task),
        )
    }

    fn notification(&self, method: &str, mut params: Value) -> CustomNotification {
        params["_meta"] = json!({ORIGINATING_REQUEST: self.request});
        let mut notification = CustomNotification::new(method, Some(params));
        notification
            .extensions
            .insert(OriginatingRequestId(self.request.clone()));
        notification
    }
}

impl Withdrawals {
    /// Waits until all are sent. The channel must have been dropped, or it waits for ever.
    pub async fn sent(self) {
        // A panic in the task would have been logged by the panic hook.
        let _ = self.0.await;
    }
}

impl ClientChannel for PeerChannel {
    fn request(&self, call: ToolCall) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send>> {
        let mut params = json!({"requestId": call.request_id, "toolName": call.tool, "arguments": call.arguments});
        if let Some(server) = call.server {
            params["serverName"] = json!(server);
        }
        let notification = self.notification("notifications/tool_call_request", params);
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
        // The receiver lives until the last channel is dropped.
        let _ = self
            .withdrawals
            .send(self.notification("notifications/tool_call_cancelled", params));
    }
}

/// Where nobody would answer: every call fails at once and says what would help.
pub struct Refusing(pub &'static str);

impl Route for Refusing {
    fn call(&self, _: ToolCall) -> RouteAnswer {
        Box::pin(std::future::ready(Err(RouteError::NotSent(
            self.0.to_owned(),
        ))))
    }

    fn withdraw(&self, _: &str, _: &str) {}
}
