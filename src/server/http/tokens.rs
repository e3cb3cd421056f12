//! Bearer tokens: who may come in, by what they carry.
//!
//! The file holds hashes, so that reading it lets nobody in. A token is 32 random bytes: one round
//! of SHA-256 is enough for what can't be guessed.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
};

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use super::reload;
use crate::{gate::Principal, image::hex};

/// Begins every token, so that people and scanners see what it is.
const PREFIX: &str = "cg_";

type Hash = [u8; 32];

/// The tokens of a file, as it is now.
#[derive(Debug, Clone)]
pub struct Tokens(Arc<RwLock<Vec<Entry>>>);

#[derive(Debug)]
struct Entry {
    principal: Principal,
    hash: Hash,
}

/// Why a token file can't be used.
#[derive(Debug, thiserror::Error)]
pub enum TokenFileError {
    /// It can't be read.
    #[error("{0}: {1}")]
    Unreadable(PathBuf, io::Error),
    /// A line is not what it should be.
    #[error(
        "{0}, line {1}: {2}; a line is `NAME sha256:HASH`, and `callgate token NAME` prints one"
    )]
    Line(PathBuf, usize, String),
    /// It lets nobody in.
    #[error("{0}: there is no token in it; `callgate token NAME` prints a line for it")]
    Empty(PathBuf),
}

impl Tokens {
    /// Reads the file, and reads it again whenever it changes. A changed file that can't be used
    /// changes nothing.
    ///
    /// # Errors
    /// When the file can't be used.
    pub fn watch(path: &Path) -> Result<Self, TokenFileError> {
        let tokens = Self(Arc::new(RwLock::new(read(path)?)));
        let (path, watched) = (path.to_owned(), tokens.clone());
        reload::watch(vec![path.clone()], move || match read(&path) {
            Ok(entries) => {
                tracing::info!("{} tokens read from {}", entries.len(), path.display());
                *watched.0.write().unwrap_or_else(PoisonError::into_inner) = entries;
            }
            Err(error) => tracing::error!("the tokens stay as they were: {error}"),
        });
        Ok(tokens)
    }

    /// Whom a token belongs to.
    #[must_use]
    pub fn principal(&self, token: &str) -> Option<Principal> {
        let hash = hash(token);
        let entries = self.0.read().unwrap_or_else(PoisonError::into_inner);
        // All are compared, each in constant time: time tells nothing of which one is near.
        let mut found = None;
        for entry in entries.iter() {
            if entry.hash.ct_eq(&hash).into() {
                found = Some(entry.principal.clone());
            }
        }
        found
    }
}

fn read(path: &Path) -> Result<Vec<Entry>, TokenFileError> {
    let text =
        fs::read_to_string(path).map_err(|error| TokenFileError::Unreadable(path.into(), error))?;
    let mut entries = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let entry = parse(line);
        let entry = entry.map_err(|reason| TokenFileError::Line(path.into(), index + 1, reason))?;
        entries.push(entry);
    }
    if entries.is_empty() {
        return Err(TokenFileError::Empty(path.into()));
    }
    Ok(entries)
}

fn parse(line: &str) -> Result<Entry, String> {
    let (name, hash) = line
        .split_once(char::is_whitespace)
        .ok_or("there is no hash after the name")?;
    let hash = hash
        .trim()
        .strip_prefix("sha256:")
        .ok_or("the hash does not begin with `sha256:`")?;
    let hash = parse_hash(hash).ok_or("the hash is not 64 hexadecimal digits")?;
    Ok(Entry {
        principal: Principal::named(name),
        hash,
    })
}

fn parse_hash(text: &str) -> Option<Hash> {
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    let mut hash = Hash::default();
    for (index, byte) in hash.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * index..2 * index + 2)?, 16).ok()?;
    }
    Some(hash)
}

fn hash(token: &str) -> Hash {
    Sha256::digest(token.as_bytes()).into()
}

/// A new token, and the line by which a file lets `name` in with it.
///
/// # Errors
/// When the name can't stand in the file or the system gives no random bytes.
pub fn generate(name: &str) -> io::Result<(String, String)> {
    if name.is_empty() || name.starts_with('#') || name.contains(char::is_whitespace) {
        let reason = "a name is one word, and does not begin with `#`";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
    }
    let mut bytes = [0_u8; 32];
    let mut filled = 0;
    while filled < bytes.len() {
        filled +=
            rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())?;
    }
    let token = format!("{PREFIX}{}", hex(&bytes));
    let line = format!("{name} sha256:{}", hex(&hash(&token)));
    Ok((token, line))
}
