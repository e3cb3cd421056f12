//! Calls that take a descriptor.

use super::super::Wasi;
use super::super::clock;
use super::super::errno::Errno;
use super::super::file::Whence;
use super::super::guest::{Guest, dirent};
use super::super::stat::Times;
use super::flags;

type Answer = Result<(), Errno>;

pub fn fd_advise(
    _: &mut Guest<'_>,
    wasi: &mut Wasi,
    fd: u32,
    _offset: u64,
    _len: u64,
    advice: u32,
) -> Answer {
    wasi.descriptors.get(fd)?.handle()?;
    if advice > 5 {
        return Err(Errno::Inval);
    }
    Ok(())
}

pub fn fd_allocate(_: &mut Guest<'_>, wasi: &mut Wasi, fd: u32, offset: u64, len: u64) -> Answer {
    wasi.allocate(fd, offset, len)
}

pub fn fd_close(_: &mut Guest<'_>, wasi: &mut Wasi, fd: u32) -> Answer {
    wasi.close(fd)
}

/// Nothing to do: there is no disk.
pub fn fd_datasync(_: &mut Guest<'_>, wasi: &mut Wasi, fd: u32) -> Answer {
    wasi.check(fd)
}

pub fn fd_sync(_: &mut Guest<'_>, wasi: &mut Wasi, fd: u32) -> Answer {
    wasi.check(fd)
}

pub fn fd_fdstat_get(guest: &mut Guest<'_>, wasi: &mut Wasi, fd: u32, answer: u32) -> Answer {
    guest.store_fdstat(answer, &wasi.fdstat(fd)?)
}

pub fn fd_fdstat_set_flags(_: &mut Guest<'_>, wasi: &mut Wasi, fd: u32, new_flags: u32) -> Answer {
    wasi.set_fdflags(fd, flags(new_flags)?)
}

pub fn fd_fdstat_set_rights(
    _: &mut Guest<'_>,
    wasi: &mut Wasi,
    fd: u32,
    base: u64,
    inheriting: u64,
) -> Answer {
    wasi.set_rights(fd, base, inheriting)
}

pub fn fd_filestat_get(guest: &mut Guest<'_>, wasi: &mut Wasi, fd: u32, answer: u32) -> Answer {
    guest.store_filestat(answer, &wasi.filestat(fd)?)
}

pub fn fd_filestat_set_size(_: &mut Guest<'_>, wasi: &mut Wasi, fd: u32, size: u64) -> Answer {
    wasi.set_size(fd, size)
}

pub fn fd_filestat_set_times(
    _: &mut Guest<'_>,
    wasi: &mut Wasi,
    fd: u32,
    atim: u64,
    mtim: u64,
    flags: u32,
) -> Answer {
    wasi.set_times(fd, times(atim, mtim, flags)?)
}

pub fn fd_pread(
    guest: &mut Guest<'_>,
    wasi: &mut Wasi,
    fd: u32,
    list: u32,
    count: u32,
    offset: u64,
    answer: u32,
) -> Answer {
    transfer(guest, list, count, answer, |guest, (at, len), done| {
        let offset = offset.checked_add(done).ok_or(Errno::Overflow)?;
        wasi.pread(fd, offset, guest.bytes_mut(at, len)?)
    })
}

pub fn fd_pwrite(
    guest: &mut Guest<'_>,
    wasi: &mut Wasi,
    fd: u32,
    list: u32,
    count: u32,
    offset: u64,
    answer: u32,
) -> Answer {
    transfer(guest, list, count, answer, |guest, (at, len), done| {
        let bytes = guest.bytes(at, len)?;
        let offset = offset.checked_add(done).ok_or(Errno::Fbig)?;
        wasi.pwrite(fd, offset, bytes).map(|()| bytes.len())
    })
}

pub fn fd_read(
    guest: &mut Guest<'_>,
    wasi: &mut Wasi,
    fd: u32,
    list: u32,
    count: u32,
    answer: u32,
) -> Answer {
    transfer(guest, list, count, answer, |guest, (at, len), _| {
        wasi.read(fd, guest.bytes_mut(at, len)?)
    })
}

pub fn fd_write(
    guest: &mut Guest<'_>,
    wasi: &mut Wasi,
    fd: u32,
    list: u32,
    count: u32,
    answer: u32,
) -> Answer {
    transfer(guest, list, count, answer, |guest, (at, len), _| {
        let bytes = guest.bytes(at, len)?;
        wasi.write(fd, bytes).map(|()| bytes.len())
    })
}

