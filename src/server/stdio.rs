//! The stdio transport: one JSON-RPC message a line.
//!
//! rmcp's own is not used, because tool call responses are taken here, before rmcp: they are not
//! its to route, their errors are to be named, and a line may be large and must be bounded. Reading
//! and writing have threads of their own, so that neither waits for a busy runtime.

use std::{
    io::{self, BufRead, Read, Write},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use rmcp::{
    RoleServer, ServiceExt,
    model::JsonRpcMessage,
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{
    handler::Callgate,
    message::{self, RESPONSE_METHOD, Refusal},
    service::Service,
};
use crate::gate::{PendingCalls, Principal, RouteError};

/// A longer line is dropped (bytes). It must hold a source or an answer of some tens of megabytes.
const LONGEST_LINE: usize = 64 << 20;

/// Of a line that is too long, this much is kept to tell which call it would have answered (bytes).
const KEPT_OF_LONG_LINE: usize = 4 << 10;

/// Messages that wait to be written; more, and whoever sends waits.
const WRITE_QUEUE: usize = 256;

/// After the end of input, answers that are about to be ready are still given. With the time it
/// takes to stop, the process ends within half a second.
const GRACE: Duration = Duration::from_millis(300);

/// And then what was stopped may say so.
const LAST_WORDS: Duration = Duration::from_millis(100);

/// How often the grace looks whether there is anything left to wait for.
const GRACE_STEP: Duration = Duration::from_millis(5);

/// Serves one client over standard input and output until the input ends.
///
/// # Errors
/// When the handshake fails or the threads can't be started.
pub async fn serve(service: Arc<Service>) -> io::Result<()> {
    let stop = service.stop.clone();
    let (outgoing, queue) = mpsc::channel::<Vec<u8>>(WRITE_QUEUE);
    let (messages, incoming) = mpsc::channel(WRITE_QUEUE);
    let input_ended = CancellationToken::new();
    let unanswered = Arc::new(AtomicUsize::new(0));
    let writer = std::thread::Builder::new()
        .name("callgate-stdout".to_owned())
        .spawn(move || write_lines(queue))?;
    let pending = Arc::clone(&service.pending);
    let reader = Reader {
        pending: Arc::clone(&pending),
        client: Principal::anonymous(),
        messages,
        outgoing: outgoing.clone(),
        ended: input_ended.clone(),
        unanswered: Arc::clone(&unanswered),
    };
    std::thread::Builder::new()
        .name("callgate-stdin".to_owned())
        .spawn(move || reader.read(io::stdin().lock()))?;

    let transport = Stdio {
        incoming,
        outgoing: Some(outgoing),
        unanswered: Arc::clone(&unanswered),
    };
    let mut serving = tokio::spawn(async move {
        match Callgate::new(service).serve(transport).await {
            Ok(running) => running.waiting().await.map(drop).map_err(io::Error::other),
            Err(error) => Err(io::Error::other(error)),
        }
    });
    let end = tokio::select! {
        () = input_ended.cancelled() => {
            // A run that waits for the client's answer to a call waits in vain.
            answered(&unanswered, GRACE, &|| pending.is_empty()).await;
            stop.cancel();
            // Withdrawals and results of what was stopped.
            answered(&unanswered, LAST_WORDS, &|| true).await;
            serving.abort();
            Ok(())
        }
        // The handshake failed: there will be nobody to answer.
        result = &mut serving => result.unwrap_or_else(|error| Err(io::Error::other(error))),
    };
    stop.cancel();
    // The writer ends when the last sender is gone; a client that reads nothing may block it for ever.
    let flushed = tokio::task::spawn_blocking(move || writer.join());
    let _ = tokio::time::timeout(GRACE_STEP * 10, flushed).await;
    end
}

/// Waits until all requests have their answers, the time is over, or it has become pointless.
async fn answered(unanswered: &AtomicUsize, time: Duration, has_point: &(dyn Fn() -> bool + Sync)) {
    let deadline = tokio::time::Instant::now() + time;
    while unanswered.load(Ordering::SeqCst) > 0
        && tokio::time::Instant::now() < deadline
        && has_point()
    {
        tokio::time::sleep(GRACE_STEP).await;
    }
}

struct Stdio {
    incoming: mpsc::Receiver<RxJsonRpcMessage<RoleServer>>,
    outgoing: Option<mpsc::Sender<Vec<u8>>>,
    /// Requests that were read and have no answer yet. (One that is cancelled never gets one.)
    unanswered: Arc<AtomicUsize>,
}

impl Transport<RoleServer> for Stdio {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let outgoing = self.outgoing.clone();
        let is_answer = matches!(item, JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_));
        let unanswered = Arc::clone(&self.unanswered);
        async move {
            let closed = || io::Error::new(io::ErrorKind::BrokenPipe, "the connection is closed");
            let mut line = serde_json::to_vec(&item)?;
            line.push(b'\n');
            outgoing
                .ok_or_else(closed)?
                .send(line)
                .await
                .map_err(|_| closed())?;
            if is_answer {
                unanswered.fetch_sub(1, Ordering::SeqCst);
            }
            Ok(())
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        match self.incoming.recv().await {
            Some(message) => Some(message),
            // rmcp would drop what is under way at once; `serve` decides when that is due.
            None => std::future::pending().await,
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.outgoing = None;
        Ok(())
    }
}

fn write_lines(mut queue: mpsc::Receiver<Vec<u8>>) {
    let mut output = io::stdout().lock();
    while let Some(line) = queue.blocking_recv() {
        let written = output.write_all(&line).and_then(|()| output.flush());
        if let Err(error) = written {
            tracing::debug!("the client has closed its end: {error}");
            return;
        }
    }
}

struct Reader {
    pending: Arc<PendingCalls>,
    /// There is one client, and it need not say who it is.
    client: Principal,
    messages: mpsc::Sender<RxJsonRpcMessage<RoleServer>>,
    outgoing: mpsc::Sender<Vec<u8>>,
    ended: CancellationToken,
    unanswered: Arc<AtomicUsize>,
}

enum Line {
    Whole,
    TooLong,
    End,
}

impl Reader {
    fn read(self, mut input: impl BufRead) {
        let mut line = Vec::new();
        loop {
            match read_line(&mut input, &mut line) {
                Ok(Line::Whole) => self.take(&line),
                Ok(Line::TooLong) => self.refuse_long(&line),
                Ok(Line::End) => break,
                Err(error) => {
                    tracing::warn!("reading standard input failed: {error}");
                    break;
                }
            }
            // One huge line must not hold its memory for the rest of the connection.
            if line.capacity() > (1 << 20) {
                line = Vec::new();
            }
        }
        self.ended.cancel();
    }

    fn take(&self, line: &[u8]) {
        let line = line.trim_ascii();
        let line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
        if line.is_empty() {
            return;
        }
        if message::mentions_response(line) && self.take_response(line) {
            return;
        }
        match message::parse(line) {
            // The receiver is gone only when the server has ended.
            Ok(message) => {
                if matches!(message, JsonRpcMessage::Request(_)) {
                    self.unanswered.fetch_add(1, Ordering::SeqCst);
                }
                drop(self.messages.blocking_send(message));
            }
            Err(refusal) => self.refuse(&refusal),
        }
    }

    /// Hands a response to a tool call to whoever waits for it; false if it is something else.
    fn take_response(&self, line: &[u8]) -> bool {
        let is_response = message::envelope(line)
            .is_ok_and(|outside| outside.method.as_deref() == Some(RESPONSE_METHOD));
        if !is_response {
            return false;
        }
        match message::params(line) {
            Ok(params) => {
                if let Err(dropped) = self.pending.resolve(&self.client, params) {
                    tracing::warn!("{dropped}");
                }
            }
            Err(refusal) => self.refuse(&refusal),
        }
        true
    }

    /// Answers what is not a message, where it can be answered.
    fn refuse(&self, refusal: &Refusal) {
        tracing::warn!("{}", refusal.message);
        if !refusal.is_notification {
            let line = format!("{}\n", refusal.response());
            let _ = self.outgoing.blocking_send(line.into_bytes());
        }
    }

    /// A response that is too long ends its call with an error, so that nobody waits in vain.
    fn refuse_long(&self, head: &[u8]) {
        let reason = format!("a message may be {} MiB long", LONGEST_LINE >> 20);
        if let Some(request_id) = message::answered_call(head) {
            tracing::warn!("a tool_call_response was dropped: {reason}");
            let answer = Err(RouteError::Failed(format!(
                "the answer is too large: {reason}"
            )));
            if let Err(dropped) = self.pending.answer(&self.client, &request_id, answer) {
                tracing::warn!("{dropped}");
            }
            return;
        }
        self.refuse(&Refusal::without_id(-32600, reason));
    }
}

/// Reads one line into `line`. Of one that is too long only the beginning is kept.
fn read_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<Line> {
    line.clear();
    let read = input
        .by_ref()
        .take(LONGEST_LINE as u64)
        .read_until(b'\n', line)?;
    if read == 0 {
        return Ok(Line::End);
    }
    if line.last() == Some(&b'\n') {
        return Ok(Line::Whole);
    }
    if read < LONGEST_LINE {
        // The input ended in the middle of a line: what is there may still be a whole message.
        return Ok(Line::Whole);
    }
    line.truncate(KEPT_OF_LONG_LINE);
    loop {
        let available = input.fill_buf()?;
        if available.is_empty() {
            return Ok(Line::TooLong);
        }
        let end = available.iter().position(|byte| *byte == b'\n');
        let used = end.map_or(available.len(), |end| end + 1);
        input.consume(used);
        if end.is_some() {
            return Ok(Line::TooLong);
        }
    }
}
