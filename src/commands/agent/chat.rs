//! Tasks and answers, until there are no more.

use std::{collections::HashSet, process::ExitCode};

use futures::StreamExt as _;
use tokio::sync::mpsc;

use super::{
    super::Problem,
    consent::Wish,
    keyboard::{Keyboard, Typed},
    plain::one_line,
    screen::Screen,
    stops::{Stop, Stops},
};
use crate::agent::{Agent, Decision, EndReason, Event, ToolUse, text};

/// What a shell expects of a program that Ctrl-C has ended.
pub(super) const INTERRUPTED: u8 = 130;

const PROMPT: &str = "» ";

/// Of the arguments of a call, the user sees this much (characters).
const SHOWN: usize = 1500;

/// An agent and its user.
pub(super) struct Chat {
    pub(super) keyboard: Keyboard,
    pub(super) screen: Screen,
    pub(super) stops: Stops,
    /// Calls that wait for the user's word.
    pub(super) wishes: mpsc::UnboundedReceiver<Wish>,
    /// Tools that need not be asked about any more.
    pub(super) always: HashSet<(String, String)>,
}

/// How the work on a task has ended.
enum Worked {
    /// By itself.
    Ended(EndReason),
    /// By Ctrl-C.
    Interrupted,
    /// With everything else.
    Left,
    /// Because nobody reads what comes of it.
    Unread,
}

impl Chat {
    /// Works on one task.
    pub(super) async fn one(&mut self, agent: &mut Agent, task: &str) -> Result<ExitCode, Problem> {
        Ok(match self.work(agent, task).await {
            Worked::Unread
            | Worked::Ended(EndReason::TurnLimit | EndReason::ModelError | EndReason::Cut) => {
                ExitCode::FAILURE
            }
            Worked::Ended(_) => ExitCode::SUCCESS,
            Worked::Interrupted | Worked::Left => ExitCode::from(INTERRUPTED),
        })
    }

    /// Works on what the user types, until the input ends or Ctrl-C comes twice.
    pub(super) async fn many(&mut self, agent: &mut Agent) -> Result<ExitCode, Problem> {
        let mut was_interrupted = false;
        loop {
            let typed = tokio::select! {
                typed = self.keyboard.task(PROMPT) => typed,
                stop = self.stops.next() => match stop {
                    Stop::Turn => Typed::Interrupt,
                    Stop::All => return Ok(ExitCode::from(INTERRUPTED)),
                },
            };
            match typed {
                Typed::End => return Ok(ExitCode::SUCCESS),
                Typed::Interrupt if was_interrupted => return Ok(ExitCode::from(INTERRUPTED)),
                Typed::Interrupt => {
                    was_interrupted = true;
                    eprintln!("Ctrl-C again to leave");
                }
                Typed::Line(line) if line.trim().is_empty() => {}
                Typed::Line(line) => match self.work(agent, &line).await {
                    Worked::Ended(_) => was_interrupted = false,
                    Worked::Interrupted => {
                        was_interrupted = true;
                        self.screen.line("interrupted; Ctrl-C again to leave");
                    }
                    Worked::Left => return Ok(ExitCode::from(INTERRUPTED)),
                    Worked::Unread => return Ok(ExitCode::FAILURE),
                },
            }
        }
    }

    async fn work(&mut self, agent: &mut Agent, task: &str) -> Worked {
        // Dropping the events stops the work.
        let mut events = agent.run(task);
        loop {
            let event = tokio::select! {
                biased;
                stop = self.stops.next() => return stopped(stop),
                event = events.next() => event,
                // After what led to it has been shown.
                Some(wish) = self.wishes.recv() => match self.grant(wish).await {
                    Some(worked) => return worked,
                    None => continue,
                },
            };
            let Some(event) = event else {
                return Worked::Ended(EndReason::Answered);
            };
            self.screen.show(&event);
            if self.screen.is_broken() {
                return Worked::Unread;
            }
            if let Event::End(summary) = event {
                return Worked::Ended(summary.reason);
            }
        }
    }

    /// Asks about one call; how the work ends, if the user ends it instead.
    async fn grant(&mut self, wish: Wish) -> Option<Worked> {
        let Wish { call, answer } = wish;
        let tool = (call.server.clone(), call.tool.clone());
        if answer.is_closed() {
            return None;
        }
        if !self.always.contains(&tool) {
            self.screen.line(&question(&call));
        }
        let decision = loop {
            if self.always.contains(&tool) {
                break Decision::Allow;
            }
            let typed = tokio::select! {
                typed = self.keyboard.answer("Call it? [y]es, [n]o, [a]lways: ") => typed,
                stop = self.stops.next() => return Some(stopped(stop)),
            };
            match typed {
                Typed::Interrupt => return Some(Worked::Interrupted),
                Typed::End => return Some(Worked::Left),
                Typed::Line(line) => match line.trim() {
                    "y" | "Y" | "yes" => break Decision::Allow,
                    "a" | "A" | "always" => {
                        self.always.insert(tool.clone());
                    }
                    "n" | "N" | "no" => {
                        break Decision::Deny("the user does not allow this call".to_owned());
                    }
                    _ => {}
                },
            }
        };
        if answer.send(decision).is_err() {
            self.screen
                .line("the program has given that call up meanwhile");
        }
        None
    }
}

fn stopped(stop: Stop) -> Worked {
    match stop {
        Stop::Turn => Worked::Interrupted,
        Stop::All => Worked::Left,
    }
}

fn question(call: &ToolUse) -> String {
    let warning = if call.is_destructive() {
        "may destroy something"
    } else {
        "changes something"
    };
    let arguments = text::cut(&one_line(&call.arguments.to_string(), SHOWN * 2), SHOWN);
    let (server, tool) = (one_line(&call.server, SHOWN), one_line(&call.tool, SHOWN));
    format!("{server}.{tool} {warning}: {arguments}")
}
