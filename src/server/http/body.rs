//! Reading the body of a request, within bounds.

use std::{sync::Arc, time::Duration};

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http_body_util::BodyExt as _;

use crate::{sandbox::Budget, wasi::MemoryBudget as _};

/// Whoever takes longer to send a request has stalled.
const TIME: Duration = Duration::from_mins(1);

/// Bytes of memory that a byte of JSON may become when it is parsed.
const PARSED: u64 = 4;

/// Memory for the requests of all clients together (bytes).
const ALL_BODIES: u64 = 1 << 30;

/// Of a body that is too long, this much of either end is kept to tell what it was (bytes).
const END: usize = 4 << 10;

/// And this much more of it is read and dropped: many clients hear the answer only when they have said all (bytes).
const DRAINED: usize = 256 << 20;

/// What bodies may use.
#[derive(Debug, Clone)]
pub struct Bodies {
    longest: usize,
    room: Arc<Budget>,
}

/// A body that was read, and its share of the memory.
pub struct ReadBody {
    /// What the client sent.
    pub bytes: Bytes,
    _share: Share,
}

struct Share {
    room: Arc<Budget>,
    bytes: u64,
}

impl Share {
    /// Takes room for more; false if there is none.
    fn grow(&mut self, length: usize) -> bool {
        let more = (length as u64).saturating_mul(PARSED);
        let taken = self.room.reserve(more);
        if taken {
            self.bytes += more;
        }
        taken
    }
}

impl Drop for Share {
    fn drop(&mut self) {
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
            Self::TooLong { .. } => StatusCode::PAYLOAD_TOO_LARGE,
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
        }
    }

    /// Reads a body to its end.
    ///
    /// # Errors
    /// When it is too long, too slow, or breaks off.
    pub async fn read(&self, body: Body) -> Result<ReadBody, BodyError> {
        let read = tokio::time::timeout(TIME, self.read_to_end(body)).await;
        read.unwrap_or(Err(BodyError::TooSlow))
    }

    async fn read_to_end(&self, mut body: Body) -> Result<ReadBody, BodyError> {
        let mut share = Share {
            room: Arc::clone(&self.room),
            bytes: 0,
        };
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
            if !share.grow(data.len()) {
                return Err(BodyError::NoRoom);
            }
            bytes.extend_from_slice(&data);
        }
        Ok(ReadBody {
            bytes: bytes.freeze(),
            _share: share,
        })
    }
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
