//! The read-only part of the tree, which all runs of an image share.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use super::errno::Errno;
use super::path::NAME_MAX;

/// Index of a node in the library; 0 is the root of the whole tree.
pub type LibraryId = u32;

/// The root of the whole tree.
pub const ROOT: LibraryId = 0;

/// A range of bytes of an open file of the host.
///
/// It is read with `pread`, never mapped: a mapped file that shrinks would kill the process.
#[derive(Clone, Debug)]
pub struct LibrarySlice {
    /// The file.
    pub file: Arc<File>,
    /// Where the range begins (bytes).
    pub offset: u64,
    /// How long it is (bytes).
    pub len: u64,
}

impl LibrarySlice {
    /// Reads at an offset within the slice; 0 at its end and beyond.
    fn read_at(&self, at: u64, into: &mut [u8]) -> Result<usize, Errno> {
        let rest = self.len.saturating_sub(at);
        let count = usize::try_from(rest).map_or(into.len(), |rest| rest.min(into.len()));
        if count == 0 {
            return Ok(0);
        }
        let position = self.offset.checked_add(at).ok_or(Errno::Overflow)?;
        match self.file.read_at(&mut into[..count], position) {
            // The backing file is shorter than the slice says: not an end that the guest may trust.
            Ok(0) | Err(_) => Err(Errno::Io),
            Ok(count) => Ok(count),
        }
    }
}

/// Why a path cannot be added to a library.
#[derive(Debug, thiserror::Error)]
pub enum LibraryError {
    #[error("the guest path {0:?} is not absolute and plain")]
    /// It must begin with `/` and have no empty, `.` or `..` part.
    BadPath(String),
    #[error("the guest path {0:?} is there already")]
    /// Each path can be added once.
    Exists(String),
    #[error("the guest path {0:?} leads through a file")]
    /// Only directories and archives have children.
    ThroughFile(String),
}

/// A device of `/dev`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    Null,
    Random,
}

/// What a node of the library is.
#[derive(Debug)]
pub enum LibraryKind {
    Directory,
    /// Leads on to folders below an archive, and is not there itself: Python looks for modules in
    /// the archive, and would look in a folder of the same path instead.
    Passage,
    /// With children it is an archive: a file when it is opened, a directory on the way to a child.
    File(LibrarySlice),
    Device(Device),
}

#[derive(Debug)]
struct LibraryNode {
    kind: LibraryKind,
    parent: LibraryId,
    /// Sorted by name, for binary search and for cookies that are indexes.
    children: Vec<(Box<[u8]>, LibraryId)>,
}

/// A read-only tree of files: the folders and files of the image, `/dev/null`, `/dev/urandom`, and
/// `/tmp`, the place where the scratch of a run is seen.
#[derive(Debug)]
pub struct Library {
    nodes: Vec<LibraryNode>,
    scratch: LibraryId,
}

impl Library {
    /// An empty tree to add to.
    #[must_use]
    pub fn builder() -> LibraryBuilder {
        LibraryBuilder::default()
    }

    /// The node that the scratch covers.
    pub(super) fn scratch(&self) -> LibraryId {
        self.scratch
    }

    pub(super) fn kind(&self, id: LibraryId) -> Result<&LibraryKind, Errno> {
        Ok(&self.node(id)?.kind)
    }

    pub(super) fn parent(&self, id: LibraryId) -> Result<LibraryId, Errno> {
        Ok(self.node(id)?.parent)
    }

    /// Whether a path may lead on from here: a directory, or an archive.
    pub(super) fn has_children(&self, id: LibraryId) -> Result<bool, Errno> {
        let node = self.node(id)?;
        Ok(matches!(node.kind, LibraryKind::Directory) || !node.children.is_empty())
    }

    pub(super) fn child(&self, id: LibraryId, name: &[u8]) -> Result<Option<LibraryId>, Errno> {
        let children = &self.node(id)?.children;
        let found = children.binary_search_by(|(other, _)| other.as_ref().cmp(name));
        Ok(found.ok().map(|index| children[index].1))
    }

    /// The children from an index on.
    pub(super) fn children(
        &self,
        id: LibraryId,
        from: u64,
    ) -> Result<impl Iterator<Item = (&[u8], LibraryId)>, Errno> {
        let children = self.node(id)?.children.as_slice();
        let from = usize::try_from(from).unwrap_or(usize::MAX);
        let rest = children.get(from..).unwrap_or_default();
        Ok(rest.iter().map(|(name, child)| (name.as_ref(), *child)))
    }

    pub(super) fn read_at(&self, id: LibraryId, at: u64, into: &mut [u8]) -> Result<usize, Errno> {
        match &self.node(id)?.kind {
            LibraryKind::File(slice) => slice.read_at(at, into),
            LibraryKind::Device(Device::Null) => Ok(0),
            LibraryKind::Device(Device::Random) => {
                super::clock::fill_random(into)?;
                Ok(into.len())
            }
            LibraryKind::Directory | LibraryKind::Passage => Err(Errno::Isdir),
        }
    }

