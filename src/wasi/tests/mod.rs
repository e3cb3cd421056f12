//! Tests of the file system, and of the calls against a piece of memory.

mod calls;
mod directories;
mod files;
mod library;
mod linker;
mod links;
mod renames;

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::descriptor::{Fd, PREOPEN};
use super::errno::Errno;
use super::stat::{Filetype, OpenOptions, oflags};
use super::{Library, LibrarySlice, MemoryBudget, Output, ScratchLimits, Stream, Wasi};

/// A budget that remembers what is taken.
#[derive(Default)]
struct Budget {
    used: AtomicU64,
    cap: u64,
}

impl Budget {
    fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
}

impl MemoryBudget for Budget {
    fn reserve(&self, bytes: u64) -> bool {
        let used = self.used() + bytes;
        if used <= self.cap {
            self.used.store(used, Ordering::Relaxed);
        }
        used <= self.cap
    }

    fn release(&self, bytes: u64) {
        assert!(bytes <= self.used(), "more is released than was reserved");
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// What the guest has printed.
#[derive(Clone, Default)]
struct Printed(Arc<Mutex<String>>);

impl Output for Printed {
    fn write(&mut self, stream: Stream, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        write!(self.0.lock().unwrap(), "{stream:?}: {text};").unwrap();
    }
}

const LIMITS: ScratchLimits = ScratchLimits {
    bytes: 1 << 20,
    files: 2000,
    open_files: 8,
};

const ZIP: &str = "/usr/local/lib/python315.zip";

/// A library as the default image has it: an archive with data of a package below its path.
fn image() -> Arc<Library> {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(b"..the archivebackend: agg").unwrap();
    let file = Arc::new(file);
    let slice = |offset, len| LibrarySlice {
        file: Arc::clone(&file),
        offset,
        len,
    };
    let mut builder = Library::builder();
    // The data first: the order must not matter.
    builder.add_archive(ZIP, slice(2, 11)).unwrap();
    let data = format!("{ZIP}/matplotlib/mpl-data/matplotlibrc");
    builder.add_file(&data, slice(13, 12)).unwrap();
    builder
        .add_file("/usr/share/short", slice(20, 100))
        .unwrap();
    Arc::new(builder.build().unwrap())
}

fn wasi_with(limits: ScratchLimits, cap: u64) -> (Wasi, Arc<Budget>) {
    wasi_printing(limits, cap, Printed::default())
}

fn wasi_printing(limits: ScratchLimits, cap: u64, printed: Printed) -> (Wasi, Arc<Budget>) {
    let budget = Arc::new(Budget {
        used: AtomicU64::new(0),
        cap,
    });
    let wasi = Wasi::new(
        image(),
        limits,
        Box::new(printed),
        Arc::clone(&budget) as _,
        Box::new(|| Duration::from_millis(7)),
    );
    (wasi, budget)
}

fn wasi() -> Wasi {
    wasi_with(LIMITS, 1 << 30).0
}

const READ: OpenOptions = OpenOptions {
    oflags: 0,
    fdflags: 0,
    read: true,
    write: false,
};

const WRITE: OpenOptions = OpenOptions {
    oflags: oflags::CREAT,
    fdflags: 0,
    read: true,
    write: true,
};

/// Paths of the tests start at the root, without a slash, as libc passes them.
impl Wasi {
    fn at(&mut self, path: &str, options: OpenOptions) -> Result<Fd, Errno> {
        self.open(PREOPEN, path.as_bytes(), true, options)
    }

    fn put(&mut self, path: &str, content: &[u8]) -> Result<(), Errno> {
        let fd = self.at(path, WRITE)?;
        let written = self.write(fd, content);
        self.close(fd).unwrap();
        written
    }

    fn text(&mut self, path: &str) -> Result<String, Errno> {
        let fd = self.at(path, READ)?;
        let mut content = vec![0; 4096];
        let count = self.read(fd, &mut content);
        self.close(fd).unwrap();
        content.truncate(count?);
        Ok(String::from_utf8(content).unwrap())
    }

    fn mkdir(&mut self, path: &str) -> Result<(), Errno> {
        self.create_directory(PREOPEN, path.as_bytes())
    }

    fn rmdir(&mut self, path: &str) -> Result<(), Errno> {
        self.remove_directory(PREOPEN, path.as_bytes())
    }

    fn rm(&mut self, path: &str) -> Result<(), Errno> {
        self.unlink(PREOPEN, path.as_bytes())
    }

    fn mv(&mut self, old: &str, new: &str) -> Result<(), Errno> {
        self.rename((PREOPEN, old.as_bytes()), (PREOPEN, new.as_bytes()))
    }

    fn ln(&mut self, target: &str, path: &str) -> Result<(), Errno> {
        self.symlink(target.as_bytes(), PREOPEN, path.as_bytes())
    }

    fn hard(&mut self, old: &str, new: &str) -> Result<(), Errno> {
        self.link((PREOPEN, old.as_bytes()), false, (PREOPEN, new.as_bytes()))
    }

    fn kind(&self, path: &str) -> Result<Filetype, Errno> {
        let stat = self.path_filestat(PREOPEN, path.as_bytes(), true)?;
        Ok(stat.filetype)
    }

    fn names(&mut self, path: &str) -> Vec<String> {
        let fd = self.at(path, READ).unwrap();
        let mut names = Vec::new();
        self.readdir(fd, 0, &mut |entry| {
            names.push(String::from_utf8(entry.name.to_vec()).unwrap());
            true
        })
        .unwrap();
        self.close(fd).unwrap();
        names
    }
}
