//! What a run holds of the host's memory beside its guest's.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use super::budget::Budget;
use crate::wasi::MemoryBudget as _;

/// Counts what one run holds of the host's memory, as part of what all runs may hold together.
#[derive(Debug)]
pub struct HostMemory {
    budget: Arc<Budget>,
    held: AtomicU64,
}

impl HostMemory {
    /// For a new run.
    #[must_use]
    pub fn new(budget: Arc<Budget>) -> Arc<Self> {
        let held = AtomicU64::new(0);
        Arc::new(Self { budget, held })
    }

    /// Counts so many bytes until what it returns is dropped; `None` if the runs together have no
    /// room for them.
    #[must_use]
    pub fn hold(self: &Arc<Self>, bytes: u64) -> Option<Held> {
        if !self.budget.reserve(bytes) {
            return None;
        }
        self.held.fetch_add(bytes, Ordering::Relaxed);
        let of = Arc::clone(self);
        Some(Held { of, bytes })
    }

    /// Bytes held now.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }
}

/// A number of bytes that are counted as long as it lives.
#[derive(Debug)]
pub struct Held {
    of: Arc<HostMemory>,
    bytes: u64,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.of.held.fetch_sub(self.bytes, Ordering::Relaxed);
        self.of.budget.release(self.bytes);
    }
}
