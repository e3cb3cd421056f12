//! Memory that all runs of the process may hold together.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use wasmtime::ResourceLimiter;

use super::pause::Pause;
use crate::wasi::MemoryBudget;

/// A number of bytes that many runs share. A thousand runs may exist at once; that does not mean
/// that each may grow to its own limit.
#[derive(Debug)]
pub struct Budget {
    total: u64,
    used: AtomicU64,
}

impl Budget {
    /// A budget of `total` bytes.
    #[must_use]
    pub fn new(total: u64) -> Arc<Self> {
        Arc::new(Self {
            total,
            used: AtomicU64::new(0),
        })
    }

    /// Half of the machine's memory (bytes).
    #[must_use]
    pub fn half_of_machine() -> u64 {
        let info = rustix::system::sysinfo();
        info.totalram.saturating_mul(u64::from(info.mem_unit)) / 2
    }

    /// Bytes held now.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
}

impl MemoryBudget for Budget {
    fn reserve(&self, bytes: u64) -> bool {
        let more = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= self.total);
        self.used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .is_ok()
    }

    fn release(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Keeps one guest's memory within its own limit and within the budget.
pub(super) struct MemoryLimiter {
    limit: u64,
    budget: Arc<Budget>,
    /// Knows how much the guest holds.
    run: Arc<Pause>,
}

impl MemoryLimiter {
    pub(super) fn new(limit: u64, budget: Arc<Budget>, run: Arc<Pause>) -> Self {
        Self { limit, budget, run }
    }
}

impl ResourceLimiter for MemoryLimiter {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        _: Option<usize>,
    ) -> wasmtime::Result<bool> {
        if desired as u64 > self.limit {
            return Ok(false);
        }
        if current == 0 {
            // The snapshot's own memory is shared with every other run until it is written to.
            return Ok(true);
        }
        let growth = (desired - current) as u64;
        let granted = self.budget.reserve(growth);
        if granted {
            self.run.grow(growth);
        }
        Ok(granted)
    }

    fn table_growing(
        &mut self,
        _: usize,
        desired: usize,
        _: Option<usize>,
    ) -> wasmtime::Result<bool> {
        Ok(desired <= super::limits::TABLE_ELEMENTS)
    }
}

impl Drop for MemoryLimiter {
    fn drop(&mut self) {
        self.budget.release(self.run.memory());
    }
}
