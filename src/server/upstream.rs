//! The operator's servers, as the gate sees them.

use std::{sync::Arc, time::Duration};

use futures::{FutureExt as _, future::join_all};
use rmcp::model::RequestMetaObject;
use serde_json::Value;
use tokio::task::spawn_blocking;

use super::offer::Offer;
use crate::{
    gate::{
        Listings, Route, RouteAnswer, RouteError, ServerListing, Servers, ToolCall, TraceContext,
        unwrap_answer,
    },
    upstream::{CallError, Server, Upstreams},
};

/// How long a program that asks what all servers have waits for those that are not up.
const PATIENCE: Duration = Duration::from_secs(10);

/// The road to the operator's servers.
pub struct UpstreamRoad(pub Arc<Upstreams>);

impl Route for UpstreamRoad {
    fn call(&self, call: ToolCall) -> RouteAnswer {
        let upstreams = Arc::clone(&self.0);
        // Dropping the answer cancels the call at the server.
        Box::pin(async move { answer(&upstreams, call).await })
    }

    fn withdraw(&self, _: &str, _: &str) {}
}

async fn answer(upstreams: &Upstreams, call: ToolCall) -> Result<Value, RouteError> {
    let name = call.server.unwrap_or_default();
    let not_sent = |reason: String| RouteError::NotSent(reason);
    let Some(server) = upstreams.server(&name) else {
        return Err(not_sent(format!("there is no server `{name}`")));
    };
    let up = server.up().await.map_err(not_sent)?;
    let offer = Offer::of(&up.listing(), &name);
    let checked = offer.check(call.tool.clone(), call.arguments).await;
    let arguments = checked.map_err(not_sent)?;
    let called = server.call(&call.tool, arguments, meta(call.trace)).await;
    let result = called.map_err(|error| match error {
        CallError::NotSent(reason) => RouteError::NotSent(reason),
        CallError::Failed(reason) => RouteError::Failed(reason),
    })?;
    // It may be as large as a message can be.
    let unwrapped = spawn_blocking(move || {
        let result = serde_json::to_value(result).map_err(|error| error.to_string())?;
        unwrap_answer(result)
    });
    let unwrapped = unwrapped.await.map_err(|error| error.to_string());
    unwrapped
        .and_then(|unwrapped| unwrapped)
        .map_err(|reason| RouteError::Failed(server.without_secrets(&reason)))
}

fn meta(trace: TraceContext) -> RequestMetaObject {
    let mut meta = RequestMetaObject::new();
    if let Some(traceparent) = trace.traceparent {
        meta.set_traceparent(traceparent);
    }
    if let Some(tracestate) = trace.tracestate {
        meta.set_tracestate(tracestate);
    }
    meta
}

/// The servers that a program may call.
pub struct UpstreamServers(pub Arc<Upstreams>);

impl Servers for UpstreamServers {
    fn has(&self, name: &str) -> bool {
        self.0.server(name).is_some()
    }

    fn names(&self) -> Vec<String> {
        let servers = self.0.servers().iter();
        servers.map(|server| server.name().to_owned()).collect()
    }

    fn listings(&self, server: Option<&str>) -> Listings {
        let wanted = |of: &&Arc<Server>| server.is_none_or(|server| of.name() == server);
        let servers: Vec<_> = self.0.servers().iter().filter(wanted).cloned().collect();
        // Who asks for one server needs that one; who asks for all shall not wait for the slowest.
        let patience = if server.is_some() {
            Duration::MAX
        } else {
            PATIENCE
        };
        let listings = servers
            .into_iter()
            .map(move |server| listing(server, patience));
        join_all(listings).boxed()
    }
}

async fn listing(server: Arc<Server>, patience: Duration) -> ServerListing {
    let name = server.name().to_owned();
    let up = tokio::time::timeout(patience, server.up()).await;
    let up = up.unwrap_or_else(|_| Err(format!("the server `{name}` is still being started")));
    match up {
        Ok(up) => ServerListing {
            tools: Offer::of(&up.listing(), &name).entries().await,
            name,
            problem: None,
        },
        Err(problem) => ServerListing {
            name,
            tools: Arc::default(),
            problem: Some(problem),
        },
    }
}
