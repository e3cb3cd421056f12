//! A client for models behind the API of chat completions.

mod assembly;
mod endpoint;
mod failure;
mod json_end;
mod message;
mod stream;

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use serde_json::{Value, json};

use self::{assembly::Assembly, stream::Chunks};
pub use self::{
    assembly::{Answer, Delivery},
    endpoint::Endpoint,
    failure::ModelError,
    message::{Function, FunctionKind, Message, ToolCall, ToolDefinition, Usage},
};

/// How long an error's body may take.
const ERROR_TIMEOUT: Duration = Duration::from_secs(15);

/// How often one request is made, the first time included.
const ATTEMPTS: u32 = 5;

/// The first pause before another attempt; it doubles each time.
const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// The longest pause, also where the server asks for more.
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// Of an error's body, this much is read (bytes).
const LARGEST_ERROR: usize = 64 << 10;

/// A model.
pub struct Model {
    endpoint: Endpoint,
    client: reqwest::Client,
    /// How long nothing may come.
    stall: Duration,
    /// Some servers know nothing of `stream_options`, and say so.
    counts_tokens: AtomicBool,
}

/// What is heard of an answer while it comes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// Something to show.
    Delivery(Delivery),
    /// It failed, will be asked for again after a pause, and begins anew.
    Again {
        /// What went wrong.
        error: ModelError,
        /// How long until then.
        pause: Duration,
    },
}

impl Model {
    /// A model that may say nothing for as long as `stall`.
    ///
    /// # Errors
    /// When no HTTP client can be made.
    pub fn new(endpoint: Endpoint, stall: Duration) -> Result<Self, String> {
        let client = crate::upstream::http_client()?;
        Ok(Self {
            endpoint,
            client,
            stall,
            counts_tokens: AtomicBool::new(true),
        })
    }

    /// Where it is.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Asks for the next message; `hear` hears of it while it comes. What fails and may succeed is tried
    /// again, with growing pauses.
    ///
    /// # Errors
    /// When it fails for good.
    pub async fn ask(
        &self,
        messages: &[Message],
        tools: &[ToolDefinition],
        hear: &mut (dyn FnMut(Heard) + Send),
    ) -> Result<Answer, ModelError> {
        let mut attempt = 1;
        loop {
            let answer = self.attempt(messages, tools, hear).await;
            let error = match answer {
                Ok(answer) => return Ok(answer),
                Err(error) => self.endpoint.cleaned(error),
            };
            if self.forgo_counting(&error) {
                continue;
            }
            if attempt == ATTEMPTS || !error.is_passing() {
                return Err(error);
            }
            let pause = pause(attempt, error.retry_after());
            hear(Heard::Again { error, pause });
            tokio::time::sleep(pause).await;
            attempt += 1;
        }
    }

    /// Whether the server refused only the wish to hear of tokens; then it is not asked again for them.
    fn forgo_counting(&self, error: &ModelError) -> bool {
        let ModelError::Status {
            status: 400 | 422,
            message,
            ..
        } = error
        else {
            return false;
        };
        message.contains("stream_options") && self.counts_tokens.swap(false, Ordering::Relaxed)
    }

    async fn attempt(
        &self,
        messages: &[Message],
        tools: &[ToolDefinition],
        hear: &mut (dyn FnMut(Heard) + Send),
    ) -> Result<Answer, ModelError> {
        let body = self.body(messages, tools);
        let request = self.endpoint.request(&self.client).json(&body);
        let sent = tokio::time::timeout(self.stall, request.send()).await;
        let response = sent
            .map_err(|_| ModelError::Stalled(self.stall))?
            .map_err(|error| unsent(&error))?;
        if !response.status().is_success() {
            return Err(refusal(response).await);
        }
        let mut chunks = Chunks::of(response, self.stall);
        let mut assembly = Assembly::default();
        while let Some(chunk) = chunks.next().await? {
            // A server may send faster than we read: whoever else waits has their turn too.
            tokio::task::consume_budget().await;
            for delivery in assembly.add(&chunk)? {
                hear(Heard::Delivery(delivery));
            }
        }
        if !assembly.has_choice() && chunks.is_done() {
            let reason = "it has no `choices`; is the context too long for the model?".to_owned();
            return Err(ModelError::Nonsense(reason));
        }
        if !assembly.is_finished() && !chunks.is_done() {
            let reason = "the connection ended in the middle of it".to_owned();
            return Err(ModelError::Broken(reason));
        }
        Ok(assembly.finish())
    }

    fn body(&self, messages: &[Message], tools: &[ToolDefinition]) -> Value {
        let mut body =
            json!({"model": self.endpoint.model(), "messages": messages, "stream": true});
        if !tools.is_empty() {
            body["tools"] = tools.iter().map(ToolDefinition::json).collect();
            body["tool_choice"] = json!("auto");
        }
        if self.counts_tokens.load(Ordering::Relaxed) {
            body["stream_options"] = json!({"include_usage": true});
        }
        body
    }
}

/// How long to wait after an attempt; a little by chance, so that many clients don't come back at once.
fn pause(attempt: u32, asked: Option<Duration>) -> Duration {
    let doubled = FIRST_PAUSE * 2_u32.pow(attempt - 1);
    let chance = u32::from(uuid::Uuid::new_v4().as_bytes()[0]);
    let own = doubled + doubled * chance / 1024;
    asked.unwrap_or(own).max(own).min(LONGEST_PAUSE)
}

async fn refusal(mut response: reqwest::Response) -> ModelError {
    let status = response.status().as_u16();
    let retry_after = response
        .headers()
        .get("retry-after")
        .and_then(|value| value.to_str().ok()?.trim().parse::<f64>().ok())
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let mut body = Vec::new();
    let reading = async {
        while let Ok(Some(bytes)) = response.chunk().await {
            body.extend_from_slice(&bytes);
            if body.len() > LARGEST_ERROR {
                break;
            }
        }
    };
    let _ = tokio::time::timeout(ERROR_TIMEOUT, reading).await;
    let message = failure::message_of_body(&String::from_utf8_lossy(&body));
    ModelError::Status {
        status,
        message,
        retry_after,
    }
}

/// Why there is no response.
fn unsent(error: &reqwest::Error) -> ModelError {
    let reason = cause(error);
    // It will redirect again.
    if error.is_redirect() {
        return ModelError::Nonsense(reason);
    }
    ModelError::Unreachable(reason)
}

/// The innermost cause of an error: the outer ones tell of requests, it tells what happened.
fn cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    failure::bounded(&cause.to_string())
}