pub fn fd_prestat_get(guest: &mut Guest<'_>, wasi: &mut Wasi, fd: u32, answer: u32) -> Answer {
    let path = wasi.preopen(fd)?;
    let mut record = [0; 8];
    // Tag 0, a directory, and the length of its name.
    record[4..8].copy_from_slice(
        &u32::try_from(path.len())
            .map_err(|_| Errno::Overflow)?
            .to_le_bytes(),
    );
    guest.store(answer, &record)
}

pub fn fd_prestat_dir_name(
    guest: &mut Guest<'_>,
    wasi: &mut Wasi,
    fd: u32,
    buffer: u32,
    len: u32,
) -> Answer {
    let path = wasi.preopen(fd)?;
    if u32::try_from(path.len()).is_ok_and(|needed| needed > len) {
        return Err(Errno::Nametoolong);
    }
    guest.store(buffer, path)
}

/// Fills the buffer with entries. The last may be cut off, which is how the guest knows that there
/// are more: it asks again with the cookie of the last whole one.
pub fn fd_readdir(
    guest: &mut Guest<'_>,
    wasi: &mut Wasi,
    fd: u32,
    buffer: u32,
    len: u32,
    cookie: u64,
    answer: u32,
) -> Answer {
    guest.check(answer, 4)?;
    let into = guest.bytes_mut(buffer, len)?;
    let mut used = 0;
    let mut put = |bytes: &[u8]| {
        let rest = &mut into[used..];
        let count = rest.len().min(bytes.len());
        rest[..count].copy_from_slice(&bytes[..count]);
        used += count;
    };
    let capacity = usize::try_from(len).map_err(|_| Errno::Fault)?;
    let mut left = capacity;
    wasi.readdir(fd, cookie, &mut |entry| {
        let head = dirent(&entry);
        put(&head);
        put(entry.name);
        left = left.saturating_sub(head.len() + entry.name.len());
        left > 0
    })?;
    guest.store_size(answer, used)
}

pub fn fd_renumber(_: &mut Guest<'_>, wasi: &mut Wasi, from: u32, to: u32) -> Answer {
    wasi.renumber(from, to)
}

pub fn fd_seek(
    guest: &mut Guest<'_>,
    wasi: &mut Wasi,
    fd: u32,
    delta: i64,
    whence: u32,
    answer: u32,
) -> Answer {
    guest.check(answer, 8)?;
    let whence = match whence {
        0 => Whence::Start,
        1 => Whence::Current,
        2 => Whence::End,
        _ => return Err(Errno::Inval),
    };
    let offset = wasi.seek(fd, delta, whence)?;
    guest.store_u64(answer, offset)
}

pub fn fd_tell(guest: &mut Guest<'_>, wasi: &mut Wasi, fd: u32, answer: u32) -> Answer {
    fd_seek(guest, wasi, fd, 0, 1, answer)
}

/// The times that a call is to set: given, now, or not at all.
pub fn times(atim: u64, mtim: u64, flags: u32) -> Result<Times, Errno> {
    const ATIM: u32 = 1;
    const ATIM_NOW: u32 = 2;
    const MTIM: u32 = 4;
    const MTIM_NOW: u32 = 8;
    let pick = |time, given, now| match (flags & given != 0, flags & now != 0) {
        (true, true) => Err(Errno::Inval),
        (true, false) => Ok(Some(time)),
        (false, true) => Ok(Some(clock::now())),
        (false, false) => Ok(None),
    };
    Ok(Times {
        atim: pick(atim, ATIM, ATIM_NOW)?,
        mtim: pick(mtim, MTIM, MTIM_NOW)?,
    })
}

/// Reads or writes buffer after buffer, up to the first that is not filled or fails, and stores how
/// much was done. An error counts only if nothing was done before it.
fn transfer(
    guest: &mut Guest<'_>,
    list: u32,
    count: u32,
    answer: u32,
    mut piece: impl FnMut(&mut Guest<'_>, (u32, u32), u64) -> Result<usize, Errno>,
) -> Answer {
    guest.check(answer, 4)?;
    let mut vectors = guest.vectors(list, count)?;
    if vectors.is_empty() {
        // The descriptor is checked even when there is nothing to do.
        vectors.push((0, 0));
    }
    let mut done = 0_u64;
    for (at, len) in vectors {
        match piece(guest, (at, len), done) {
            Ok(count) => {
                done += count as u64;
                if count as u64 != u64::from(len) {
                    break;
                }
            }
            Err(error) if done == 0 => return Err(error),
            Err(_) => break,
        }
    }
    guest.store_u32(answer, u32::try_from(done).map_err(|_| Errno::Overflow)?)
}
