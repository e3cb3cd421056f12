//! The cache folder: private to the user, filled by rename, guarded by locks.
//!
//! ```text
//! <cache>/runtimes/<key>/   a compiled CPython: code.cwasm, initial.wasm, library.bin, entry.json
//! <cache>/images/<name>/<key>/   a snapshot of it: state.cwasm, entry.json
//! <cache>/building/         half-written entries; nothing is ever loaded from here
//! <cache>/locks/            one file a name, locked while that entry is built
//! ```
//! `entry.json` is the completion record: it is written last, and the folder that holds it only
//! then gets its name.

use std::{
    fs::{self, DirBuilder, File},
    os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{
    error::{At, ImageError},
    package::file_sha256,
};

/// Name of the completion record.
pub const RECORD: &str = "entry.json";

/// A half-written entry older than this belongs to no process any more.
const ABANDONED: Duration = Duration::from_hours(6);

/// The cache folder.
#[derive(Debug, Clone)]
pub struct Store {
    root: PathBuf,
}

/// One file of an entry, as it was written.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StoredFile {
    /// Its name in the entry's folder.
    pub name: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// Its SHA-256, in hexadecimal.
    pub sha256: String,
}

/// A folder being filled; removed unless it is committed.
pub struct Draft {
    folder: tempfile::TempDir,
    files: Vec<StoredFile>,
}

/// Held while an entry is built.
#[derive(Debug)]
pub struct BuildLock {
    _file: File,
}

impl Store {
    /// Opens the cache at `root` and makes it if need be.
    ///
    /// # Errors
    /// When it can't be made, or other users may write to it.
    pub fn open(root: PathBuf) -> Result<Self, ImageError> {
        let store = Self { root };
        Self::private_folder(&store.root)?;
        Ok(store)
    }

    /// The user's own cache folder for callgate.
    #[must_use]
    pub fn default_root() -> PathBuf {
        directories::ProjectDirs::from("", "", "callgate").map_or_else(
            || {
                std::env::temp_dir()
                    .join(format!("callgate-{}", rustix::process::getuid().as_raw()))
            },
            |dirs| dirs.cache_dir().to_owned(),
        )
    }

    /// Where the cache is.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The folder of a compiled runtime.
    #[must_use]
    pub fn runtime(&self, key: &str) -> PathBuf {
        self.root.join("runtimes").join(key)
    }

    /// The folder that holds the versions of an image.
    #[must_use]
    pub fn image(&self, name: &str) -> PathBuf {
        self.root.join("images").join(name)
    }

    /// The names of all images.
    ///
    /// # Errors
    /// When the cache can't be read.
    pub fn image_names(&self) -> Result<Vec<String>, ImageError> {
        self.children(&self.root.join("images"))
    }

    /// The names of the folders in `folder`, sorted; none if it does not exist.
    ///
    /// # Errors
    /// When it can't be read.
    pub fn children(&self, folder: &Path) -> Result<Vec<String>, ImageError> {
        if !folder.exists() {
            return Ok(Vec::new());
        }
        let entries = fs::read_dir(folder).at(folder)?.filter_map(Result::ok);
        let mut names: Vec<String> = entries
            .filter(|entry| entry.path().is_dir())
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        names.sort();
        Ok(names)
    }

    /// Waits for the right to build the entry called `name`. `waiting` is called once if another
    /// process holds it.
    ///
    /// # Errors
    /// When the lock file can't be made.
    pub fn lock(&self, name: &str, waiting: impl FnOnce()) -> Result<BuildLock, ImageError> {
        let folder = self.root.join("locks");
        Self::private_folder(&folder)?;
        let path = folder.join(format!("{name}.lock"));
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .at(&path)?;
        if file.try_lock().is_err() {
            waiting();
            file.lock().at(&path)?;
        }
        Ok(BuildLock { _file: file })
    }

    /// A new folder to fill. Also removes what crashed builds left behind.
    ///
    /// # Errors
    /// When it can't be made.
    pub fn draft(&self) -> Result<Draft, ImageError> {
        let folder = self.root.join("building");
        Self::private_folder(&folder)?;
        remove_abandoned(&folder);
        let folder = tempfile::Builder::new()
            .prefix("entry-")
            .tempdir_in(&folder)
            .at(&folder)?;
        Ok(Draft {
            folder,
            files: Vec::new(),
        })
    }

    /// Reads the record of an entry whose files are all there with the sizes they were written with.
    /// `None` if there is no such entry or it is incomplete.
    ///
    /// # Errors
    /// When other users may write to it.
    pub fn complete<R: DeserializeOwned>(
        folder: &Path,
        files: impl Fn(&R) -> &[StoredFile],
    ) -> Result<Option<R>, ImageError> {
        let Some(record) = read_record::<R>(folder) else {
            return Ok(None);
        };
        must_be_private(folder)?;
        for file in files(&record) {
            let path = folder.join(&file.name);
            match fs::metadata(&path) {
                Ok(metadata) if metadata.len() == file.bytes => must_be_private(&path)?,
                _ => return Ok(None),
            }
        }
        Ok(Some(record))
    }

    /// Hashes the files of an entry.
    ///
    /// # Errors
    /// [`ImageError::Damaged`] for the first one that is not what was written.
    pub fn verify(folder: &Path, files: &[StoredFile]) -> Result<(), ImageError> {
        for file in files {
            let path = folder.join(&file.name);
            let found = file_sha256(&path)?;
            if found != file.sha256 {
                let reason = format!("its sha256 is {found}, {} was written", file.sha256);
                return Err(ImageError::Damaged { path, reason });
            }
        }
        Ok(())
    }

