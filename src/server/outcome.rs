//! From the end of a run to one result: text for the model, structured content for programs.

use std::{fmt::Write as _, sync::LazyLock, time::Duration};

use regex::Regex;
use rmcp::model::{CallToolResult, ContentBlock};
use serde::Serialize;
use serde_json::{Value, json};

use super::settings::{ReturnMode, Settings};
use crate::{
    gate::{CallRecord, Finish, FinishStatus, ProgramError, Stopped, as_milliseconds},
    sandbox::{Ending, Printed, Report},
};

/// Follows output of which there was more than is kept.
const CUT: &str = "\n… the output was cut here (--max-output)";

const CANCELLED: &str = "the run was cancelled";

/// Everything that is known about a run that has ended.
pub struct RunOutcome {
    /// What it printed.
    pub printed: Printed,
    /// The value of its last expression.
    pub return_value: Value,
    /// What went wrong, if anything did.
    pub error: Option<ProgramError>,
    /// The code it left with, if it left.
    pub exit_code: Option<i64>,
    /// What became of its tool calls.
    pub calls: Vec<CallRecord>,
    /// From start to end.
    pub elapsed: Duration,
    /// Processor time of the guest.
    pub cpu: Duration,
}

/// What the pieces of a run say about its end.
pub struct Pieces {
    /// From the sandbox.
    pub report: Report,
    /// From the prelude, if it came to that.
    pub finish: Option<Finish>,
    /// From the gate, if it stopped the run.
    pub stopped: Option<Stopped>,
    /// What became of the tool calls.
    pub calls: Vec<CallRecord>,
    /// What was printed.
    pub printed: Printed,
}

#[derive(Serialize)]
struct Structured<'a> {
    status: &'static str,
    output: &'a str,
    output_truncated: bool,
    return_value: &'a Value,
    error: Option<Value>,
    tool_calls: &'a [CallRecord],
    duration_ms: f64,
    cpu_ms: f64,
}

impl RunOutcome {
    /// `success`, or the kind of the error.
    #[must_use]
    pub fn label(&self) -> &str {
        self.error.as_ref().map_or("success", |error| &error.kind)
    }

    /// Puts the pieces together.
    #[must_use]
    pub fn new(pieces: Pieces, settings: &Settings) -> Self {
        let Pieces {
            report,
            finish,
            stopped,
            calls,
            printed,
        } = pieces;
        let mut outcome = Self {
            printed,
            return_value: Value::Null,
            error: None,
            exit_code: None,
            calls,
            elapsed: report.elapsed,
            cpu: report.cpu,
        };
        match (&report.ending, finish) {
            _ if stopped.is_some() => {
                outcome.error = Some(limit_error(&report.ending, stopped, settings));
            }
            // The program's own word counts if it got to say it, whatever came after.
            (Ending::Returned | Ending::Exited(_), Some(finish)) => outcome.take(finish, settings),
            (Ending::Exited(0), None) => {}
            (Ending::Exited(code), None) => {
                outcome.exit_code = Some(i64::from(*code));
                outcome.error = Some(error("exception", Some("SystemExit"), format!("{code}")));
            }
            (ending, _) => outcome.error = Some(limit_error(ending, stopped, settings)),
        }
        outcome
    }

    /// A call that never became a run, because its arguments are wrong.
    #[must_use]
    pub fn refused(message: String) -> Self {
        Self::without_run(error("precheck", Some("InvalidArguments"), message))
    }

    /// A call that could not become a run, because the host has a problem.
    #[must_use]
    pub fn internal(message: String) -> Self {
        Self::without_run(error("internal", None, message))
    }

    /// A call that was given up before it became a run.
    #[must_use]
    pub fn cancelled() -> Self {
        Self::without_run(error("cancelled", None, CANCELLED.to_owned()))
    }

    /// The MCP result.
    #[must_use]
    pub fn into_result(self, mode: ReturnMode) -> CallToolResult {
        let text = match mode {
            ReturnMode::Xml => self.sections(),
            ReturnMode::Json => self.json_text(),
        };
        let structured = serde_json::to_value(self.structured()).unwrap_or_default();
        let mut result = if self.error.is_some() {
            CallToolResult::structured_error(structured)
        } else {
            CallToolResult::structured(structured)
        };
        result.content = vec![ContentBlock::text(text)];
        result
    }

