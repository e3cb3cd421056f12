//! Responses whose reader may not stall for ever.
//!
//! The write timeout of a connection notices who reads nothing over HTTP/1. On HTTP/2 the connection stays busy with
//! its pings while one stream stands still; so what is noticed here is that nobody asks for the next event's room.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    task::{Context, Poll},
    time::{Duration, Instant},
};

use axum::{
    body::{Body, BodyDataStream, Bytes},
    response::Response,
};
use futures::{Stream, StreamExt as _};
use http::header::CONTENT_TYPE;

use crate::server::admission::Ticket;

/// Whoever takes nothing for so long is gone.
const PATIENCE: Duration = Duration::from_secs(30);

const LOOK: Duration = Duration::from_secs(5);

/// A response that holds the run's ticket until it has been delivered, or nobody takes it.
pub fn holding(response: Response, ticket: Arc<Ticket>) -> Response {
    if !is_stream(&response) {
        return response;
    }
    response.map(|body| {
        let shared = Arc::new(Mutex::new(Delivery {
            events: Some((body.into_data_stream(), ticket)),
            handed_out: None,
        }));
        tokio::spawn(watch(Arc::downgrade(&shared)));
        Body::from_stream(Watched(shared))
    })
}

/// Whether a response consists of events.
#[must_use]
pub fn is_stream(response: &Response) -> bool {
    let of = response.headers().get(CONTENT_TYPE);
    of.is_some_and(|of| of.as_bytes().starts_with(b"text/event-stream"))
}

struct Delivery {
    events: Option<(BodyDataStream, Arc<Ticket>)>,
    /// When an event was handed out after which none was asked for yet.
    handed_out: Option<Instant>,
}

struct Watched(Arc<Mutex<Delivery>>);

impl Stream for Watched {
    type Item = Result<Bytes, axum::Error>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut delivery = lock(&self.0);
        let Some((events, _)) = &mut delivery.events else {
            return Poll::Ready(None);
        };
        let polled = events.poll_next_unpin(context);
        delivery.handed_out = match &polled {
            Poll::Ready(Some(_)) => Some(Instant::now()),
            Poll::Ready(None) => {
                delivery.events = None;
                None
            }
            Poll::Pending => None,
        };
        polled
    }
}

/// Drops what nobody takes, and with it the run or the reader of its stream.
async fn watch(delivery: Weak<Mutex<Delivery>>) {
    loop {
        tokio::time::sleep(LOOK).await;
        let Some(delivery) = delivery.upgrade() else {
            return;
        };
        let mut delivery = lock(&delivery);
        let stalled = delivery
            .handed_out
            .is_some_and(|since| since.elapsed() > PATIENCE);
        if stalled {
            tracing::info!("a client that takes nothing was given up");
            delivery.events = None;
            return;
        }
    }
}

fn lock(delivery: &Mutex<Delivery>) -> MutexGuard<'_, Delivery> {
    delivery.lock().unwrap_or_else(PoisonError::into_inner)
}
