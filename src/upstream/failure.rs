//! What it means that a request over HTTP failed.

use std::error::Error;

use http::StatusCode;

use super::http::HttpError;

/// What became of a request that has no answer, each with the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// It reached no server: nothing has happened.
    Unreached(String),
    /// The server did not take it, with this status: nothing has happened.
    Refused(u16, String),
    /// The server took it, and its answer is none.
    Useless(String),
    /// The connection broke: it may have happened.
    Broke(String),
}

impl Failure {
    /// Reads an error.
    #[must_use]
    pub fn of(error: &HttpError) -> Self {
        match error {
            HttpError::Client(error) => Self::of_client(error),
            HttpError::HttpStatus(error) => {
                Self::of_status(error.status, error.retry_after.as_deref())
            }
            HttpError::AuthRequired(_) => Self::of_status(401, None),
            HttpError::InsufficientScope(_) => Self::of_status(403, None),
            HttpError::SessionExpired => {
                Self::Refused(404, "it has forgotten the session (HTTP 404)".to_owned())
            }
            HttpError::ReinitializationFailed(error) => Self::Refused(
                404,
                format!(
                    "it has forgotten the session and refuses a new one: {}",
                    error.message
                ),
            ),
            HttpError::ResponseBodyTooLarge { max_size } => {
                Self::Useless(format!("its answer is larger than {} MiB", max_size >> 20))
            }
            HttpError::UnexpectedContentType(kind) => {
                let kind = kind.as_deref().unwrap_or("nothing that has a type");
                let kind: String = kind.chars().take(100).collect();
                Self::Useless(format!(
                    "it answers with `{}` where MCP has `application/json`: check its `url`, and whether it wants a \
                     login",
                    kind.escape_debug()
                ))
            }
            HttpError::UnexpectedServerResponse(told) => match status_in(told) {
                Some(status) => Self::of_status(status, None),
                None => Self::Useless("its answer is no MCP message".to_owned()),
            },
            HttpError::Deserialize(_) => Self::Useless("its answer is no MCP message".to_owned()),
            HttpError::ReservedHeaderConflict(name) => Self::Unreached(format!(
                "the header `{name}` of its configuration is one that MCP sets itself"
            )),
            other => Self::Broke(deepest(other)),
        }
    }

    fn of_client(error: &reqwest::Error) -> Self {
        let cause = deepest(error);
        if error.is_redirect() {
            return Self::Unreached(cause);
        }
        if error.is_connect() || error.is_builder() {
            return Self::Unreached(format!("it can't be reached: {cause}"));
        }
        Self::Broke(cause)
    }

    fn of_status(status: u16, retry_after: Option<&str>) -> Self {
        let known = StatusCode::from_u16(status).ok();
        let words = known.and_then(|status| status.canonical_reason());
        let told = match words {
            Some(words) => format!("HTTP {status}, {words}"),
            None => format!("HTTP {status}"),
        };
        let later = retry_after.map(later).unwrap_or_default();
        let reason = match status {
            401 | 403 => {
                format!("it refuses callgate ({told}): check the `headers` of its configuration")
            }
            404 | 405 => format!("nothing there takes messages ({told}): check its `url`"),
            429 => format!("it takes no more requests for now ({told}){later}"),
            400..500 => format!("it refuses the request ({told})"),
            _ => return Self::Useless(format!("it failed ({told}){later}")),
        };
        Self::Refused(status, reason)
    }

    /// For somebody who wants to know why a server is down.
    #[must_use]
    pub fn reason(self) -> String {
        match self {
            Self::Unreached(reason) | Self::Refused(_, reason) | Self::Useless(reason) => reason,
            Self::Broke(cause) => format!("the connection broke: {cause}"),
        }
    }
}

/// When to come back, as the server says it: in seconds, or a date.
fn later(retry_after: &str) -> String {
    let unit = if retry_after.bytes().all(|byte| byte.is_ascii_digit()) {
        " s"
    } else {
        ""
    };
    format!("; try again after {}{unit}", retry_after.escape_debug())
}

/// The status in what rmcp tells of a response.
fn status_in(told: &str) -> Option<u16> {
    let status = told.strip_prefix("HTTP ")?.get(..3)?;
    status.parse().ok()
}

/// What happened: the outer errors tell of requests and transports.
pub fn deepest(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
