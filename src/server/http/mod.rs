//! The HTTP transport: streamable HTTP of every revision at `/mcp`, and what belongs around it.
//!
//! From outside in: [`listener`] has the connections, [`guard`] decides who comes in, [`inbox`] takes
//! what rmcp must not see, rmcp speaks the protocol, and [`sessions`] carries what it sends.

mod body;
mod early;
mod event_log;
mod guard;
mod health;
mod inbox;
mod listener;
mod patience;
mod reload;
mod session;
mod sessions;
mod settings;

mod tls;
mod tokens;

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use axum::{Router, middleware, routing::get};
use http::{
    HeaderName, HeaderValue, Method, StatusCode,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, WWW_AUTHENTICATE},
};
use rmcp::{
    ServerHandler,
    transport::{StreamableHttpServerConfig, StreamableHttpService},
};
use tokio_util::sync::CancellationToken;
use tower_http::{
    catch_panic::CatchPanicLayer,
    cors::{AllowHeaders, AllowOrigin, CorsLayer},
};

use self::{
    body::Bodies, guard::Guard, health::Health, inbox::Inbox, listener::Listener,
    sessions::Sessions, tokens::Tokens,
};
pub use self::{
    sessions::SessionLimits,
    settings::HttpSettings,
    tls::{TlsError, TlsFiles},
    tokens::{TokenFileError, generate as generate_token},
};
use super::{
    admission::Admission, handler::Callgate, loader::Loader, metrics::Metrics, service::Service,
    signals::Signals,
};
use crate::gate::PendingCalls;

/// A comment line on streams where nothing happens, so that nobody in between closes them.
const SSE_KEEP_ALIVE: Duration = Duration::from_secs(15);

