//! `callgate http`: many remote clients.

use std::{net::SocketAddr, path::PathBuf, process::ExitCode, sync::Arc, time::Duration};

use clap::Args;
use rustix::process::{Resource, getrlimit, setrlimit};

use super::{
    Options, Problem,
    options::{duration, size},
};
use crate::server::{
    AdmissionLimits, Service,
    http::{self, HttpSettings, SessionLimits, TlsFiles},
};

/// Open files beside connections: the image, the listeners, what is read again when it changes.
const FILES: u64 = 64;

/// How to serve.
#[derive(Debug, Args)]
pub struct HttpArguments {
    /// Where to listen
    #[arg(
        long,
        value_name = "ADDRESS",
        env = "CALLGATE_LISTEN",
        default_value = "127.0.0.1:8420"
    )]
    listen: SocketAddr,
    /// Where to serve Prometheus metrics, at /metrics [default: nowhere]
    #[arg(long, value_name = "ADDRESS", env = "CALLGATE_METRICS_LISTEN")]
    metrics_listen: Option<SocketAddr>,
    /// How long runs may go on after SIGTERM before they are stopped
    #[arg(long, value_name = "TIME", env = "CALLGATE_DRAIN", default_value = "30s", value_parser = humantime::parse_duration)]
    drain: Duration,

    /// Who may come in: a file with lines from `callgate token NAME`, read again when it changes
    #[arg(
        long,
        value_name = "FILE",
        env = "CALLGATE_TOKEN_FILE",
        help_heading = "Access"
    )]
    token_file: Option<PathBuf>,
    /// Let everyone in even where other machines can reach the server
    #[arg(long, env = "CALLGATE_ALLOW_ANONYMOUS", help_heading = "Access")]
    allow_anonymous: bool,
    /// A name that the server goes by, beside addresses and localhost (`*`: any); may be repeated
    #[arg(
        long = "allowed-host",
        value_name = "HOST[:PORT]",
        env = "CALLGATE_ALLOWED_HOSTS",
        value_delimiter = ',',
        help_heading = "Access"
    )]
    allowed_hosts: Vec<String>,
    /// Web pages that may talk to the server, beside those of localhost (`*`: any); may be repeated
    #[arg(
        long = "allowed-origin",
        value_name = "URL",
        env = "CALLGATE_ALLOWED_ORIGINS",
        value_delimiter = ',',
        help_heading = "Access"
    )]
    allowed_origins: Vec<String>,
    /// How clients reach the server, if a proxy changes the Host header
    #[arg(
        long,
        value_name = "URL",
        env = "CALLGATE_PUBLIC_URL",
        help_heading = "Access"
    )]
    public_url: Option<String>,
    /// The certificate (PEM, with its chain), read again when it changes
    #[arg(
        long,
        value_name = "FILE",
        env = "CALLGATE_TLS_CERT",
        requires = "tls_key",
        help_heading = "Access"
    )]
    tls_cert: Option<PathBuf>,
    /// Its private key (PEM)
    #[arg(
        long,
        value_name = "FILE",
        env = "CALLGATE_TLS_KEY",
        requires = "tls_cert",
        help_heading = "Access"
    )]
    tls_key: Option<PathBuf>,

    /// The body of one request
    #[arg(long, value_name = "SIZE", env = "CALLGATE_MAX_BODY", default_value = "20MiB", value_parser = size, help_heading = "Limits of the server")]
    max_body: u64,
    /// Connections at once
    #[arg(long, value_name = "N", env = "CALLGATE_MAX_CONNECTIONS", default_value_t = 4096, value_parser = count(), help_heading = "Limits of the server")]
    max_connections: u32,
    /// Sessions at once
    #[arg(long, value_name = "N", env = "CALLGATE_MAX_SESSIONS", default_value_t = 4096, value_parser = count(), help_heading = "Limits of the server")]
    max_sessions: u32,
    /// Sessions of one principal at once [default: all; half of them with a token file]
    #[arg(long, value_name = "N", env = "CALLGATE_MAX_SESSIONS_PER_PRINCIPAL", value_parser = count(), help_heading = "Limits of the server")]
    max_sessions_per_principal: Option<u32>,
    /// Runs of one principal at once [default: all; half of them with a token file]
    #[arg(long, value_name = "N", env = "CALLGATE_MAX_RUNS_PER_PRINCIPAL", value_parser = count(), help_heading = "Limits of the server")]
    max_runs_per_principal: Option<u32>,
    /// Runs of one principal that may wait for their turn; more are refused
    #[arg(
        long,
        value_name = "N",
        env = "CALLGATE_MAX_WAITING_RUNS",
        default_value_t = 1000,
        help_heading = "Limits of the server"
    )]
    max_waiting_runs: u32,
    /// A session that nobody uses is closed after this time
    #[arg(long, value_name = "TIME", env = "CALLGATE_SESSION_IDLE", default_value = "30m", value_parser = duration, help_heading = "Limits of the server")]
    session_idle: Duration,
    /// A run whose client lost its stream and does not come back is stopped after this time
    #[arg(long, value_name = "TIME", env = "CALLGATE_RESUME_GRACE", default_value = "30s", value_parser = duration, help_heading = "Limits of the server")]
    resume_grace: Duration,
}

