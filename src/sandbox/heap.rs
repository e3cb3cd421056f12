//! The host's own memory for runs, given back when many have ended.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

/// After fewer runs at once than this there is too little to give back.
const MANY: usize = 32;

/// After the last of many runs, what belongs to their connections goes as well.
pub(super) const QUIET: Duration = Duration::from_secs(2);

/// Remembers how many runs there were at once.
#[derive(Debug, Default)]
pub(super) struct Heap {
    most: AtomicUsize,
}

impl Heap {
    /// One run has begun; there are `running` now.
    pub(super) fn begun(&self, running: usize) {
        self.most.fetch_max(running, Ordering::Relaxed);
    }

    /// A run has ended and left `running`. Whether there is something to give back, once it is quiet.
    pub(super) fn ended(&self, running: usize) -> bool {
        running == 0 && self.most.swap(0, Ordering::Relaxed) >= MANY
    }
}

/// Gives free memory back to the system. An instance's tables are some hundred KiB of heap, which the
/// allocator would keep for ever after a thousand of them.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(super) fn give_back() {
    // SAFETY: `malloc_trim` may be called at any time from any thread; it takes the allocator's own
    // locks and touches only memory that is free.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(super) fn give_back() {}
