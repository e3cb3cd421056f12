//! Lists that change: a tool and a prompt that come and go, and those who want to hear of it.

use std::sync::{Mutex, PoisonError};

use rmcp::{
    ErrorData, RoleServer,
    model::{CallToolRequestParams, CallToolResult, Tool},
    service::{Peer, SubscriptionContext},
};
use tokio::sync::watch;

use crate::answer::{plain, text};

/// Whether the tool and the prompt that come and go are there.
#[derive(Default)]
pub struct Lists {
    tool: watch::Sender<bool>,
    prompt: watch::Sender<bool>,
    /// The clients of revisions up to 2025-11-25: they are told without asking.
    sessions: Mutex<Vec<Peer<RoleServer>>>,
}

/// Sees what changes from now on.
#[derive(Clone)]
pub struct Watcher {
    tool: watch::Receiver<bool>,
    prompt: watch::Receiver<bool>,
}

/// The tools that make the lists change.
pub fn tools() -> Vec<Tool> {
    vec![
        plain(
            "test_trigger_tool_change",
            "Adds a tool, or takes it away again",
        ),
        plain(
            "test_trigger_prompt_change",
            "Adds a prompt, or takes it away again",
        ),
    ]
}

impl Lists {
    /// The answer, if the tool is one of these.
    pub fn call(&self, request: &CallToolRequestParams) -> Option<CallToolResult> {
        let list = match &*request.name {
            "test_trigger_tool_change" => &self.tool,
            "test_trigger_prompt_change" => &self.prompt,
            _ => return None,
        };
        list.send_modify(|is_there| *is_there = !*is_there);
        let is_tool = std::ptr::eq(list, &raw const self.tool);
        for session in self.sessions() {
            // A task of its own: what is sent from here would go on this request's stream.
            tokio::spawn(async move {
                let told = if is_tool {
                    session.notify_tool_list_changed().await
                } else {
                    session.notify_prompt_list_changed().await
                };
                if let Err(error) = told {
                    tracing::debug!("a session was not told: {error}");
                }
            });
        }
        Some(text("the list has changed"))
    }

    /// Whether the tool is there.
    pub fn has_tool(&self) -> bool {
        *self.tool.borrow()
    }

    /// Whether the prompt is there.
    pub fn has_prompt(&self) -> bool {
        *self.prompt.borrow()
    }

    /// Tells a session of what changes from now on.
    pub fn tell(&self, session: Peer<RoleServer>) {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|session| !session.is_transport_closed());
        sessions.push(session);
    }

    fn sessions(&self) -> Vec<Peer<RoleServer>> {
        let sessions = self.sessions.lock();
        sessions.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sees what changes from now on.
    pub fn watch(&self) -> Watcher {
        Watcher {
            tool: self.tool.subscribe(),
            prompt: self.prompt.subscribe(),
        }
    }
}

impl Watcher {
    /// Tells a subscriber of what it wants to hear, until it is gone.
    pub async fn report(mut self, subscriber: SubscriptionContext) -> Result<(), ErrorData> {
        let accepted = subscriber.accepted();
        let wants_tools = accepted.tools_list_changed == Some(true);
        let wants_prompts = accepted.prompts_list_changed == Some(true);
        loop {
            let told = tokio::select! {
                () = subscriber.cancelled() => return Ok(()),
                Ok(()) = self.tool.changed(), if wants_tools => {
                    subscriber.sink().notify_tool_list_changed().await
                }
                Ok(()) = self.prompt.changed(), if wants_prompts => {
                    subscriber.sink().notify_prompt_list_changed().await
                }
            };
            if let Err(error) = told {
                tracing::debug!("a subscriber was not told: {error}");
                return Ok(());
            }
        }
    }
}