fn count() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..)
}

impl HttpArguments {
    fn settings(self, runs: u32) -> HttpSettings {
        // One principal of several must not have all.
        let has_tokens = self.token_file.is_some();
        let all_or_half = |all: u32| if has_tokens { all.div_ceil(2) } else { all };
        let of_principal = self
            .max_sessions_per_principal
            .unwrap_or_else(|| all_or_half(self.max_sessions));
        let of_runs = self
            .max_runs_per_principal
            .unwrap_or_else(|| all_or_half(runs));
        let tls = self.tls_cert.zip(self.tls_key);
        HttpSettings {
            listen: self.listen,
            metrics_listen: self.metrics_listen,
            allowed_hosts: self.allowed_hosts,
            allowed_origins: self.allowed_origins,
            public_url: self.public_url,
            token_file: self.token_file,
            allow_anonymous: self.allow_anonymous,
            tls: tls.map(|(certificate, key)| TlsFiles { certificate, key }),
            drain: self.drain,
            max_body: usize::try_from(self.max_body).unwrap_or(usize::MAX),
            max_connections: self.max_connections as usize,
            sessions: SessionLimits {
                total: self.max_sessions as usize,
                of_principal: of_principal as usize,
                idle: self.session_idle,
                grace: self.resume_grace,
            },
            admission: AdmissionLimits {
                runs: of_runs as usize,
                waiting: self.max_waiting_runs as usize,
            },
        }
    }
}

/// Each connection is a file descriptor, and systems allow few of them unless asked.
fn raise_file_limit(connections: usize) {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!("the limit on open files stays as it is: {error}");
    }
    let needed = connections as u64 + FILES;
    if limit.maximum.is_some_and(|maximum| maximum < needed) {
        tracing::warn!(
            "the system allows fewer open files than --max-connections {connections} may need ({needed})"
        );
    }
}

/// Serves until a signal ends it.
pub(super) fn execute(arguments: HttpArguments, options: &Options) -> Result<ExitCode, Problem> {
    let mut settings = options.settings()?;
    if arguments.token_file.is_some() {
        // One principal of several must not have all.
        settings.suspended.of_principal = settings.suspended.runs.div_ceil(2);
    }
    let http = arguments.settings(settings.capacity.runs);
    raise_file_limit(http.max_connections);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let upstreams = Arc::clone(&settings.upstreams);
    let served = runtime.block_on(async {
        let served = http::serve(http, Service::start(settings)).await;
        // They are processes of their own and would stay.
        upstreams.close().await;
        served
    });
    runtime.shutdown_background();
    served?;
    Ok(ExitCode::SUCCESS)
}
