//! What can be done with a descriptor.

use super::Wasi;
use super::clock;
use super::descriptor::{Descriptor, Fd, Handle};
use super::errno::Errno;
use super::stat::{Dirent, Fdstat, Filestat, Filetype, Times, fdflags, rights};
use super::tree::Node;

/// What a position in a file is counted from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whence {
    Start,
    Current,
    End,
}

impl Wasi {
    /// Reads at the descriptor's position; 0 is the end.
    pub(super) fn read(&mut self, fd: Fd, into: &mut [u8]) -> Result<usize, Errno> {
        let handle = match self.descriptors.get(fd)? {
            Descriptor::Stdin => return Ok(0),
            Descriptor::Output(_) => return Err(Errno::Badf),
            Descriptor::Open(handle) => handle,
        };
        let (node, offset) = (readable(handle)?, handle.offset);
        let count = self.read_node(node, offset, into)?;
        let handle = self.descriptors.get_mut(fd)?.handle_mut()?;
        handle.offset = offset.saturating_add(count as u64);
        Ok(count)
    }

    pub(super) fn pread(&mut self, fd: Fd, at: u64, into: &mut [u8]) -> Result<usize, Errno> {
        let node = readable(self.descriptors.get(fd)?.handle()?)?;
        self.read_node(node, at, into)
    }

    /// Writes all of the bytes at the descriptor's position, or none.
    pub(super) fn write(&mut self, fd: Fd, from: &[u8]) -> Result<(), Errno> {
        let handle = match self.descriptors.get(fd)? {
            Descriptor::Stdin => return Err(Errno::Badf),
            Descriptor::Output(stream) => {
                self.output.write(*stream, from);
                return Ok(());
            }
            Descriptor::Open(handle) => handle,
        };
        let node = writable(handle)?;
        let at = if handle.appends() {
            self.tree.size(node)?
        } else {
            handle.offset
        };
        self.write_node(node, at, from)?;
        let handle = self.descriptors.get_mut(fd)?.handle_mut()?;
        handle.offset = at.saturating_add(from.len() as u64);
        Ok(())
    }

    pub(super) fn pwrite(&mut self, fd: Fd, at: u64, from: &[u8]) -> Result<(), Errno> {
        let node = writable(self.descriptors.get(fd)?.handle()?)?;
        self.write_node(node, at, from)
    }

    pub(super) fn seek(&mut self, fd: Fd, delta: i64, whence: Whence) -> Result<u64, Errno> {
        let handle = self.descriptors.get(fd)?.handle()?;
        let base = match (self.tree.filetype(handle.node)?, whence) {
            (Filetype::Directory, _) => return Err(Errno::Isdir),
            // A device has no positions: wherever one seeks, one is at 0.
            (Filetype::CharacterDevice, _) => return Ok(0),
            (_, Whence::Start) => 0,
            (_, Whence::Current) => handle.offset,
            (_, Whence::End) => self.tree.size(handle.node)?,
        };
        let offset = base.checked_add_signed(delta).ok_or(Errno::Inval)?;
        // The guest's offsets are signed.
        if i64::try_from(offset).is_err() {
            return Err(Errno::Inval);
        }
        self.descriptors.get_mut(fd)?.handle_mut()?.offset = offset;
        Ok(offset)
    }

    pub(super) fn close(&mut self, fd: Fd) -> Result<(), Errno> {
        let descriptor = self.descriptors.remove(fd)?;
        self.let_go(&descriptor);
        Ok(())
    }

    pub(super) fn renumber(&mut self, from: Fd, to: Fd) -> Result<(), Errno> {
        if let Some(replaced) = self.descriptors.renumber(from, to)? {
            self.let_go(&replaced);
        }
        Ok(())
    }

    /// Fails if the descriptor is not open.
    pub(super) fn check(&self, fd: Fd) -> Result<(), Errno> {
        self.descriptors.get(fd).map(|_| ())
    }

