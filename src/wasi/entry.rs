//! What can be done with a path.

use super::Wasi;
use super::clock;
use super::content::Content;
use super::descriptor::{Fd, Handle};
use super::directory::Directory;
use super::errno::Errno;
use super::library::LibraryKind;
use super::path::{Located, check_path};
use super::scratch::{Body, ScratchId};
use super::stat::{Filestat, Filetype, OpenOptions, Times, fdflags, oflags};
use super::tree::Node;

impl Wasi {
    pub(super) fn open(
        &mut self,
        directory: Fd,
        path: &[u8],
        follow: bool,
        options: OpenOptions,
    ) -> Result<Fd, Errno> {
        let OpenOptions {
            oflags,
            fdflags,
            read,
            write,
        } = options;
        let creat = oflags & oflags::CREAT != 0;
        let exclusive = creat && oflags & oflags::EXCL != 0;
        if fdflags & !fdflags::ALL != 0 || (creat && oflags & oflags::DIRECTORY != 0) {
            return Err(Errno::Inval);
        }
        let located = self.locate(directory, path, follow && !exclusive)?;
        self.descriptors.check_room()?;
        let node = match located.node {
            Some(_) if exclusive => return Err(Errno::Exist),
            Some(node) => {
                self.prepare_open(node, oflags, write)?;
                node
            }
            None if !creat => return Err(Errno::Noent),
            None if located.slash => return Err(Errno::Isdir),
            None => Node::Scratch(self.make(&located, Body::File(Content::default()))?),
        };
        if let Node::Scratch(id) = node {
            self.tree.scratch.hold(id)?;
        }
        self.descriptors.insert(Handle {
            node,
            offset: 0,
            read,
            write,
            flags: fdflags,
            preopen: false,
        })
    }

    pub(super) fn create_directory(&mut self, directory: Fd, path: &[u8]) -> Result<(), Errno> {
        let located = self.locate(directory, path, false)?;
        if located.node.is_some() {
            return Err(Errno::Exist);
        }
        let parent = located.directory.writable()?;
        let body = Body::Directory(Directory::new(parent));
        self.make(&located, body).map(|_| ())
    }

    pub(super) fn symlink(
        &mut self,
        target: &[u8],
        directory: Fd,
        path: &[u8],
    ) -> Result<(), Errno> {
        check_path(target)?;
        let located = self.locate(directory, path, false)?;
        if located.node.is_some() {
            return Err(Errno::Exist);
        }
        if located.slash {
            return Err(Errno::Noent);
        }
        self.make(&located, Body::Symlink(target.into()))
            .map(|_| ())
    }

    /// Gives a file one more name.
    pub(super) fn link(
        &mut self,
        old: (Fd, &[u8]),
        follow: bool,
        new: (Fd, &[u8]),
    ) -> Result<(), Errno> {
        let old = self.locate(old.0, old.1, follow)?.node()?;
        let new = self.locate(new.0, new.1, false)?;
        if new.node.is_some() {
            return Err(Errno::Exist);
        }
        if self.tree.filetype(old)? == Filetype::Directory {
            return Err(Errno::Perm);
        }
        let parent = new.directory.writable()?;
        let old = old.writable()?;
        match &new.name {
            Some(name) if !new.slash => self.tree.scratch.link(old, parent, name, clock::now()),
            _ => Err(Errno::Noent),
        }
    }

    pub(super) fn readlink(&self, directory: Fd, path: &[u8]) -> Result<&[u8], Errno> {
        let node = self.locate(directory, path, false)?.node()?;
        self.tree.link_target(node)?.ok_or(Errno::Inval)
    }

    pub(super) fn unlink(&mut self, directory: Fd, path: &[u8]) -> Result<(), Errno> {
        let located = self.locate(directory, path, false)?;
        if self.tree.filetype(located.node()?)? == Filetype::Directory {
            return Err(Errno::Isdir);
        }
        let (parent, name) = changeable(&located)?;
        self.tree.scratch.unlink(parent, name, clock::now())
    }

