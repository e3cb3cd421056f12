//! All sessions of revisions up to 2025-11-25.
//!
//! rmcp's own session manager is not used: it sends custom notifications to the GET stream alone,
//! forgets a result that was not delivered, and knows neither principals nor limits.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use futures::Stream;
use rmcp::{
    model::{ClientJsonRpcMessage, ServerJsonRpcMessage},
    transport::streamable_http_server::session::{ServerSseMessage, SessionId, SessionManager},
};

use super::{
    event_log::{EventRoom, parse_event_id},
    session::{Session, SessionTransport},
};
use crate::{gate::Principal, server::metrics::Metrics};

/// How often abandoned runs and idle sessions are looked for.
const SWEEP: Duration = Duration::from_secs(1);

/// When a client that lost its stream should come back.
const RETRY: Duration = Duration::from_secs(1);

/// What sessions may use, and how long they are kept.
#[derive(Debug, Clone, Copy)]
pub struct SessionLimits {
    /// Sessions of all principals.
    pub total: usize,
    /// Sessions of one principal.
    pub of_principal: usize,
    /// A session that is not used for so long is closed.
    pub idle: Duration,
    /// A run whose client lost its stream and does not come back for so long is stopped.
    pub grace: Duration,
}

/// Why no session is opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoSession {
    /// The principal has too many that are in use.
    #[error("`{0}` has {1} sessions in use already; close some of them with DELETE")]
    OfPrincipal(Principal, usize),
    /// All together are too many.
    #[error("the server has {0} sessions in use already")]
    Total(usize),
}

/// The sessions of a process.
pub struct Sessions {
    open: Mutex<HashMap<SessionId, Arc<Session>>>,
    limits: SessionLimits,
    /// The room of sessions that are nobody's yet.
    room: EventRoom,
    rooms: Mutex<HashMap<Principal, EventRoom>>,
    metrics: Arc<Metrics>,
}

impl Sessions {
    /// No sessions yet. What is left behind is swept as long as this exists.
    #[must_use]
    pub fn new(limits: SessionLimits, metrics: Arc<Metrics>) -> Arc<Self> {
        let sessions = Arc::new(Self {
            open: Mutex::default(),
            limits,
            room: EventRoom::default(),
            rooms: Mutex::default(),
            metrics,
        });
        tokio::spawn(sweep(Arc::downgrade(&sessions)));
        sessions
    }

    /// The session of this id, if it is `principal`'s.
    #[must_use]
    pub fn find(&self, id: &str, principal: &Principal) -> Option<Arc<Session>> {
        let session = self.open().get(id).cloned()?;
        session.belongs_to(principal).then_some(session)
    }

    /// The session of this id is `principal`'s from now on.
    pub fn claim(&self, id: &str, principal: &Principal) {
        let mut rooms = self.rooms.lock().unwrap_or_else(PoisonError::into_inner);
        let room = rooms.entry(principal.clone());
        let room = room.or_insert_with(|| self.room.of_another()).clone();
        drop(rooms);
        if let Some(session) = self.open().get(id) {
            session.claim(principal, room);
        }
    }

    /// Makes sure that one more session may be opened, if need be by closing one that has been idle.
    ///
    /// # Errors
    /// When all are in use.
    pub async fn make_room(&self, principal: &Principal) -> Result<(), NoSession> {
        let SessionLimits {
            total,
            of_principal,
            ..
        } = self.limits;
        let of = |session: &&Arc<Session>| session.belongs_to(principal);
        let (all, own) = {
            let open = self.open();
            (open.len(), open.values().filter(of).count())
        };
        if own >= of_principal && !self.close_idle(Some(principal)).await {
            return Err(NoSession::OfPrincipal(principal.clone(), of_principal));
        }
        if all >= total && !self.close_idle(None).await {
            return Err(NoSession::Total(total));
        }
        Ok(())
    }