    fn without_run(error: ProgramError) -> Self {
        Self {
            printed: Printed::default(),
            return_value: Value::Null,
            error: Some(error),
            exit_code: None,
            calls: Vec::new(),
            elapsed: Duration::ZERO,
            cpu: Duration::ZERO,
        }
    }

    fn take(&mut self, finish: Finish, settings: &Settings) {
        self.exit_code = finish.exit_code;
        match finish.status {
            FinishStatus::Success => self.return_value = finish.return_value,
            FinishStatus::RunError => {
                let mut error = finish
                    .error
                    .unwrap_or_else(|| error("exception", None, "the program failed".to_owned()));
                if error.kind == "memory_limit" {
                    name_memory_limit(&mut error, settings.limits.memory);
                }
                self.error = Some(error);
            }
        }
    }

    fn status(&self) -> &'static str {
        if self.error.is_some() {
            "run-error"
        } else {
            "success"
        }
    }

    fn structured(&self) -> Structured<'_> {
        let error = self.error.as_ref().map(|error| {
            json!({"kind": error.kind, "type": error.type_name, "message": error.message, "traceback": error.traceback})
        });
        Structured {
            status: self.status(),
            output: &self.printed.text,
            output_truncated: self.printed.truncated,
            return_value: &self.return_value,
            error,
            tool_calls: &self.calls,
            duration_ms: as_milliseconds(self.elapsed),
            cpu_ms: as_milliseconds(self.cpu),
        }
    }

    /// Byte for byte what mcp-run-python prints, and `<tool_calls>` after a failure.
    fn sections(&self) -> String {
        let mut text = format!("<status>{}</status>", self.status());
        if !self.printed.text.is_empty() {
            let mut output = without_last_break(&self.printed.text).to_owned();
            if self.printed.truncated {
                output.push_str(CUT);
            }
            section(&mut text, "output", &output);
        }
        let Some(error) = &self.error else {
            if let Some(value) = value_text(&self.return_value) {
                section(&mut text, "return_value", &value);
            }
            return text;
        };
        section(&mut text, "error", &error.text());
        if !self.calls.is_empty() {
            section(&mut text, "tool_calls", &call_lines(&self.calls));
        }
        text
    }

    fn json_text(&self) -> String {
        let output: Vec<&str> = match self.printed.text.as_str() {
            "" => Vec::new(),
            text => without_last_break(text).split('\n').collect(),
        };
        let mut object = json!({"status": self.status(), "output": output});
        if self.printed.truncated {
            object["output_truncated"] = json!(true);
        }
        match &self.error {
            Some(error) => object["error"] = json!(error.text()),
            None => object["return_value"] = self.return_value.clone(),
        }
        if self.error.is_some() && !self.calls.is_empty() {
            object["tool_calls"] = json!(self.calls);
        }
        object.to_string()
    }
}

impl ProgramError {
    /// The traceback, or what there is instead.
    #[must_use]
    pub fn text(&self) -> String {
        match (&self.traceback, &self.type_name) {
            (Some(traceback), _) => traceback.clone(),
            (None, Some(type_name)) => format!("{type_name}: {}", self.message),
            (None, None) => self.message.clone(),
        }
    }
}

/// The value as a person reads it: a string as it is, `None` not at all, anything else as JSON.
#[must_use]
pub fn value_text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => serde_json::to_string_pretty(other).ok(),
    }
}

fn error(kind: &str, type_name: Option<&str>, message: String) -> ProgramError {
    ProgramError {
        kind: kind.to_owned(),
        type_name: type_name.map(str::to_owned),
        message,
        traceback: None,
    }
}

/// Python's own error says only that there is no memory left.
fn name_memory_limit(error: &mut ProgramError, limit: u64) {
    let told = format!(
        "a run may use {} of memory, the interpreter's own included (--max-memory)",
        bytesize::ByteSize(limit)
    );
    if let Some(traceback) = &mut error.traceback {
        let _ = writeln!(traceback, "{told}");
    }
    if error.message.is_empty() {
        error.message = told;
    }
}

