//! The bytes of one scratch file.

use super::errno::Errno;
use super::quota::Quota;

/// From here on a file grows by a quarter instead of doubling.
const STEP: u64 = 64 * 1024;

/// The largest size that the guest's signed offsets can name.
const MAX_SIZE: u64 = i64::MAX as u64;

/// Contiguous bytes whose capacity, not only their length, is charged to the quota. A hole that a
/// guest seeks over is stored as zeros and charged like any other byte.
#[derive(Default)]
pub struct Content {
    bytes: Vec<u8>,
    /// The capacity that the quota has been charged for; the length never exceeds it.
    charged: u64,
}

impl Content {
    pub fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Copies what there is at `at`; 0 at the end and beyond.
    pub fn read_at(&self, at: u64, into: &mut [u8]) -> usize {
        let rest = usize::try_from(at)
            .ok()
            .and_then(|at| self.bytes.get(at..))
            .unwrap_or_default();
        let count = rest.len().min(into.len());
        into[..count].copy_from_slice(&rest[..count]);
        count
    }

    /// Writes all of `from` at `at`, or nothing.
    pub fn write_at(&mut self, at: u64, from: &[u8], quota: &mut Quota) -> Result<(), Errno> {
        if from.is_empty() {
            return Ok(());
        }
        let end = at
            .checked_add(from.len() as u64)
            .filter(|end| *end <= MAX_SIZE)
            .ok_or(Errno::Fbig)?;
        self.reserve(end, quota)?;
        let start = usize::try_from(at).map_err(|_| Errno::Fbig)?;
        if start > self.bytes.len() {
            self.bytes.resize(start, 0);
        }
        let (over, beyond) = from.split_at(from.len().min(self.bytes.len() - start));
        self.bytes[start..start + over.len()].copy_from_slice(over);
        self.bytes.extend_from_slice(beyond);
        Ok(())
    }

    /// Truncates, or extends with zeros.
    pub fn resize(&mut self, len: u64, quota: &mut Quota) -> Result<(), Errno> {
        if len > MAX_SIZE {
            return Err(Errno::Fbig);
        }
        let size = usize::try_from(len).map_err(|_| Errno::Fbig)?;
        if size > self.bytes.len() {
            self.reserve(len, quota)?;
            self.bytes.resize(size, 0);
            return Ok(());
        }
        self.bytes.truncate(size);
        if size == 0 {
            self.clear(quota);
        } else if self.charged > len.saturating_mul(2).saturating_add(STEP) {
            // Only when much is to be had, so that cutting off byte after byte does not copy each time.
            self.bytes.shrink_to(size);
            quota.give_bytes(self.charged - len);
            self.charged = len;
        }
        Ok(())
    }

    /// Frees everything.
    pub fn clear(&mut self, quota: &mut Quota) {
        self.bytes = Vec::new();
        quota.give_bytes(self.charged);
        self.charged = 0;
    }

    /// Makes room for `end` bytes, with spare room for the next writes where the quota allows it.
    fn reserve(&mut self, end: u64, quota: &mut Quota) -> Result<(), Errno> {
        if end <= self.charged {
            return Ok(());
        }
        // Many files are written in one go: the first write gets exactly what it needs.
        let mut spare = match self.charged {
            0 => 0,
            _ if end < STEP => end,
            _ => STEP.max(end / 4),
        };
        // Close to the cap less spare room is tried, still in steps: exact steps would copy the
        // whole file for every small write.
        let target = loop {
            let target = end.saturating_add(spare);
            match quota.take_bytes(target - self.charged) {
                Ok(()) => break target,
                Err(error) if spare == 0 => return Err(error),
                Err(_) => spare = if spare < 4096 { 0 } else { spare / 4 },
            }
        };
        let additional = target - self.len();
        let grown = usize::try_from(additional)
            .map_err(|_| Errno::Nospc)
            .and_then(|additional| {
                let grown = self.bytes.try_reserve_exact(additional);
                grown.map_err(|_| Errno::Nospc)
            });
        match grown {
            Ok(()) => self.charged = target,
            Err(_) => quota.give_bytes(target - self.charged),
        }
        grown
    }
}
