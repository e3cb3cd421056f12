//! What all connections over HTTP have in common: the client, the headers, where redirects may lead.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use http::{HeaderName, HeaderValue, StatusCode};
use reqwest::redirect::{Action, Attempt, Policy};
use rmcp::transport::streamable_http_client::StreamableHttpError;

/// How a request over HTTP fails.
pub type HttpError = StreamableHttpError<reqwest::Error>;

/// What every request of a connection carries.
pub type Headers = HashMap<HeaderName, HeaderValue>;

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Redirects that one request follows.
const REDIRECTS: usize = 5;

/// A client for one server.
///
/// # Errors
/// When none can be made.
pub fn client() -> Result<reqwest::Client, String> {
    // Needed once in a process; it fails only where it was done already.
    let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        // It would tell the query of a url.
        .referer(false)
        .redirect(Policy::custom(follow))
        .build()
        .map_err(|error| format!("no HTTP client could be made: {error}"))
}

/// Reads the headers of a configuration.
///
/// # Errors
/// The first that can't be one.
pub fn headers(of: &BTreeMap<String, String>) -> Result<Headers, String> {
    let read = |(name, value): (&String, &String)| {
        let header = HeaderName::try_from(name.as_str())
            .map_err(|_| format!("`{name}` can't be the name of a header"))?;
        let value = HeaderValue::try_from(value.as_str()).map_err(|_| {
            format!("the value of the header `{name}` has characters that no header may have")
        })?;
        Ok((header, value))
    };
    of.iter().map(read).collect()
}

/// Headers hold keys and bodies hold arguments: nobody else gets them, wherever a server sends its clients.
fn follow(attempt: Attempt<'_>) -> Action {
    let origin = attempt.url().origin();
    let Some(first) = attempt.previous().first() else {
        return attempt.stop();
    };
    if first.origin() != origin {
        let elsewhere = if origin.is_tuple() {
            origin.ascii_serialization()
        } else {
            "what is no HTTP".to_owned()
        };
        return attempt.error(format!(
            "it redirects to {elsewhere}: give that as its `url` if it is to be trusted"
        ));
    }
    // Others make a GET without a body of a message.
    let keeps_message = [
        StatusCode::TEMPORARY_REDIRECT,
        StatusCode::PERMANENT_REDIRECT,
    ];
    if !keeps_message.contains(&attempt.status()) {
        let status = attempt.status().as_u16();
        return attempt.error(format!(
            "it redirects to another path (HTTP {status}): give that as its `url`"
        ));
    }
    if attempt.previous().len() > REDIRECTS {
        return attempt.error(format!("it redirects more than {REDIRECTS} times"));
    }
    attempt.follow()
}
