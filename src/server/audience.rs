//! Who is told of a run while it runs, and in which words.
#![expect(
    deprecated,
    reason = "logging is deprecated from 2026-07-28 on; clients of every revision may still ask for it"
)]

use rmcp::{
    RoleServer,
    model::{
        LoggingLevel, LoggingMessageNotification, LoggingMessageNotificationParam,
        ProgressNotificationParam, ProgressToken, RequestId, ServerNotification,
    },
    service::{OriginatingRequestId, Peer},
};
use serde_json::Value;

use super::live::{Batch, Heard};
use crate::wasi::Stream;

/// Characters of a progress message: somebody reads it on one line, or in a small window.
const LONGEST_MESSAGE: usize = 2000;

/// A client that wants to hear of one of its requests.
pub struct Audience {
    /// The client.
    pub peer: Peer<RoleServer>,
    /// Its request.
    pub request: RequestId,
    /// Its progress token, if it sent one.
    pub token: Option<ProgressToken>,
    /// The least severe log messages that it wants, if it wants any.
    pub level: Option<LoggingLevel>,
    /// The progress so far: how many things were told.
    pub progress: u64,
}

impl Audience {
    /// Whether it wants to hear anything.
    #[must_use]
    pub fn listens(&self) -> bool {
        self.token.is_some()
            || [Stream::Stdout, Stream::Stderr]
                .iter()
                .any(|stream| self.wants(*stream))
    }

    /// Tells it what happened.
    pub async fn tell(&mut self, batch: &Batch) {
        self.progress += batch.heard.len() as u64 + batch.left_out;
        let mut left_out = batch.left_out;
        for stream in [Stream::Stdout, Stream::Stderr] {
            if self.wants(stream) && self.log(stream, batch, left_out).await {
                left_out = 0;
            }
        }
        if let Some(token) = self.token.clone() {
            self.report(token, batch).await;
        }
    }

    /// As mcp-run-python does: printed lines are `info`, what goes to standard error is `warning`.
    /// Whether there was anything to tell.
    async fn log(&self, stream: Stream, batch: &Batch, left_out: u64) -> bool {
        let lines: Vec<&str> = batch
            .heard
            .iter()
            .filter(|heard| matches!(heard, Heard::Line(of, _) if *of == stream))
            .map(Heard::text)
            .collect();
        if lines.is_empty() {
            return false;
        }
        let text = with_gap(left_out, &lines.join("\n"));
        let params = LoggingMessageNotificationParam::new(level_of(stream), Value::String(text));
        let mut notification = LoggingMessageNotification::new(params);
        notification
            .extensions
            .insert(OriginatingRequestId(self.request.clone()));
        let notification = ServerNotification::LoggingMessageNotification(notification);
        if let Err(error) = self.peer.send_notification(notification).await {
            tracing::debug!("a log message was not sent: {error}");
        }
        true
    }

    async fn report(&self, token: ProgressToken, batch: &Batch) {
        let texts: Vec<&str> = batch
            .heard
            .iter()
            .map(Heard::text)
            .filter(|text| !text.trim().is_empty())
            .collect();
        let text = texts.join("\n");
        let tail = match text.char_indices().rev().nth(LONGEST_MESSAGE) {
            Some((start, _)) => format!("…{}", &text[start..]),
            None => text,
        };
        #[expect(clippy::cast_precision_loss, reason = "nobody prints 2^52 lines")]
        let progress = ProgressNotificationParam::new(token, self.progress as f64)
            .with_message(with_gap(batch.left_out, &tail));
        if let Err(error) = self.peer.notify_progress(progress).await {
            tracing::debug!("progress was not sent: {error}");
        }
    }

    fn wants(&self, stream: Stream) -> bool {
        self.level
            .is_some_and(|level| severity(level_of(stream)) >= severity(level))
    }
}

fn with_gap(left_out: u64, text: &str) -> String {
    if left_out == 0 {
        return text.to_owned();
    }
    format!("… {left_out} lines left out …\n{text}")
}

fn level_of(stream: Stream) -> LoggingLevel {
    match stream {
        Stream::Stdout => LoggingLevel::Info,
        Stream::Stderr => LoggingLevel::Warning,
    }
}

/// The levels are those of RFC 5424, in order.
fn severity(level: LoggingLevel) -> u8 {
    match level {
        LoggingLevel::Debug => 0,
        LoggingLevel::Info => 1,
        LoggingLevel::Notice => 2,
        LoggingLevel::Warning => 3,
        LoggingLevel::Error => 4,
        LoggingLevel::Critical => 5,
        LoggingLevel::Alert => 6,
        LoggingLevel::Emergency => 7,
    }
}
