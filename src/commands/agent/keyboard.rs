//! What the user types. One thread reads it, for whoever asks.

use std::{
    io::{self, BufRead as _},
    sync::mpsc,
};

use console::Term;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use rustyline::{Behavior, Config, DefaultEditor, error::ReadlineError};
use tokio::sync::oneshot;

/// How the terminal is set; set so again when this is dropped, whatever was being asked then.
pub(super) struct Settings(Option<Termios>);

impl Settings {
    /// As they are now.
    pub(super) fn keep() -> Self {
        Self(tcgetattr(io::stdin()).ok())
    }
}

impl Drop for Settings {
    fn drop(&mut self) {
        if let Some(settings) = &self.0 {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, settings);
        }
    }
}

/// What was typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Typed {
    /// A line.
    Line(String),
    /// Ctrl-C.
    Interrupt,
    /// Nothing comes any more.
    End,
}

/// What is to be asked.
struct Question {
    text: String,
    is_secret: bool,
    /// Whether it can be called back with the arrow keys.
    is_kept: bool,
    answer: oneshot::Sender<Typed>,
}

/// Asks the user.
#[derive(Debug, Clone)]
pub(super) struct Keyboard {
    questions: mpsc::Sender<Question>,
    has_person: bool,
}

impl Keyboard {
    /// `has_person`: somebody sits at a terminal.
    pub(super) fn start(has_person: bool) -> io::Result<Self> {
        let (questions, asked) = mpsc::channel();
        std::thread::Builder::new()
            .name("callgate-keyboard".to_owned())
            .spawn(move || {
                if has_person {
                    at_terminal(&asked);
                } else {
                    in_pipe(&asked);
                }
            })?;
        Ok(Self {
            questions,
            has_person,
        })
    }

    /// Whether somebody is there to answer questions.
    pub(super) fn has_person(&self) -> bool {
        self.has_person
    }

    /// The answer to a question; `None` if there is none.
    pub(super) async fn ask(&self, question: &str, is_secret: bool) -> Option<String> {
        match self.typed(question, is_secret, false).await {
            Typed::Line(line) => Some(line),
            Typed::Interrupt | Typed::End => None,
        }
    }

    /// What is typed in answer to a question, Ctrl-C and the end included.
    pub(super) async fn answer(&self, question: &str) -> Typed {
        self.typed(question, false, false).await
    }

    /// The next task.
    pub(super) async fn task(&self, prompt: &str) -> Typed {
        self.typed(prompt, false, true).await
    }

    async fn typed(&self, text: &str, is_secret: bool, is_kept: bool) -> Typed {
        let (answer, answered) = oneshot::channel();
        let text = text.to_owned();
        let question = Question {
            text,
            is_secret,
            is_kept,
            answer,
        };
        if self.questions.send(question).is_err() {
            return Typed::End;
        }
        answered.await.unwrap_or(Typed::End)
    }
}

fn at_terminal(asked: &mpsc::Receiver<Question>) {
    // Standard output may be a file: who sits there sees the terminal.
    let config = Config::builder().behavior(Behavior::PreferTerm).build();
    let mut editor = DefaultEditor::with_config(config).ok();
    while let Ok(question) = asked.recv() {
        if question.answer.is_closed() {
            continue;
        }
        let typed = if question.is_secret {
            let term = Term::stderr();
            let _ = term.write_str(&question.text);
            term.read_secure_line().map_or(Typed::End, Typed::Line)
        } else {
            match &mut editor {
                Some(editor) => line(editor, &question),
                None => Typed::End,
            }
        };
        // Whoever asked may have given up.
        let _ = question.answer.send(typed);
    }
}

fn line(editor: &mut DefaultEditor, question: &Question) -> Typed {
    match editor.readline(&question.text) {
        Ok(line) => {
            if question.is_kept {
                let _ = editor.add_history_entry(line.as_str());
            }
            Typed::Line(line)
        }
        Err(ReadlineError::Interrupted) => Typed::Interrupt,
        Err(_) => Typed::End,
    }
}

fn in_pipe(asked: &mpsc::Receiver<Question>) {
    while let Ok(question) = asked.recv() {
        let mut line = Vec::new();
        let read = io::stdin().lock().read_until(b'\n', &mut line);
        let typed = match read {
            Ok(0) | Err(_) => Typed::End,
            Ok(_) => {
                let line = String::from_utf8_lossy(&line);
                Typed::Line(line.trim_end_matches(['\r', '\n']).to_owned())
            }
        };
        let _ = question.answer.send(typed);
    }
}
