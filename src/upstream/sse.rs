//! MCP over HTTP+SSE as it was until 2024-11-05, as its client: a stream of events on which the server first says where
//! it takes messages, and then answers those that were posted there.

use std::{io, sync::Arc, time::Duration};

use futures::{StreamExt as _, stream::BoxStream};
use http::header;
use reqwest::Url;
use rmcp::{
    RoleClient,
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::{Transport, streamable_http_client::HttpStatusError},
};
use tokio::{
    io::AsyncBufRead,
    sync::{Semaphore, mpsc},
};
use tokio_util::{io::StreamReader, task::AbortOnDropHandle};

use super::{
    failure::{Failure, deepest},
    http::{Headers, HttpError},
    lines::{self, KEPT, LONGEST_LINE, Line, QUEUE, read_line},
};

/// How long the server may take to say where it takes messages.
const ENDPOINT_TIMEOUT: Duration = Duration::from_secs(20);

/// How long it may take to take one; its answer comes by itself.
const POST_TIMEOUT: Duration = Duration::from_mins(2);

/// Messages that are posted at once; more wait.
const POSTS: usize = 256;

/// A larger body of what only says that a message was taken is not read (bytes).
const LARGEST_RECEIPT: u64 = 64 << 10;

/// The client's end of the stream.
pub struct Events {
    incoming: mpsc::Receiver<RxJsonRpcMessage<RoleClient>>,
    post: Option<Post>,
    _reading: AbortOnDropHandle<()>,
}

/// Where messages go.
#[derive(Clone)]
struct Post {
    client: reqwest::Client,
    endpoint: Url,
    headers: Headers,
    room: Arc<Semaphore>,
}

impl Events {
    /// Opens the stream of the server `name`.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn open(
        name: &str,
        client: reqwest::Client,
        url: &str,
        headers: Headers,
    ) -> Result<Self, Failure> {
        let request = client
            .get(url)
            .headers(headers.clone().into_iter().collect())
            .header(header::ACCEPT, "text/event-stream");
        let response = request.send().await.map_err(HttpError::Client);
        let response = response.and_then(checked);
        let response = response.map_err(|error| Failure::of(&error))?;
        let kind = response.headers().get(header::CONTENT_TYPE).cloned();
        let kind = kind.map(|kind| String::from_utf8_lossy(kind.as_bytes()).into_owned());
        if !kind
            .as_deref()
            .is_some_and(|kind| kind.starts_with("text/event-stream"))
        {
            let error = HttpError::UnexpectedContentType(kind);
            return Err(Failure::of(&error));
        }
        let origin = response.url().clone();
        let body: BoxStream<'static, io::Result<bytes::Bytes>> = response
            .bytes_stream()
            .map(|part| part.map_err(io::Error::other))
            .boxed();
        let mut input = StreamReader::new(body);
        let endpoint = tokio::time::timeout(ENDPOINT_TIMEOUT, endpoint(&mut input, &origin)).await;
        let late = || Failure::Useless("it does not say where it takes messages".to_owned());
        let endpoint = endpoint.map_err(|_| late())??;
        let (messages, incoming) = mpsc::channel(QUEUE);
        let reading = tokio::spawn(read(name.to_owned(), input, messages));
        Ok(Self {
            incoming,
            post: Some(Post {
                client,
                endpoint,
                headers,
                room: Arc::new(Semaphore::new(POSTS)),
            }),
            _reading: AbortOnDropHandle::new(reading),
        })
    }
}

impl Transport<RoleClient> for Events {
    type Error = HttpError;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), HttpError>> + Send + 'static {
        let post = self.post.clone();
        async move {
            let post = post.ok_or(HttpError::TransportChannelClosed)?;
            post.send(&item).await
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        self.incoming.recv().await
    }

    async fn close(&mut self) -> Result<(), HttpError> {
        self.post = None;
        self.incoming.close();
        Ok(())
    }
}

impl Post {
    async fn send(&self, message: &TxJsonRpcMessage<RoleClient>) -> Result<(), HttpError> {
        let _room = self.room.acquire().await;
        let request = self
            .client
            .post(self.endpoint.clone())
            .headers(self.headers.clone().into_iter().collect())
            .timeout(POST_TIMEOUT)
            .json(message);
        let response = checked(request.send().await?)?;
        // A connection whose response was read serves the next message, too.
        if response
            .content_length()
            .is_some_and(|length| length <= LARGEST_RECEIPT)
        {
            let _ = response.bytes().await;
        }
        Ok(())
    }
}

fn checked(response: reqwest::Response) -> Result<reqwest::Response, HttpError> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let retry_after = response.headers().get(header::RETRY_AFTER);
    let retry_after = retry_after.and_then(|value| value.to_str().ok());
    let error = HttpStatusError::new(status.as_u16(), retry_after.map(str::to_owned));
    Err(HttpError::HttpStatus(error))
}

