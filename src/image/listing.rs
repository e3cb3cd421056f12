//! What images there are, and how they stand.

use std::path::PathBuf;

use wasmtime::Engine;

use super::{Image, ImageError, ImageRecord, Runtime, Store, engine, key, store::read_record};

/// How an image in the cache stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// Complete, and made of what this callgate needs.
    Ready,
    /// Made for another version of callgate, wasmtime or machine; rebuilt when it is next used.
    Outdated,
    /// Files are missing or have the wrong size; rebuilt when it is next used.
    Incomplete,
    /// A file is not what was written (found by hashing only).
    Damaged,
}

/// One line of a listing.
pub struct Listed {
    /// The image's name.
    pub name: String,
    /// How it stands.
    pub condition: Condition,
    /// What it has imported.
    pub preimports: Vec<String>,
    /// Bytes on disk, the shared runtime included.
    pub bytes: u64,
    /// When it was built, in seconds since 1970.
    pub built: u64,
    /// Its folder.
    pub folder: PathBuf,
}

/// All images in the cache; `verify` hashes their files.
///
/// # Errors
/// When the cache can't be read.
pub fn list(store: &Store, verify: bool) -> Result<Vec<Listed>, ImageError> {
    let engine = Engine::new(&engine::configuration())?;
    let runtime_key = Runtime::key(&engine);
    let mut listed = Vec::new();
    for name in store.image_names()? {
        for version in store.children(&store.image(&name))? {
            listed.push(examine(store, &name, &version, &runtime_key, verify)?);
        }
    }
    Ok(listed)
}

fn examine(
    store: &Store,
    name: &str,
    version: &str,
    runtime_key: &str,
    verify: bool,
) -> Result<Listed, ImageError> {
    let folder = store.image(name).join(version);
    let record = read_record::<ImageRecord>(&folder);
    let image = Image::find(store, name, &folder)?;
    let preimports = record.map(|record| record.preimports).unwrap_or_default();
    let condition = match &image {
        None => Condition::Incomplete,
        Some(_) if key(runtime_key, &preimports) != version => Condition::Outdated,
        Some(image) if verify && image.verify().is_err() => Condition::Damaged,
        Some(_) => Condition::Ready,
    };
    let files = image
        .iter()
        .flat_map(|image| image.record.files.iter().chain(&image.runtime.record.files));
    Ok(Listed {
        name: name.to_owned(),
        condition,
        bytes: files.map(|file| file.bytes).sum(),
        built: image.as_ref().map_or(0, |image| image.record.built),
        preimports,
        folder,
    })
}
