//! How long a guest has run: processor time of the thread that polls it, while it polls it.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use super::ticker::Ticker;

/// Counts the processor time of one run. A suspended guest is not polled and costs nothing.
#[derive(Debug, Default)]
pub(super) struct CpuClock {
    spent_ns: AtomicU64,
    /// The thread's processor time when the poll under way began; 0 when there is none.
    entered_ns: AtomicU64,
}

impl CpuClock {
    /// The time so far. Called during a poll it must be from the thread that polls.
    pub(super) fn elapsed(&self) -> Duration {
        let entered = self.entered_ns.load(Ordering::Relaxed);
        let running = if entered == 0 {
            0
        } else {
            thread_cpu_ns().saturating_sub(entered)
        };
        Duration::from_nanos(self.spent_ns.load(Ordering::Relaxed) + running)
    }

    /// The time of the polls that are over; may be asked by any thread.
    pub(super) fn spent(&self) -> Duration {
        Duration::from_nanos(self.spent_ns.load(Ordering::Relaxed))
    }

    fn enter(&self) {
        self.entered_ns.store(thread_cpu_ns(), Ordering::Relaxed);
    }

    fn leave(&self) {
        let entered = self.entered_ns.swap(0, Ordering::Relaxed);
        self.spent_ns
            .fetch_add(thread_cpu_ns().saturating_sub(entered), Ordering::Relaxed);
    }
}

/// The guest ran longer than it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CpuExceeded;

/// Polls a guest against its clock. The guest yields at every epoch, so the limit is checked then.
pub(super) struct Metered<F> {
    pub(super) guest: Pin<Box<F>>,
    pub(super) clock: Arc<CpuClock>,
    pub(super) limit: Duration,
    pub(super) ticker: Arc<Ticker>,
}

impl<F: Future> Future for Metered<F> {
    type Output = Result<F::Output, CpuExceeded>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self {
            guest,
            clock,
            limit,
            ticker,
        } = self.get_mut();
        let running = ticker.running();
        clock.enter();
        let polled = guest.as_mut().poll(context);
        clock.leave();
        drop(running);
        match polled {
            Poll::Ready(output) => Poll::Ready(Ok(output)),
            Poll::Pending if clock.elapsed() >= *limit => Poll::Ready(Err(CpuExceeded)),
            Poll::Pending => Poll::Pending,
        }
    }
}

fn thread_cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    // Never 0: that stands for "not polled now".
    (seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)).max(1)
}