/// Where the server takes messages: its first event.
async fn endpoint(input: &mut (impl AsyncBufRead + Unpin), origin: &Url) -> Result<Url, Failure> {
    let broke = |error: io::Error| Failure::Broke(deepest(&error));
    let ended =
        || Failure::Useless("its stream ended before it said where it takes messages".to_owned());
    loop {
        let event = next(input).await.map_err(broke)?.ok_or_else(ended)?;
        let Data::Whole(data) = event.data else {
            continue;
        };
        if event.name != b"endpoint" {
            continue;
        }
        let wrong = || Failure::Useless("where it takes messages is no URL".to_owned());
        let text = String::from_utf8(data).map_err(|_| wrong())?;
        let endpoint = origin.join(text.trim()).map_err(|_| wrong())?;
        // What is posted there has the keys in its headers.
        if endpoint.origin() != origin.origin() {
            return Err(Failure::Useless(format!(
                "it wants messages sent to {}, which is not where its `url` is",
                endpoint.origin().ascii_serialization()
            )));
        }
        return Ok(endpoint);
    }
}

async fn read(
    name: String,
    mut input: impl AsyncBufRead + Unpin,
    messages: mpsc::Sender<RxJsonRpcMessage<RoleClient>>,
) {
    loop {
        let event = match next(&mut input).await {
            Ok(Some(event)) => event,
            Ok(None) => return,
            Err(error) => {
                tracing::warn!(server = %name, "its stream broke: {}", deepest(&error));
                return;
            }
        };
        if !matches!(&*event.name, b"" | b"message") {
            continue;
        }
        let message = match event.data {
            Data::Whole(data) => lines::message(&name, &data),
            Data::TooLong { ends, length } => {
                tracing::warn!(server = %name, "an event of {length} bytes was dropped");
                lines::too_long(&ends, length)
            }
        };
        if let Some(message) = message
            && messages.send(message).await.is_err()
        {
            return;
        }
    }
}

/// An event of the stream.
struct Event {
    name: Vec<u8>,
    data: Data,
}

enum Data {
    Whole(Vec<u8>),
    TooLong { ends: Vec<u8>, length: usize },
}

impl Data {
    /// Adds a line; of data that get too long only the ends stay.
    fn add(&mut self, line: &[u8], line_length: usize) {
        match self {
            Self::Whole(data) if data.is_empty() && line.len() == line_length => {
                data.extend_from_slice(line);
            }
            Self::Whole(data) if data.len() + line_length < LONGEST_LINE => {
                data.push(b'\n');
                data.extend_from_slice(line);
            }
            Self::Whole(data) => {
                let length = data.len() + line_length;
                let mut ends = std::mem::take(data);
                ends.extend_from_slice(&line[..line.len().min(KEPT)]);
                *self = Self::TooLong { ends, length };
                self.end_with(line);
            }
            Self::TooLong { length, .. } => {
                *length += line_length;
                self.end_with(line);
            }
        }
    }

    fn end_with(&mut self, line: &[u8]) {
        if let Self::TooLong { ends, .. } = self {
            ends.truncate(KEPT);
            ends.extend_from_slice(&line[line.len().saturating_sub(KEPT)..]);
        }
    }
}

/// The next event, `None` at the end: what stands before it without an empty line is none.
async fn next(input: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<Event>> {
    let mut event = Event {
        name: Vec::new(),
        data: Data::Whole(Vec::new()),
    };
    let mut is_empty = true;
    while let Some(line) = read_line(input).await? {
        let (line, length) = match line {
            Line::Whole(line) => {
                let length = line.len();
                (line, length)
            }
            Line::TooLong { ends, length } => (ends, length),
        };
        let line = line.strip_suffix(b"\r").unwrap_or(&line);
        if line.is_empty() {
            if is_empty {
                continue;
            }
            return Ok(Some(event));
        }
        let (field, value) = field(line);
        match field {
            b"event" => event.name = value.to_vec(),
            b"data" => {
                // What was cut away of it counts.
                let cut = length.saturating_sub(line.len() + 1);
                event.data.add(value, value.len() + cut);
            }
            _ => continue,
        }
        is_empty = false;
    }
    Ok(None)
}

/// The name of a line's field, and its value.
fn field(line: &[u8]) -> (&[u8], &[u8]) {
    let Some(colon) = line.iter().position(|byte| *byte == b':') else {
        return (line, b"");
    };
    let value = &line[colon + 1..];
    (&line[..colon], value.strip_prefix(b" ").unwrap_or(value))
}

#[cfg(test)]
mod tests {
    use super::{Data, next};

    #[tokio::test]
    async fn events_are_read_as_the_standard_has_them() {
        let text = b": hello\r\n\r\nevent: endpoint\r\ndata: /m\r\n\r\ndata:one\ndata: two\nid: 5\n\nevent: lost\ndata: x";
        let mut input = &text[..];
        let mut read = Vec::new();
        while let Some(event) = next(&mut input).await.unwrap() {
            let Data::Whole(data) = event.data else {
                panic!("it is short");
            };
            read.push((event.name, data));
        }
        assert_eq!(
            read,
            [
                (b"endpoint".to_vec(), b"/m".to_vec()),
                (Vec::new(), b"one\ntwo".to_vec())
            ]
        );
    }
}
