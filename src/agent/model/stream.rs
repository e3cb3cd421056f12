//! The chunks of an answer, read from its events.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures::{Stream, StreamExt as _, stream};
use serde_json::Value;
use sse_stream::{Sse, SseStream};

use super::{ModelError, cause, failure};

/// An answer is no longer than this (bytes): nobody reads more, and a server may never end.
const LONGEST: usize = 16 << 20;

type Events = Pin<Box<dyn Stream<Item = Result<Sse, String>> + Send>>;

/// The chunks of one answer.
pub(super) struct Chunks {
    source: Source,
    stall: Duration,
    is_done: bool,
    read: Arc<AtomicUsize>,
}

enum Source {
    Events(Events),
    /// A server that does not stream answers in one piece.
    Whole(Option<reqwest::Response>),
}

impl Chunks {
    /// Of a response that is a success.
    pub(super) fn of(response: reqwest::Response, stall: Duration) -> Self {
        let kind = response.headers().get("content-type");
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let read = Arc::<AtomicUsize>::default();
        let source = if kind.starts_with("application/json") || kind.starts_with("text/html") {
            Source::Whole(Some(response))
        } else {
            Source::Events(events(response, Arc::clone(&read)))
        };
        Self {
            source,
            stall,
            is_done: false,
            read,
        }
    }

    /// Whether the server has said that there is no more.
    pub(super) fn is_done(&self) -> bool {
        self.is_done
    }

    /// The next one.
    ///
    /// # Errors
    /// When nothing comes for too long, or something that is none.
    pub(super) async fn next(&mut self) -> Result<Option<Value>, ModelError> {
        match &mut self.source {
            Source::Whole(response) => {
                let Some(response) = response.take() else {
                    return Ok(None);
                };
                let read = tokio::time::timeout(self.stall, whole(response)).await;
                self.is_done = true;
                read.map_err(|_| ModelError::Stalled(self.stall))?.map(Some)
            }
            Source::Events(events) => loop {
                let event = tokio::time::timeout(self.stall, events.next()).await;
                let event = event.map_err(|_| ModelError::Stalled(self.stall))?;
                let Some(event) = event else {
                    return Ok(None);
                };
                let event = event.map_err(|reason| {
                    // What is too long once is too long again.
                    if self.read.load(Ordering::Relaxed) > LONGEST {
                        return ModelError::Nonsense(too_long());
                    }
                    ModelError::Broken(reason)
                })?;
                let data = event.data.unwrap_or_default();
                match data.trim() {
                    "" => {}
                    // Comments of the server before, passed on by a proxy as data.
                    comment if comment.starts_with(':') => {}
                    "[DONE]" => {
                        self.is_done = true;
                        return Ok(None);
                    }
                    text if event.event.as_deref() == Some("error") => {
                        return Err(ModelError::InStream(failure::message_of_body(text)));
                    }
                    text => return chunk(text).map(Some),
                }
            },
        }
    }
}

fn chunk(text: &str) -> Result<Value, ModelError> {
    serde_json::from_str(text).map_err(|error| {
        let text = failure::bounded(text);
        ModelError::Broken(format!("an event is no chunk ({error}): {text}"))
    })
}

async fn whole(mut response: reqwest::Response) -> Result<Value, ModelError> {
    let mut body = Vec::new();
    loop {
        let bytes = response.chunk().await;
        let Some(bytes) = bytes.map_err(|error| ModelError::Broken(cause(&error)))? else {
            break;
        };
        body.extend_from_slice(&bytes);
        if body.len() > LONGEST {
            return Err(ModelError::Nonsense(too_long()));
        }
    }
    serde_json::from_slice(&body)
        .map_err(|_| ModelError::Nonsense(failure::bounded(&String::from_utf8_lossy(&body))))
}

fn events(response: reqwest::Response, read: Arc<AtomicUsize>) -> Events {
    let bytes = stream::unfold(Some(response), move |response| {
        let read = Arc::clone(&read);
        async move {
            let mut response = response?;
            let bytes: Result<Bytes, std::io::Error> = match response.chunk().await {
                Ok(Some(bytes)) => {
                    let so_far = read.fetch_add(bytes.len(), Ordering::Relaxed) + bytes.len();
                    if so_far > LONGEST {
                        return Some((Err(std::io::Error::other(too_long())), None));
                    }
                    Ok(bytes)
                }
                Ok(None) => return None,
                Err(error) => return Some((Err(std::io::Error::other(cause(&error))), None)),
            };
            Some((bytes, Some(response)))
        }
    });
    let events = SseStream::from_bytes_stream(Box::pin(bytes));
    Box::pin(events.map(|event| event.map_err(|error| error.to_string())))
}

fn too_long() -> String {
    format!("it is longer than {} MiB", LONGEST >> 20)
}
