//! The configuration of an agent, as tiny-agents has it: a folder with `agent.json` and, if need be, a prompt.

mod folder;
mod hub;
mod inputs;
mod servers;

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

pub use self::{
    folder::{AgentFolder, Origin},
    inputs::{Input, InputValues},
};
use super::model::Endpoint;
use crate::upstream::{Policy, ServerConfig};

/// The model of a provider that is not named.
const ANY_PROVIDER: &str = "auto";

/// What is wrong with the configuration of an agent.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// There is none.
    #[error("{0}")]
    Missing(String),
    /// It can't be understood.
    #[error("{place}: {reason}")]
    Wrong {
        /// The file.
        place: String,
        /// What is wrong where in it, and what would be right.
        reason: String,
    },
}

/// An agent that can be started.
#[derive(Debug, Clone)]
pub struct AgentConfig {
    /// The model.
    pub endpoint: Endpoint,
    /// The system message, if there is a prompt.
    pub prompt: Option<String>,
    /// Its servers.
    pub servers: Vec<AgentServer>,
    /// Which of their tools may be used, beside what `allowed_tools` says.
    pub policy: Arc<Policy>,
}

/// One of its servers.
#[derive(Debug, Clone)]
pub struct AgentServer {
    /// How it is reached.
    pub config: ServerConfig,
    /// The tools that it may have; all if there is no list.
    pub allowed_tools: Option<Vec<String>>,
}

/// `agent.json` as it stands there, of which only the servers are still to be read.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    provider: Option<String>,
    #[serde(default)]
    endpoint_url: Option<String>,
    #[serde(default)]
    api_key: Option<String>,
    #[serde(default)]
    inputs: Option<Vec<Input>>,
    #[serde(default)]
    servers: Option<Vec<Value>>,
}

/// What the command line puts in place of what the file says.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    /// The model.
    pub model: Option<String>,
    /// The provider.
    pub provider: Option<String>,
    /// The endpoint.
    pub endpoint_url: Option<String>,
}

impl Document {
    fn endpoint(&self, overrides: &Overrides) -> Result<Endpoint, String> {
        let model = overrides.model.as_ref().or(self.model.as_ref());
        let model = model.filter(|model| !model.trim().is_empty()).ok_or(
            r#"`model` is missing; name the model that is to be asked, like "model": "Qwen/Qwen3-32B""#,
        )?;
        let is_overridden = overrides.provider.is_some() || overrides.endpoint_url.is_some();
        let (provider, url) = if is_overridden {
            (overrides.provider.as_ref(), overrides.endpoint_url.as_ref())
        } else {
            (self.provider.as_ref(), self.endpoint_url.as_ref())
        };
        let key = self.api_key.clone();
        let endpoint = match url {
            Some(url) => {
                Endpoint::new(url, model, key).map_err(|reason| format!("`endpointUrl`: {reason}"))
            }
            None => {
                Endpoint::of_provider(provider.map_or(ANY_PROVIDER, String::as_str), model, key)
            }
        };
        let endpoint = endpoint?.with_key_of_environment(|name| std::env::var(name).ok());
        endpoint.check_key()?;
        Ok(endpoint)
    }
}
