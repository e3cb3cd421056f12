//! Who is asked before a tool with side effects is called.

use futures::{FutureExt as _, future::BoxFuture};
use rmcp::model::ToolAnnotations;
use serde_json::Value;

/// A call that is about to be made.
#[derive(Debug, Clone)]
pub struct ToolUse {
    /// The tool's server.
    pub server: String,
    /// The tool.
    pub tool: String,
    /// Its arguments.
    pub arguments: Value,
    /// What the server says of the tool.
    pub annotations: Option<ToolAnnotations>,
}

impl ToolUse {
    /// Whether the tool may change something: what does not say that it only reads, may (MCP has it so).
    #[must_use]
    pub fn has_side_effects(&self) -> bool {
        let annotations = self.annotations.as_ref();
        annotations.and_then(|annotations| annotations.read_only_hint) != Some(true)
    }

    /// Whether it may destroy something.
    #[must_use]
    pub fn is_destructive(&self) -> bool {
        let annotations = self.annotations.as_ref();
        let hint = annotations.and_then(|annotations| annotations.destructive_hint);
        self.has_side_effects() && hint != Some(false)
    }
}

/// What whoever was asked says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Call it.
    Allow,
    /// Don't, for this reason, which the model hears.
    Deny(String),
}

/// Decides about calls of tools with side effects; others are not asked about.
pub trait Approve: Send + Sync {
    /// Decides about one call. Several may be waiting at once.
    fn decide<'a>(&'a self, call: &'a ToolUse) -> BoxFuture<'a, Decision>;

    /// Whether decisions may take as long as people do; then programs have time to wait for them.
    fn takes_time(&self) -> bool {
        true
    }
}

/// Allows everything.
#[derive(Debug, Clone, Copy, Default)]
pub struct AllowAll;

impl Approve for AllowAll {
    fn decide<'a>(&'a self, _: &'a ToolUse) -> BoxFuture<'a, Decision> {
        std::future::ready(Decision::Allow).boxed()
    }

    fn takes_time(&self) -> bool {
        false
    }
}
