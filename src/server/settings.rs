//! What the operator set.

use std::{path::PathBuf, sync::Arc};

use super::suspended::SuspendedLimits;
use crate::{
    gate::CallLimits,
    image::Recipe,
    sandbox::{Capacity, Limits},
    upstream::Upstreams,
};

/// How the text of a result is written (mcp-run-python has the same choice).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum ReturnMode {
    /// Sections in tags.
    #[default]
    Xml,
    /// One JSON object.
    Json,
}

/// How clients are asked to answer tool calls (wire.md, "Which clients are asked"; `road.rs` decides).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Callbacks {
    /// By the best road that the client has, as far as can be told.
    #[default]
    Auto,
    /// By notifications.
    Notify,
    /// In the result; the answers come by `resume_python_code`.
    Resume,
    /// By elicitation, for programs.
    Elicitation,
    /// Not at all: a tool call fails at once.
    Refuse,
}

impl Callbacks {
    /// Whether a run may wait for `resume_python_code`.
    #[must_use]
    pub fn allows_resumption(self) -> bool {
        matches!(self, Self::Auto | Self::Resume)
    }
}

/// Everything that a server needs to know.
#[derive(Clone)]
pub struct Settings {
    /// What one run may use.
    pub limits: Limits,
    /// What one run may ask of tools.
    pub call_limits: CallLimits,
    /// Bytes of output that are kept of one run.
    pub max_output: u64,
    /// What all runs together may use.
    pub capacity: Capacity,
    /// How the text of a result is written.
    pub return_mode: ReturnMode,
    /// How clients are asked.
    pub callbacks: Callbacks,
    /// How many runs may wait for `resume_python_code`, and how long.
    pub suspended: SuspendedLimits,
    /// The operator's servers.
    pub upstreams: Arc<Upstreams>,
    /// The image.
    pub recipe: Recipe,
    /// Where images are.
    pub cache: PathBuf,
}
