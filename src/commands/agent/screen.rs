//! What the user sees.

use std::{
    io::{self, IsTerminal as _, Write as _},
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use console::{Term, measure_text_width, style, truncate_str};

use super::{
    highlight,
    plain::{LONGEST_NAME, one_line, plain},
};
use crate::agent::{Agent, EndReason, Event, Summary, model::Usage, text};

/// Lines of a result that are shown.
const LINES: usize = 12;

/// Where no window says how wide it is.
const WIDTH: usize = 100;

/// Of a program, this much is shown (characters).
const LONGEST_CODE: usize = 20_000;

/// In a narrower window nothing would be left of a line.
const NARROWEST: usize = 20;

/// How events are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// As they come, for a person in a chat.
    Chat,
    /// The answer goes to standard output, at the end; what happens, to a person who watches.
    Answer,
    /// As JSON, a line each.
    Json,
}

/// Shows events.
pub(super) struct Screen {
    form: Form,
    term: Term,
    /// What is being said; a line of another kind begins on a new line.
    saying: Mutex<Option<Saying>>,
    /// Nobody reads what is shown.
    is_broken: AtomicBool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Saying {
    Text,
    Thoughts,
}

impl Screen {
    pub(super) fn new(is_json: bool, has_task: bool) -> Self {
        let form = match (is_json, has_task) {
            (true, _) => Form::Json,
            // A person who sees both would read the answer twice.
            (_, true) if !io::stdout().is_terminal() => Form::Answer,
            _ => Form::Chat,
        };
        Self {
            form,
            term: if form == Form::Chat {
                Term::stdout()
            } else {
                Term::stderr()
            },
            saying: Mutex::default(),
            is_broken: AtomicBool::new(false),
        }
    }

    /// Something about the configuration.
    pub(super) fn remark(text: &str) {
        eprintln!("callgate: {}", plain(text));
    }

    /// That it takes a moment until servers have started.
    pub(super) fn wait(&self, servers: usize) {
        if servers > 0 && self.form == Form::Chat && self.term.is_term() {
            self.line(
                &style(format!("starting {} …", counted(servers, "server")))
                    .dim()
                    .to_string(),
            );
        }
    }

    /// What there is at the start.
    pub(super) fn greet(&self, name: &str, agent: &Agent) {
        if self.is_quiet() {
            // Who can't see what goes on is told of what goes wrong all the same.
            let down = |event: &&Event| matches!(event, Event::ServerDown { .. });
            agent
                .servers()
                .iter()
                .filter(down)
                .for_each(|event| Self::remark(&described(event)));
            return;
        }
        if self.form == Form::Json {
            agent
                .servers()
                .iter()
                .for_each(|event| self.note(&json(event)));
            return;
        }
        let model = agent.model().endpoint();
        self.line(&format!(
            "{} · {} at {}",
            style(plain(name)).bold(),
            plain(model.model()),
            model.host()
        ));
        agent
            .servers()
            .iter()
            .for_each(|event| self.line(&format!("  {}", plain(&described(event)))));
    }

    /// Whether there is nobody who watches.
    fn is_quiet(&self) -> bool {
        self.form == Form::Answer && !self.term.is_term()
    }

    /// Shows one event.
    pub(super) fn show(&self, event: &Event) {
        if self.form == Form::Json {
            return self.note(&json(event));
        }
        if !self.is_quiet() {
            self.draw(event);
        }
        if let (Form::Answer, Event::End(summary)) = (self.form, event) {
            self.note(&answer(summary));
        }
    }

