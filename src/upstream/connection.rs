//! One connection to a server: from its start to its end.

use std::{sync::Arc, time::Duration};

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
    failure::{Failure, deepest},
    http::{self, HttpError},
    lines::Lines,
    process::{Errors, Process},
    secrets::Secrets,
    sse::Events,
};

/// How often to look whether a connection has closed that nobody uses.
const LOOK: Duration = Duration::from_secs(1);

/// Requests to one server that are under way at once over HTTP; more wait.
const REQUESTS: usize = 256;

/// A connection that is up. Dropping it ends what belongs to it.
pub struct Connection {
    service: RunningService<RoleClient, Handler>,
    process: Option<Program>,
    /// Notified when the server says that its tools have changed.
    pub changes: Arc<Notify>,
}

/// A server that is a process, and what it says beside the protocol.
struct Program {
    process: Process,
    errors: Errors,
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
    pub async fn open(
        name: &str,
        transport: &Transport,
        secrets: &Secrets,
    ) -> Result<Self, String> {
        // Every server of today speaks the handshake; one of tomorrow may speak only what comes after.
        let mode = ClientLifecycleMode::Initialize;
        match Self::open_as(name, transport, mode, secrets).await {
            Err(Refused::Answered(reason)) => {
                tracing::debug!(server = name, "no handshake ({reason}); trying without");
                let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
                let mode = ClientLifecycleMode::Discover { preferred_versions };
                let discovered = Self::open_as(name, transport, mode, secrets).await;
                discovered.map_err(|_| reason)
            }
            Err(Refused::NotThere(reason)) => {
                let Transport::Http { url, headers } = transport else {
                    return Err(reason);
                };
                tracing::debug!(server = name, "{reason}; trying HTTP+SSE");
                let before = Transport::Sse {
                    url: url.clone(),
                    headers: headers.clone(),
                };
                let mode = ClientLifecycleMode::Initialize;
                let opened = Self::open_as(name, &before, mode, secrets).await;
                opened.map_err(|_| reason)
            }
            Err(Refused::Failed(reason)) => Err(reason),
            Ok(connection) => Ok(connection),
        }
    }

    async fn open_as(
        name: &str,
        transport: &Transport,
        mode: ClientLifecycleMode,
        secrets: &Secrets,
    ) -> Result<Self, Refused> {
        let handler = Handler::default();
        let changes = Arc::clone(&handler.changes);
        let mut process = None;
        let opened = match transport {
            Transport::Stdio {
                command,
                arguments,
                environment,
                folder,
            } => {
                let started = Process::start(command, arguments, environment, folder.as_deref());
                let (started, pipes) = started.map_err(|error| {
                    Refused::Failed(format!("`{command}` can't be started: {error}"))
                })?;
                process = Some(Program {
                    process: started,
                    errors: Errors::follow(name, pipes.errors, secrets),
                });
                let lines = Lines::new(name, pipes.input, pipes.output);
                handler.serve_with_lifecycle(lines, mode).await
            }
            Transport::Http { url, headers } => {
                let transport = streamable(url, headers).map_err(Refused::Failed)?;
                handler.serve_with_lifecycle(transport, mode).await
            }
            Transport::Sse { url, headers } => {
                let client = http::client().map_err(Refused::Failed)?;
                let headers = http::headers(headers).map_err(Refused::Failed)?;
                let events = Events::open(name, client, url, headers).await;
                let events = events.map_err(|failure| Refused::Failed(failure.reason()))?;
                handler.serve_with_lifecycle(events, mode).await
            }
        };
        match opened {
            Ok(service) => Ok(Self {
                service,
                process,
                changes,
            }),
            Err(error) => Err(Refused::of(error, process.as_mut()).await),
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
                Some(program) => tokio::select! {
                    _ = program.process.wait() => break,
                    () = look => {}
                },
                None => look.await,
            }
        }
        match &mut self.process {
            Some(program) => {
                let end = match program.exit().await {
                    Some(status) => format!("it has ended ({status})"),
                    None => "it closed its output".to_owned(),
                };
                program.with_last_words(end).await
            }
            None => "the connection has closed".to_owned(),
        }
    }

    /// Ends it in order: the server sees the end of its input, or of its session.
    pub async fn close(mut self) {
        let closing = self.service.close_with_timeout(Duration::from_secs(1));
        let _ = closing.await;
        if let Some(program) = &mut self.process {
            program.process.end().await;
        }
    }
}

impl Program {
    /// How it ended, if it has.
    async fn exit(&mut self) -> Option<String> {
        let wait = self.process.wait();
        let status = tokio::time::timeout(Duration::from_millis(200), wait).await;
        Some(status.ok()?.ok()?.to_string())
    }

    async fn with_last_words(&mut self, end: String) -> String {
        match self.errors.last().await {
            Some(words) => format!("{end}; its last words: `{words}`"),
            None => end,
        }
    }
}

/// Why a connection did not come about.
enum Refused {
    /// The server answered the handshake with an error.
    Answered(String),
    /// Nothing takes messages there: it may be a server that came before streamable HTTP.
    NotThere(String),
    /// Anything else.
    Failed(String),
}

impl Refused {
    async fn of(error: ClientInitializeError, program: Option<&mut Program>) -> Self {
        match error {
            ClientInitializeError::JsonRpcError(error) => {
                Self::Answered(format!("it refused the handshake: {}", error.message))
            }
            ClientInitializeError::ConnectionClosed(_) => Self::Failed(match program {
                Some(program) => {
                    let end = match program.exit().await {
                        Some(status) => format!("it ended before it answered ({status})"),
                        None => "it closed its output before it answered".to_owned(),
                    };
                    program.with_last_words(end).await
                }
                None => "it closed the connection before it answered".to_owned(),
            }),
            ClientInitializeError::TransportError { error, .. } => {
                let error = error.error.as_ref();
                let Some(error) = error.downcast_ref::<HttpError>() else {
                    return Self::Failed(format!("it can't be reached: {}", deepest(error)));
                };
                match Failure::of(error) {
                    Failure::Refused(404 | 405, reason) => Self::NotThere(reason),
                    failure => Self::Failed(failure.reason()),
                }
            }
            other => Self::Failed(format!("the handshake failed: {other}")),
        }
    }
}

fn streamable(
    url: &str,
    headers: &std::collections::BTreeMap<String, String>,
) -> Result<StreamableHttpClientTransport<reqwest::Client>, String> {
    let mut config =
        StreamableHttpClientTransportConfig::with_uri(url).max_concurrent_requests(REQUESTS);
    config.allow_stateless = true;
    config.custom_headers = http::headers(headers)?;
    let client = http::client()?;
    Ok(StreamableHttpClientTransport::with_client(client, config))
}
