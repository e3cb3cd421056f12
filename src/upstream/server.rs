//! One server: started when it is needed, listed, called, started again when it has died.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use futures::{
    FutureExt as _,
    future::{BoxFuture, Shared},
};
use rmcp::{
    RoleClient,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, JsonObject, RequestMetaObject,
        RequestParamsMeta as _,
    },
    service::{Peer, ServiceError},
};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{
    config::{ServerConfig, Transport},
    connection::Connection,
    failure::Failure,
    home::Home,
    listing::Listing,
    policy::Policy,
    secrets::Secrets,
    wrapped,
};

/// How long a server may take to start: the first time, package runners download it.
const START_TIMEOUT: Duration = Duration::from_mins(1);

/// How long it may take to say which tools it has now.
const LIST_TIMEOUT: Duration = Duration::from_secs(30);

/// The first pause after a server has died; it doubles each time.
const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// A server that was up for so long did not die of its start.
const SOUND: Duration = Duration::from_secs(30);

/// A server of the configuration.
pub struct Server {
    config: ServerConfig,
    policy: Arc<Policy>,
    secrets: Secrets,
    home: Arc<Home>,
    state: Mutex<State>,
    /// Somebody has seen that the connection is gone.
    death: Notify,
    stop: CancellationToken,
}

/// Why a call has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// Nothing was sent.
    #[error("{0}")]
    NotSent(String),
    /// The server or the connection failed: it may have happened.
    #[error("{0}")]
    Failed(String),
}

/// What a server does at the moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerState {
    /// Nobody has needed it yet.
    Idle,
    /// It is being started.
    Starting,
    /// It is up.
    Up,
    /// It can't be used, for this reason.
    Down(String),
}

#[derive(Default)]
struct State {
    now: Now,
    /// Deaths in a row.
    deaths: u32,
}

#[derive(Default)]
enum Now {
    #[default]
    Idle,
    Starting(Starting),
    Up(Up),
    Down {
        reason: String,
        again: Instant,
    },
}

type Starting = Shared<BoxFuture<'static, Result<Up, String>>>;

/// A server that is up.
#[derive(Clone)]
pub struct Up {
    peer: Peer<RoleClient>,
    listing: Arc<Mutex<Listing>>,
}

impl Up {
    /// Its tools.
    #[must_use]
    pub fn listing(&self) -> Listing {
        lock(&self.listing).clone()
    }
}

impl Server {
    pub(super) fn new(config: ServerConfig, policy: Arc<Policy>, home: Arc<Home>) -> Arc<Self> {
        Arc::new(Self {
            home,
            secrets: Secrets::new(config.secrets.clone()),
            config,
            policy,
            state: Mutex::default(),
            death: Notify::new(),
            stop: CancellationToken::new(),
        })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.config.name
    }

    /// What it is for, if the configuration says so.
    #[must_use]
    pub fn description(&self) -> Option<&str> {
        self.config.description.as_deref()
    }

    /// What it does at the moment.
    #[must_use]
    pub fn state(&self) -> ServerState {
        match &lock(&self.state).now {
            Now::Idle => ServerState::Idle,
            Now::Starting(_) => ServerState::Starting,
            Now::Up(_) => ServerState::Up,
            Now::Down { reason, .. } => ServerState::Down(reason.clone()),
        }
    }

    /// The server, started if need be.
    ///
    /// # Errors
    /// Why it can't be used, for programs and people.
    pub async fn up(self: &Arc<Self>) -> Result<Up, String> {
        self.bury().await;
        let starting = {
            let mut state = lock(&self.state);
            match &state.now {
                Now::Up(up) => return Ok(up.clone()),
                Now::Starting(starting) => starting.clone(),
                Now::Down { reason, again } if *again > Instant::now() => {
                    let pause = again.saturating_duration_since(Instant::now());
                    return Err(format!(
                        "the server `{}` is down: {reason}. It will be started again in {} s at the earliest",
                        self.name(),
                        pause.as_secs() + 1
                    ));
                }
                Now::Idle | Now::Down { .. } => {
                    let starting = self.start();
                    state.now = Now::Starting(starting.clone());
                    starting
                }
            }
        };
        let started = starting.await;
        started.map_err(|reason| format!("the server `{}` is down: {reason}", self.name()))
    }

