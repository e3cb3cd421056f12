//! What a client hears of a run while it runs: printed lines and tool calls, as progress where the
//! request has a progress token, and as log messages where the client set a level.
//!
//! However much a program prints, the client gets a few messages a second: what comes faster is put
//! together, and what is too much is left out. The result has all of it.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::Notify,
    task::JoinHandle,
    time::{Instant, sleep_until},
};

use super::{audience::Audience, lines::Lines, link::Link};
use crate::{
    gate::{Route, RouteAnswer, RouteError, ToolCall},
    wasi::Stream,
};

/// So many messages go out at once before the pace counts.
const BURST: u32 = 10;

/// And from then on one in this time.
const PACE: Duration = Duration::from_millis(500);

/// Bytes that wait for their turn; beyond it the oldest lines are left out.
const LARGEST_BATCH: usize = 16 << 10;

/// Something to tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// A line that was printed.
    Line(Stream, String),
    /// Something about a tool call.
    Call(String),
}

impl Heard {
    /// Its text.
    pub fn text(&self) -> &str {
        match self {
            Self::Line(_, text) | Self::Call(text) => text,
        }
    }
}

/// What is told at once.
#[derive(Debug, Default)]
pub struct Batch {
    /// In the order in which it happened.
    pub heard: Vec<Heard>,
    /// How much was left out before it.
    pub left_out: u64,
}

/// Tells one client of one run.
pub struct Live {
    ear: Ear,
    teller: JoinHandle<()>,
}

/// Where news of the run arrive; all clones are the same.
#[derive(Clone, Default)]
pub struct Ear(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    news: Notify,
}

#[derive(Default)]
struct State {
    stdout: Lines,
    stderr: Lines,
    waiting: std::collections::VecDeque<Heard>,
    waiting_bytes: usize,
    /// How much was heard in all.
    heard: u64,
    left_out: u64,
    ended: bool,
}

impl Live {
    /// Begins to tell.
    #[must_use]
    pub fn start(audience: Audience) -> Self {
        let ear = Ear::default();
        let teller = tokio::spawn(tell(ear.clone(), audience));
        Self { ear, teller }
    }

    /// Where news arrive.
    #[must_use]
    pub fn ear(&self) -> &Ear {
        &self.ear
    }

    /// Tells what is left, and ends. What comes after it would be too late: the result is next.
    pub async fn finish(mut self) {
        self.ear.end();
        // An error means that the task has ended with its runtime.
        let _ = (&mut self.teller).await;
    }
}

/// Without [`Live::finish`] it ends without another word.
impl Drop for Live {
    fn drop(&mut self) {
        self.teller.abort();
    }
}

impl Ear {
    /// Hears what the program prints.
    pub fn print(&self, stream: Stream, bytes: &[u8]) {
        let mut state = self.lock();
        let state = &mut *state;
        let mut lines = std::mem::take(state.lines(stream));
        let before = state.heard;
        lines.feed(bytes, |line| state.push(Heard::Line(stream, line)));
        *state.lines(stream) = lines;
        if state.heard > before {
            self.0.news.notify_one();
        }
    }

    fn call(&self, text: String) {
        self.lock().push(Heard::Call(text));
        self.0.news.notify_one();
    }

    fn end(&self) {
        let mut state = self.lock();
        for stream in [Stream::Stdout, Stream::Stderr] {
            if let Some(line) = state.lines(stream).rest() {
                state.push(Heard::Line(stream, line));
            }
        }
        state.ended = true;
        self.0.news.notify_one();
    }

    /// What to tell next: one thing at a time as long as there are few, else all at once. `None` at
    /// the end.
    async fn next(&self, at_once: u32) -> Option<Batch> {
        loop {
            {
                let mut state = self.lock();
                if !state.waiting.is_empty() {
                    return Some(state.take(at_once as usize));
                }
                if state.ended {
                    return None;
                }
            }
            self.0.news.notified().await;
        }
    }