    /// Closes the session that has been idle for longest; false if all are in use.
    async fn close_idle(&self, principal: Option<&Principal>) -> bool {
        let mut candidates: Vec<Arc<Session>> = self.open().values().cloned().collect();
        candidates.retain(|session| principal.is_none_or(|owner| session.belongs_to(owner)));
        candidates.sort_by_cached_key(|session| std::cmp::Reverse(session.idle_for()));
        for session in candidates {
            let is_idle = session.idle_for() > RETRY * 10;
            if is_idle && !session.sweep(self.limits.grace).await {
                self.remove(&session.id);
                return true;
            }
        }
        false
    }

    fn remove(&self, id: &SessionId) {
        let mut open = self.open();
        let removed = open.remove(id);
        self.metrics.sessions.set(count(&open));
        drop(open);
        if let Some(session) = removed {
            session.close();
        }
    }

    fn session(&self, id: &SessionId) -> Result<Arc<Session>, SessionError> {
        let session = self.open().get(id).cloned();
        session.ok_or(SessionError::Gone)
    }

    fn open(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<Session>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn sweep(&self) {
        let sessions: Vec<Arc<Session>> = self.open().values().cloned().collect();
        for session in sessions {
            let is_used = session.sweep(self.limits.grace).await;
            if !is_used && session.idle_for() > self.limits.idle {
                self.remove(&session.id);
            }
        }
    }
}

fn count(open: &HashMap<SessionId, Arc<Session>>) -> i64 {
    i64::try_from(open.len()).unwrap_or(i64::MAX)
}

async fn sweep(sessions: Weak<Sessions>) {
    let mut interval = tokio::time::interval(SWEEP);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        let Some(sessions) = sessions.upgrade() else {
            return;
        };
        sessions.sweep().await;
    }
}

/// What can go wrong with a session.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// It was closed.
    #[error("the session is closed")]
    Gone,
    /// It takes no such request.
    #[error("a request of this id is under way, or the session is closed")]
    Refused,
    /// The event id is none of this session's.
    #[error("no event of this session has the id `{0}`")]
    UnknownEvent(String),
}

impl SessionManager for Sessions {
    type Error = SessionError;
    type Transport = SessionTransport;

    async fn create_session(&self) -> Result<(SessionId, SessionTransport), SessionError> {
        let id: SessionId = uuid::Uuid::new_v4().to_string().into();
        let (session, transport) = Session::open(Arc::clone(&id), self.room.clone());
        let mut open = self.open();
        open.insert(Arc::clone(&id), session);
        self.metrics.sessions.set(count(&open));
        Ok((id, transport))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, SessionError> {
        let session = self.session(id)?;
        let log = session.begin(&message).ok_or(SessionError::Refused)?;
        let mut answer = log.read_after(0);
        if !session.accept(message).await {
            return Err(SessionError::Gone);
        }
        let event = answer.next().await.ok_or(SessionError::Gone)?;
        let message = event.message.ok_or(SessionError::Gone)?;
        Ok(message.as_ref().clone())
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, SessionError> {
        Ok(self.open().contains_key(id))
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), SessionError> {
        self.remove(id);
        Ok(())
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionError> {
        let session = self.session(id)?;
        let log = session.begin(&message).ok_or(SessionError::Refused)?;
        let reader = log.read_after(0);
        if !session.accept(message).await {
            return Err(SessionError::Gone);
        }
        Ok(reader.into_stream(session.is_primed().then_some(RETRY)))
    }

    async fn accept_message(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<(), SessionError> {
        if self.session(id)?.accept(message).await {
            return Ok(());
        }
        Err(SessionError::Gone)
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionError> {
        let session = self.session(id)?;
        let common = session.common().ok_or(SessionError::Gone)?;
        let reader = common.read_after(common.delivered());
        Ok(reader.into_stream(session.is_primed().then_some(RETRY)))
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionError> {
        let session = self.session(id)?;
        let unknown = || SessionError::UnknownEvent(last_event_id.clone());
        let (stream, index) = parse_event_id(&last_event_id).ok_or_else(unknown)?;
        let log = session.log(stream).ok_or_else(unknown)?;
        Ok(log
            .read_after(index)
            .into_stream(session.is_primed().then_some(RETRY)))
    }
}
