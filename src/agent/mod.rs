//! The tiny agent: a model, the tools of MCP servers, and a loop; with code mode in the middle.
//!
//! An [`Agent`] is made from a configuration in the format of tiny-agents. [`Agent::run`] works on a task and yields
//! [`Event`]s while it does; the last is [`Event::End`]. `examples/tiny_agent.rs` is a whole program.

pub mod approval;
mod code;
pub mod config;
mod direct;
pub mod event;
mod events;
mod history;
pub mod model;
pub mod text;
mod toolbox;
mod turns;

use std::{sync::Arc, time::Duration};

pub use self::{
    approval::{AllowAll, Approve, Decision, ToolUse},
    config::{AgentConfig, AgentFolder},
    event::{EndReason, Event, Summary},
    events::Events,
    history::History,
};
use self::{code::Code, model::Model, toolbox::Toolbox};
use crate::server::{Callbacks, Settings};

/// How long a decision about a call may take.
const APPROVAL_TIME: Duration = Duration::from_hours(1);

/// The system message of an agent without a prompt.
const DEFAULT_PROMPT: &str = "You are an agent. Work on the user's task until it is done, then say what came of it. Use \
     your tools to find out what you do not know, rather than to guess. Before you act, think about what you need; \
     after each result, whether it is what you expected.";

/// How the model uses tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// It writes programs, which call the tools.
    #[default]
    Code,
    /// It calls the tools one by one.
    Direct,
    /// It may do either.
    Both,
}

impl Mode {
    fn has_code(self) -> bool {
        self != Self::Direct
    }

    fn has_tools(self) -> bool {
        self != Self::Code
    }
}

/// What an agent may do.
#[derive(Debug, Clone, Copy)]
pub struct AgentLimits {
    /// How often the model is asked for one task.
    pub turns: usize,
    /// Characters of a result that the model reads.
    pub result: usize,
    /// How long the model may say nothing.
    pub stall: Duration,
}

impl Default for AgentLimits {
    fn default() -> Self {
        Self {
            turns: 30,
            result: 20_000,
            stall: Duration::from_mins(2),
        }
    }
}

/// An agent: it knows what was said so far.
pub struct Agent {
    model: Model,
    toolbox: Arc<Toolbox>,
    code: Option<Code>,
    mode: Mode,
    limits: AgentLimits,
    history: History,
    /// Held while a program runs.
    programs: tokio::sync::Mutex<()>,
    /// What became of the servers at the start.
    servers: Vec<Event>,
}

impl Agent {
    /// Starts the servers and, for code mode, the sandbox that `settings` describe. A server that can't be
    /// started is told of by [`Agent::servers`] and ends nothing.
    ///
    /// # Errors
    /// When no HTTP client can be made, or the sandbox can't be reached.
    pub async fn start(
        config: AgentConfig,
        mode: Mode,
        limits: AgentLimits,
        approval: Arc<dyn Approve>,
        mut settings: Settings,
    ) -> Result<Self, String> {
        let model = Model::new(config.endpoint, limits.stall)?;
        let timeout = settings.call_limits.tool_timeout;
        let takes_time = approval.takes_time();
        let toolbox = Toolbox::new(config.servers, &config.policy, approval, timeout);
        let toolbox = Arc::new(toolbox);
        // Whatever an operator wants of other clients: this one answers.
        settings.callbacks = Callbacks::Notify;
        if takes_time {
            // A program waits for whoever decides about its calls.
            settings.call_limits.tool_timeout += APPROVAL_TIME;
            settings.limits.run += APPROVAL_TIME;
        }
        let sandbox = async {
            if !mode.has_code() {
                return Ok(None);
            }
            Code::start(settings, Arc::clone(&toolbox)).await.map(Some)
        };
        let (servers, code) = futures::join!(toolbox.start(), sandbox);
        let prompt = config.prompt.unwrap_or_else(|| DEFAULT_PROMPT.to_owned());
        Ok(Self {
            model,
            toolbox,
            code: code?,
            mode,
            limits,
            history: History::new(prompt),
            programs: tokio::sync::Mutex::default(),
            servers,
        })
    }

    /// What became of the servers at the start: [`Event::ServerUp`] or [`Event::ServerDown`] for each.
    #[must_use]
    pub fn servers(&self) -> &[Event] {
        &self.servers
    }

    /// What was said so far.
    #[must_use]
    pub fn history(&self) -> &History {
        &self.history
    }

    /// The model.
    #[must_use]
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Works on a task; the events come as things happen. Dropping them interrupts the work, and the next
    /// task goes on from there.
    pub fn run(&mut self, task: &str) -> Events<'_> {
        Events::of(self, task.to_owned())
    }

    /// Stops the sandbox and the servers.
    pub async fn close(self) {
        if let Some(code) = self.code {
            code.close().await;
        }
        self.toolbox.close().await;
    }
}
