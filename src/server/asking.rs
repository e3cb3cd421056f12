//! Elicitations as requests of the server's own: the calls of a run are asked for as they come up, and their answers
//! delivered as they come in.

use std::{collections::HashSet, time::Duration};

use futures::{StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use rmcp::{
    RoleServer,
    model::{ClientResult, ElicitRequest, ServerRequest},
    service::{Peer, PeerRequestOptions, ServiceError},
};

use super::{
    active::{ActiveRun, Next},
    answers, elicit,
    outcome::Pieces,
};
use crate::gate::{Batch, RouteError, ToolCall};

/// Asks one client for the calls of one run.
pub struct Asking {
    /// The client.
    pub peer: Peer<RoleServer>,
    /// How long it may take for one answer.
    pub timeout: Duration,
}

/// One call is answered, or need not be any more.
type Asked = BoxFuture<'static, ()>;

impl Asking {
    /// Asks until the run is over, or nothing of it waits for the client.
    pub async fn until_answered(&self, run: &mut ActiveRun) -> Option<Box<Pieces>> {
        let batch = run.gate.batch().clone();
        let mut known = HashSet::new();
        let mut asked: FuturesUnordered<Asked> = FuturesUnordered::new();
        loop {
            let changed = batch.changed();
            let mut new = batch.calls();
            new.retain(|call| !known.contains(&call.request_id));
            if new.is_empty() && asked.is_empty() {
                return None;
            }
            // Calls are asked for together, once the program has made all that it can make.
            let next = async {
                if new.is_empty() {
                    Next::Ended(run.ended().await)
                } else {
                    run.next().await
                }
            };
            tokio::select! {
                next = next => match next {
                    Next::Ended(pieces) => return Some(pieces),
                    Next::Standstill => {
                        known.extend(new.iter().map(|call| call.request_id.clone()));
                        asked.extend(new.into_iter().map(|call| self.ask(call, batch.clone())));
                    }
                },
                Some(()) = asked.next() => {}
                () = changed => {}
            }
        }
    }

    fn ask(&self, call: ToolCall, batch: std::sync::Arc<Batch>) -> Asked {
        let (peer, timeout) = (self.peer.clone(), self.timeout);
        Box::pin(async move {
            let answered = answer(&peer, &call, &batch, timeout).await;
            batch.answer(&call.request_id, answered);
        })
    }
}

async fn answer(
    peer: &Peer<RoleServer>,
    call: &ToolCall,
    batch: &Batch,
    timeout: Duration,
) -> Result<serde_json::Value, RouteError> {
    let failed =
        |error: ServiceError| RouteError::Failed(format!("the elicitation failed: {error}"));
    let form = elicit::form(call).map_err(RouteError::NotSent)?;
    let request = ServerRequest::ElicitRequest(ElicitRequest::new(form));
    let sent = peer.send_cancellable_request(request, PeerRequestOptions::no_options());
    let mut sent = sent.await.map_err(failed)?;
    let (reason, error) = tokio::select! {
        response = &mut sent.rx => {
            let response = response.unwrap_or(Err(ServiceError::TransportClosed));
            return match response.map_err(failed)? {
                ClientResult::ElicitResult(result) => answers::read(elicit::answer(&call.request_id, result)),
                _ => Err(failed(ServiceError::UnexpectedResponse)),
            };
        }
        () = tokio::time::sleep(timeout) => ("no answer came in time", RouteError::TimedOut),
        () = batch.left(&call.request_id) => {
            ("the program gave the call up", RouteError::Failed("it was given up".to_owned()))
        }
    };
    let _ = sent.cancel(Some(reason.to_owned())).await;
    Err(error)
}
