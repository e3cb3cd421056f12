//! The whole tree: the library with the scratch of one run at `/tmp`.

use std::sync::Arc;

use super::directory::FIRST_COOKIE;
use super::errno::Errno;
use super::library::{self, Library, LibraryId, LibraryKind};
use super::scratch::{self, Body, Scratch, ScratchId};
use super::stat::{Dirent, Filestat, Filetype};
use super::{MemoryBudget, ScratchLimits};

/// The time of everything in the library: 1980, where the time of zip files begins.
const LIBRARY_TIME: u64 = 315_532_800_000_000_000;

const LIBRARY_DEV: u64 = 1;
const SCRATCH_DEV: u64 = 2;

/// A node of either part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Node {
    Library(LibraryId),
    Scratch(ScratchId),
}

impl Node {
    /// The root of the tree.
    pub const ROOT: Self = Self::Library(library::ROOT);
    /// `/tmp`.
    pub const SCRATCH: Self = Self::Scratch(scratch::ROOT);

    /// The node if it is writable, which is to say, in the scratch.
    pub fn writable(self) -> Result<ScratchId, Errno> {
        match self {
            Self::Scratch(id) => Ok(id),
            Self::Library(_) => Err(Errno::Rofs),
        }
    }
}

/// The tree that one run sees.
pub struct Tree {
    pub library: Arc<Library>,
    pub scratch: Scratch,
}

impl Tree {
    pub fn new(
        library: Arc<Library>,
        limits: ScratchLimits,
        budget: Arc<dyn MemoryBudget>,
        now: u64,
    ) -> Self {
        let scratch = Scratch::new(limits, budget, now);
        Self { library, scratch }
    }

    pub fn filetype(&self, node: Node) -> Result<Filetype, Errno> {
        match node {
            Node::Scratch(id) => Ok(self.scratch.get(id)?.filetype()),
            Node::Library(id) => Ok(match self.library.kind(id)? {
                LibraryKind::Directory => Filetype::Directory,
                LibraryKind::File(_) => Filetype::RegularFile,
                LibraryKind::Device(_) => Filetype::CharacterDevice,
                LibraryKind::Passage => return Err(Errno::Notdir),
            }),
        }
    }

    pub fn stat(&self, node: Node) -> Result<Filestat, Errno> {
        let filetype = self.filetype(node)?;
        match node {
            Node::Scratch(id) => {
                let inode = self.scratch.get(id)?;
                Ok(Filestat {
                    dev: SCRATCH_DEV,
                    ino: inode.ino,
                    filetype,
                    nlink: inode.links.into(),
                    size: inode.size(),
                    atim: inode.atim,
                    mtim: inode.mtim,
                    ctim: inode.ctim,
                })
            }
            Node::Library(id) => Ok(Filestat {
                dev: LIBRARY_DEV,
                ino: library_ino(id),
                filetype,
                nlink: 1,
                size: match self.library.kind(id)? {
                    LibraryKind::File(slice) => slice.len,
                    LibraryKind::Directory | LibraryKind::Passage | LibraryKind::Device(_) => 0,
                },
                atim: LIBRARY_TIME,
                mtim: LIBRARY_TIME,
                ctim: LIBRARY_TIME,
            }),
        }
    }

    /// The size of a file, where reading ends and appending starts.
    pub fn size(&self, node: Node) -> Result<u64, Errno> {
        Ok(self.stat(node)?.size)
    }

    /// Whether a path may lead on from a node: a directory, or an archive.
    pub fn has_children(&self, node: Node) -> Result<bool, Errno> {
        match node {
            Node::Scratch(id) => Ok(self.scratch.get(id)?.filetype() == Filetype::Directory),
            Node::Library(id) => self.library.has_children(id),
        }
    }

    pub fn child(&self, directory: Node, name: &[u8]) -> Result<Option<Node>, Errno> {
        match directory {
            Node::Scratch(id) => Ok(self.scratch.directory(id)?.get(name).map(Node::Scratch)),
            Node::Library(id) => {
                let child = self.library.child(id, name)?;
                Ok(child.map(|child| self.mounted(child)))
            }
        }
    }

    /// The directory above; the root is above itself.
    pub fn parent(&self, directory: Node) -> Result<Node, Errno> {
        match directory {
            Node::SCRATCH => Ok(Node::Library(self.library.parent(self.library.scratch())?)),
            Node::Scratch(id) => {
                let directory = self.scratch.directory(id)?;
                if directory.is_removed() {
                    return Err(Errno::Noent);
                }
                Ok(Node::Scratch(directory.parent()))
            }
            Node::Library(id) => Ok(Node::Library(self.library.parent(id)?)),
        }
    }

    /// What a symbolic link says; `None` for anything else.
    pub fn link_target(&self, node: Node) -> Result<Option<&[u8]>, Errno> {
        let Node::Scratch(id) = node else {
            return Ok(None);
        };
        match &self.scratch.get(id)?.body {
            Body::Symlink(target) => Ok(Some(target)),
            Body::File(_) | Body::Directory(_) => Ok(None),
        }
    }

    /// Shows the entries of a directory from a cookie on, until there is no more or `visit` returns
    /// false.
    pub fn list(
        &self,
        directory: Node,
        cookie: u64,
        visit: &mut dyn FnMut(Dirent<'_>) -> bool,
    ) -> Result<(), Errno> {
        if self.filetype(directory)? != Filetype::Directory {
            return Err(Errno::Notdir);
        }
        // A removed directory has no entries, not even these two.
        let parent = match self.parent(directory) {
            Err(Errno::Noent) => return Ok(()),
            parent => parent?,
        };
        let mut show = |cookie: u64, name: &[u8], node: Node| -> Result<bool, Errno> {
            Ok(visit(Dirent {
                next: cookie + 1,
                ino: self.ino(node)?,
                // What is above may be a passage: listed, though it is not there by its path.
                filetype: self.filetype(node).unwrap_or(Filetype::Directory),
                name,
            }))
        };
        if cookie < 1 && !show(0, b".", directory)? {
            return Ok(());
        }
        if cookie < FIRST_COOKIE && !show(1, b"..", parent)? {
            return Ok(());
        }
        let from = cookie.max(FIRST_COOKIE);
        match directory {
            Node::Scratch(id) => {
                for (cookie, entry) in self.scratch.directory(id)?.entries_from(from) {
                    if !show(cookie, &entry.name, Node::Scratch(entry.node))? {
                        break;
                    }
                }
            }
            Node::Library(id) => {
                let children = self.library.children(id, from - FIRST_COOKIE)?;
                // The children come first: counting on from the largest cookie would overflow.
                for ((name, child), cookie) in children.zip(from..) {
                    if !show(cookie, name, self.mounted(child))? {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    fn ino(&self, node: Node) -> Result<u64, Errno> {
        match node {
            Node::Scratch(id) => Ok(self.scratch.get(id)?.ino),
            Node::Library(id) => Ok(library_ino(id)),
        }
    }

    /// The node that is seen where a library node is: the scratch covers `/tmp`.
    fn mounted(&self, id: LibraryId) -> Node {
        if id == self.library.scratch() {
            Node::SCRATCH
        } else {
            Node::Library(id)
        }
    }
}

/// Apart from the numbers of the scratch, so that a number alone tells nodes apart.
fn library_ino(id: LibraryId) -> u64 {
    (1 << 48) + u64::from(id)
}
