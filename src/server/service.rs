//! What all connections of a process share.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::{
    loader::Loader,
    metrics::Metrics,
    settings::Settings,
    suspended::SuspendedRuns,
    upstream::{UpstreamRoad, UpstreamServers},
};
use crate::gate::{PendingCalls, Route, Servers, TimedRoute};

/// The process's sandbox, its pending calls and its counters; one, however many clients there are.
pub struct Service {
    /// What the operator set.
    pub settings: Settings,
    /// Where the sandbox comes from.
    pub loader: Loader,
    /// The calls that wait for a client's answer.
    pub pending: Arc<PendingCalls>,
    /// The runs that wait for a client to come back.
    pub suspended: Arc<SuspendedRuns>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// Cancelling it stops every run.
    pub stop: CancellationToken,
}

impl Service {
    /// Begins to load the image.
    #[must_use]
    pub fn start(settings: Settings) -> Arc<Self> {
        settings.upstreams.settle();
        Arc::new(Self {
            loader: Loader::start(&settings),
            suspended: SuspendedRuns::new(settings.suspended),
            settings,
            pending: Arc::default(),
            metrics: Arc::default(),
            stop: CancellationToken::new(),
        })
    }

    /// The operator's servers, for programs.
    #[must_use]
    pub fn servers(&self) -> Arc<dyn Servers> {
        Arc::new(UpstreamServers(Arc::clone(&self.settings.upstreams)))
    }

    /// The road to them.
    #[must_use]
    pub fn upstream_road(&self) -> Arc<dyn Route> {
        Arc::new(TimedRoute {
            route: Arc::new(UpstreamRoad(Arc::clone(&self.settings.upstreams))),
            timeout: self.settings.call_limits.tool_timeout,
        })
    }
}
