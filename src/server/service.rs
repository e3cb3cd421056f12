//! What all connections of a process share.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::{loader::Loader, metrics::Metrics, settings::Settings};
use crate::gate::PendingCalls;

/// The process's sandbox, its pending calls and its counters; one, however many clients there are.
pub struct Service {
    /// What the operator set.
    pub settings: Settings,
    /// Where the sandbox comes from.
    pub loader: Loader,
    /// The calls that wait for a client's answer.
    pub pending: Arc<PendingCalls>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// Cancelling it stops every run.
    pub stop: CancellationToken,
}

impl Service {
    /// Begins to load the image.
    #[must_use]
    pub fn start(settings: Settings) -> Arc<Self> {
        Arc::new(Self {
            loader: Loader::start(&settings),
            settings,
            pending: Arc::default(),
            metrics: Arc::default(),
            stop: CancellationToken::new(),
        })
    }
}
