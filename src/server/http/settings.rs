//! What the operator set for HTTP.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use super::{sessions::SessionLimits, tls::TlsFiles};
use crate::server::admission::AdmissionLimits;

/// Everything that the HTTP transport needs to know.
#[derive(Debug, Clone)]
pub struct HttpSettings {
    /// Where to listen.
    pub listen: SocketAddr,
    /// Where to listen for scrapers of metrics.
    pub metrics_listen: Option<SocketAddr>,
    /// Names that this server goes by, beside addresses and `localhost`.
    pub allowed_hosts: Vec<String>,
    /// Web pages that may talk to it, beside those of this machine.
    pub allowed_origins: Vec<String>,
    /// How clients reach it, if not by what they say in `Host`.
    pub public_url: Option<String>,
    /// The file of tokens; without one, everyone may come in.
    pub token_file: Option<PathBuf>,
    /// Whether everyone may come in from other machines too.
    pub allow_anonymous: bool,
    /// The certificate and its key; without them, HTTP is plain.
    pub tls: Option<TlsFiles>,
    /// How long runs may go on after the signal to end.
    pub drain: Duration,
    /// A request's body (bytes).
    pub max_body: usize,
    /// Connections at once.
    pub max_connections: usize,
    /// What sessions may use.
    pub sessions: SessionLimits,
    /// What one principal may run.
    pub admission: AdmissionLimits,
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8420)),
            metrics_listen: None,
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            public_url: None,
            token_file: None,
            allow_anonymous: false,
            tls: None,
            drain: Duration::from_secs(30),
            max_body: 20 << 20,
            max_connections: 4096,
            sessions: SessionLimits {
                total: 4096,
                of_principal: 4096,
                idle: Duration::from_mins(30),
                grace: Duration::from_secs(30),
            },
            admission: AdmissionLimits {
                runs: 1000,
                waiting: 1000,
            },
        }
    }
}
