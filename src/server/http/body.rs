//! Reading the body of a request, within bounds.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http_body_util::BodyExt as _;

use crate::{gate::Principal, sandbox::Budget, wasi::MemoryBudget as _};

/// Whoever takes longer to send a request has stalled.
const TIME: Duration = Duration::from_mins(1);

/// Memory that one value of a JSON document takes at most once it is parsed, all copies together (bytes).
const VALUE: u64 = 80;

/// Memory for the requests of all principals together (bytes).
const ALL_BODIES: u64 = 2 << 30;

/// And for those of one of them.
const OWN_BODIES: u64 = ALL_BODIES / 2;

/// A body as small as this is read whatever else is being read: what holds up a large one must not hold
/// up the answer to a tool call.
const SMALL: usize = 16 << 10;

/// Of a body that is too long, this much of either end is kept to tell what it was (bytes).
const END: usize = 4 << 10;

/// And this much more of it is read and dropped: many clients hear the answer only when they have said all (bytes).
const DRAINED: usize = 256 << 20;

/// What bodies may use.
#[derive(Debug, Clone)]
pub struct Bodies {
    longest: usize,
    room: Arc<Budget>,
    own: Arc<Mutex<HashMap<Principal, Arc<Budget>>>>,
}

/// A body that was read, and its share of the memory.
pub struct ReadBody {
    /// What the client sent.
    pub bytes: Bytes,
    /// What must live as long as what is parsed from it.
    pub share: Arc<Share>,
}

/// A share of the memory for bodies.
pub struct Share {
    room: Arc<Budget>,
    own: Arc<Budget>,
    bytes: u64,
}

impl Share {
    /// Takes room for more; false if there is none.
    fn grow_to(&mut self, bytes: u64) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        if !self.own.reserve(more) {
            return false;
        }
        if !self.room.reserve(more) {
            self.own.release(more);
            return false;
        }
        self.bytes += more;
        true
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.own.release(self.bytes);
        self.room.release(self.bytes);
    }
}

/// Why a body was not read.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// It is longer than it may be.
    #[error("the body is longer than {longest} bytes (--max-body)")]
    TooLong {
        /// What it may be (bytes).
        longest: usize,
        /// How it begins and ends.
        ends: Vec<u8>,
    },
    /// It is short, and huge once it is parsed.
    #[error("the body holds too many JSON values")]
    TooMany,
    /// It did not come.
    #[error("the body did not come within {} seconds", TIME.as_secs())]
    TooSlow,
    /// Too many others are being read.
    #[error("too many large requests are being read; try again in a moment")]
    NoRoom,
    /// The connection failed.
    #[error("the body could not be read: {0}")]
    Broken(String),
}

impl BodyError {
    /// What HTTP calls it.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self {
            Self::TooLong { .. } | Self::TooMany => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::NoRoom => StatusCode::SERVICE_UNAVAILABLE,
            Self::Broken(_) => StatusCode::BAD_REQUEST,
        }
    }
}

impl Bodies {
    /// Bodies of at most `longest` bytes.
    #[must_use]
    pub fn new(longest: usize) -> Self {
        Self {
            longest,
            room: Budget::new(ALL_BODIES),
            own: Arc::default(),
        }
    }

    /// Reads a body to its end.
    ///
    /// # Errors
    /// When it is too long, too slow, or breaks off.
    pub async fn read(&self, body: Body, principal: &Principal) -> Result<ReadBody, BodyError> {
        let share = Share {
            room: Arc::clone(&self.room),
            own: self.own(principal),
            bytes: 0,
        };
        let read = tokio::time::timeout(TIME, self.read_to_end(body, share)).await;
        read.unwrap_or(Err(BodyError::TooSlow))
    }

    fn own(&self, principal: &Principal) -> Arc<Budget> {
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        let budget = own.entry(principal.clone());
        Arc::clone(budget.or_insert_with(|| Budget::new(OWN_BODIES)))
    }

    async fn read_to_end(&self, mut body: Body, mut share: Share) -> Result<ReadBody, BodyError> {
        let mut bytes = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| BodyError::Broken(error.to_string()))?;
            let Ok(data) = frame.into_data() else {
                continue;
            };
            if data.len() > self.longest - bytes.len() {
                let mut ends = bytes[..bytes.len().min(END)].to_vec();
                ends.extend(last_bytes(&data, body).await);
                return Err(BodyError::TooLong {
                    longest: self.longest,
                    ends,
                });
            }
            bytes.extend_from_slice(&data);
            if bytes.len() > SMALL && !share.grow_to(bytes.len() as u64) {
                return Err(BodyError::NoRoom);
            }
        }
        let weight = weight(&bytes);
        if weight > OWN_BODIES {
            return Err(BodyError::TooMany);
        }
        if bytes.len() > SMALL && !share.grow_to(weight) {
            return Err(BodyError::NoRoom);
        }
        Ok(ReadBody {
            bytes: bytes.freeze(),
            share: Arc::new(share),
        })
    }
}

/// Memory that a document takes at most once it is parsed (bytes). Before each value but the first stands one
/// of these characters; those inside strings are counted as well, which errs on the safe side.
fn weight(document: &[u8]) -> u64 {
    let values = document
        .iter()
        .filter(|byte| matches!(byte, b',' | b':' | b'[' | b'{'));
    (values.count() as u64) * VALUE + 3 * document.len() as u64
}

/// Reads a body that is too long to its end, but not for ever, and keeps the last of it.
async fn last_bytes(first: &[u8], mut body: Body) -> Vec<u8> {
    let mut last = Vec::new();
    let mut drained = 0;
    let mut keep = |data: &[u8]| {
        last.extend_from_slice(&data[data.len().saturating_sub(END)..]);
        last.drain(..last.len().saturating_sub(END));
    };
    keep(first);
    while drained < DRAINED
        && let Some(Ok(frame)) = body.frame().await
    {
        if let Some(data) = frame.data_ref() {
            keep(data);
            drained += data.len();
        }
    }
    last
}
