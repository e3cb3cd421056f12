//! Calls about the process: its arguments, its clocks, its randomness. And sockets, which it has not.

#![expect(
    clippy::too_many_arguments,
    reason = "the functions take what preview 1 says they take"
)]

use super::super::Wasi;
use super::super::clock::{Clocks, fill_random};
use super::super::errno::Errno;
use super::super::guest::Guest;

type Answer = Result<(), Errno>;

pub fn args_get(guest: &mut Guest<'_>, wasi: &mut Wasi, pointers: u32, buffer: u32) -> Answer {
    store_strings(guest, &wasi.arguments, pointers, buffer)
}

pub fn args_sizes_get(guest: &mut Guest<'_>, wasi: &mut Wasi, count: u32, size: u32) -> Answer {
    store_sizes(guest, &wasi.arguments, count, size)
}

pub fn environ_get(guest: &mut Guest<'_>, wasi: &mut Wasi, pointers: u32, buffer: u32) -> Answer {
    store_strings(guest, &wasi.environment, pointers, buffer)
}

pub fn environ_sizes_get(guest: &mut Guest<'_>, wasi: &mut Wasi, count: u32, size: u32) -> Answer {
    store_sizes(guest, &wasi.environment, count, size)
}

pub fn clock_res_get(guest: &mut Guest<'_>, _: &mut Wasi, clock: u32, answer: u32) -> Answer {
    guest.store_u64(answer, Clocks::resolution(clock)?)
}

pub fn clock_time_get(
    guest: &mut Guest<'_>,
    wasi: &mut Wasi,
    clock: u32,
    _precision: u64,
    answer: u32,
) -> Answer {
    guest.store_u64(answer, wasi.clocks.time(clock)?)
}

pub fn random_get(guest: &mut Guest<'_>, _: &mut Wasi, buffer: u32, len: u32) -> Answer {
    fill_random(guest.bytes_mut(buffer, len)?)
}

/// There are no signals.
pub fn proc_raise(_: &mut Guest<'_>, _: &mut Wasi, _signal: u32) -> Answer {
    Err(Errno::Notsup)
}

pub fn sock_accept(
    _: &mut Guest<'_>,
    wasi: &mut Wasi,
    fd: u32,
    _flags: u32,
    _answer: u32,
) -> Answer {
    not_a_socket(wasi, fd)
}

pub fn sock_recv(
    _: &mut Guest<'_>,
    wasi: &mut Wasi,
    fd: u32,
    _list: u32,
    _count: u32,
    _flags: u32,
    _len: u32,
    _out_flags: u32,
) -> Answer {
    not_a_socket(wasi, fd)
}

pub fn sock_send(
    _: &mut Guest<'_>,
    wasi: &mut Wasi,
    fd: u32,
    _list: u32,
    _count: u32,
    _flags: u32,
    _answer: u32,
) -> Answer {
    not_a_socket(wasi, fd)
}

pub fn sock_shutdown(_: &mut Guest<'_>, wasi: &mut Wasi, fd: u32, _how: u32) -> Answer {
    not_a_socket(wasi, fd)
}

fn not_a_socket(wasi: &Wasi, fd: u32) -> Answer {
    wasi.check(fd)?;
    Err(Errno::Notsock)
}

/// The strings one after another, each ended by a zero byte, and the address of each.
fn store_strings(guest: &mut Guest<'_>, strings: &[String], pointers: u32, buffer: u32) -> Answer {
    let (mut pointer, mut place) = (pointers, buffer);
    for string in strings {
        let len = u32::try_from(string.len()).map_err(|_| Errno::Overflow)?;
        let end = place.checked_add(len).ok_or(Errno::Fault)?;
        guest.store_u32(pointer, place)?;
        guest.store(place, string.as_bytes())?;
        guest.store(end, &[0])?;
        pointer = pointer.checked_add(4).ok_or(Errno::Fault)?;
        place = end.checked_add(1).ok_or(Errno::Fault)?;
    }
    Ok(())
}

fn store_sizes(guest: &mut Guest<'_>, strings: &[String], count: u32, size: u32) -> Answer {
    guest.store_size(count, strings.len())?;
    guest.store_size(size, strings.iter().map(|string| string.len() + 1).sum())
}