    /// Where the connection is gone, waits until that has been noted.
    async fn bury(&self) {
        let is_dead = || match &lock(&self.state).now {
            Now::Up(up) => up.peer.is_transport_closed(),
            _ => false,
        };
        while is_dead() {
            self.death.notify_one();
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Calls a tool. Dropping the future cancels the call.
    ///
    /// # Errors
    /// When it can't be called or the connection fails; a result that says that the tool failed is none.
    pub async fn call(
        self: &Arc<Self>,
        tool: &str,
        arguments: JsonObject,
        meta: RequestMetaObject,
    ) -> Result<CallToolResult, CallError> {
        if !self.policy.allows(self.name(), tool) {
            return Err(CallError::NotSent(format!(
                "the operator of this server does not allow `{}.{tool}`",
                self.name()
            )));
        }
        let up = self.up().await.map_err(CallError::NotSent)?;
        let mut call = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        *call.meta_mut() = Some(meta);
        match up.peer.call_tool_once(call).await {
            Ok(CallToolResponse::Complete(result)) => {
                Ok(wrapped::unwrapped(up.listing().tool(tool), result))
            }
            Ok(_) => Err(CallError::Failed(
                "the tool asks for something in between, and nobody is there to answer it"
                    .to_owned(),
            )),
            Err(error) => Err(self.call_error(&error)),
        }
    }

    /// A text without what nobody may see.
    #[must_use]
    pub fn without_secrets(&self, text: &str) -> String {
        self.secrets.remove(text)
    }

    /// Stops it for good.
    pub async fn close(&self) {
        self.stop.cancel();
        // Whoever watches over it says when it is done.
        while !matches!(self.state(), ServerState::Idle | ServerState::Down(_)) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Starts the server in a task of its own: whoever waits for it may give up, it does not.
    fn start(self: &Arc<Self>) -> Starting {
        let server = Arc::clone(self);
        let started = self.home.spawn(async move { server.started().await });
        let server = Arc::clone(self);
        async move {
            started.await.unwrap_or_else(|error| {
                let reason = format!("its task ended without a word: {error}");
                server.down(reason.clone(), Duration::ZERO);
                Err(reason)
            })
        }
        .boxed()
        .shared()
    }

    async fn started(self: Arc<Self>) -> Result<Up, String> {
        let timeout = self.config.start_timeout.unwrap_or(START_TIMEOUT);
        let opened = tokio::select! {
            opened = tokio::time::timeout(timeout, self.open()) => opened,
            () = self.stop.cancelled() => Ok(Err("callgate is ending".to_owned())),
        };
        let opened = opened
            .unwrap_or_else(|_| Err(format!("it did not start within {} s", timeout.as_secs())));
        match opened {
            Ok((connection, up)) => {
                tracing::info!(server = self.name(), "up");
                lock(&self.state).now = Now::Up(up.clone());
                self.home
                    .spawn(Arc::clone(&self).watch(connection, up.clone()));
                Ok(up)
            }
            Err(reason) => {
                let reason = self.secrets.remove(&reason);
                tracing::warn!(server = self.name(), "not started: {reason}");
                self.down(reason.clone(), Duration::ZERO);
                Err(reason)
            }
        }
    }

    async fn open(&self) -> Result<(Connection, Up), String> {
        let transport: &Transport = self.config.transport.as_ref().map_err(Clone::clone)?;
        let connection = Connection::open(self.name(), transport, &self.secrets).await?;
        let peer = connection.peer();
        let listing = self.list(&peer).await;
        let listing = listing.map_err(|error| {
            let reason = http_failure(&error).map_or_else(|| error.to_string(), Failure::reason);
            format!("its tools can't be listed: {reason}")
        })?;
        let listing = Arc::new(Mutex::new(listing));
        Ok((connection, Up { peer, listing }))
    }

    async fn list(&self, peer: &Peer<RoleClient>) -> Result<Listing, ServiceError> {
        Listing::of(peer, |tool| self.policy.allows(self.name(), tool)).await
    }

    /// Follows the server until it dies or is stopped.
    async fn watch(self: Arc<Self>, mut connection: Connection, up: Up) {
        let since = Instant::now();
        let changes = Arc::clone(&connection.changes);
        let death = {
            let lists = async {
                loop {
                    changes.notified().await;
                    self.list_again(&up).await;
                }
            };
            tokio::select! {
                reason = connection.ended(&self.death) => Some(reason),
                () = self.stop.cancelled() => None,
                () = lists => None,
            }
        };
        let Some(reason) = death else {
            connection.close().await;
            return self.down("callgate is ending".to_owned(), since.elapsed());
        };
        let reason = self.secrets.remove(&reason);
        tracing::warn!(server = self.name(), "down: {reason}");
        self.down(reason, since.elapsed());
        connection.close().await;
    }

    async fn list_again(&self, up: &Up) {
        let listed = tokio::time::timeout(LIST_TIMEOUT, self.list(&up.peer)).await;
        match listed {
            Ok(Ok(listing)) => *lock(&up.listing) = listing,
            Ok(Err(error)) => {
                let error = self.secrets.remove(&error.to_string());
                tracing::warn!(server = self.name(), "its tools can't be listed: {error}");
            }
            Err(_) => tracing::warn!(
                server = self.name(),
                "it does not say which tools it has now"
            ),
        }
    }

    /// Notes that it is down, after it was up for so long, and when it may be started again.
    fn down(&self, reason: String, was_up: Duration) {
        let mut state = lock(&self.state);
        state.deaths = if was_up > SOUND { 0 } else { state.deaths + 1 };
        let doublings = state.deaths.saturating_sub(1).min(16);
        let pause = match state.deaths {
            0 => Duration::ZERO,
            _ => (FIRST_PAUSE * 2_u32.pow(doublings)).min(LONGEST_PAUSE),
        };
        state.now = Now::Down {
            reason,
            again: Instant::now() + pause,
        };
    }

    /// Why a call has no result, and whether it may have happened.
    fn call_error(&self, error: &ServiceError) -> CallError {
        let name = self.name();
        let broke = format!(
            "the connection to the server `{name}` broke during the call, which may have happened"
        );
        let text = match (error, http_failure(error)) {
            (ServiceError::McpError(error), _) => error.message.to_string(),
            (_, Some(Failure::Unreached(reason))) => {
                let reason = format!("the server `{name}` did not get the call: {reason}");
                return CallError::NotSent(self.secrets.remove(&reason));
            }
            (_, Some(Failure::Refused(_, reason))) => {
                format!("the server `{name}` did not take the call: {reason}")
            }
            (_, Some(Failure::Useless(reason))) => format!(
                "the server `{name}` has no answer to the call, which may have happened: {reason}"
            ),
            (_, Some(Failure::Broke(cause))) => format!("{broke} ({cause})"),
            (ServiceError::TransportClosed | ServiceError::TransportSend(_), None) => broke,
            (other, None) => other.to_string(),
        };
        CallError::Failed(self.secrets.remove(&text))
    }
}

fn http_failure(error: &ServiceError) -> Option<Failure> {
    let ServiceError::TransportSend(error) = error else {
        return None;
    };
    error.error.downcast_ref().map(Failure::of)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
