//! The result of a run that waits for the client: what to do, for the model, and the calls, for programs (wire.md,
//! `pending`).

use std::{fmt::Write as _, time::Duration};

use rmcp::model::{CallToolResult, ContentBlock};
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    outcome::section,
    schema::{RESUME_PYTHON_CODE, RUN_PYTHON_CODE},
    settings::ReturnMode,
};
use crate::{
    gate::{CallRecord, ToolCall, as_milliseconds},
    sandbox::Printed,
};

/// Calls that one result names at most; the others come with the next.
const NAMED_CALLS: usize = 100;

/// And so many bytes of arguments.
const NAMED_ARGUMENTS: usize = 1 << 20;

/// A run that waits for the client.
pub struct WaitingRun {
    /// Under which the client continues it.
    pub handle: String,
    /// How long that is possible.
    pub expiry: Duration,
    /// The calls that wait.
    pub pending: Vec<ToolCall>,
    /// What was printed so far.
    pub printed: Printed,
    /// What became of the calls that have ended.
    pub calls: Vec<CallRecord>,
    /// How long the run has taken so far.
    pub elapsed: Duration,
    /// Processor time of the guest so far.
    pub cpu: Duration,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PendingCall<'a> {
    request_id: &'a str,
    tool_name: &'a str,
    server_name: Option<&'a str>,
    arguments: Value,
}

impl WaitingRun {
    /// The MCP result.
    #[must_use]
    pub fn into_result(self, mode: ReturnMode) -> CallToolResult {
        let pending = self.named();
        // Some clients show models only this, others only the text: either has to say what to do.
        let mut structured = json!({
            "status": "pending",
            "next": self.next(&pending),
            "handle": self.handle,
            "expires_in_s": self.expiry.as_secs_f64().round(),
            "pending": pending,
        });
        let text = match mode {
            ReturnMode::Xml => self.sections(&pending),
            ReturnMode::Json => structured.to_string(),
        };
        structured["output"] = json!(self.printed.text);
        structured["output_truncated"] = json!(self.printed.truncated);
        structured["return_value"] = Value::Null;
        structured["error"] = Value::Null;
        structured["tool_calls"] = json!(self.calls);
        structured["duration_ms"] = json!(as_milliseconds(self.elapsed));
        structured["cpu_ms"] = json!(as_milliseconds(self.cpu));
        let mut result = CallToolResult::structured(structured);
        result.content = vec![ContentBlock::text(text)];
        result
    }

    fn named(&self) -> Vec<PendingCall<'_>> {
        let mut bytes = 0;
        let mut named = Vec::new();
        for call in self.pending.iter().take(NAMED_CALLS) {
            bytes += call.arguments.json().len();
            if bytes > NAMED_ARGUMENTS && !named.is_empty() {
                break;
            }
            named.push(PendingCall {
                request_id: &call.request_id,
                tool_name: &call.tool,
                server_name: call.server.as_deref(),
                arguments: call.arguments.value(),
            });
        }
        named
    }

    fn sections(&self, pending: &[PendingCall<'_>]) -> String {
        let mut text = "<status>pending</status>".to_owned();
        let calls: Vec<String> = pending.iter().map(PendingCall::line).collect();
        let content = format!(
            "{}\n\n{}\n\n{}",
            self.first_step(pending.len()),
            calls.join("\n"),
            self.second_step(pending)
        );
        section(&mut text, "pending", &content);
        text
    }

    fn next(&self, pending: &[PendingCall<'_>]) -> String {
        let (first, second) = (self.first_step(pending.len()), self.second_step(pending));
        format!("{first} see `pending`. {second}")
    }

    fn first_step(&self, named: usize) -> String {
        let (calls, them, together) = match named {
            1 => ("1 tool call", "this call", ""),
            _ => (
                &*format!("{named} tool calls"),
                "each of these calls",
                ", in parallel if you can",
            ),
        };
        let more = match self.pending.len() - named {
            0 => String::new(),
            more => format!(" ({more} more come after them)"),
        };
        format!(
            "The program has not ended: it waits for {calls} that you have to make{more}. Make {them} now, with your \
             own tools{together}:"
        )
    }

    fn second_step(&self, pending: &[PendingCall<'_>]) -> String {
        let mut results = String::new();
        for (number, call) in pending.iter().take(3).enumerate() {
            let comma = if number == 0 { "" } else { ", " };
            let id = call.request_id;
            let _ = write!(results, r#"{comma}{{"requestId": "{id}", "result": …}}"#);
        }
        if pending.len() > 3 {
            results.push_str(", …");
        }
        format!(
            "Then call `{RESUME_PYTHON_CODE}` with what they returned:\n\
             {{\"handle\": \"{}\", \"results\": [{results}]}}\n\
             Give each result as the tool returned it, as JSON and not as a string that holds JSON; for a call that \
             failed give \"error\": \"what went wrong\" instead. Do not call `{RUN_PYTHON_CODE}` again for this: the \
             program goes on where it waits. The handle is good once, for {}.",
            self.handle,
            humantime::format_duration(self.expiry)
        )
    }
}

impl PendingCall<'_> {
    fn line(&self) -> String {
        let server = self.server_name.map(|server| format!("{server}."));
        format!(
            "- requestId {}: {}{} {}",
            self.request_id,
            server.unwrap_or_default(),
            self.tool_name,
            self.arguments
        )
    }
}
