//! A response that begins before there is something to say.
//!
//! rmcp waits for the first message of a stateless request before it answers at all. A run may be silent for
//! minutes, and what is between client and server takes silence for death; on 2026-07-28 that cancels the run.

use std::{convert::Infallible, pin::Pin, time::Duration};

use axum::{
    body::{Body, BodyDataStream},
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use futures::StreamExt as _;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http_body_util::BodyExt as _;
use serde_json::Value;

use super::patience::is_stream;
use crate::server::message::Refusal;

/// After this silence the response begins. Before, its status may still be an error's.
const SILENCE: Duration = Duration::from_secs(5);

/// And from then on a comment says that the server is there.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

const COMMENT: &str = ":\n\n";

/// What is waited for.
struct Pending {
    response: Pin<Box<dyn Future<Output = Response> + Send>>,
    /// The request's.
    id: Value,
}

/// The response, or the beginning of one if it does not come soon. Dropping its body drops what is waited for.
pub async fn respond(
    response: impl Future<Output = Response> + Send + 'static,
    id: Value,
) -> Response {
    let mut response: Pin<Box<dyn Future<Output = Response> + Send>> = Box::pin(response);
    if let Ok(response) = tokio::time::timeout(SILENCE, &mut response).await {
        return response;
    }
    let pending = Pending { response, id };
    let events = futures::stream::unfold(Late::Beginning(pending), Late::next);
    let headers = [
        (CONTENT_TYPE, "text/event-stream"),
        (CACHE_CONTROL, "no-cache"),
    ];
    let buffering = [("x-accel-buffering", "no")];
    let body = Body::from_stream(events.map(Ok::<_, Infallible>));
    (headers, buffering, body).into_response()
}

/// What a late response consists of.
enum Late {
    /// A comment, so that the head goes out.
    Beginning(Pending),
    Waiting(Pending),
    /// The events of the response itself.
    Events(BodyDataStream),
    Over,
}

impl Late {
    async fn next(self) -> Option<(Bytes, Self)> {
        match self {
            Self::Beginning(response) => Some((
                Bytes::from_static(COMMENT.as_bytes()),
                Self::Waiting(response),
            )),
            Self::Waiting(mut response) => {
                match tokio::time::timeout(KEEP_ALIVE, &mut response.response).await {
                    Ok(begun) => Self::begin(begun, response.id).await,
                    Err(_) => Some((
                        Bytes::from_static(COMMENT.as_bytes()),
                        Self::Waiting(response),
                    )),
                }
            }
            Self::Events(events) => Self::following(events).await,
            Self::Over => None,
        }
    }

    async fn begin(response: Response, id: Value) -> Option<(Bytes, Self)> {
        if is_stream(&response) {
            return Self::following(response.into_body().into_data_stream()).await;
        }
        // One message, and it is too late for its status.
        let message = response.into_body().collect().await.ok()?.to_bytes();
        let message = serde_json::from_slice::<Value>(&message).unwrap_or_else(|_| {
            let text = String::from_utf8_lossy(&message);
            let refusal = Refusal::without_id(-32603, text.into_owned());
            Refusal { id, ..refusal }.response()
        });
        let event = format!("data: {message}\n\n");
        Some((Bytes::from(event), Self::Over))
    }

    async fn following(mut events: BodyDataStream) -> Option<(Bytes, Self)> {
        let frame = events.next().await?.ok()?;
        Some((frame, Self::Events(events)))
    }
}
