//! What those ask who watch over the server.

use std::sync::Arc;

use axum::{
    Router,
    extract::State,
    response::{IntoResponse as _, Response},
    routing::get,
};
use http::{StatusCode, header::CONTENT_TYPE};

use crate::server::{admission::Admission, loader::Loader, metrics::Metrics};

/// Content type of the metrics (OpenMetrics 1.0).
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What is known of the server's state.
#[derive(Clone)]
pub struct Health {
    /// The image, if this server needs one.
    pub loader: Option<Loader>,
    /// The door for runs.
    pub admission: Arc<Admission>,
    /// The counters.
    pub metrics: Arc<Metrics>,
}

/// `/health/live` and `/health/ready`.
pub fn health(health: Health) -> Router {
    Router::new()
        .route("/health/live", get(async || "alive\n"))
        .route("/health/ready", get(ready))
        .with_state(health)
}

/// `/metrics`.
pub fn metrics(health: Health) -> Router {
    Router::new()
        .route("/metrics", get(scrape))
        .with_state(health)
}

async fn ready(State(health): State<Health>) -> Response {
    if health.admission.is_closed() {
        return not_ready("shutting down");
    }
    match health.loader.as_ref().map(Loader::state) {
        None | Some(Ok(true)) => "ready\n".into_response(),
        Some(Ok(false)) => not_ready("the runtime image is being prepared"),
        // The reason may name folders of this machine: it is in the log.
        Some(Err(_)) => not_ready("there is no runtime image; the log says why"),
    }
}

fn not_ready(reason: &str) -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")).into_response()
}

async fn scrape(State(health): State<Health>) -> Response {
    let sandbox = health.loader.as_ref().and_then(Loader::ready);
    let text = health.metrics.text(sandbox.as_deref());
    ([(CONTENT_TYPE, OPEN_METRICS)], text).into_response()
}
