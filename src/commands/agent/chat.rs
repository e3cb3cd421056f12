//! Tasks and answers, until there are no more.

use std::process::ExitCode;

use futures::StreamExt as _;

use super::{
    super::Problem,
    keyboard::{Keyboard, Typed},
    screen::Screen,
};
use crate::{
    agent::{Agent, EndReason, Event},
    server::Signals,
};

/// What a shell expects of a program that Ctrl-C has ended.
const INTERRUPTED: u8 = 130;

const PROMPT: &str = "» ";

/// How the work on a task has ended.
enum Worked {
    /// By itself.
    Ended(EndReason),
    /// By Ctrl-C.
    Interrupted,
}

/// Works on one task.
pub(super) async fn one(
    agent: &mut Agent,
    task: &str,
    keyboard: &Keyboard,
    screen: &Screen,
) -> Result<ExitCode, Problem> {
    let mut signals = Signals::listen()?;
    Ok(
        match work(agent, task, keyboard, screen, &mut signals).await {
            Worked::Ended(EndReason::TurnLimit | EndReason::ModelError) => ExitCode::FAILURE,
            Worked::Ended(_) => ExitCode::SUCCESS,
            Worked::Interrupted => ExitCode::from(INTERRUPTED),
        },
    )
}

/// Works on what the user types, until the input ends or Ctrl-C comes twice.
pub(super) async fn many(
    agent: &mut Agent,
    keyboard: &Keyboard,
    screen: &Screen,
) -> Result<ExitCode, Problem> {
    let mut signals = Signals::listen()?;
    let mut was_interrupted = false;
    loop {
        let typed = tokio::select! {
            typed = keyboard.task(PROMPT) => typed,
            () = signals.next() => Typed::Interrupt,
        };
        match typed {
            Typed::End => return Ok(ExitCode::SUCCESS),
            Typed::Interrupt if was_interrupted => return Ok(ExitCode::from(INTERRUPTED)),
            Typed::Interrupt => {
                was_interrupted = true;
                eprintln!("Ctrl-C again to leave");
            }
            Typed::Line(line) if line.trim().is_empty() => {}
            Typed::Line(line) => {
                let worked = work(agent, &line, keyboard, screen, &mut signals).await;
                was_interrupted = matches!(worked, Worked::Interrupted);
                if was_interrupted {
                    screen.line("interrupted; Ctrl-C again to leave");
                }
            }
        }
    }
}

async fn work(
    agent: &mut Agent,
    task: &str,
    keyboard: &Keyboard,
    screen: &Screen,
    signals: &mut Signals,
) -> Worked {
    let mut events = agent.run(task);
    loop {
        let event = tokio::select! {
            event = events.next() => event,
            // Dropping the events stops the work.
            () = signals.next() => return Worked::Interrupted,
            () = keyboard.interrupted() => return Worked::Interrupted,
        };
        let Some(event) = event else {
            return Worked::Ended(EndReason::Answered);
        };
        screen.show(&event);
        if let Event::End(summary) = event {
            return Worked::Ended(summary.reason);
        }
    }
}
