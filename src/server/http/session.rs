//! One session of a revision up to 2025-11-25: which event goes on which stream.

use std::{
    collections::HashMap,
    convert::Infallible,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use rmcp::{
    RoleServer,
    model::{
        CancelledNotification, CancelledNotificationParam, ClientJsonRpcMessage,
        ClientNotification, GetExtensions as _, GetMeta as _, JsonRpcMessage, NumberOrString,
        ProgressToken, RequestId, ServerJsonRpcMessage, ServerNotification, ServerResult,
    },
    service::{OriginatingRequestId, RxJsonRpcMessage, TxJsonRpcMessage},
    transport::{Transport, streamable_http_server::session::SessionId},
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::event_log::{COMMON, EventLog, EventRoom, parse_event_id};
use crate::{gate::Principal, server::admission::Ticket};

/// Messages that wait for the session's server; more, and the request that brings one waits.
const INCOMING: usize = 64;

/// A cancelled request gets no response, but what belongs to it may still be told.
const LAST_WORDS: Duration = Duration::from_millis(250);

/// The first revision whose clients know priming events (SEP-1699).
const FIRST_PRIMED_REVISION: &str = "2025-11-25";

/// A session.
pub struct Session {
    /// Its id.
    pub id: SessionId,
    owner: OnceLock<Principal>,
    /// Whether its client is told how to come back to a stream.
    primed: AtomicBool,
    incoming: mpsc::Sender<RxJsonRpcMessage<RoleServer>>,
    closed: CancellationToken,
    room: Mutex<EventRoom>,
    streams: Mutex<Streams>,
    used: Mutex<Instant>,
}

struct Streams {
    next: u64,
    logs: HashMap<u64, Arc<EventLog>>,
    /// The stream of each request that has no answer yet.
    requests: HashMap<RequestId, u64>,
    /// The request that asked for progress under a token.
    progress: HashMap<ProgressToken, RequestId>,
}

impl Session {
    /// A session, and the transport for its server.
    #[must_use]
    pub fn open(id: SessionId, room: EventRoom) -> (Arc<Self>, SessionTransport) {
        let (incoming, messages) = mpsc::channel(INCOMING);
        let common = EventLog::new(COMMON, room.clone(), None);
        let session = Arc::new(Self {
            id,
            owner: OnceLock::new(),
            primed: AtomicBool::new(false),
            incoming,
            closed: CancellationToken::new(),
            room: Mutex::new(room),
            streams: Mutex::new(Streams {
                next: COMMON + 1,
                logs: HashMap::from([(COMMON, common)]),
                requests: HashMap::new(),
                progress: HashMap::new(),
            }),
            used: Mutex::new(Instant::now()),
        });
        let transport = SessionTransport {
            session: Arc::clone(&session),
            messages,
        };
        (session, transport)
    }

    /// The session belongs to `principal` from now on, if it belonged to nobody, and its events take that
    /// principal's room.
    pub fn claim(&self, principal: &Principal, room: EventRoom) {
        // The first claim is made before anyone else can know the id.
        if self.owner.set(principal.clone()).is_ok() {
            *self.room.lock().unwrap_or_else(PoisonError::into_inner) = room;
        }
    }

    /// Whether it is `principal`'s.
    #[must_use]
    pub fn belongs_to(&self, principal: &Principal) -> bool {
        self.owner.get() == Some(principal)
    }

    /// Whether a request of this id has no answer yet.
    #[must_use]
    pub fn has_request(&self, id: &RequestId) -> bool {
        self.streams().requests.contains_key(id)
    }

    /// Whether its client is told how to come back to a stream.
    #[must_use]
    pub fn is_primed(&self) -> bool {
        self.primed.load(Ordering::Relaxed)
    }

    /// Makes the stream for a request; `None` if another request of its id is under way, or the session is
    /// closed.
    pub fn begin(&self, message: &ClientJsonRpcMessage) -> Option<Arc<EventLog>> {
        let JsonRpcMessage::Request(request) = message else {
            return None;
        };
        let http = request.request.extensions().get::<http::request::Parts>();
        let ticket = http.and_then(|http| http.extensions.get::<Arc<Ticket>>());
        let room = self.room.lock().unwrap_or_else(PoisonError::into_inner);
        let room = room.clone();
        let mut streams = self.streams();
        if self.closed.is_cancelled() || streams.requests.contains_key(&request.id) {
            return None;
        }
        let number = streams.next;
        streams.next += 1;
        let log = EventLog::new(number, room, ticket.cloned());
        streams.logs.insert(number, Arc::clone(&log));
        streams.requests.insert(request.id.clone(), number);
        if let Some(token) = request.request.get_meta().get_progress_token() {
            streams.progress.insert(token, request.id.clone());
        }
        drop(streams);
        self.touch();
        Some(log)
    }

    /// A stream by its number.
    #[must_use]
    pub fn log(&self, number: u64) -> Option<Arc<EventLog>> {
        self.touch();
        self.streams().logs.get(&number).cloned()
    }

    /// Whether there is something to come back for to the event of this id.
    #[must_use]
    pub fn can_resume(&self, event_id: &str) -> bool {
        parse_event_id(event_id).is_some_and(|(number, index)| {
            self.log(number)
                .is_some_and(|log| !log.is_over_after(index))
        })
    }

    /// The stream that belongs to no request.
    #[must_use]
    pub fn common(&self) -> Option<Arc<EventLog>> {
        self.log(COMMON)
    }

    /// Hands a message to the session's server; false if the server has ended.
    pub async fn accept(self: &Arc<Self>, message: ClientJsonRpcMessage) -> bool {
        self.touch();
        if let JsonRpcMessage::Notification(notification) = &message
            && let ClientNotification::CancelledNotification(cancelled) = &notification.notification
            && let Some(id) = &cancelled.params.request_id
        {
            self.end_soon(id);
        }
        self.incoming.send(message).await.is_ok()
    }

    /// Ends the stream of a request that gets no answer.
    fn end_soon(self: &Arc<Self>, id: &RequestId) {
        let number = self.streams().requests.get(id).copied();
        let Some(log) = number.and_then(|number| self.log(number)) else {
            return;
        };
        let session = Arc::clone(self);
        let id = id.clone();
        tokio::spawn(async move {
            tokio::time::sleep(LAST_WORDS).await;
            let mut streams = session.streams();
            // The id may be that of another request by now.
            if streams.requests.get(&id).copied() == number {
                streams.forget_request(&id);
            }
            drop(streams);
            log.finish();
        });
    }

    /// Stops what nobody came back for, and forgets what was kept for nobody. Whether the session
    /// is used by anyone now.
    pub async fn sweep(self: &Arc<Self>, grace: Duration) -> bool {
        for id in self.abandoned(grace) {
            tracing::info!(session = %self.id, request = %id.to_string().escape_debug(),
                "a run was stopped: its client lost the stream and did not come back");
            self.end_soon(&id);
            // An error means that the session's server has ended, and the run with it.
            let _ = self.incoming.send(cancellation(id)).await;
        }
        let mut streams = self.streams();
        streams.logs.retain(|number, log| {
            let is_kept = log.unread_for().is_none_or(|time| time < grace);
            *number == COMMON || !log.is_done() || is_kept
        });
        let is_read = streams.logs.values().any(|log| log.unread_for().is_none());
        is_read || !streams.requests.is_empty()
    }

    fn abandoned(&self, grace: Duration) -> Vec<RequestId> {
        let streams = self.streams();
        let is_abandoned = |number: &u64| {
            streams.logs.get(number).is_some_and(|log| {
                !log.is_done() && log.unread_for().is_some_and(|time| time >= grace)
            })
        };
        let requests = streams.requests.iter();
        requests
            .filter(|(_, number)| is_abandoned(number))
            .map(|(id, _)| id.clone())
            .collect()
    }

    /// Ends all streams and stops all runs.
    pub fn close(&self) {
        let streams = self.streams();
        self.closed.cancel();
        for log in streams.logs.values() {
            log.finish();
        }
    }

    /// How long its client has sent nothing.
    #[must_use]
    pub fn idle_for(&self) -> Duration {
        self.used().elapsed()
    }

    fn touch(&self) {
        *self.used() = Instant::now();
    }

    fn used(&self) -> MutexGuard<'_, Instant> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn streams(&self) -> MutexGuard<'_, Streams> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_revision(&self, message: &ServerJsonRpcMessage) {
        if let JsonRpcMessage::Response(response) = message
            && let ServerResult::InitializeResult(result) = &response.result
        {
            let primed = result.protocol_version.as_str() >= FIRST_PRIMED_REVISION;
            self.primed.store(primed, Ordering::Relaxed);
        }
    }
}

impl Streams {
    /// The stream that a message belongs on, and whether it is the last one there.
    fn route(&mut self, message: &ServerJsonRpcMessage) -> (Option<Arc<EventLog>>, bool) {
        let answered = match message {
            JsonRpcMessage::Response(response) => Some(response.id.clone()),
            JsonRpcMessage::Error(error) => error.id.clone(),
            _ => None,
        };
        if let Some(id) = answered {
            let number = self.forget_request(&id);
            return (
                number.and_then(|number| self.logs.get(&number).cloned()),
                true,
            );
        }
        let number = self
            .originating(message)
            .and_then(|id| self.requests.get(&id).copied())
            .unwrap_or(COMMON);
        (self.logs.get(&number).cloned(), false)
    }

    fn originating(&self, message: &ServerJsonRpcMessage) -> Option<RequestId> {
        match message {
            JsonRpcMessage::Request(request) => {
                let extensions = request.request.extensions();
                Some(extensions.get::<OriginatingRequestId>()?.0.clone())
            }
            JsonRpcMessage::Notification(notification) => match &notification.notification {
                ServerNotification::ProgressNotification(progress) => {
                    self.progress.get(&progress.params.progress_token).cloned()
                }
                notification => {
                    let extensions = notification.extensions();
                    Some(extensions.get::<OriginatingRequestId>()?.0.clone())
                }
            },
            _ => None,
        }
    }

    fn forget_request(&mut self, id: &RequestId) -> Option<u64> {
        self.progress.retain(|_, request| request != id);
        self.requests.remove(id)
    }
}

/// The session as its server sees it.
pub struct SessionTransport {
    session: Arc<Session>,
    messages: mpsc::Receiver<RxJsonRpcMessage<RoleServer>>,
}

impl Transport<RoleServer> for SessionTransport {
    type Error = Infallible;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Infallible>> + Send + 'static {
        self.session.note_revision(&item);
        let (log, is_last) = self.session.streams().route(&item);
        let pushed = log.map(|log| log.push(item, is_last));
        async move {
            if let Some(pushed) = pushed {
                pushed.await;
            }
            Ok(())
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        tokio::select! {
            biased;
            message = self.messages.recv() => message,
            () = self.session.closed.cancelled() => {
                let mut streams = self.session.streams();
                let id = streams.requests.keys().next().cloned()?;
                streams.forget_request(&id);
                Some(cancellation(id))
            }
        }
    }

    async fn close(&mut self) -> Result<(), Infallible> {
        self.session.close();
        Ok(())
    }
}

/// What tells the session's server that nobody waits for a request any more.
fn cancellation(id: RequestId) -> RxJsonRpcMessage<RoleServer> {
    let reason = "nobody waits for it any more".to_owned();
    let params = CancelledNotificationParam::new(Some(id), Some(reason));
    JsonRpcMessage::notification(ClientNotification::CancelledNotification(
        CancelledNotification::new(params),
    ))
}

/// The id of a request, as JSON has it.
#[must_use]
pub fn request_id(id: &serde_json::Value) -> Option<RequestId> {
    match id {
        serde_json::Value::Number(number) => number.as_i64().map(NumberOrString::Number),
        serde_json::Value::String(text) => Some(NumberOrString::String(text.as_str().into())),
        _ => None,
    }
}
