//! The writable part of the tree: the files, directories and links below `/tmp`, in memory.

use std::sync::Arc;

use super::content::Content;
use super::directory::Directory;
use super::errno::Errno;
use super::quota::Quota;
use super::stat::{Filetype, Times};
use super::{MemoryBudget, ScratchLimits};

/// Index of a node in the scratch; 0 is its root, `/tmp`.
pub type ScratchId = u32;

/// The root of the scratch.
pub const ROOT: ScratchId = 0;

/// What a scratch node is.
pub enum Body {
    File(Content),
    Directory(Directory),
    Symlink(Box<[u8]>),
}

/// A node. It lives as long as a name or a descriptor leads to it.
pub struct Inode {
    pub body: Body,
    /// Never used twice in a run, unlike the index.
    pub ino: u64,
    /// Names of a file or a link; 1 for a directory, whose subdirectories are not counted.
    pub links: u32,
    handles: u32,
    pub atim: u64,
    pub mtim: u64,
    pub ctim: u64,
}

impl Inode {
    pub fn filetype(&self) -> Filetype {
        match self.body {
            Body::File(_) => Filetype::RegularFile,
            Body::Directory(_) => Filetype::Directory,
            Body::Symlink(_) => Filetype::SymbolicLink,
        }
    }

    pub fn size(&self) -> u64 {
        match &self.body {
            Body::File(content) => content.len(),
            Body::Directory(_) => 0,
            Body::Symlink(target) => target.len() as u64,
        }
    }
}

/// All nodes of one run's scratch. Every name holds one file of the quota; the last name's is held
/// until the node is freed.
pub struct Scratch {
    inodes: Vec<Option<Inode>>,
    free: Vec<ScratchId>,
    next_ino: u64,
    quota: Quota,
}

impl Scratch {
    pub fn new(limits: ScratchLimits, budget: Arc<dyn MemoryBudget>, now: u64) -> Self {
        let mut scratch = Self {
            inodes: Vec::new(),
            free: Vec::new(),
            next_ino: 1,
            quota: Quota::new(limits, budget),
        };
        scratch.insert(Body::Directory(Directory::new(ROOT)), now);
        scratch
    }

    pub fn get(&self, id: ScratchId) -> Result<&Inode, Errno> {
        let index = usize::try_from(id).map_err(|_| Errno::Noent)?;
        self.inodes
            .get(index)
            .and_then(Option::as_ref)
            .ok_or(Errno::Noent)
    }

    fn get_mut(&mut self, id: ScratchId) -> Result<&mut Inode, Errno> {
        inode_mut(&mut self.inodes, id)
    }

    /// The directory at an id, or `Notdir`.
    pub fn directory(&self, id: ScratchId) -> Result<&Directory, Errno> {
        match &self.get(id)?.body {
            Body::Directory(directory) => Ok(directory),
            Body::File(_) | Body::Symlink(_) => Err(Errno::Notdir),
        }
    }

    /// Makes a new node with a first name, which must not be there yet.
    pub fn create(
        &mut self,
        parent: ScratchId,
        name: &[u8],
        body: Body,
        now: u64,
    ) -> Result<ScratchId, Errno> {
        if self.directory(parent)?.is_removed() {
            return Err(Errno::Noent);
        }
        self.quota.take_file()?;
        if let Body::Symlink(target) = &body
            && let Err(error) = self.quota.take_bytes(target.len() as u64)
        {
            self.quota.give_file();
            return Err(error);
        }
        let id = self.insert(body, now);
        self.set_entry(parent, name, Some(id), now)?;
        Ok(id)
    }

    /// Gives a file or a link one more name, which must not be there yet.
    pub fn link(
        &mut self,
        id: ScratchId,
        parent: ScratchId,
        name: &[u8],
        now: u64,
    ) -> Result<(), Errno> {
        if self.directory(parent)?.is_removed() || self.get(id)?.links == 0 {
            return Err(Errno::Noent);
        }
        self.quota.take_file()?;
        let inode = self.get_mut(id)?;
        inode.links += 1;
        inode.ctim = now;
        self.set_entry(parent, name, Some(id), now)
    }

    /// Removes the name of a file, a link or an empty directory.
    pub fn unlink(&mut self, parent: ScratchId, name: &[u8], now: u64) -> Result<(), Errno> {
        let id = self.directory(parent)?.get(name).ok_or(Errno::Noent)?;
        self.check_empty(id)?;
        self.set_entry(parent, name, None, now)?;
        self.drop_link(id, now)
    }

    /// Moves a name, over what the new name stood for. The caller has seen to it that the types fit.
    pub fn rename(
        &mut self,
        (old_parent, old_name): (ScratchId, &[u8]),
        (new_parent, new_name): (ScratchId, &[u8]),
        now: u64,
    ) -> Result<(), Errno> {
        let old = self.directory(old_parent)?;
        let id = old.get(old_name).ok_or(Errno::Noent)?;
        let new = self.directory(new_parent)?;
        if new.is_removed() {
            return Err(Errno::Noent);
        }
        let replaced = new.get(new_name);
        if replaced == Some(id) {
            return Ok(());
        }
        if matches!(self.get(id)?.body, Body::Directory(_)) && self.is_within(new_parent, id)? {
            return Err(Errno::Inval);
        }
        if let Some(replaced) = replaced {
            self.check_empty(replaced)?;
        }
        self.set_entry(old_parent, old_name, None, now)?;
        self.set_entry(new_parent, new_name, Some(id), now)?;
        let inode = self.get_mut(id)?;
        inode.ctim = now;
        if let Body::Directory(directory) = &mut inode.body {
            directory.set_parent(new_parent);
        }
        match replaced {
            Some(replaced) => self.drop_link(replaced, now),
            None => Ok(()),
        }
    }

