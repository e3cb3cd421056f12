//! MCP over the pipes of a process, as its client: one JSON-RPC message a line.
//!
//! rmcp has such a transport too. But it drops a line that is too long without a word, and the call that it would have
//! answered waits until its timeout.

use std::{io, sync::Arc, time::Duration};

use rmcp::{
    RoleClient,
    model::{ErrorCode, ErrorData, JsonRpcMessage, NumberOrString},
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use tokio::{
    io::{AsyncBufRead, AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    process::{ChildStdin, ChildStdout},
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
};
use tokio_util::sync::CancellationToken;

/// A longer line is dropped (bytes).
pub(super) const LONGEST_LINE: usize = 64 << 20;

/// Of a line that is too long, this much is kept of each end, to tell which request it answers (bytes).
pub(super) const KEPT: usize = 4 << 10;

/// Lines that are no messages, after which a server is taken for something else.
const GARBAGE: usize = 1000;

/// Messages that wait to be written.
const WRITE_QUEUE: usize = 64;

/// Messages that wait to be handled; one may be large.
pub(super) const QUEUE: usize = 4;

/// KiB that may wait to be written: a server that does not read would have them all for ever.
const WAITING: usize = 64 << 10;

/// Whoever does not read for so long reads no more.
const READ_TIMEOUT: Duration = Duration::from_mins(1);

/// JSON values that a message may have: each is some hundred bytes once it is read.
const MOST_VALUES: usize = 2_000_000;

/// The client's end of the pipes.
pub struct Lines {
    incoming: mpsc::Receiver<RxJsonRpcMessage<RoleClient>>,
    outgoing: Option<mpsc::Sender<Written>>,
    room: Arc<Semaphore>,
}

/// A line, and its share of what may wait.
type Written = (Vec<u8>, OwnedSemaphorePermit);

impl Lines {
    /// Takes the pipes of the server `name`.
    #[must_use]
    pub fn new(name: &str, input: ChildStdin, output: ChildStdout) -> Self {
        let (outgoing, queue) = mpsc::channel(WRITE_QUEUE);
        let (messages, incoming) = mpsc::channel(QUEUE);
        let stalled = CancellationToken::new();
        tokio::spawn(write(name.to_owned(), input, queue, stalled.clone()));
        let reading = read(name.to_owned(), BufReader::new(output), messages);
        // Without its reader the connection counts as closed, and the server is started again.
        tokio::spawn(async move {
            stalled.run_until_cancelled(reading).await;
        });
        Self {
            incoming,
            outgoing: Some(outgoing),
            room: Arc::new(Semaphore::new(WAITING)),
        }
    }
}

impl Transport<RoleClient> for Lines {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let outgoing = self.outgoing.clone();
        let room = Arc::clone(&self.room);
        async move {
            let closed = || io::Error::new(io::ErrorKind::BrokenPipe, "the server has gone away");
            let mut line = serde_json::to_vec(&item)?;
            line.push(b'\n');
            let outgoing = outgoing.ok_or_else(closed)?;
            let share = line.len().div_ceil(1 << 10).min(WAITING);
            let share = room.try_acquire_many_owned(u32::try_from(share).unwrap_or(u32::MAX));
            let share = share
                .map_err(|_| io::Error::other("the server does not read what is sent to it"))?;
            outgoing.send((line, share)).await.map_err(|_| closed())
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        self.incoming.recv().await
    }

    /// The server sees the end of its input.
    async fn close(&mut self) -> io::Result<()> {
        self.outgoing = None;
        Ok(())
    }
}

async fn write(
    name: String,
    mut input: ChildStdin,
    mut queue: mpsc::Receiver<Written>,
    stalled: CancellationToken,
) {
    while let Some((line, _share)) = queue.recv().await {
        let writing = async { input.write_all(&line).await.is_ok() && input.flush().await.is_ok() };
        match tokio::time::timeout(READ_TIMEOUT, writing).await {
            Ok(true) => {}
            Ok(false) => return,
            Err(_) => {
                tracing::warn!(server = %name, "it does not read what is sent to it; it is given up");
                return stalled.cancel();
            }
        }
    }
}

async fn read(
    name: String,
    mut output: BufReader<ChildStdout>,
    messages: mpsc::Sender<RxJsonRpcMessage<RoleClient>>,
) {
    let mut garbage = 0;
    while let Ok(Some(line)) = read_line(&mut output).await {
        let message = match line {
            Line::Whole(line) if line.trim_ascii().is_empty() => continue,
            Line::Whole(line) => message(&name, &line),
            Line::TooLong { ends, length } => {
                tracing::warn!(server = %name, "a line of {length} bytes was dropped");
                too_long(&ends, length)
            }
        };
        let Some(message) = message else {
            garbage += 1;
            if garbage == 1 {
                tracing::warn!(server = %name, "its standard output has a line that is no JSON-RPC message");
            }
            if garbage > GARBAGE {
                tracing::warn!(server = %name, "its standard output is not MCP; it is given up");
                return;
            }
            continue;
        };
        if messages.send(message).await.is_err() {
            return;
        }
    }
}

/// A line, or what is kept of it.
pub(super) enum Line {
    Whole(Vec<u8>),
    TooLong { ends: Vec<u8>, length: usize },
}

/// The next line, `None` at the end. Of one that is too long only the ends are kept.
pub(super) async fn read_line(input: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<Line>> {
    let mut line = Vec::new();
    let mut length = 0;
    let mut tail = Vec::new();
    loop {
        let available = input.fill_buf().await?;
        if available.is_empty() {
            break;
        }
        let end = available.iter().position(|byte| *byte == b'\n');
        let part = &available[..end.unwrap_or(available.len())];
        length += part.len();
        if length <= LONGEST_LINE {
            line.extend_from_slice(part);
        } else {
            line.truncate(KEPT);
            tail.extend_from_slice(part);
            let surplus = tail.len().saturating_sub(KEPT);
            tail.drain(..surplus);
        }
        let used = end.map_or(available.len(), |end| end + 1);
        input.consume(used);
        if end.is_some() {
            return Ok(Some(whole_or_ends(line, tail, length)));
        }
    }
    // What stands before the end of the stream may still be a message.
    Ok((length > 0).then(|| whole_or_ends(line, tail, length)))
}

fn whole_or_ends(mut line: Vec<u8>, tail: Vec<u8>, length: usize) -> Line {
    if length <= LONGEST_LINE {
        return Line::Whole(line);
    }
    line.extend(tail);
    Line::TooLong { ends: line, length }
}

/// Reads a message. An answer that can't be read is an error for whoever waits for it.
pub(super) fn message(name: &str, text: &[u8]) -> Option<RxJsonRpcMessage<RoleClient>> {
    if values(text) > MOST_VALUES {
        return too_many(name, text);
    }
    let error = match serde_json::from_slice(text) {
        Ok(message) => return Some(message),
        Err(error) => error,
    };
    let mut ends = text[..text.len().min(KEPT)].to_vec();
    ends.extend_from_slice(&text[text.len().saturating_sub(KEPT).max(ends.len())..]);
    let is_answer = text.trim_ascii_start().starts_with(b"{") && !holds(&ends, "\"method\"");
    let refusal = if is_answer && holds(&ends, "\"jsonrpc\"") {
        refusal(&ends, "its answer is no MCP message")
    } else {
        None
    };
    if refusal.is_some() {
        // The text of the error has the kind of what is wrong and its place, not the value.
        let (kind, place) = (error.classify(), error.column());
        tracing::warn!(server = %name, "an answer is no MCP message ({kind:?} error at byte {place})");
    }
    refusal
}

/// How many values there are in a JSON text, about.
fn values(text: &[u8]) -> usize {
    let begins_one = |byte: &&u8| matches!(**byte, b',' | b'[' | b'{');
    text.iter().filter(begins_one).count()
}

/// What the request is answered with whose answer would be huge once it is read.
fn too_many(name: &str, text: &[u8]) -> Option<RxJsonRpcMessage<RoleClient>> {
    tracing::warn!(server = %name, "a message of too many JSON values was dropped");
    let mut ends = text[..text.len().min(KEPT)].to_vec();
    ends.extend_from_slice(&text[text.len().saturating_sub(KEPT)..]);
    refusal(
        &ends,
        &format!("its answer has more than {MOST_VALUES} JSON values"),
    )
}

/// What the request is answered with whose answer is too long.
pub(super) fn too_long(ends: &[u8], length: usize) -> Option<RxJsonRpcMessage<RoleClient>> {
    let message = format!(
        "its answer is a message of {length} bytes; one may have {} MiB",
        LONGEST_LINE >> 20
    );
    refusal(ends, &message)
}

fn holds(text: &[u8], what: &str) -> bool {
    text.windows(what.len()).any(|part| part == what.as_bytes())
}

/// An error for the request whose answer has these ends.
fn refusal(ends: &[u8], message: &str) -> Option<RxJsonRpcMessage<RoleClient>> {
    let ends = String::from_utf8_lossy(ends);
    // Ours are numbers. The id stands at one of the ends, before or after the result.
    let ids = ends.match_indices("\"id\"").filter_map(|(at, key)| {
        let rest = ends[at + key.len()..]
            .trim_start()
            .strip_prefix(':')?
            .trim_start();
        let digits = rest.find(|of: char| !of.is_ascii_digit())?;
        rest[..digits].parse::<i64>().ok()
    });
    let id = ids.into_iter().next()?;
    let error = ErrorData::new(ErrorCode::INTERNAL_ERROR, message.to_owned(), None);
    Some(JsonRpcMessage::error(
        error,
        Some(NumberOrString::Number(id)),
    ))
}
