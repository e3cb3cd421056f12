//! What one run may use.

use std::time::Duration;

const MIB: u64 = 1 << 20;

/// The limits of one run. Sizes are bytes.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Linear memory of the guest, the snapshot's own (about 64 MiB) included.
    pub memory: u64,
    /// Processor time while the guest runs; waiting for tools does not count.
    pub cpu: Duration,
    /// Time from start to end, waiting included.
    pub run: Duration,
    /// Bytes that the scratch folder may hold.
    pub scratch: u64,
    /// Files and folders that the scratch folder may hold.
    pub files: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory: 256 * MIB,
            cpu: Duration::from_secs(30),
            run: Duration::from_mins(5),
            scratch: 64 * MIB,
            files: 1000,
        }
    }
}

/// Files that a run may hold open at once.
pub(super) const OPEN_FILES: u32 = 256;

/// The smallest memory limit that lets the default image start (bytes).
pub const LEAST_MEMORY: u64 = 80 * MIB;

/// What one slot of the pool reserves for tables (elements); CPython's function table fits well.
pub(super) const TABLE_ELEMENTS: usize = 100_000;

/// The most that the engine keeps for the bookkeeping of one instance (bytes).
pub(super) const INSTANCE_BYTES: usize = 8 << 20;

/// Address space of one memory (bytes): with 4 GiB no access needs a bounds check.
pub(super) const MEMORY_RESERVATION: usize = 4 << 30;

/// Epoch interval: how soon a busy guest lets others run and notices that it is to stop.
pub(super) const EPOCH_INTERVAL: Duration = Duration::from_millis(5);

/// Where a run's monotonic clock begins: after every reading that the snapshot may hold.
pub(super) const MONOTONIC_START: Duration = Duration::from_hours(1);