    async fn ended(&self) {
        while !self.lock().ended {
            self.0.news.notified().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn lines(&mut self, stream: Stream) -> &mut Lines {
        match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        }
    }

    fn push(&mut self, heard: Heard) {
        self.heard += 1;
        self.waiting_bytes += heard.text().len() + 1;
        self.waiting.push_back(heard);
        while self.waiting_bytes > LARGEST_BATCH
            && let Some(oldest) = self.waiting.pop_front()
        {
            self.waiting_bytes -= oldest.text().len() + 1;
            self.left_out += 1;
        }
    }

    fn take(&mut self, at_once: usize) -> Batch {
        let count = if self.waiting.len() <= at_once {
            1
        } else {
            self.waiting.len()
        };
        let heard: Vec<Heard> = self.waiting.drain(..count).collect();
        self.waiting_bytes -= heard
            .iter()
            .map(|heard| heard.text().len() + 1)
            .sum::<usize>();
        Batch {
            heard,
            left_out: std::mem::take(&mut self.left_out),
        }
    }
}

async fn tell(ear: Ear, mut audience: Audience) {
    let mut pace = Pace::new();
    while let Some(batch) = ear.next(pace.left()).await {
        audience.tell(&batch).await;
        if let Some(next) = pace.spend() {
            tokio::select! {
                () = sleep_until(next) => {}
                () = ear.ended() => {}
            }
        }
    }
}

/// A bucket of messages that fills with time.
struct Pace {
    /// When the bucket would have been empty.
    empty: Instant,
}

impl Pace {
    fn new() -> Self {
        let now = Instant::now();
        Self {
            empty: now.checked_sub(PACE * BURST).unwrap_or(now),
        }
    }

    /// Messages that may go out now.
    fn left(&self) -> u32 {
        let filling = self.empty.elapsed().as_millis() / PACE.as_millis();
        u32::try_from(filling).unwrap_or(BURST).min(BURST)
    }

    /// Counts one; the time to wait for where the bucket is empty then.
    fn spend(&mut self) -> Option<Instant> {
        let now = Instant::now();
        let full = now.checked_sub(PACE * BURST).unwrap_or(now);
        self.empty = self.empty.max(full) + PACE;
        (self.empty > now.checked_sub(PACE).unwrap_or(now)).then(|| self.empty + PACE)
    }
}

/// A route whose calls are told of.
pub struct ToldRoute {
    /// The route itself.
    pub route: Arc<dyn Route>,
    /// Knows who hears of it.
    pub link: Link,
}

impl Route for ToldRoute {
    fn call(&self, call: ToolCall) -> RouteAnswer {
        tell_of_call(&self.link, || format!("{} called", call.tool));
        let told = ToldCall {
            link: self.link.clone(),
            tool: call.tool.clone(),
            end: "given up",
        };
        let answer = self.route.call(call);
        Box::pin(async move {
            // All of it moves in here, not the field alone.
            let mut told = told;
            let answer = answer.await;
            told.end = match &answer {
                Ok(_) => "answered",
                Err(RouteError::Failed(_)) => "failed",
                Err(RouteError::NotSent(_)) => "refused",
                Err(RouteError::TimedOut) => "timed out",
            };
            answer
        })
    }

    fn withdraw(&self, request_id: &str, reason: &str) {
        self.route.withdraw(request_id, reason);
    }
}

/// Tells of a call's end, also if that is only that nobody waits for it any more.
struct ToldCall {
    link: Link,
    tool: String,
    end: &'static str,
}

impl Drop for ToldCall {
    fn drop(&mut self) {
        tell_of_call(&self.link, || format!("{} {}", self.tool, self.end));
    }
}

fn tell_of_call(link: &Link, text: impl FnOnce() -> String) {
    if let Some(ear) = link.ear() {
        ear.call(text());
    }
}