fn limit_error(ending: &Ending, stopped: Option<Stopped>, settings: &Settings) -> ProgramError {
    let duration = |duration: Duration| humantime::format_duration(duration).to_string();
    match (ending, stopped) {
        (_, Some(Stopped::CallLimit)) => error(
            "call_limit",
            None,
            format!(
                "the program made more than {} tool calls and was stopped (--max-tool-calls)",
                settings.call_limits.calls
            ),
        ),
        (Ending::CpuLimit, _) => error(
            "cpu_limit",
            None,
            format!(
                "the program ran for more than {} of processor time and was stopped (--cpu-timeout)",
                duration(settings.limits.cpu)
            ),
        ),
        (Ending::TimeLimit, _) => error(
            "time_limit",
            None,
            format!(
                "the program took more than {}, waiting included, and was stopped (--run-timeout)",
                duration(settings.limits.run)
            ),
        ),
        (Ending::Stopped, _) => error("cancelled", None, CANCELLED.to_owned()),
        (Ending::Crashed(reason), _) => {
            let cause = if reason.contains("call stack exhausted") {
                ": recursion or nesting that is too deep"
            } else {
                ""
            };
            error(
                "crashed",
                None,
                format!("Python itself crashed ({reason}){cause}. Nothing else was harmed"),
            )
        }
        (Ending::Failed(reason), _) => error("internal", None, reason.clone()),
        (Ending::Returned | Ending::Exited(_), _) => error(
            "crashed",
            None,
            "the program ended without saying how".to_owned(),
        ),
    }
}

/// Adds a section.
pub(super) fn section(text: &mut String, tag: &str, content: &str) {
    let _ = write!(text, "\n<{tag}>\n{}\n</{tag}>", escaped(tag, content));
}

/// Escapes what could open or close a section of this name: `</?\s*TAG(?:.*?>)?`.
fn escaped(tag: &str, content: &str) -> String {
    static TAGS: LazyLock<Vec<(&'static str, Regex)>> = LazyLock::new(|| {
        let tag = |tag: &'static str| {
            Regex::new(&format!(r"(?i)</?\s*{tag}"))
                .ok()
                .map(|regex| (tag, regex))
        };
        ["output", "return_value", "error", "tool_calls", "pending"]
            .into_iter()
            .filter_map(tag)
            .collect()
    });
    let Some((_, regex)) = TAGS.iter().find(|(name, _)| *name == tag) else {
        return content.to_owned();
    };
    let mut text = String::with_capacity(content.len());
    let mut done = 0;
    // Where the next `>` or line break is. It is kept, because to look for it anew from each of a
    // million unclosed tags would take hours.
    let mut stop = 0;
    for found in regex.find_iter(content) {
        if found.start() < done {
            continue;
        }
        if stop < found.end() {
            stop = content[found.end()..]
                .find(['>', '\n'])
                .map_or(content.len(), |at| found.end() + at);
        }
        let closed = content.as_bytes().get(stop) == Some(&b'>');
        let end = if closed { stop + 1 } else { found.end() };
        text.push_str(&content[done..found.start()]);
        let tag = &content[found.start()..end];
        text.push_str(&tag.replace('<', "&lt;").replace('>', "&gt;"));
        done = end;
    }
    text.push_str(&content[done..]);
    text
}

fn without_last_break(text: &str) -> &str {
    text.strip_suffix('\n').unwrap_or(text)
}

/// A line for each call; many calls of a long run are counted, not listed.
fn call_lines(calls: &[CallRecord]) -> String {
    const LISTED: usize = 200;
    let mut lines: Vec<String> = calls
        .iter()
        .take(LISTED)
        .map(|call| {
            let server = call
                .server_name
                .as_deref()
                .map(|server| format!("{server}."))
                .unwrap_or_default();
            // A name is the guest's or the client's text: it may not break the line.
            let name = format!("{server}{}", call.tool_name).replace(['\n', '\r'], " ");
            let name: String = name.chars().take(200).collect();
            format!("{name}({}): {}", call.arguments, call.outcome.describe())
        })
        .collect();
    if calls.len() > LISTED {
        lines.push(format!("and {} more", calls.len() - LISTED));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use regex::Regex;

    proptest! {
        #[test]
        fn no_content_can_close_its_section(content in r"((</?\s*(output|OutPut)?|[^>]{0,3}|>|.){0,12}\n?){0,4}") {
            let mut text = String::new();
            super::section(&mut text, "output", &content);
            let closing = Regex::new(r"(?i)</\s*output\s*>").unwrap();
            prop_assert_eq!(closing.find_iter(&text).count(), 1);
            prop_assert!(text.ends_with("\n</output>"));
        }
    }
}