    fn node(&self, id: LibraryId) -> Result<&LibraryNode, Errno> {
        let index = usize::try_from(id).map_err(|_| Errno::Noent)?;
        self.nodes.get(index).ok_or(Errno::Noent)
    }
}

/// Collects the nodes of a [`Library`].
#[derive(Debug, Default)]
pub struct LibraryBuilder {
    root: Draft,
}

#[derive(Debug, Default)]
struct Draft {
    /// `None` is a directory.
    leaf: Option<Leaf>,
    children: BTreeMap<Box<[u8]>, Draft>,
}

impl Draft {
    /// Below an archive, a folder that holds no file itself only leads on to one that does.
    fn is_passage(&self) -> bool {
        self.leaf.is_none() && !self.children.values().any(|child| child.leaf.is_some())
    }
}

#[derive(Debug)]
struct Leaf {
    kind: LibraryKind,
    archive: bool,
}

impl LibraryBuilder {
    /// Adds a file; the directories on the way to it are made. What is added
    /// below `/tmp` is never seen, because the scratch covers it.
    ///
    /// # Errors
    /// Fails if the path is not plain, is taken, or leads through a file.
    pub fn add_file(&mut self, guest_path: &str, source: LibrarySlice) -> Result<(), LibraryError> {
        self.add(guest_path, LibraryKind::File(source), false)
    }

    /// Adds a file whose path can also lead on to other files, as the path of a zip of Python code
    /// does: packages find their data below `__file__`.
    ///
    /// # Errors
    /// As [`LibraryBuilder::add_file`].
    pub fn add_archive(
        &mut self,
        guest_path: &str,
        source: LibrarySlice,
    ) -> Result<(), LibraryError> {
        self.add(guest_path, LibraryKind::File(source), true)
    }

    /// Adds an empty directory, unless it is there.
    ///
    /// # Errors
    /// Fails if the path is not plain or leads through a file.
    pub fn add_directory(&mut self, guest_path: &str) -> Result<(), LibraryError> {
        self.reach(guest_path).map(|_| ())
    }

    /// Finishes the tree, with `/dev` and `/tmp`.
    ///
    /// # Errors
    /// Fails if something else was added where these two belong.
    pub fn build(mut self) -> Result<Library, LibraryError> {
        self.add_directory("/tmp")?;
        self.add("/dev/null", LibraryKind::Device(Device::Null), false)?;
        self.add("/dev/urandom", LibraryKind::Device(Device::Random), false)?;
        let mut library = Library {
            nodes: Vec::new(),
            scratch: ROOT,
        };
        // Breadth first with a queue, not by recursion: a path can be 2,000 folders deep.
        let mut queue = std::collections::VecDeque::from([(self.root, ROOT, false)]);
        let mut next = 1;
        let mut id = 0;
        while let Some((draft, parent, below_archive)) = queue.pop_front() {
            let passage = below_archive && draft.is_passage();
            let below_archive = passage || draft.leaf.as_ref().is_some_and(|leaf| leaf.archive);
            let mut children = Vec::with_capacity(draft.children.len());
            for (name, child) in draft.children {
                if id == ROOT && name.as_ref() == b"tmp" {
                    library.scratch = next;
                }
                children.push((name, next));
                queue.push_back((child, id, below_archive));
                next += 1;
            }
            library.nodes.push(LibraryNode {
                kind: match draft.leaf {
                    Some(leaf) => leaf.kind,
                    None if passage => LibraryKind::Passage,
                    None => LibraryKind::Directory,
                },
                parent,
                children,
            });
            id += 1;
        }
        Ok(library)
    }

    fn add(&mut self, path: &str, kind: LibraryKind, archive: bool) -> Result<(), LibraryError> {
        let (folder, name) = path
            .rsplit_once('/')
            .ok_or_else(|| LibraryError::BadPath(path.to_owned()))?;
        if !is_plain(name) {
            return Err(LibraryError::BadPath(path.to_owned()));
        }
        let folder = self.reach(folder)?;
        let draft = folder.children.entry(name.as_bytes().into()).or_default();
        // Children before their archive are fine; children below a plain file are not.
        if draft.leaf.is_some() || (!archive && !draft.children.is_empty()) {
            return Err(LibraryError::Exists(path.to_owned()));
        }
        draft.leaf = Some(Leaf { kind, archive });
        Ok(())
    }

    /// The directory or archive at a path, made where it is missing.
    fn reach(&mut self, path: &str) -> Result<&mut Draft, LibraryError> {
        let mut here = &mut self.root;
        if path.is_empty() || path == "/" {
            return Ok(here);
        }
        let names = path
            .strip_prefix('/')
            .ok_or_else(|| LibraryError::BadPath(path.to_owned()))?;
        for name in names.split('/') {
            if !is_plain(name) {
                return Err(LibraryError::BadPath(path.to_owned()));
            }
            here = here.children.entry(name.as_bytes().into()).or_default();
            if here.leaf.as_ref().is_some_and(|leaf| !leaf.archive) {
                return Err(LibraryError::ThroughFile(path.to_owned()));
            }
        }
        Ok(here)
    }
}

fn is_plain(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && name.len() <= NAME_MAX && !name.contains('\0')
}
