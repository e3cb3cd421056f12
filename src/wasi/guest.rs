//! The memory of the guest, and the records that preview 1 lays out in it.

use std::ops::Range;

use super::errno::Errno;
use super::stat::{Dirent, Fdstat, Filestat};

/// As many buffers as one call may name; libc refuses more as well.
const VECTORS_MAX: u32 = 1024;

const VECTOR_SIZE: u32 = 8;

/// The size of a `dirent` without its name.
pub const DIRENT_SIZE: usize = 24;

/// The linear memory. Every access is checked: an address out of bounds is `Fault`.
pub struct Guest<'a> {
    bytes: &'a mut [u8],
}

impl<'a> Guest<'a> {
    pub fn new(bytes: &'a mut [u8]) -> Self {
        Self { bytes }
    }

    pub fn bytes(&self, at: u32, len: u32) -> Result<&[u8], Errno> {
        self.bytes.get(range(at, len)?).ok_or(Errno::Fault)
    }

    pub fn bytes_mut(&mut self, at: u32, len: u32) -> Result<&mut [u8], Errno> {
        self.bytes.get_mut(range(at, len)?).ok_or(Errno::Fault)
    }

    /// Fails if the guest could not receive an answer there. Asked before a call changes anything.
    pub fn check(&self, at: u32, len: u32) -> Result<(), Errno> {
        self.bytes(at, len).map(|_| ())
    }

    pub fn store(&mut self, at: u32, from: &[u8]) -> Result<(), Errno> {
        let len = u32::try_from(from.len()).map_err(|_| Errno::Fault)?;
        self.bytes_mut(at, len)?.copy_from_slice(from);
        Ok(())
    }

    pub fn store_u32(&mut self, at: u32, value: u32) -> Result<(), Errno> {
        self.store(at, &value.to_le_bytes())
    }

    pub fn store_u64(&mut self, at: u32, value: u64) -> Result<(), Errno> {
        self.store(at, &value.to_le_bytes())
    }

    /// Stores a length or a count.
    pub fn store_size(&mut self, at: u32, value: usize) -> Result<(), Errno> {
        self.store_u32(at, u32::try_from(value).map_err(|_| Errno::Overflow)?)
    }

    /// The buffers of a scattered read or a gathered write, as address and length.
    ///
    /// All are checked first, so that a bad one does not leave the work half done, and copied, so that
    /// data read over the list cannot change it. Together they may not be larger than the memory:
    /// that would take overlapping buffers, and work without bound.
    pub fn vectors(&self, at: u32, count: u32) -> Result<Vec<(u32, u32)>, Errno> {
        if count > VECTORS_MAX {
            return Err(Errno::Inval);
        }
        let list = self.bytes(at, count * VECTOR_SIZE)?;
        let mut vectors = Vec::with_capacity(list.len() / 8);
        let mut total = 0;
        for record in list.as_chunks::<4>().0.as_chunks::<2>().0 {
            let [pointer, len] = record.map(u32::from_le_bytes);
            total += self.bytes(pointer, len)?.len();
            vectors.push((pointer, len));
        }
        if total > self.bytes.len() {
            return Err(Errno::Inval);
        }
        Ok(vectors)
    }

    pub fn store_fdstat(&mut self, at: u32, stat: &Fdstat) -> Result<(), Errno> {
        let mut record = [0; 24];
        record[0] = stat.filetype.code();
        record[2..4].copy_from_slice(&stat.flags.to_le_bytes());
        record[8..16].copy_from_slice(&stat.rights_base.to_le_bytes());
        record[16..24].copy_from_slice(&stat.rights_inheriting.to_le_bytes());
        self.store(at, &record)
    }

    pub fn store_filestat(&mut self, at: u32, stat: &Filestat) -> Result<(), Errno> {
        let mut record = [0; 64];
        let fields = [
            stat.dev,
            stat.ino,
            u64::from(stat.filetype.code()),
            stat.nlink,
            stat.size,
            stat.atim,
            stat.mtim,
            stat.ctim,
        ];
        for (place, field) in record.chunks_exact_mut(8).zip(fields) {
            place.copy_from_slice(&field.to_le_bytes());
        }
        self.store(at, &record)
    }
}

/// The head of a `dirent`; the name follows it.
pub fn dirent(entry: &Dirent<'_>) -> [u8; DIRENT_SIZE] {
    let mut record = [0; DIRENT_SIZE];
    // Names are at most 255 bytes.
    let len = u32::try_from(entry.name.len()).unwrap_or_default();
    record[0..8].copy_from_slice(&entry.next.to_le_bytes());
    record[8..16].copy_from_slice(&entry.ino.to_le_bytes());
    record[16..20].copy_from_slice(&len.to_le_bytes());
    record[20] = entry.filetype.code();
    record
}

fn range(at: u32, len: u32) -> Result<Range<usize>, Errno> {
    let start = usize::try_from(at).map_err(|_| Errno::Fault)?;
    let len = usize::try_from(len).map_err(|_| Errno::Fault)?;
    Ok(start..start.checked_add(len).ok_or(Errno::Fault)?)
}