/// What was stopped may still say so.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Why the server can't start.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The address can't be had.
    #[error("cannot listen at {0}: {1}")]
    Listen(SocketAddr, io::Error),
    /// Everyone could run code here.
    #[error(
        "{0} can be reached from other machines, and there is no --token-file: anyone could run code here. \
         Make tokens (`callgate token NAME`), or listen at 127.0.0.1, or say --allow-anonymous if something \
         in front of callgate checks who comes"
    )]
    Unguarded(SocketAddr),
    /// The tokens can't be used.
    #[error(transparent)]
    Tokens(#[from] TokenFileError),
    /// The certificate can't be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The system refused something.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// What the HTTP transport serves, and what it shares with it.
pub struct Backend<F> {
    /// Makes the MCP server of one session or request.
    pub factory: F,
    /// The calls that wait for a client's answer.
    pub pending: Arc<PendingCalls>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// The image, if one is needed.
    pub loader: Option<Loader>,
    /// Cancelling it stops every run.
    pub stop: CancellationToken,
}

impl<F> Backend<F> {
    /// Something else than callgate behind the same transport.
    #[must_use]
    pub fn of(factory: F) -> Self {
        Self {
            factory,
            pending: Arc::default(),
            metrics: Arc::default(),
            loader: None,
            stop: CancellationToken::new(),
        }
    }
}

/// Serves callgate.
///
/// # Errors
/// When it can't start.
pub async fn serve(settings: HttpSettings, service: Arc<Service>) -> Result<(), HttpError> {
    let backend = Backend {
        pending: Arc::clone(&service.pending),
        metrics: Arc::clone(&service.metrics),
        loader: Some(service.loader.clone()),
        stop: service.stop.clone(),
        factory: move || Callgate::new(Arc::clone(&service)),
    };
    serve_backend(settings, backend).await
}

/// Serves a backend until a signal ends it.
///
/// # Errors
/// When it can't start.
pub async fn serve_backend<S, F>(
    settings: HttpSettings,
    backend: Backend<F>,
) -> Result<(), HttpError>
where
    S: ServerHandler,
    F: Fn() -> S + Send + Sync + 'static,
{
    let mut signals = Signals::listen()?;
    let tokens = settings.token_file.as_deref().map(Tokens::watch);
    let tokens = tokens.transpose()?;
    if tokens.is_none() && !settings.allow_anonymous && !settings.listen.ip().is_loopback() {
        return Err(HttpError::Unguarded(settings.listen));
    }
    let tls = settings.tls.as_ref().map(tls::acceptor).transpose()?;
    let scheme = if tls.is_some() { "https" } else { "http" };
    let guard = Arc::new(Guard {
        hosts: settings.allowed_hosts.clone(),
        origins: settings.allowed_origins.clone(),
        public_url: settings.public_url.clone(),
        tokens,
        scheme,
    });
    let admission = Admission::new(settings.admission);
    let metrics = Arc::clone(&backend.metrics);
    let health = Health {
        loader: backend.loader.clone(),
        admission: Arc::clone(&admission),
        metrics: Arc::clone(&metrics),
    };
    let stop = backend.stop.clone();
    let streams = CancellationToken::new();
    let mcp = mcp(&settings, backend, &guard, &admission, streams.clone());
    let router = named(mcp.merge(health::health(health.clone())), &guard);

    let bind = async |address, tls| {
        let listener = Listener::bind(address, tls, settings.max_connections, Arc::clone(&metrics));
        let listener = listener.await;
        listener.map_err(|error| HttpError::Listen(address, error))
    };
    let listener = bind(settings.listen, tls).await?;
    eprintln!(
        "callgate: serving MCP at {scheme}://{}/mcp",
        listener.address()?
    );
    let closing = CancellationToken::new();
    let scraping = match settings.metrics_listen {
        Some(address) => {
            let listener = bind(address, None).await?;
            eprintln!(
                "callgate: metrics at http://{}/metrics",
                listener.address()?
            );
            let router = named(health::metrics(health), &guard);
            Some(tokio::spawn(listener.serve(router, closing.clone())))
        }
        None => None,
    };
    let serving = tokio::spawn(listener.serve(router, closing.clone()));

    signals.next().await;
    tokio::select! {
        () = drain(&settings, &admission, &stop) => {}
        () = signals.next() => tracing::warn!("a second signal: ending at once"),
    }
    stop.cancel();
    streams.cancel();
    closing.cancel();
    let ended = async {
        let _ = serving.await;
        if let Some(scraping) = scraping {
            let _ = scraping.await;
        }
    };
    tokio::select! {
        () = ended => {}
        () = signals.next() => {}
    }
    Ok(())
}

/// Lets what runs come to its end, and stops what does not.
async fn drain(settings: &HttpSettings, admission: &Admission, stop: &CancellationToken) {
    admission.close();
    tracing::info!(
        "no more runs are taken; those under way have {:?}",
        settings.drain
    );
    if tokio::time::timeout(settings.drain, admission.empty())
        .await
        .is_ok()
    {
        return;
    }
    tracing::warn!("runs that did not end in time are stopped");
    stop.cancel();
    let _ = tokio::time::timeout(LAST_WORDS, admission.empty()).await;
}

/// `/mcp` and the description of it.
fn mcp<S, F>(
    settings: &HttpSettings,
    backend: Backend<F>,
    guard: &Arc<Guard>,
    admission: &Arc<Admission>,
    streams: CancellationToken,
) -> Router
where
    S: ServerHandler,
    F: Fn() -> S + Send + Sync + 'static,
{
    let sessions = Sessions::new(settings.sessions, Arc::clone(&backend.metrics));
    let mut configuration = StreamableHttpServerConfig::default()
        .disable_allowed_hosts()
        .disable_allowed_origins()
        .with_sse_keep_alive(Some(SSE_KEEP_ALIVE))
        // Sessions say so themselves, to clients that know of it.
        .with_sse_retry(None)
        .with_max_request_body_bytes(settings.max_body);
    configuration.cancellation_token = streams;
    let inbox = Arc::new(Inbox {
        pending: backend.pending,
        sessions: Arc::clone(&sessions),
        admission: Arc::clone(admission),
        bodies: Bodies::new(settings.max_body),
        metrics: backend.metrics,
    });
    let factory = backend.factory;
    let service = StreamableHttpService::new(move || Ok(factory()), sessions, configuration);
    Router::new()
        .route_service("/mcp", service)
        .layer(middleware::from_fn_with_state(inbox, inbox::receive))
        .layer(middleware::from_fn_with_state(
            Arc::clone(guard),
            guard::authenticate,
        ))
        .route(guard::METADATA_PATH, get(guard::metadata))
        .route(
            &format!("{}/mcp", guard::METADATA_PATH),
            get(guard::metadata),
        )
        .with_state(Arc::clone(guard))
}

/// What goes around every path: nothing is there for a wrong name.
fn named(router: Router, guard: &Arc<Guard>) -> Router {
    router
        .fallback(async || {
            guard::refusal(
                StatusCode::NOT_FOUND,
                "there is nothing here: MCP is at /mcp",
            )
        })
        .layer(cors(guard))
        .layer(middleware::from_fn_with_state(
            Arc::clone(guard),
            guard::check_names,
        ))
        .layer(CatchPanicLayer::new())
}

/// What browsers want to hear before a page may talk to another server.
fn cors(guard: &Arc<Guard>) -> CorsLayer {
    let guard = Arc::clone(guard);
    let is_allowed = move |origin: &HeaderValue, _: &http::request::Parts| {
        origin
            .to_str()
            .is_ok_and(|origin| guard.is_origin_allowed(origin))
    };
    let own = |name| HeaderName::from_static(name);
    CorsLayer::new()
        .allow_origin(AllowOrigin::predicate(is_allowed))
        .allow_methods([Method::GET, Method::POST, Method::DELETE])
        .allow_headers(AllowHeaders::list([
            ACCEPT,
            AUTHORIZATION,
            CONTENT_TYPE,
            own("last-event-id"),
            own("mcp-method"),
            own("mcp-name"),
            own("mcp-protocol-version"),
            own("mcp-session-id"),
        ]))
        .expose_headers([own("mcp-session-id"), WWW_AUTHENTICATE])
}
