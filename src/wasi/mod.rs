//! WASI preview 1 over a file system in memory.
//!
//! A guest sees one preopened directory, the root of a [`Library`] that all runs share and none can
//! change, and in it `/tmp`, the scratch of its own run. It sees no file, no clock setting and no
//! descriptor of the host. Everything it can make grow has a cap: bytes, nodes, descriptors.
//!
//! - `calls` reads the guest's memory, calls the methods of [`Wasi`] and writes the answers back;
//! - `file` and `entry` hold those methods: plain Rust, which knows nothing of guest memory;
//! - `tree`, `path`, `library`, `scratch` and `descriptor` hold the state.
//!
//! Nothing here trusts a number that comes from the guest, and no call of a guest can panic, trap or
//! abort the process; only a guest without an exported memory traps.

mod calls;
mod clock;
mod content;
mod descriptor;
mod directory;
mod entry;
mod errno;
mod file;
mod guest;
mod library;
mod path;
mod quota;
mod scratch;
mod stat;
#[cfg(test)]
mod tests;
mod tree;

use std::sync::Arc;
use std::time::Duration;

pub use calls::{ProcExit, add_to_linker};
pub use library::{Library, LibraryBuilder, LibraryError, LibrarySlice};

use clock::Clocks;
use descriptor::Descriptors;
use tree::Tree;

/// What the scratch of one run may hold.
#[derive(Clone, Copy, Debug)]
pub struct ScratchLimits {
    /// Bytes of files and of the targets of links. The spare capacity of a growing file counts too.
    pub bytes: u64,
    /// Files, directories and links below `/tmp`, and further names of a file.
    pub files: u64,
    /// Descriptors that the guest has open at a time, besides the four that it starts with.
    pub open_files: u32,
}

/// A stream that the guest writes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Takes what the guest prints. It never fails: the implementor caps, and drops what is too much.
pub trait Output: Send {
    /// Takes one write of the guest.
    fn write(&mut self, stream: Stream, bytes: &[u8]);
}

/// The memory that all runs of the process may use together.
pub trait MemoryBudget: Send + Sync {
    /// Takes bytes, or returns false and takes none.
    fn reserve(&self, bytes: u64) -> bool;
    /// Gives back what was taken.
    fn release(&self, bytes: u64);
}

/// Tells how long the guest has been running, without its waiting.
pub type CpuTime = Box<dyn Fn() -> Duration + Send>;

/// For how long the run has stood still.
pub type Pauses = Box<dyn Fn() -> Duration + Send>;

/// The WASI state of one run. Dropping it gives all memory back to the budget.
pub struct Wasi {
    tree: Tree,
    descriptors: Descriptors,
    output: Box<dyn Output>,
    clocks: Clocks,
    arguments: Arc<[String]>,
    environment: Arc<[String]>,
}

impl Wasi {
    #[must_use]
    /// The WASI of one run: an empty scratch over `library`, no arguments, no environment.
    pub fn new(
        library: Arc<Library>,
        limits: ScratchLimits,
        output: Box<dyn Output>,
        budget: Arc<dyn MemoryBudget>,
        cpu_time: CpuTime,
    ) -> Self {
        Self {
            tree: Tree::new(library, limits, budget, clock::now()),
            descriptors: Descriptors::new(limits.open_files),
            output,
            clocks: Clocks::new(cpu_time),
            arguments: Arc::default(),
            environment: Arc::default(),
        }
    }

    /// The command line, program name first. Shared, because it is the same in every run.
    #[must_use]
    pub fn with_arguments(mut self, arguments: Arc<[String]>) -> Self {
        self.arguments = arguments;
        self
    }

    /// The environment, as `NAME=value`.
    #[must_use]
    pub fn with_environment(mut self, environment: Arc<[String]>) -> Self {
        self.environment = environment;
        self
    }

    /// What the monotonic clock shows at first; one second if this is not called. A run from a
    /// snapshot should start later than the snapshot was taken, or its clock goes backwards.
    #[must_use]
    pub fn with_monotonic_start(mut self, start: Duration) -> Self {
        self.clocks.monotonic_start = start;
        self
    }

    /// `pauses` is the time so far during which the run stood still: the monotonic clock leaves it
    /// out, so that no timer of the guest goes off because of it.
    #[must_use]
    pub fn with_pauses(mut self, pauses: Pauses) -> Self {
        self.clocks.pauses = Some(pauses);
        self
    }
}
