//! What the scratch of one run may hold, and the charge of it to the process.

use std::sync::Arc;

use super::errno::Errno;
use super::{MemoryBudget, ScratchLimits};

/// What one node, or one more name of it, costs the host at most: the inode, a name of 255 bytes and
/// its places in the two maps of a directory. Charged to the process, not to the run's `bytes`,
/// because `files` bounds it there.
pub const NODE_BYTES: u64 = 1024;

/// Counts the bytes and the nodes of one run's scratch against its limits and against the budget of
/// the process. What is still charged when it is dropped goes back to the budget.
pub struct Quota {
    limits: ScratchLimits,
    bytes: u64,
    files: u64,
    /// All that the budget gave: bytes and nodes.
    reserved: u64,
    budget: Arc<dyn MemoryBudget>,
}

impl Quota {
    pub fn new(limits: ScratchLimits, budget: Arc<dyn MemoryBudget>) -> Self {
        Self {
            limits,
            bytes: 0,
            files: 0,
            reserved: 0,
            budget,
        }
    }

    /// Charges bytes of content, or nothing at all with `Nospc`.
    pub fn take_bytes(&mut self, count: u64) -> Result<(), Errno> {
        let total = self.bytes.checked_add(count).ok_or(Errno::Nospc)?;
        if total > self.limits.bytes {
            return Err(Errno::Nospc);
        }
        self.reserve(count)?;
        self.bytes = total;
        Ok(())
    }

    pub fn give_bytes(&mut self, count: u64) {
        self.bytes = self.bytes.saturating_sub(count);
        self.release(count);
    }

    /// Charges one node, or one more name of a node.
    pub fn take_file(&mut self) -> Result<(), Errno> {
        if self.files >= self.limits.files {
            return Err(Errno::Nospc);
        }
        self.reserve(NODE_BYTES)?;
        self.files += 1;
        Ok(())
    }

    pub fn give_file(&mut self) {
        self.files = self.files.saturating_sub(1);
        self.release(NODE_BYTES);
    }

    /// Bytes of content in use, spare capacity included.
    #[cfg(test)]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    #[cfg(test)]
    pub fn files(&self) -> u64 {
        self.files
    }

    fn reserve(&mut self, count: u64) -> Result<(), Errno> {
        let reserved = self.reserved.checked_add(count).ok_or(Errno::Nospc)?;
        if count > 0 && !self.budget.reserve(count) {
            return Err(Errno::Nospc);
        }
        self.reserved = reserved;
        Ok(())
    }

    fn release(&mut self, count: u64) {
        // Never more than was taken: the budget is shared with other runs.
        let count = count.min(self.reserved);
        if count > 0 {
            self.budget.release(count);
            self.reserved -= count;
        }
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        self.release(self.reserved);
    }
}