    /// Checks that the file system has room for `bytes` more.
    ///
    /// # Errors
    /// [`ImageError::NoSpace`] when it has not.
    pub fn require_space(&self, bytes: u64) -> Result<(), ImageError> {
        let free = self.free_space()?;
        if free >= bytes {
            return Ok(());
        }
        Err(ImageError::NoSpace {
            path: self.root.clone(),
            needed_mib: bytes >> 20,
            free_mib: free >> 20,
        })
    }

    /// Free bytes on the file system of the cache.
    ///
    /// # Errors
    /// When the system does not tell.
    pub fn free_space(&self) -> Result<u64, ImageError> {
        let stat = rustix::fs::statvfs(&self.root)
            .map_err(std::io::Error::from)
            .at(&self.root)?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    fn private_folder(folder: &Path) -> Result<(), ImageError> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .at(folder)?;
        must_be_private(folder)
    }
}

impl Draft {
    /// The folder that is being filled.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a file of the entry.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn write(&mut self, name: &str, bytes: &[u8]) -> Result<(), ImageError> {
        use sha2::Digest as _;
        let path = self.path().join(name);
        fs::write(&path, bytes).at(&path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).at(&path)?;
        let sha256 = super::package::hex(&sha2::Sha256::digest(bytes));
        self.files.push(StoredFile {
            name: name.to_owned(),
            bytes: bytes.len() as u64,
            sha256,
        });
        Ok(())
    }

    /// Writes the record that `record` makes of the files and gives the folder its name. An entry
    /// that had it before is replaced.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn commit<R: Serialize>(
        self,
        destination: &Path,
        record: impl FnOnce(Vec<StoredFile>) -> R,
    ) -> Result<R, ImageError> {
        let Self { folder, files } = self;
        let record = record(files);
        let path = folder.path().join(RECORD);
        let text = serde_json::to_vec_pretty(&record)
            .map_err(std::io::Error::from)
            .at(&path)?;
        fs::write(&path, text).at(&path)?;
        sync(folder.path())?;
        if let Some(parent) = destination.parent() {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(parent)
                .at(parent)?;
        }
        if destination.exists() {
            fs::remove_dir_all(destination).at(destination)?;
        }
        fs::rename(folder.path(), destination).at(destination)?;
        // The folder has another name now: there is nothing left to remove.
        let _ = folder.keep();
        Ok(record)
    }
}

/// Reads the record of an entry; `None` when there is none that can be read.
pub fn read_record<R: DeserializeOwned>(folder: &Path) -> Option<R> {
    serde_json::from_slice(&fs::read(folder.join(RECORD)).ok()?).ok()
}

/// Waits until the files of a folder are on the disk, so that a rename never outlives its content.
fn sync(folder: &Path) -> Result<(), ImageError> {
    for entry in fs::read_dir(folder).at(folder)?.filter_map(Result::ok) {
        let path = entry.path();
        File::open(&path)
            .and_then(|file| file.sync_all())
            .at(&path)?;
    }
    Ok(())
}

fn must_be_private(path: &Path) -> Result<(), ImageError> {
    let metadata = fs::metadata(path).at(path)?;
    let others_may_write = metadata.mode() & 0o022 != 0;
    let owner = metadata.uid();
    // Root may own what everybody uses (an image baked into a container).
    let foreign = owner != 0 && owner != rustix::process::geteuid().as_raw();
    if others_may_write || foreign {
        return Err(ImageError::NotPrivate {
            path: path.to_owned(),
        });
    }
    Ok(())
}

fn remove_abandoned(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.filter_map(Result::ok) {
        let modified = entry.metadata().and_then(|metadata| metadata.modified());
        let age = modified
            .ok()
            .and_then(|time| SystemTime::now().duration_since(time).ok());
        if age.is_some_and(|age| age > ABANDONED) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_little_room_is_told_before_anything_is_fetched() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().join("cache")).unwrap();
        let error = store.require_space(1 << 60).unwrap_err().to_string();
        assert!(error.contains("CALLGATE_CACHE_DIR"), "{error}");
        store.require_space(1).unwrap();
    }

    #[test]
    fn an_entry_that_was_not_committed_is_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().join("cache")).unwrap();
        let mut draft = store.draft().unwrap();
        draft.write("file", b"content").unwrap();
        let half_written = draft.path().to_owned();
        drop(draft);
        assert!(!half_written.exists());
    }

    #[test]
    fn a_file_of_another_size_makes_an_entry_incomplete() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().join("cache")).unwrap();
        let mut draft = store.draft().unwrap();
        draft.write("file", b"content").unwrap();
        let destination = store.runtime("key");
        draft.commit(&destination, |files| files).unwrap();
        let complete = || Store::complete(&destination, |files: &Vec<StoredFile>| files).unwrap();
        assert!(complete().is_some());
        fs::write(destination.join("file"), b"cont").unwrap();
        assert!(complete().is_none());
    }

    #[test]
    fn a_folder_that_others_may_write_to_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("cache");
        fs::create_dir(&root).unwrap();
        fs::set_permissions(&root, fs::Permissions::from_mode(0o777)).unwrap();
        let error = Store::open(root).unwrap_err().to_string();
        assert!(error.contains("chmod go-w"), "{error}");
    }
}
