//! `poll_oneoff`: sleeping, and waiting for descriptors that never keep one waiting.

use std::time::Duration;

use wasmtime::{Caller, Linker};

use super::super::Wasi;
use super::super::clock::id;
use super::super::descriptor::Descriptor;
use super::super::errno::Errno;
use super::super::guest::Guest;
use super::{MODULE, call, errno};

const SUBSCRIPTION_SIZE: u32 = 48;
const EVENT_SIZE: u32 = 32;
const SUBSCRIPTIONS_MAX: u32 = 4096;

/// The longest sleep; what ends a run comes long before.
const SLEEP_MAX: Duration = Duration::from_hours(365 * 24);

const TAG_CLOCK: u8 = 0;
const TAG_FD_READ: u8 = 1;
const TAG_FD_WRITE: u8 = 2;
const CLOCK_ABSTIME: u16 = 1;
/// The event flag for a peer that has hung up.
const HANGUP: u16 = 1;

/// What becomes of one subscription.
struct Event {
    userdata: u64,
    tag: u8,
    /// How long until it happens.
    due: Duration,
    error: u16,
    available: u64,
    flags: u16,
}

pub fn add_to_linker<T: Send + 'static>(
    linker: &mut Linker<T>,
    get: fn(&mut T) -> &mut Wasi,
) -> wasmtime::Result<()> {
    linker.func_wrap_async(
        MODULE,
        "poll_oneoff",
        move |mut caller: Caller<'_, T>, (list, events, count, answer): (u32, u32, u32, u32)| {
            Box::new(async move {
                let mut planned = Err(Errno::Inval);
                call(&mut caller, get, |guest, wasi| {
                    planned = plan(guest, wasi, (list, events, count, answer));
                    Ok(())
                })?;
                let planned = match planned {
                    Ok(planned) => planned,
                    Err(error) => return Ok(errno(Err(error))),
                };
                let wait = planned.iter().map(|event| event.due).min();
                let wait = wait.unwrap_or_default().min(SLEEP_MAX);
                if !wait.is_zero() {
                    tokio::time::sleep(wait).await;
                } else if planned.iter().all(|event| event.tag == TAG_CLOCK) {
                    tokio::task::yield_now().await;
                }
                call(&mut caller, get, |guest, _| {
                    report(guest, &planned, wait, events, answer)
                })
            })
        },
    )?;
    Ok(())
}

/// Reads the subscriptions, and checks that there is room for the answer.
fn plan(
    guest: &Guest<'_>,
    wasi: &Wasi,
    (list, events, count, answer): (u32, u32, u32, u32),
) -> Result<Vec<Event>, Errno> {
    if count == 0 || count > SUBSCRIPTIONS_MAX {
        return Err(Errno::Inval);
    }
    guest.check(events, count * EVENT_SIZE)?;
    guest.check(answer, 4)?;
    let list = guest.bytes(list, count * SUBSCRIPTION_SIZE)?;
    let records = list.as_chunks::<{ SUBSCRIPTION_SIZE as usize }>().0;
    records.iter().map(|record| expect(wasi, record)).collect()
}

/// What will come of one subscription.
fn expect(wasi: &Wasi, record: &[u8; SUBSCRIPTION_SIZE as usize]) -> Result<Event, Errno> {
    let mut event = Event {
        userdata: u64::from_le_bytes(field(record, 0)?),
        tag: record[8],
        due: Duration::ZERO,
        error: 0,
        available: 0,
        flags: 0,
    };
    let which = u32::from_le_bytes(field(record, 16)?);
    let result = match event.tag {
        TAG_CLOCK => {
            let timeout = u64::from_le_bytes(field(record, 24)?);
            let flags = u16::from_le_bytes(field(record, 40)?);
            remaining(wasi, which, timeout, flags).map(|due| event.due = due)
        }
        TAG_FD_READ => wasi.available(which).map(|available| {
            event.available = available;
            if matches!(wasi.descriptors.get(which), Ok(Descriptor::Stdin)) {
                event.flags = HANGUP;
            }
        }),
        TAG_FD_WRITE => wasi.check(which),
        _ => return Err(Errno::Inval),
    };
    if let Err(error) = result {
        event.error = error.code();
    }
    Ok(event)
}

/// How long until a clock shows a time.
fn remaining(wasi: &Wasi, clock: u32, timeout: u64, flags: u16) -> Result<Duration, Errno> {
    // Nothing can wait for the guest's own running time: it would stand still.
    if !matches!(clock, id::REALTIME | id::MONOTONIC) {
        return Err(Errno::Notsup);
    }
    let remaining = if flags & CLOCK_ABSTIME == 0 {
        timeout
    } else {
        timeout.saturating_sub(wasi.clocks.time(clock)?)
    };
    Ok(Duration::from_nanos(remaining))
}

/// Stores an event for every subscription that has happened after `waited`.
fn report(
    guest: &mut Guest<'_>,
    planned: &[Event],
    waited: Duration,
    events: u32,
    answer: u32,
) -> Result<(), Errno> {
    let mut place = events;
    let mut stored = 0;
    for event in planned {
        // A sleep that was cut to the longest is over all the same.
        if event.due.min(SLEEP_MAX) > waited {
            continue;
        }
        let mut record = [0; EVENT_SIZE as usize];
        record[0..8].copy_from_slice(&event.userdata.to_le_bytes());
        record[8..10].copy_from_slice(&event.error.to_le_bytes());
        record[10] = event.tag;
        record[16..24].copy_from_slice(&event.available.to_le_bytes());
        record[24..26].copy_from_slice(&event.flags.to_le_bytes());
        guest.store(place, &record)?;
        place = place.checked_add(EVENT_SIZE).ok_or(Errno::Fault)?;
        stored += 1;
    }
    guest.store_u32(answer, stored)
}

fn field<const N: usize>(record: &[u8], at: usize) -> Result<[u8; N], Errno> {
    let bytes = record.get(at..).and_then(<[u8]>::first_chunk);
    bytes.copied().ok_or(Errno::Fault)
}
