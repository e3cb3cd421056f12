//! The names in one scratch directory.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::scratch::ScratchId;

/// The cookie of the first entry of any directory; 0 is ".", 1 is "..".
pub const FIRST_COOKIE: u64 = 2;

/// One name in a directory.
pub struct Entry {
    pub name: Arc<[u8]>,
    pub node: ScratchId,
}

/// A directory finds an entry by name and goes through its entries by cookie. Cookies only ever
/// count up, so that a listing in pieces neither skips nor repeats an entry while others are removed,
/// and each piece costs what it returns.
pub struct Directory {
    cookies: BTreeMap<Arc<[u8]>, u64>,
    entries: BTreeMap<u64, Entry>,
    next: u64,
    parent: ScratchId,
    /// Removed while a descriptor holds it: nothing can be found or made here any more.
    removed: bool,
}

impl Directory {
    pub fn new(parent: ScratchId) -> Self {
        Self {
            cookies: BTreeMap::new(),
            entries: BTreeMap::new(),
            next: FIRST_COOKIE,
            parent,
            removed: false,
        }
    }

    pub fn parent(&self) -> ScratchId {
        self.parent
    }

    pub fn set_parent(&mut self, parent: ScratchId) {
        self.parent = parent;
    }

    pub fn is_removed(&self) -> bool {
        self.removed
    }

    pub fn set_removed(&mut self) {
        self.removed = true;
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn get(&self, name: &[u8]) -> Option<ScratchId> {
        let cookie = self.cookies.get(name)?;
        self.entries.get(cookie).map(|entry| entry.node)
    }

    /// Adds a name, or makes a name that is there stand for another node.
    pub fn insert(&mut self, name: &[u8], node: ScratchId) {
        if let Some(cookie) = self.cookies.get(name) {
            if let Some(entry) = self.entries.get_mut(cookie) {
                entry.node = node;
            }
            return;
        }
        let name: Arc<[u8]> = name.into();
        self.cookies.insert(Arc::clone(&name), self.next);
        self.entries.insert(self.next, Entry { name, node });
        self.next += 1;
    }

    pub fn remove(&mut self, name: &[u8]) {
        if let Some(cookie) = self.cookies.remove(name) {
            self.entries.remove(&cookie);
        }
    }

    /// The entries from a cookie on, with their cookies.
    pub fn entries_from(&self, cookie: u64) -> impl Iterator<Item = (u64, &Entry)> {
        let entries = self.entries.range(cookie..);
        entries.map(|(cookie, entry)| (*cookie, entry))
    }
}
