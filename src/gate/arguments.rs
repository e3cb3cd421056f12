//! The arguments of a call, while it is under way.

use std::sync::Arc;

use serde_json::Value;

use crate::sandbox::Held;

/// Arguments as JSON text: as values they could be twenty times as large, and calls may wait for long.
#[derive(Debug, Clone)]
pub struct Arguments(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    json: String,
    /// Counts the text as long as anybody has it.
    _held: Held,
}

impl Arguments {
    /// `held` counts the memory of the text.
    #[must_use]
    pub(super) fn new(json: String, held: Held) -> Self {
        Self(Arc::new(Inner { json, _held: held }))
    }

    /// As a value.
    #[must_use]
    pub fn value(&self) -> Value {
        // They were written from a value.
        serde_json::from_str(&self.0.json).unwrap_or_default()
    }

    /// As JSON text.
    #[must_use]
    pub fn json(&self) -> &str {
        &self.0.json
    }
}
