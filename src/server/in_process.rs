//! A connection within the process, for an agent that is a client of its own server.

use std::{io, sync::Arc};

use rmcp::{
    RoleClient, RoleServer, ServiceExt as _,
    model::{ClientNotification, JsonRpcMessage},
    service::{RxJsonRpcMessage, ServiceRole, TxJsonRpcMessage},
    transport::Transport,
};
use tokio::sync::mpsc;

use super::{handler::Callgate, message::RESPONSE_METHOD, service::Service};
use crate::gate::{PendingCalls, Principal};

/// Messages that wait for the other side.
const QUEUE: usize = 256;

/// Serves one client; returns its end of the connection.
#[must_use]
pub fn connect(service: Arc<Service>) -> ClientEnd {
    let (to_server, from_client) = mpsc::channel(QUEUE);
    let (to_client, from_server) = mpsc::channel(QUEUE);
    let client = ClientEnd {
        outgoing: to_server,
        incoming: from_server,
        pending: Arc::clone(&service.pending),
    };
    let server = ServerEnd {
        outgoing: to_client,
        incoming: from_client,
    };
    tokio::spawn(async move {
        match Callgate::new(service).serve(server).await {
            Ok(running) => drop(running.waiting().await),
            Err(error) => tracing::warn!("the connection within the process failed: {error}"),
        }
    });
    client
}

/// The client's end.
pub struct ClientEnd {
    outgoing: mpsc::Sender<RxJsonRpcMessage<RoleServer>>,
    incoming: mpsc::Receiver<RxJsonRpcMessage<RoleClient>>,
    pending: Arc<PendingCalls>,
}

struct ServerEnd {
    outgoing: mpsc::Sender<RxJsonRpcMessage<RoleClient>>,
    incoming: mpsc::Receiver<RxJsonRpcMessage<RoleServer>>,
}

impl Transport<RoleClient> for ClientEnd {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let outgoing = self.outgoing.clone();
        let pending = Arc::clone(&self.pending);
        async move {
            let Some(item) = without_responses(item, &pending) else {
                return Ok(());
            };
            pass::<RoleClient, RoleServer>(item, outgoing).await
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        self.incoming.recv().await
    }

    async fn close(&mut self) -> io::Result<()> {
        self.incoming.close();
        Ok(())
    }
}

impl Transport<RoleServer> for ServerEnd {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        pass::<RoleServer, RoleClient>(item, self.outgoing.clone())
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        self.incoming.recv().await
    }

    async fn close(&mut self) -> io::Result<()> {
        self.incoming.close();
        Ok(())
    }
}

/// Responses to tool calls go to whoever waits for them; rmcp must not see them.
fn without_responses(
    item: TxJsonRpcMessage<RoleClient>,
    pending: &PendingCalls,
) -> Option<TxJsonRpcMessage<RoleClient>> {
    let JsonRpcMessage::Notification(notification) = item else {
        return Some(item);
    };
    match notification.notification {
        ClientNotification::CustomNotification(custom) if custom.method == RESPONSE_METHOD => {
            let params = custom.params.unwrap_or_default();
            if let Err(dropped) = pending.resolve(&Principal::anonymous(), params) {
                tracing::debug!("{dropped}");
            }
            None
        }
        _ => Some(JsonRpcMessage::Notification(notification)),
    }
}

/// What one side sends is what the other receives; only their types differ.
async fn pass<From: ServiceRole, To: ServiceRole>(
    item: TxJsonRpcMessage<From>,
    outgoing: mpsc::Sender<RxJsonRpcMessage<To>>,
) -> io::Result<()> {
    let item = serde_json::to_value(item)?;
    let item = serde_json::from_value(item)?;
    let closed = |_| io::Error::new(io::ErrorKind::BrokenPipe, "the connection is closed");
    outgoing.send(item).await.map_err(closed)
}