    /// Whether nobody reads what is shown.
    pub(super) fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::Relaxed)
    }

    fn note(&self, written: &io::Result<()>) {
        if written.is_err() {
            self.is_broken.store(true, Ordering::Relaxed);
        }
    }

    fn draw(&self, event: &Event) {
        match event {
            Event::Text { text } => self.say(Saying::Text, text),
            Event::Reasoning { text } => self.say(Saying::Thoughts, text),
            Event::Retry { reason, pause } => {
                let pause = humantime::format_duration(rounded(*pause));
                self.line(
                    &style(format!("! {}; again in {pause}", plain(reason)))
                        .yellow()
                        .to_string(),
                );
            }
            Event::Code { code, .. } => self.code(code),
            Event::CodeResult {
                status,
                text,
                duration,
                ..
            } => {
                let mark = if status == "success" {
                    style("✓").green()
                } else {
                    style("✗").red()
                };
                self.line(&format!(
                    "{mark} {} in {}",
                    plain(status),
                    humantime::format_duration(rounded(*duration))
                ));
                self.lines(text);
            }
            Event::Call {
                server,
                tool,
                arguments,
                ..
            } => {
                let call = format!(
                    "→ {}.{} {}",
                    one_line(server, LONGEST_NAME),
                    one_line(tool, LONGEST_NAME),
                    one_line(&arguments.to_string(), LONGEST_NAME)
                );
                self.line(&style(self.cut(&call)).cyan().to_string());
            }
            Event::CallResult {
                text,
                is_error,
                duration,
                ..
            } => {
                let mark = if *is_error {
                    style("✗").red()
                } else {
                    style("←").cyan()
                };
                let first = one_line(text.lines().next().unwrap_or_default(), LONGEST_NAME);
                let time = humantime::format_duration(rounded(*duration));
                self.line(&self.cut(&format!("{mark} {time} {first}")));
            }
            Event::End(summary) => self.end(summary),
            Event::Turn { .. } => {}
            Event::ServerUp { .. } | Event::ServerDown { .. } => {
                self.line(&plain(&described(event)));
            }
        }
    }

    /// Words as they come.
    fn say(&self, what: Saying, text: &str) {
        let mut saying = self
            .saying
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if saying.is_some_and(|before| before != what) {
            let _ = self.term.write_line("");
        }
        *saying = Some(what);
        let text = plain(text);
        let text = if what == Saying::Thoughts {
            style(text).dim().to_string()
        } else {
            text
        };
        self.note(&self.term.write_str(&text));
        let _ = self.term.flush();
    }

    /// A line of its own.
    pub(super) fn line(&self, text: &str) {
        let mut saying = self
            .saying
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if saying.take().is_some() {
            let _ = self.term.write_line("");
        }
        self.note(&self.term.write_line(text));
    }

    /// A program, with its bar at the left.
    fn code(&self, code: &str) {
        self.line("");
        let code = plain(&text::cut(code, LONGEST_CODE));
        let lines = if self.term.features().colors_supported() && console::colors_enabled() {
            highlight::python(&code)
        } else {
            code.lines().map(str::to_owned).collect()
        };
        for line in lines {
            self.line(&format!("{} {line}", style("│").dim()));
        }
    }

    /// The beginning of a long text.
    fn lines(&self, text: &str) {
        let text = plain(text);
        for line in text.lines().take(LINES) {
            self.line(&style(self.cut(&format!("  {line}"))).dim().to_string());
        }
        let more = text.lines().count().saturating_sub(LINES);
        if more > 0 {
            self.line(&style(format!("  … {more} more lines")).dim().to_string());
        }
    }

    fn end(&self, summary: &Summary) {
        if let Some(note) = note(summary) {
            self.line(&style(format!("! {}", plain(&note))).red().to_string());
        }
        self.line(&style(self.cut(&costs(summary))).dim().to_string());
    }

    fn cut(&self, line: &str) -> String {
        let width = self
            .term
            .size_checked()
            .map_or(WIDTH, |(_, width)| usize::from(width));
        let width = width.max(NARROWEST);
        if measure_text_width(line) <= width {
            return line.to_owned();
        }
        truncate_str(line, width, "…").into_owned()
    }
}

/// The answer, for a pipe.
fn answer(summary: &Summary) -> io::Result<()> {
    if let Some(note) = note(summary) {
        eprintln!("callgate: {}", plain(&note));
    }
    let mut out = io::stdout().lock();
    writeln!(out, "{}", summary.answer)?;
    out.flush()
}

/// What is to be said of a task that did not end as it should.
fn note(summary: &Summary) -> Option<String> {
    match summary.reason {
        EndReason::TurnLimit => Some(format!(
            "the model was asked {} times and has not answered (--max-turns)",
            summary.turns
        )),
        EndReason::Cut => Some("the answer was cut off at the model's largest length".to_owned()),
        EndReason::ModelError => summary.error.clone(),
        _ => None,
    }
}

fn json(event: &Event) -> io::Result<()> {
    let line = serde_json::to_string(event)?;
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

fn described(event: &Event) -> String {
    match event {
        Event::ServerUp { server, tools } => format!("{server}: {}", counted(*tools, "tool")),
        Event::ServerDown { reason, .. } => reason.clone(),
        _ => String::new(),
    }
}

/// `3 turns · 20 calls · 1200 tokens (1000 read, 200 written) · 2.5s`
fn costs(summary: &Summary) -> String {
    let tokens = match summary.usage {
        Some(usage) => format!(" · {}", tokens(usage)),
        None => String::new(),
    };
    let time = humantime::format_duration(rounded(summary.duration));
    format!(
        "{} · {}{tokens} · {time}",
        counted(summary.turns, "turn"),
        counted(summary.calls, "call")
    )
}

fn tokens(usage: Usage) -> String {
    format!(
        "{} tokens ({} read, {} written)",
        usage.total(),
        usage.prompt_tokens,
        usage.completion_tokens
    )
}

fn counted(number: usize, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        number => format!("{number} {what}s"),
    }
}

fn rounded(time: Duration) -> Duration {
    let milliseconds = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let step = if milliseconds >= 10_000 { 100 } else { 1 };
    Duration::from_millis(milliseconds / step * step)
}
