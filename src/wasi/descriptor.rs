//! The table of open descriptors.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Stream;
use super::errno::Errno;
use super::stat::{fdflags, rights};
use super::tree::Node;

/// The number of a descriptor.
pub type Fd = u32;

/// The descriptor of the one preopened directory, the root.
pub const PREOPEN: Fd = 3;

/// What is open before the guest opens anything: three streams and the root. They do not count
/// against the cap.
const INITIAL: usize = 4;

/// An open node.
#[derive(Clone, Debug)]
pub struct Handle {
    pub node: Node,
    pub offset: u64,
    pub read: bool,
    pub write: bool,
    pub flags: u16,
    pub preopen: bool,
}

impl Handle {
    pub fn appends(&self) -> bool {
        self.flags & fdflags::APPEND != 0
    }
}

/// What a descriptor stands for.
#[derive(Clone, Debug)]
pub enum Descriptor {
    /// Always at its end.
    Stdin,
    Output(Stream),
    Open(Handle),
}

impl Descriptor {
    /// The node, or `Spipe` for a stream.
    pub fn handle(&self) -> Result<&Handle, Errno> {
        match self {
            Self::Open(handle) => Ok(handle),
            Self::Stdin | Self::Output(_) => Err(Errno::Spipe),
        }
    }

    pub fn handle_mut(&mut self) -> Result<&mut Handle, Errno> {
        match self {
            Self::Open(handle) => Ok(handle),
            Self::Stdin | Self::Output(_) => Err(Errno::Spipe),
        }
    }

    /// Takes away the access that the rights do not include.
    pub fn restrict(&mut self, kept: u64) {
        if let Self::Open(handle) = self {
            handle.read &= kept & rights::READING != 0;
            handle.write &= kept & rights::WRITING != 0;
        }
    }
}

/// The descriptors of one run. A new one gets the lowest free number from 3 on; 0, 1 and 2 stay
/// what they were or closed, so that no file ever takes the place of a stream.
pub struct Descriptors {
    slots: Vec<Option<Descriptor>>,
    /// The free numbers below the length of `slots`, each once.
    free: BinaryHeap<Reverse<Fd>>,
    open: usize,
    cap: usize,
}

impl Descriptors {
    pub fn new(cap: u32) -> Self {
        let root = Handle {
            node: Node::ROOT,
            offset: 0,
            read: true,
            write: false,
            flags: 0,
            preopen: true,
        };
        Self {
            slots: vec![
                Some(Descriptor::Stdin),
                Some(Descriptor::Output(Stream::Stdout)),
                Some(Descriptor::Output(Stream::Stderr)),
                Some(Descriptor::Open(root)),
            ],
            free: BinaryHeap::new(),
            open: INITIAL,
            cap: usize::try_from(cap)
                .unwrap_or(usize::MAX)
                .saturating_add(INITIAL),
        }
    }

    pub fn get(&self, fd: Fd) -> Result<&Descriptor, Errno> {
        let index = usize::try_from(fd).map_err(|_| Errno::Badf)?;
        self.slots
            .get(index)
            .and_then(Option::as_ref)
            .ok_or(Errno::Badf)
    }

    pub fn get_mut(&mut self, fd: Fd) -> Result<&mut Descriptor, Errno> {
        self.slot(fd)?.as_mut().ok_or(Errno::Badf)
    }

    /// Whether one more fits; asked before anything is done that would have to be undone.
    pub fn check_room(&self) -> Result<(), Errno> {
        if self.open < self.cap {
            Ok(())
        } else {
            Err(Errno::Mfile)
        }
    }

    pub fn insert(&mut self, handle: Handle) -> Result<Fd, Errno> {
        self.check_room()?;
        let fd = match self.free.pop() {
            Some(Reverse(fd)) => fd,
            None => Fd::try_from(self.slots.len()).map_err(|_| Errno::Mfile)?,
        };
        let descriptor = Some(Descriptor::Open(handle));
        match self.slot(fd) {
            Ok(slot) => *slot = descriptor,
            Err(_) => self.slots.push(descriptor),
        }
        self.open += 1;
        Ok(fd)
    }

    pub fn remove(&mut self, fd: Fd) -> Result<Descriptor, Errno> {
        let descriptor = self.slot(fd)?.take().ok_or(Errno::Badf)?;
        self.open -= 1;
        if fd >= PREOPEN {
            self.free.push(Reverse(fd));
        }
        Ok(descriptor)
    }

    /// Moves a descriptor over another that is open, and returns the one that was there.
    pub fn renumber(&mut self, from: Fd, to: Fd) -> Result<Option<Descriptor>, Errno> {
        self.get(from)?;
        self.get(to)?;
        if from == to {
            return Ok(None);
        }
        let moved = self.remove(from)?;
        Ok(self.slot(to)?.replace(moved))
    }

    fn slot(&mut self, fd: Fd) -> Result<&mut Option<Descriptor>, Errno> {
        let index = usize::try_from(fd).map_err(|_| Errno::Badf)?;
        self.slots.get_mut(index).ok_or(Errno::Badf)
    }
}