    pub fn read_at(
        &mut self,
        id: ScratchId,
        at: u64,
        into: &mut [u8],
        now: u64,
    ) -> Result<usize, Errno> {
        let inode = self.get_mut(id)?;
        let Body::File(content) = &inode.body else {
            return Err(Errno::Isdir);
        };
        inode.atim = now;
        Ok(content.read_at(at, into))
    }

    pub fn write_at(&mut self, id: ScratchId, at: u64, from: &[u8], now: u64) -> Result<(), Errno> {
        self.change(id, now, |content, quota| content.write_at(at, from, quota))
    }

    pub fn resize(&mut self, id: ScratchId, len: u64, now: u64) -> Result<(), Errno> {
        self.change(id, now, |content, quota| content.resize(len, quota))
    }

    pub fn set_times(&mut self, id: ScratchId, times: Times, now: u64) -> Result<(), Errno> {
        let inode = self.get_mut(id)?;
        inode.atim = times.atim.unwrap_or(inode.atim);
        inode.mtim = times.mtim.unwrap_or(inode.mtim);
        inode.ctim = now;
        Ok(())
    }

    /// A descriptor now holds the node.
    pub fn hold(&mut self, id: ScratchId) -> Result<(), Errno> {
        self.get_mut(id)?.handles += 1;
        Ok(())
    }

    /// A descriptor has let go of the node.
    pub fn let_go(&mut self, id: ScratchId) {
        if let Ok(inode) = self.get_mut(id) {
            inode.handles = inode.handles.saturating_sub(1);
            self.free_if_unused(id);
        }
    }

    #[cfg(test)]
    pub fn quota(&self) -> &Quota {
        &self.quota
    }

    fn change(
        &mut self,
        id: ScratchId,
        now: u64,
        change: impl FnOnce(&mut Content, &mut Quota) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let inode = inode_mut(&mut self.inodes, id)?;
        let Body::File(content) = &mut inode.body else {
            return Err(Errno::Isdir);
        };
        change(content, &mut self.quota)?;
        inode.mtim = now;
        inode.ctim = now;
        Ok(())
    }

    fn insert(&mut self, body: Body, now: u64) -> ScratchId {
        let inode = Inode {
            body,
            ino: self.next_ino,
            links: 1,
            handles: 0,
            atim: now,
            mtim: now,
            ctim: now,
        };
        self.next_ino += 1;
        while let Some(id) = self.free.pop() {
            if let Some(slot) = self.inodes.get_mut(id as usize) {
                *slot = Some(inode);
                return id;
            }
        }
        self.inodes.push(Some(inode));
        // The quota keeps the number of nodes far below 2³²: each costs a kilobyte of the budget.
        ScratchId::try_from(self.inodes.len() - 1).unwrap_or(ScratchId::MAX)
    }

    /// Sets or removes one name of a directory.
    fn set_entry(
        &mut self,
        parent: ScratchId,
        name: &[u8],
        node: Option<ScratchId>,
        now: u64,
    ) -> Result<(), Errno> {
        let inode = self.get_mut(parent)?;
        let Body::Directory(directory) = &mut inode.body else {
            return Err(Errno::Notdir);
        };
        match node {
            Some(node) => directory.insert(name, node),
            None => directory.remove(name),
        }
        inode.mtim = now;
        inode.ctim = now;
        Ok(())
    }

    fn check_empty(&self, id: ScratchId) -> Result<(), Errno> {
        match &self.get(id)?.body {
            Body::Directory(directory) if !directory.is_empty() => Err(Errno::Notempty),
            _ => Ok(()),
        }
    }

    /// Whether a directory is `ancestor` or lies below it.
    fn is_within(&self, directory: ScratchId, ancestor: ScratchId) -> Result<bool, Errno> {
        let mut here = directory;
        loop {
            if here == ancestor {
                return Ok(true);
            }
            if here == ROOT {
                return Ok(false);
            }
            here = self.directory(here)?.parent();
        }
    }

    fn drop_link(&mut self, id: ScratchId, now: u64) -> Result<(), Errno> {
        let inode = self.get_mut(id)?;
        inode.links = inode.links.saturating_sub(1);
        inode.ctim = now;
        if let Body::Directory(directory) = &mut inode.body {
            directory.set_removed();
        }
        if inode.links > 0 {
            self.quota.give_file();
        } else {
            self.free_if_unused(id);
        }
        Ok(())
    }

    fn free_if_unused(&mut self, id: ScratchId) {
        let Some(slot) = self.inodes.get_mut(id as usize) else {
            return;
        };
        let Some(inode) = slot.take_if(|inode| inode.links == 0 && inode.handles == 0) else {
            return;
        };
        match inode.body {
            Body::File(mut content) => content.clear(&mut self.quota),
            Body::Symlink(target) => self.quota.give_bytes(target.len() as u64),
            Body::Directory(_) => {}
        }
        self.quota.give_file();
        self.free.push(id);
    }
}

/// Apart from `Scratch::get_mut`, so that the quota can be borrowed beside the node.
fn inode_mut(inodes: &mut [Option<Inode>], id: ScratchId) -> Result<&mut Inode, Errno> {
    let index = usize::try_from(id).map_err(|_| Errno::Noent)?;
    inodes
        .get_mut(index)
        .and_then(Option::as_mut)
        .ok_or(Errno::Noent)
}
