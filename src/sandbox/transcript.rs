//! What a run printed: kept up to a limit, and handed on live to whoever listens.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::wasi::{Output, Stream};

/// Hears of output as it is printed.
pub type Listener = Box<dyn FnMut(Stream, &[u8]) + Send>;

/// The output of one run, both streams in the order in which they were written.
#[derive(Clone)]
pub struct Transcript(Arc<Mutex<Inner>>);

struct Inner {
    kept: Vec<u8>,
    limit: usize,
    truncated: bool,
    listener: Option<Listener>,
}

/// The finished output.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Printed {
    /// The text; bytes that are not UTF-8 are replaced.
    pub text: String,
    /// Whether there was more than the limit let through.
    pub truncated: bool,
}

impl Transcript {
    /// Keeps `limit` bytes; `listener` hears those too, and no more.
    #[must_use]
    pub fn new(limit: u64, listener: Option<Listener>) -> Self {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        Self(Arc::new(Mutex::new(Inner {
            kept: Vec::new(),
            limit,
            truncated: false,
            listener,
        })))
    }

    /// What was printed so far.
    #[must_use]
    pub fn printed(&self) -> Printed {
        let inner = self.lock();
        let mut kept = inner.kept.as_slice();
        if inner.truncated {
            // The limit may have cut a character in two; half of one is not output.
            while let Err(error) = std::str::from_utf8(kept)
                && error.error_len().is_none()
            {
                kept = &kept[..error.valid_up_to()];
            }
        }
        Printed {
            text: String::from_utf8_lossy(kept).into_owned(),
            truncated: inner.truncated,
        }
    }

    /// How much of it is kept (bytes).
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.lock().kept.len() as u64
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Output for Transcript {
    fn write(&mut self, stream: Stream, bytes: &[u8]) {
        let mut inner = self.lock();
        let room = inner.limit.saturating_sub(inner.kept.len());
        let fits = &bytes[..bytes.len().min(room)];
        inner.truncated |= fits.len() < bytes.len();
        inner.kept.extend_from_slice(fits);
        if !fits.is_empty()
            && let Some(listener) = &mut inner.listener
        {
            listener(stream, fits);
        }
    }
}
