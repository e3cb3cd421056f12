//! From a path to a node.

use super::errno::Errno;
use super::stat::Filetype;
use super::tree::{Node, Tree};

/// The longest path, and the longest target of a symbolic link.
pub const PATH_MAX: usize = 4096;

/// The longest name of one file.
pub const NAME_MAX: usize = 255;

/// As many symbolic links as Linux follows.
const LINKS_MAX: usize = 40;

/// Where a path leads.
#[derive(Debug)]
pub struct Located {
    /// The directory that holds the last name, after symbolic links.
    pub directory: Node,
    /// The last name; `None` when the path ends in `.`, `..` or `/` alone.
    pub name: Option<Box<[u8]>>,
    /// The node there, if there is one.
    pub node: Option<Node>,
    /// The path ended in a slash.
    pub slash: bool,
}

impl Located {
    fn at(node: Node) -> Self {
        Self {
            directory: node,
            name: None,
            node: Some(node),
            slash: false,
        }
    }

    /// The node, or `Noent`.
    pub fn node(&self) -> Result<Node, Errno> {
        self.node.ok_or(Errno::Noent)
    }
}

impl Tree {
    /// Walks a path. `..` at the root stays at the root and a leading slash starts there: nothing is
    /// above the tree, so nothing can be escaped.
    pub fn locate(&self, start: Node, path: &[u8], follow: bool) -> Result<Located, Errno> {
        check_path(path)?;
        let mut pending = Pending::default();
        let mut here = pending.push(path).unwrap_or(start);
        let mut links = 0;
        // A trailing slash of the path itself counts even when its last name is a link.
        let mut slash = false;
        while let Some(step) = pending.next() {
            slash |= step.last && step.slash;
            if !self.has_children(here)? {
                return Err(Errno::Notdir);
            }
            if matches!(step.name, b"." | b"..") {
                if step.name == b".." {
                    here = self.parent(here)?;
                }
                continue;
            }
            if step.name.len() > NAME_MAX {
                return Err(Errno::Nametoolong);
            }
            let node = self.child(here, step.name)?;
            if let Some(link) = node
                && (!step.last || follow || slash)
                && let Some(target) = self.link_target(link)?
            {
                links += 1;
                if links > LINKS_MAX {
                    return Err(Errno::Loop);
                }
                here = pending.push(target).unwrap_or(here);
                continue;
            }
            if step.last {
                if let Some(node) = node
                    && slash
                    && self.filetype(node)? != Filetype::Directory
                {
                    return Err(Errno::Notdir);
                }
                return Ok(Located {
                    directory: here,
                    name: Some(step.name.into()),
                    node,
                    slash,
                });
            }
            here = node.ok_or(Errno::Noent)?;
        }
        Ok(Located::at(here))
    }
}

/// Refuses what is no path at all.
pub fn check_path(path: &[u8]) -> Result<(), Errno> {
    match path {
        [] => Err(Errno::Noent),
        _ if path.len() > PATH_MAX => Err(Errno::Nametoolong),
        _ if path.contains(&0) => Err(Errno::Inval),
        _ => Ok(()),
    }
}

/// One name of a path.
struct Step<'a> {
    name: &'a [u8],
    /// No other name comes after it.
    last: bool,
    /// A slash comes after it.
    slash: bool,
}

/// What is still to be walked: the rest of the path below the rests of the links on it. The targets
/// are borrowed, so 40 long links cost no more than their lengths.
#[derive(Default)]
struct Pending<'a> {
    rests: Vec<&'a [u8]>,
}

impl<'a> Pending<'a> {
    /// Adds a path to walk first; the root, if the path starts there.
    fn push(&mut self, path: &'a [u8]) -> Option<Node> {
        let rest = trim(path);
        if !rest.is_empty() {
            self.rests.push(rest);
        }
        (rest.len() < path.len()).then_some(Node::ROOT)
    }

    fn next(&mut self) -> Option<Step<'a>> {
        let rest = self.rests.pop()?;
        let end = rest.iter().position(|byte| *byte == b'/');
        let (name, rest) = rest.split_at(end.unwrap_or(rest.len()));
        let rest = trim(rest);
        if !rest.is_empty() {
            self.rests.push(rest);
        }
        Some(Step {
            name,
            last: self.rests.is_empty(),
            slash: end.is_some(),
        })
    }
}

fn trim(path: &[u8]) -> &[u8] {
    let start = path.iter().position(|byte| *byte != b'/');
    path.get(start.unwrap_or(path.len())..).unwrap_or_default()
}
