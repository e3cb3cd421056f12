//! What the operator set.

use std::path::PathBuf;

use crate::{
    gate::CallLimits,
    image::Recipe,
    sandbox::{Capacity, Limits},
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

/// Which clients are asked to answer tool calls (wire.md, "Which clients are asked").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Callbacks {
    /// Those that declared the extension, and those of a revision up to 2025-11-25.
    #[default]
    Auto,
    /// Every client.
    Notify,
    /// None: a tool call fails at once.
    Refuse,
}

/// Everything that a server needs to know.
#[derive(Debug, Clone)]
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
    /// Which clients are asked.
    pub callbacks: Callbacks,
    /// The image.
    pub recipe: Recipe,
    /// Where images are.
    pub cache: PathBuf,
}