    pub(super) fn remove_directory(&mut self, directory: Fd, path: &[u8]) -> Result<(), Errno> {
        let located = self.locate(directory, path, false)?;
        if self.tree.filetype(located.node()?)? != Filetype::Directory {
            return Err(Errno::Notdir);
        }
        let (parent, name) = changeable(&located)?;
        self.tree.scratch.unlink(parent, name, clock::now())
    }

    pub(super) fn rename(&mut self, old: (Fd, &[u8]), new: (Fd, &[u8])) -> Result<(), Errno> {
        let old = self.locate(old.0, old.1, false)?;
        let new = self.locate(new.0, new.1, false)?;
        let from = changeable(&old)?;
        let to = match (new.node, &new.name) {
            (None, Some(name)) => (new.directory.writable()?, name.as_ref()),
            _ => changeable(&new)?,
        };
        // Two names of one file: nothing to do, says POSIX.
        if old.node == new.node {
            return Ok(());
        }
        let is_directory = self.tree.filetype(old.node()?)? == Filetype::Directory;
        match new.node {
            Some(node) => match (is_directory, self.tree.filetype(node)?) {
                (true, Filetype::Directory) => {}
                (true, _) => return Err(Errno::Notdir),
                (false, Filetype::Directory) => return Err(Errno::Isdir),
                (false, _) => {}
            },
            None if new.slash && !is_directory => return Err(Errno::Notdir),
            None => {}
        }
        self.tree.scratch.rename(from, to, clock::now())
    }

    pub(super) fn path_filestat(
        &self,
        directory: Fd,
        path: &[u8],
        follow: bool,
    ) -> Result<Filestat, Errno> {
        let node = self.locate(directory, path, follow)?.node()?;
        self.tree.stat(node)
    }

    pub(super) fn path_set_times(
        &mut self,
        directory: Fd,
        path: &[u8],
        follow: bool,
        times: Times,
    ) -> Result<(), Errno> {
        let node = self.locate(directory, path, follow)?.node()?.writable()?;
        self.tree.scratch.set_times(node, times, clock::now())
    }

    /// Checks that a node may be opened as asked, and truncates it if that was asked.
    fn prepare_open(&mut self, node: Node, oflags: u16, write: bool) -> Result<(), Errno> {
        let trunc = oflags & oflags::TRUNC != 0;
        match self.tree.filetype(node)? {
            // The path ended in a link that was not to be followed.
            Filetype::SymbolicLink => return Err(Errno::Loop),
            Filetype::Directory if write || trunc || oflags & oflags::CREAT != 0 => {
                return Err(Errno::Isdir);
            }
            Filetype::Directory => return Ok(()),
            _ if oflags & oflags::DIRECTORY != 0 => return Err(Errno::Notdir),
            _ => {}
        }
        match node {
            Node::Library(id) => match self.tree.library.kind(id)? {
                LibraryKind::File(_) if write || trunc => Err(Errno::Rofs),
                _ => Ok(()),
            },
            Node::Scratch(id) if trunc => self.tree.scratch.resize(id, 0, clock::now()),
            Node::Scratch(_) => Ok(()),
        }
    }

    fn locate(&self, directory: Fd, path: &[u8], follow: bool) -> Result<Located, Errno> {
        let handle = self.descriptors.get(directory)?.handle();
        let start = handle.map_err(|_| Errno::Notdir)?.node;
        if self.tree.filetype(start)? != Filetype::Directory {
            return Err(Errno::Notdir);
        }
        self.tree.locate(start, path, follow)
    }

    /// Makes a node where a path led to nothing.
    fn make(&mut self, located: &Located, body: Body) -> Result<ScratchId, Errno> {
        let parent = located.directory.writable()?;
        // Only a path that leads to a node can lack a last name.
        let name = located.name.as_deref().ok_or(Errno::Exist)?;
        self.tree.scratch.create(parent, name, body, clock::now())
    }
}

/// The directory and the name of a node that may be removed or moved.
fn changeable(located: &Located) -> Result<(ScratchId, &[u8]), Errno> {
    let node = located.node()?;
    // `/tmp` itself is a mount point.
    if node == Node::SCRATCH {
        return Err(Errno::Busy);
    }
    node.writable()?;
    // The path ended in `.` or `..`.
    let name = located.name.as_deref().ok_or(Errno::Inval)?;
    Ok((located.directory.writable()?, name))
}
