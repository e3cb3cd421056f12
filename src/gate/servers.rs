//! Servers whose tools a program may call without being offered them.

use std::{future::Future, pin::Pin, sync::Arc};

use serde::Serialize;
use serde_json::Value;

/// What a server has, under way.
pub type Listings = Pin<Box<dyn Future<Output = Vec<ServerListing>> + Send>>;

/// The servers that the operator connected, as the gate sees them.
pub trait Servers: Send + Sync {
    /// Whether there is one of that name.
    fn has(&self, name: &str) -> bool;

    /// Their names, in order.
    fn names(&self) -> Vec<String>;

    /// What one server has, or all of them have. Servers that are not ready are waited for, a while.
    fn listings(&self, server: Option<&str>) -> Listings;
}

/// What a server has.
#[derive(Debug, Clone, Serialize)]
pub struct ServerListing {
    /// Its name.
    pub name: String,
    /// Its tools, as a client would offer them.
    pub tools: Arc<Vec<Value>>,
    /// Why it can't be used, if it can't.
    pub problem: Option<String>,
}

/// Where there are no servers.
pub struct NoServers;

impl Servers for NoServers {
    fn has(&self, _: &str) -> bool {
        false
    }

    fn names(&self) -> Vec<String> {
        Vec::new()
    }

    fn listings(&self, _: Option<&str>) -> Listings {
        Box::pin(std::future::ready(Vec::new()))
    }
}
