//! callgate as an MCP client of other servers: their configuration, their connections, their tools.
//!
//! It knows neither gate nor server. A server is started when it is first needed, and again when it
//! has died; one that is down never delays the others.

mod config;
mod connection;
mod entry;
mod expand;
mod failure;
mod home;
mod http;
pub mod import;
mod lines;
mod listing;
mod policy;
mod process;
mod secrets;
mod server;
mod sse;
mod wrapped;

use std::{sync::Arc, time::Duration};

use futures::future::join_all;
use rmcp::model::{CallToolResult, JsonObject, RequestMetaObject};

use self::home::Home;
pub use self::{
    config::{Config, ConfigError, ServerConfig, Transport, jsonc},
    http::client as http_client,
    listing::Listing,
    policy::{Policy, PolicyError},
    server::{CallError, Server, ServerState},
};

/// How long servers may take to end; longer than it takes to kill one.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// The servers of a configuration.
#[derive(Default)]
pub struct Upstreams {
    servers: Vec<Arc<Server>>,
    home: Arc<Home>,
}

impl Upstreams {
    /// The servers of `config`; nothing is started yet.
    #[must_use]
    pub fn new(config: Config, policy: &Arc<Policy>) -> Self {
        let home = Arc::<Home>::default();
        let server = |config| Server::new(config, Arc::clone(policy), Arc::clone(&home));
        let servers = config.servers.into_iter().map(server).collect();
        Self { servers, home }
    }

    /// Servers will live on the runtime of whoever calls this first; it needs input and output.
    pub fn settle(&self) {
        self.home.settle();
    }

    /// All of them, in the order of the configuration.
    #[must_use]
    pub fn servers(&self) -> &[Arc<Server>] {
        &self.servers
    }

    /// The one of that name.
    #[must_use]
    pub fn server(&self, name: &str) -> Option<&Arc<Server>> {
        self.servers.iter().find(|server| server.name() == name)
    }

    /// Calls a tool.
    ///
    /// # Errors
    /// When it can't be called or the server says that it failed.
    pub async fn call(
        &self,
        server: &str,
        tool: &str,
        arguments: JsonObject,
        meta: RequestMetaObject,
    ) -> Result<CallToolResult, CallError> {
        let Some(server) = self.server(server) else {
            let reason = format!("there is no server `{server}`");
            return Err(CallError::NotSent(reason));
        };
        server.call(tool, arguments, meta).await
    }

    /// Stops all servers, side by side.
    pub async fn close(&self) {
        let closing = join_all(self.servers.iter().map(|server| server.close()));
        if tokio::time::timeout(CLOSE_TIMEOUT, closing).await.is_err() {
            tracing::warn!("a server did not end in time");
        }
    }
}
