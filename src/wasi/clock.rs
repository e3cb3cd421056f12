//! Time and randomness.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::rand::{GetRandomFlags, getrandom};

use super::errno::Errno;
use super::{CpuTime, Pauses};

/// `clockid`.
pub mod id {
    pub const REALTIME: u32 = 0;
    pub const MONOTONIC: u32 = 1;
    pub const PROCESS_CPUTIME: u32 = 2;
    pub const THREAD_CPUTIME: u32 = 3;
}

/// The monotonic clock starts at one second, not at 0, which programs take for "never".
const MONOTONIC_START: Duration = Duration::from_secs(1);

/// The clocks of one run. The monotonic one starts with the run, so it tells nothing of the host.
pub struct Clocks {
    started: Instant,
    /// What the monotonic clock showed when the run started.
    pub monotonic_start: Duration,
    cpu_time: CpuTime,
    /// What the monotonic clock leaves out.
    pub pauses: Option<Pauses>,
}

impl Clocks {
    pub fn new(cpu_time: CpuTime) -> Self {
        Self {
            started: Instant::now(),
            monotonic_start: MONOTONIC_START,
            cpu_time,
            pauses: None,
        }
    }

    /// Nanoseconds on a clock.
    pub fn time(&self, clock: u32) -> Result<u64, Errno> {
        match clock {
            id::REALTIME => Ok(now()),
            id::MONOTONIC => Ok(nanoseconds(self.monotonic())),
            id::PROCESS_CPUTIME | id::THREAD_CPUTIME => Ok(nanoseconds((self.cpu_time)())),
            _ => Err(Errno::Inval),
        }
    }

    fn monotonic(&self) -> Duration {
        let pauses = self.pauses.as_ref().map(|pauses| pauses());
        let shown = self.started.elapsed().saturating_add(self.monotonic_start);
        shown.saturating_sub(pauses.unwrap_or_default())
    }

    /// Nanoseconds between two ticks of a clock.
    pub fn resolution(clock: u32) -> Result<u64, Errno> {
        match clock {
            id::REALTIME | id::MONOTONIC | id::PROCESS_CPUTIME | id::THREAD_CPUTIME => Ok(1),
            _ => Err(Errno::Inval),
        }
    }
}

/// The real time in nanoseconds since 1970.
pub fn now() -> u64 {
    nanoseconds(
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default(),
    )
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Fills memory with random bytes of the host's kernel.
pub fn fill_random(into: &mut [u8]) -> Result<(), Errno> {
    // In chunks: above 256 bytes the kernel may be interrupted and give less than was asked for.
    for chunk in into.chunks_mut(64 * 1024) {
        let mut filled = 0;
        while filled < chunk.len() {
            match getrandom(&mut chunk[filled..], GetRandomFlags::empty()) {
                Ok(0) => return Err(Errno::Io),
                Ok(count) => filled += count,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return Err(Errno::Io),
            }
        }
    }
    Ok(())
}
