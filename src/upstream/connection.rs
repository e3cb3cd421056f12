//! One connection to a server: from its start to its end.

use std::{sync::Arc, time::Duration};

use http::{HeaderName, HeaderValue};
use rmcp::{
    ClientHandler, RoleClient,
    model::{ClientCapabilities, ClientConfig, Implementation, ProtocolVersion},
    service::{
        ClientInitializeError, ClientLifecycleMode, ClientServiceExt as _, NotificationContext,
        Peer, RunningService,
    },
    transport::{
        StreamableHttpClientTransport, streamable_http_client::StreamableHttpClientTransportConfig,
    },
};
use tokio::sync::Notify;

use super::{
    config::Transport,
    lines::Lines,
    process::{Process, log_errors},
};

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How often to look whether a connection has closed that nobody uses.
const LOOK: Duration = Duration::from_secs(1);

/// Requests to one server that are under way at once over HTTP; more wait.
const REQUESTS: usize = 256;

/// A connection that is up. Dropping it ends what belongs to it.
pub struct Connection {
    service: RunningService<RoleClient, Handler>,
    process: Option<Process>,
    /// Notified when the server says that its tools have changed.
    pub changes: Arc<Notify>,
}

/// What callgate says and hears as a client.
#[derive(Clone, Default)]
pub struct Handler {
    changes: Arc<Notify>,
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let client = Implementation::new("callgate", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), client)
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changes.notify_one();
    }
}

impl Connection {
    /// Starts or reaches the server and shakes hands.
    ///
    /// # Errors
    /// Why that failed; it may quote what nobody may see.
    pub async fn open(name: &str, transport: &Transport) -> Result<Self, String> {
        // Every server of today speaks the handshake; one of tomorrow may speak only what comes after.
        match Self::open_as(name, transport, ClientLifecycleMode::Initialize).await {
            Err(Refused::Answered(reason)) => {
                tracing::debug!(server = name, "no handshake ({reason}); trying without");
                let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
                let mode = ClientLifecycleMode::Discover { preferred_versions };
                let discovered = Self::open_as(name, transport, mode).await;
                discovered.map_err(|_| reason)
            }
            Err(Refused::Failed(reason)) => Err(reason),
            Ok(connection) => Ok(connection),
        }
    }

    async fn open_as(
        name: &str,
        transport: &Transport,
        mode: ClientLifecycleMode,
    ) -> Result<Self, Refused> {
        let handler = Handler::default();
        let changes = Arc::clone(&handler.changes);
        match transport {
            Transport::Stdio {
                command,
                arguments,
                environment,
                folder,
            } => {
                let started = Process::start(command, arguments, environment, folder.as_deref());
                let (mut process, pipes) = started.map_err(|error| {
                    Refused::Failed(format!("`{command}` can't be started: {error}"))
                })?;
                tokio::spawn(log_errors(name.to_owned(), pipes.errors));
                let lines = Lines::new(name, pipes.input, pipes.output);
                let opened = handler.serve_with_lifecycle(lines, mode).await;
                let service = match opened {
                    Ok(service) => service,
                    Err(error) => return Err(Refused::of(error, exit_of(&mut process).await)),
                };
                Ok(Self {
                    service,
                    process: Some(process),
                    changes,
                })
            }
            Transport::Http { url, headers } => {
                let transport = http_transport(url, headers).map_err(Refused::Failed)?;
                let opened = handler.serve_with_lifecycle(transport, mode).await;
                Ok(Self {
                    service: opened.map_err(|error| Refused::of(error, None))?,
                    process: None,
                    changes,
                })
            }
        }
    }

    /// The server.
    #[must_use]
    pub fn peer(&self) -> Peer<RoleClient> {
        self.service.peer().clone()
    }

    /// Waits until the connection has ended by itself; says why. It looks when `death` is notified, and
    /// every now and then.
    pub async fn ended(&mut self, death: &Notify) -> String {
        while !self.service.is_transport_closed() {
            let look = async {
                let _ = tokio::time::timeout(LOOK, death.notified()).await;
            };
            match &mut self.process {
                Some(process) => tokio::select! {
                    _ = process.wait() => break,
                    () = look => {}
                },
                None => look.await,
            }
        }
        match &mut self.process {
            Some(process) => match exit_of(process).await {
                Some(status) => format!("it has ended ({status})"),
                None => "it closed its output".to_owned(),
            },
            None => "the connection has closed".to_owned(),
        }
    }

    /// Ends it in order: the server sees the end of its input, or of its session.
    pub async fn close(mut self) {
        let closing = self.service.close_with_timeout(Duration::from_secs(1));
        let _ = closing.await;
        if let Some(process) = &mut self.process {
            process.end().await;
        }
    }
}

/// Why a connection did not come about.
enum Refused {
    /// The server answered the handshake with an error.
    Answered(String),
    /// Anything else.
    Failed(String),
}

impl Refused {
    fn of(error: ClientInitializeError, exit: Option<String>) -> Self {
        match error {
            ClientInitializeError::JsonRpcError(error) => {
                Self::Answered(format!("it refused the handshake: {}", error.message))
            }
            ClientInitializeError::ConnectionClosed(_) => Self::Failed(match exit {
                Some(status) => format!("it ended before it answered ({status})"),
                None => "it closed the connection before it answered".to_owned(),
            }),
            ClientInitializeError::TransportError { error, .. } => {
                // The outer ones tell of requests and transports, the innermost what happened.
                let mut cause: &dyn std::error::Error = error.error.as_ref();
                while let Some(source) = cause.source() {
                    cause = source;
                }
                Self::Failed(format!("it can't be reached: {cause}"))
            }
            other => Self::Failed(format!("the handshake failed: {other}")),
        }
    }
}

/// How a process ended, if it has.
async fn exit_of(process: &mut Process) -> Option<String> {
    let status = tokio::time::timeout(Duration::from_millis(200), process.wait()).await;
    Some(status.ok()?.ok()?.to_string())
}

fn http_transport(
    url: &str,
    headers: &std::collections::BTreeMap<String, String>,
) -> Result<StreamableHttpClientTransport<reqwest::Client>, String> {
    // Needed once in a process; it fails only where it was done already.
    let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .build()
        .map_err(|error| format!("no HTTP client could be made: {error}"))?;
    let mut config =
        StreamableHttpClientTransportConfig::with_uri(url).max_concurrent_requests(REQUESTS);
    config.allow_stateless = true;
    for (name, value) in headers {
        let name = HeaderName::try_from(name.as_str())
            .map_err(|_| format!("`{name}` can't be the name of a header"))?;
        let value = HeaderValue::try_from(value.as_str()).map_err(|_| {
            format!("the value of the header `{name}` has characters that no header may have")
        })?;
        config.custom_headers.insert(name, value);
    }
    Ok(StreamableHttpClientTransport::with_client(client, config))
}
