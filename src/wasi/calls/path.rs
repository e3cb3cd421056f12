//! Calls that take a path.

#![expect(
    clippy::too_many_arguments,
    reason = "the functions take what preview 1 says they take"
)]

use super::super::Wasi;
use super::super::errno::Errno;
use super::super::guest::Guest;
use super::super::stat::{LOOKUP_FOLLOW, OpenOptions, rights};
use super::fd::times;
use super::flags;

type Answer = Result<(), Errno>;

pub fn path_create_directory(
    guest: &mut Guest<'_>,
    wasi: &mut Wasi,
    fd: u32,
    path: u32,
    len: u32,
) -> Answer {
    wasi.create_directory(fd, guest.bytes(path, len)?)
}

pub fn path_filestat_get(
    guest: &mut Guest<'_>,
    wasi: &mut Wasi,
    fd: u32,
    flags: u32,
    path: u32,
    len: u32,
    answer: u32,
) -> Answer {
    let stat = wasi.path_filestat(fd, guest.bytes(path, len)?, follows(flags))?;
    guest.store_filestat(answer, &stat)
}

pub fn path_filestat_set_times(
    guest: &mut Guest<'_>,
    wasi: &mut Wasi,
    fd: u32,
    flags: u32,
    path: u32,
    len: u32,
    atim: u64,
    mtim: u64,
    which: u32,
) -> Answer {
    let times = times(atim, mtim, which)?;
    wasi.path_set_times(fd, guest.bytes(path, len)?, follows(flags), times)
}

pub fn path_link(
    guest: &mut Guest<'_>,
    wasi: &mut Wasi,
    old_fd: u32,
    flags: u32,
    old: u32,
    old_len: u32,
    new_fd: u32,
    new: u32,
    new_len: u32,
) -> Answer {
    let old = guest.bytes(old, old_len)?;
    let new = guest.bytes(new, new_len)?;
    wasi.link((old_fd, old), follows(flags), (new_fd, new))
}

/// The rights that descriptors opened from the new one should get are ignored: a directory always
/// passes on all.
pub fn path_open(
    guest: &mut Guest<'_>,
    wasi: &mut Wasi,
    fd: u32,
    lookup: u32,
    path: u32,
    len: u32,
    oflags: u32,
    base: u64,
    _inheriting: u64,
    fdflags: u32,
    answer: u32,
) -> Answer {
    guest.check(answer, 4)?;
    let options = OpenOptions {
        oflags: flags(oflags)?,
        fdflags: flags(fdflags)?,
        read: base & rights::READING != 0,
        write: base & rights::WRITING != 0,
    };
    let opened = wasi.open(fd, guest.bytes(path, len)?, follows(lookup), options)?;
    guest.store_u32(answer, opened)
}

/// What does not fit is cut off, as `readlink` does it.
pub fn path_readlink(
    guest: &mut Guest<'_>,
    wasi: &mut Wasi,
    fd: u32,
    path: u32,
    len: u32,
    buffer: u32,
    buffer_len: u32,
    used: u32,
) -> Answer {
    guest.check(used, 4)?;
    let target = wasi.readlink(fd, guest.bytes(path, len)?)?;
    let into = guest.bytes_mut(buffer, buffer_len)?;
    let count = target.len().min(into.len());
    into[..count].copy_from_slice(&target[..count]);
    guest.store_size(used, count)
}

pub fn path_remove_directory(
    guest: &mut Guest<'_>,
    wasi: &mut Wasi,
    fd: u32,
    path: u32,
    len: u32,
) -> Answer {
    wasi.remove_directory(fd, guest.bytes(path, len)?)
}

pub fn path_rename(
    guest: &mut Guest<'_>,
    wasi: &mut Wasi,
    old_fd: u32,
    old: u32,
    old_len: u32,
    new_fd: u32,
    new: u32,
    new_len: u32,
) -> Answer {
    let old = guest.bytes(old, old_len)?;
    let new = guest.bytes(new, new_len)?;
    wasi.rename((old_fd, old), (new_fd, new))
}

pub fn path_symlink(
    guest: &mut Guest<'_>,
    wasi: &mut Wasi,
    old: u32,
    old_len: u32,
    fd: u32,
    new: u32,
    new_len: u32,
) -> Answer {
    let target = guest.bytes(old, old_len)?;
    wasi.symlink(target, fd, guest.bytes(new, new_len)?)
}

pub fn path_unlink_file(
    guest: &mut Guest<'_>,
    wasi: &mut Wasi,
    fd: u32,
    path: u32,
    len: u32,
) -> Answer {
    wasi.unlink(fd, guest.bytes(path, len)?)
}

fn follows(flags: u32) -> bool {
    flags & LOOKUP_FOLLOW != 0
}