    /// The guest path of a preopened directory.
    pub(super) fn preopen(&self, fd: Fd) -> Result<&'static [u8], Errno> {
        match self.descriptors.get(fd)? {
            Descriptor::Open(handle) if handle.preopen => Ok(b"/"),
            _ => Err(Errno::Badf),
        }
    }

    pub(super) fn fdstat(&self, fd: Fd) -> Result<Fdstat, Errno> {
        let stream = |right| Fdstat {
            // Not a character device, or libc would take it for a terminal.
            filetype: Filetype::Unknown,
            flags: 0,
            rights_base: rights::STREAM | right,
            rights_inheriting: 0,
        };
        let handle = match self.descriptors.get(fd)? {
            Descriptor::Stdin => return Ok(stream(rights::FD_READ)),
            Descriptor::Output(_) => return Ok(stream(rights::FD_WRITE)),
            Descriptor::Open(handle) => handle,
        };
        let filetype = self.tree.filetype(handle.node)?;
        let (rights_base, rights_inheriting) = if filetype == Filetype::Directory {
            (rights::DIRECTORY, rights::ALL)
        } else {
            let reading = if handle.read { rights::FD_READ } else { 0 };
            let writing = if handle.write { rights::WRITING } else { 0 };
            (rights::FILE | reading | writing, 0)
        };
        Ok(Fdstat {
            filetype,
            flags: handle.flags,
            rights_base,
            rights_inheriting,
        })
    }

    pub(super) fn set_fdflags(&mut self, fd: Fd, flags: u16) -> Result<(), Errno> {
        if flags & !fdflags::ALL != 0 {
            return Err(Errno::Inval);
        }
        if let Descriptor::Open(handle) = self.descriptors.get_mut(fd)? {
            handle.flags = flags;
        }
        Ok(())
    }

    /// Rights can only be taken away.
    pub(super) fn set_rights(&mut self, fd: Fd, base: u64, inheriting: u64) -> Result<(), Errno> {
        let fdstat = self.fdstat(fd)?;
        if base & !fdstat.rights_base != 0 || inheriting & !fdstat.rights_inheriting != 0 {
            return Err(Errno::Notcapable);
        }
        self.descriptors.get_mut(fd)?.restrict(base);
        Ok(())
    }

    pub(super) fn filestat(&self, fd: Fd) -> Result<Filestat, Errno> {
        match self.descriptors.get(fd)? {
            Descriptor::Open(handle) => self.tree.stat(handle.node),
            Descriptor::Stdin | Descriptor::Output(_) => Ok(Filestat {
                dev: 0,
                ino: u64::from(fd),
                filetype: Filetype::Unknown,
                nlink: 1,
                size: 0,
                atim: 0,
                mtim: 0,
                ctim: 0,
            }),
        }
    }

    pub(super) fn set_size(&mut self, fd: Fd, size: u64) -> Result<(), Errno> {
        let node = writable(self.descriptors.get(fd)?.handle()?)?.writable()?;
        self.tree.scratch.resize(node, size, clock::now())
    }

    /// Makes sure that a range exists. There is no way to have bytes without using them here.
    pub(super) fn allocate(&mut self, fd: Fd, offset: u64, len: u64) -> Result<(), Errno> {
        let node = writable(self.descriptors.get(fd)?.handle()?)?;
        if len == 0 {
            return Err(Errno::Inval);
        }
        let end = offset.checked_add(len).ok_or(Errno::Fbig)?;
        if end > self.tree.size(node)? {
            self.set_size(fd, end)?;
        }
        Ok(())
    }

    pub(super) fn set_times(&mut self, fd: Fd, times: Times) -> Result<(), Errno> {
        let node = self.descriptors.get(fd)?.handle()?.node.writable()?;
        self.tree.scratch.set_times(node, times, clock::now())
    }

    /// Shows the entries of a directory from a cookie on.
    pub(super) fn readdir(
        &self,
        fd: Fd,
        cookie: u64,
        visit: &mut dyn FnMut(Dirent<'_>) -> bool,
    ) -> Result<(), Errno> {
        let handle = self.descriptors.get(fd)?.handle();
        let node = handle.map_err(|_| Errno::Notdir)?.node;
        self.tree.list(node, cookie, visit)
    }

    /// How many bytes can be read at once.
    pub(super) fn available(&self, fd: Fd) -> Result<u64, Errno> {
        match self.descriptors.get(fd)? {
            Descriptor::Open(handle) => {
                Ok(self.tree.size(handle.node)?.saturating_sub(handle.offset))
            }
            Descriptor::Stdin | Descriptor::Output(_) => Ok(0),
        }
    }

    fn let_go(&mut self, descriptor: &Descriptor) {
        if let Descriptor::Open(Handle {
            node: Node::Scratch(id),
            ..
        }) = descriptor
        {
            self.tree.scratch.let_go(*id);
        }
    }

    fn read_node(&mut self, node: Node, at: u64, into: &mut [u8]) -> Result<usize, Errno> {
        match node {
            Node::Library(id) => self.tree.library.read_at(id, at, into),
            Node::Scratch(id) => self.tree.scratch.read_at(id, at, into, clock::now()),
        }
    }

    fn write_node(&mut self, node: Node, at: u64, from: &[u8]) -> Result<(), Errno> {
        match node {
            // Only a device of the library can be open for writing, and both swallow it all.
            Node::Library(_) => Ok(()),
            Node::Scratch(id) => self.tree.scratch.write_at(id, at, from, clock::now()),
        }
    }
}

/// The node, if the descriptor was opened for reading. A directory is read in another way.
fn readable(handle: &Handle) -> Result<Node, Errno> {
    if handle.read {
        Ok(handle.node)
    } else {
        Err(Errno::Badf)
    }
}

fn writable(handle: &Handle) -> Result<Node, Errno> {
    if handle.write {
        Ok(handle.node)
    } else {
        Err(Errno::Badf)
    }
}
