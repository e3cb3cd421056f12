//! Who may come in: the checks before anything is read of a request.

use std::{net::IpAddr, sync::Arc};

use axum::{
    Json,
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use http::{
    HeaderMap, HeaderValue, StatusCode, Uri,
    header::{AUTHORIZATION, HOST, ORIGIN, WWW_AUTHENTICATE},
    uri::Authority,
};
use serde_json::json;

use super::tokens::Tokens;
use crate::gate::Principal;

/// Where the description of this resource is (RFC 9728, section 3.1).
pub const METADATA_PATH: &str = "/.well-known/oauth-protected-resource";

/// Names that a server on this machine goes by.
const LOOPBACK_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// The rules.
#[derive(Debug, Clone)]
pub struct Guard {
    /// Names that this server goes by (`host` or `host:port`); `*` for any.
    pub hosts: Vec<String>,
    /// Web pages that may talk to it (`scheme://host[:port]`); `*` for any.
    pub origins: Vec<String>,
    /// Who may come in; everyone if there are none.
    pub tokens: Option<Tokens>,
    /// How clients reach this server, if not by what they say in `Host`.
    pub public_url: Option<String>,
    /// `https` or `http`.
    pub scheme: &'static str,
}

impl Guard {
    /// A page of a name that someone pointed at this machine must not reach the server (DNS
    /// rebinding). That takes a name: an address in `Host` is what the client really connects to.
    fn is_host_allowed(&self, authority: &Authority) -> bool {
        let host = authority.host();
        let is_address = host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
        is_address
            || host.eq_ignore_ascii_case("localhost")
            || self.hosts.iter().any(|allowed| {
                allowed == "*"
                    || allowed.eq_ignore_ascii_case(host)
                    || allowed.eq_ignore_ascii_case(authority.as_str())
            })
    }

    /// Whether a page of this origin may talk to the server.
    #[must_use]
    pub fn is_origin_allowed(&self, origin: &str) -> bool {
        if self.origins.iter().any(|allowed| {
            allowed == "*" || allowed.trim_end_matches('/').eq_ignore_ascii_case(origin)
        }) {
            return true;
        }
        let Ok(origin) = origin.parse::<Uri>() else {
            return false;
        };
        let is_web = matches!(origin.scheme_str(), Some("http" | "https"));
        let is_local = origin
            .host()
            .is_some_and(|host| LOOPBACK_NAMES.contains(&host.to_ascii_lowercase().as_str()));
        is_web && is_local
    }

    /// Whom a request comes from.
    fn principal(&self, headers: &HeaderMap) -> Result<Principal, Stranger> {
        let Some(tokens) = &self.tokens else {
            return Ok(Principal::anonymous());
        };
        let credentials = headers
            .get(AUTHORIZATION)
            .ok_or(Stranger::WithoutToken)?
            .to_str()
            .map_err(|_| Stranger::WrongToken)?;
        let (scheme, token) = credentials.split_once(' ').unwrap_or((credentials, ""));
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Err(Stranger::WithoutToken);
        }
        tokens.principal(token.trim()).ok_or(Stranger::WrongToken)
    }

    /// How the client reaches this server.
    fn base(&self, request_uri: &Uri, headers: &HeaderMap) -> String {
        if let Some(url) = &self.public_url {
            return url.trim_end_matches('/').to_owned();
        }
        let authority = authority(request_uri, headers);
        let authority = authority.as_ref().map_or("localhost", Authority::as_str);
        format!("{}://{authority}", self.scheme)
    }
}

enum Stranger {
    WithoutToken,
    WrongToken,
}

/// `Host`, or what HTTP/2 has in its place.
fn authority(uri: &Uri, headers: &HeaderMap) -> Option<Authority> {
    match headers.get(HOST) {
        Some(host) => host.to_str().ok()?.parse().ok(),
        None => uri.authority().cloned(),
    }
}

/// Refuses requests under a name that is not this server's, and from pages that may not talk to it.
pub async fn check_names(
    State(guard): State<Arc<Guard>>,
    request: Request,
    next: Next,
) -> Response {
    let Some(authority) = authority(request.uri(), request.headers()) else {
        return refusal(
            StatusCode::BAD_REQUEST,
            "there is no valid Host header: say which server is meant",
        );
    };
    if !guard.is_host_allowed(&authority) {
        tracing::warn!(host = %authority, "a request under a name that is not this server's");
        return refusal(
            StatusCode::FORBIDDEN,
            "this server does not go by the name in the Host header; its operator can allow it with \
             --allowed-host",
        );
    }
    let origin = request.headers().get(ORIGIN);
    let is_allowed = origin.is_none_or(|origin| {
        origin
            .to_str()
            .is_ok_and(|origin| guard.is_origin_allowed(origin))
    });
    if !is_allowed {
        tracing::warn!(?origin, "a request from a web page that is not allowed");
        return refusal(
            StatusCode::FORBIDDEN,
            "pages of this origin may not talk to this server; its operator can allow it with \
             --allowed-origin",
        );
    }
    next.run(request).await
}

/// Lets in who has a token, under the name that belongs to it.
pub async fn authenticate(
    State(guard): State<Arc<Guard>>,
    mut request: Request,
    next: Next,
) -> Response {
    match guard.principal(request.headers()) {
        Ok(principal) => {
            request.extensions_mut().insert(principal);
            next.run(request).await
        }
        Err(stranger) => {
            let base = guard.base(request.uri(), request.headers());
            unauthorized(&stranger, &base)
        }
    }
}

/// RFC 6750, section 3: who brings no token is told where to learn of them, and nothing else.
fn unauthorized(stranger: &Stranger, base: &str) -> Response {
    let metadata = format!("resource_metadata=\"{base}{METADATA_PATH}/mcp\"");
    let (challenge, message) = match stranger {
        Stranger::WithoutToken => (
            format!("Bearer {metadata}"),
            "a bearer token is needed: send `Authorization: Bearer TOKEN`",
        ),
        Stranger::WrongToken => (
            format!(
                "Bearer error=\"invalid_token\", error_description=\"the token is not known\", {metadata}"
            ),
            "the bearer token is not known: it may have been replaced or withdrawn",
        ),
    };
    let mut response = refusal(StatusCode::UNAUTHORIZED, message);
    if let Ok(challenge) = HeaderValue::from_str(&challenge) {
        response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
    }
    response
}

/// Describes this resource (RFC 9728, section 2).
pub async fn metadata(State(guard): State<Arc<Guard>>, request: Request) -> Response {
    if guard.tokens.is_none() {
        return refusal(StatusCode::NOT_FOUND, "this server asks nobody for a token");
    }
    let base = guard.base(request.uri(), request.headers());
    Json(json!({
        "resource": format!("{base}/mcp"),
        "resource_name": "callgate",
        "bearer_methods_supported": ["header"],
    }))
    .into_response()
}

/// An error for whoever reads it, in the form of JSON-RPC where the request is not known.
#[must_use]
pub fn refusal(status: StatusCode, message: &str) -> Response {
    let body = json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32600, "message": message}});
    (status, Json(body)).into_response()
}
