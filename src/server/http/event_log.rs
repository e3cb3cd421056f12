//! The events of one stream: kept until they were delivered, and a while longer, so that a client
//! that lost its connection finds what it missed.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use futures::Stream;
use rmcp::{
    model::ServerJsonRpcMessage, transport::streamable_http_server::session::ServerSseMessage,
};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use crate::server::admission::Ticket;

/// Undelivered events of one stream; whoever sends more waits (bytes).
const WINDOW: usize = 256 << 10;

/// Delivered events that one stream keeps for a client that comes back (bytes).
const KEPT: usize = 8 << 20;

/// Number of the stream that belongs to no request (GET).
pub const COMMON: u64 = 0;

/// Undelivered events that the common stream keeps: nobody may ever read it (bytes).
const KEPT_OF_COMMON: usize = 64 << 10;

/// What all streams of the process may hold (KiB).
const ALL_STREAMS: u32 = 256 << 10;

/// And those of one principal (KiB).
const OWN_STREAMS: u32 = ALL_STREAMS / 2;

/// Room for the events of all streams, and for those of one principal.
#[derive(Debug, Clone)]
pub struct EventRoom {
    all: Arc<Semaphore>,
    own: Arc<Semaphore>,
}

/// The room that an event takes.
type Room = (OwnedSemaphorePermit, OwnedSemaphorePermit);

impl Default for EventRoom {
    fn default() -> Self {
        Self {
            all: Arc::new(Semaphore::new(ALL_STREAMS as usize)),
            own: Arc::new(Semaphore::new(OWN_STREAMS as usize)),
        }
    }
}

impl EventRoom {
    /// The room of another principal: a share of its own within that of all.
    #[must_use]
    pub fn of_another(&self) -> Self {
        Self {
            all: Arc::clone(&self.all),
            ..Self::default()
        }
    }

    fn permits(bytes: usize) -> u32 {
        u32::try_from(bytes / 1024 + 1)
            .unwrap_or(OWN_STREAMS)
            .min(OWN_STREAMS)
    }

    /// Room at once, if there is some.
    fn try_take(&self, bytes: usize) -> Option<Room> {
        let permits = Self::permits(bytes);
        let own = Arc::clone(&self.own).try_acquire_many_owned(permits).ok()?;
        let all = Arc::clone(&self.all).try_acquire_many_owned(permits).ok()?;
        Some((own, all))
    }

    async fn take(&self, bytes: usize) -> Option<Room> {
        let permits = Self::permits(bytes);
        let own = Arc::clone(&self.own).acquire_many_owned(permits);
        let own = own.await.ok()?;
        let all = Arc::clone(&self.all).acquire_many_owned(permits);
        Some((own, all.await.ok()?))
    }

    /// While there is little room, little is kept that was delivered.
    fn is_scarce(&self) -> bool {
        self.all.available_permits() < ALL_STREAMS as usize / 2
            || self.own.available_permits() < OWN_STREAMS as usize / 2
    }
}

struct Event {
    message: Arc<ServerJsonRpcMessage>,
    bytes: usize,
    /// Its share of the process's room.
    _room: Room,
}

/// The events of one stream.
pub struct EventLog {
    /// The stream's number within its session; event ids begin with it.
    number: u64,
    room: EventRoom,
    state: Mutex<State>,
    changed: Notify,
    /// Held by the event that is to be added next, so that none overtakes one that waits for room.
    order: tokio::sync::Mutex<()>,
}

struct State {
    events: VecDeque<Event>,
    /// Index of the first event in `events`. The index 0 is that of the priming event.
    first: u64,
    /// Index of the event that is delivered next.
    next: u64,
    undelivered: usize,
    kept: usize,
    done: bool,
    /// What counts until everything is delivered, or nobody comes for it.
    ticket: Option<Arc<Ticket>>,
    /// Which reader is the current one; an earlier one ends.
    reader: u64,
    /// When the last reader went away, or the log was made.
    unread_since: Option<Instant>,
}

impl EventLog {
    /// A stream without events.
    #[must_use]
    pub fn new(number: u64, room: EventRoom, ticket: Option<Arc<Ticket>>) -> Arc<Self> {
        Arc::new(Self {
            number,
            room,
            state: Mutex::new(State {
                events: VecDeque::new(),
                first: 1,
                next: 1,
                undelivered: 0,
                kept: 0,
                done: false,
                ticket,
                reader: 0,
                unread_since: Some(Instant::now()),
            }),
            changed: Notify::new(),
            order: tokio::sync::Mutex::new(()),
        })
    }

    /// Adds an event, at once where there is room. The returned future ends when the stream can
    /// take the next one.
    pub fn push(
        self: &Arc<Self>,
        message: ServerJsonRpcMessage,
        is_last: bool,
    ) -> impl Future<Output = ()> + Send + use<> {
        let log = Arc::clone(self);
        let bytes = length(&message);
        let mut message = Some(message);
        if let Ok(_order) = log.order.try_lock()
            && let Some(room) = log.room.try_take(bytes)
        {
            log.append(message.take(), bytes, room, is_last);
        }
        async move {
            if message.is_some() {
                let _order = log.order.lock().await;
                log.forget_delivered();
                let room = tokio::select! {
                    room = log.room.take(bytes) => room,
                    () = log.over() => None,
                };
                if let Some(room) = room {
                    log.append(message, bytes, room, is_last);
                }
            }
            log.room_in_window().await;
        }
    }

    fn append(
        &self,
        message: Option<ServerJsonRpcMessage>,
        bytes: usize,
        room: Room,
        is_last: bool,
    ) {
        let Some(message) = message else { return };
        let mut state = self.lock();
        if state.done {
            return;
        }
        state.events.push_back(Event {
            message: Arc::new(message),
            bytes,
            _room: room,
        });
        state.undelivered += bytes;
        state.done = is_last;
        if self.number == COMMON {
            state.forget_undelivered(KEPT_OF_COMMON);
        }
        drop(state);
        self.changed.notify_waiters();
    }

    async fn room_in_window(&self) {
        self.until(|state| (state.done || state.undelivered < WINDOW).then_some(()))
            .await;
    }

    /// No event follows.
    pub fn finish(&self) {
        let mut state = self.lock();
        state.done = true;
        state.release_ticket();
        drop(state);
        self.changed.notify_waiters();
    }

    /// Ends when no event follows.
    async fn over(&self) {
        self.until(|state| state.done.then_some(())).await;
    }

    /// Whether no event follows.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.lock().done
    }

    /// How long nobody has been reading.
    #[must_use]
    pub fn unread_for(&self) -> Option<Duration> {
        self.lock().unread_since.map(|since| since.elapsed())
    }

    /// Whether nothing follows the event `after`, now or later.
    #[must_use]
    pub fn is_over_after(&self, after: u64) -> bool {
        let state = self.lock();
        state.done && after.saturating_add(1) >= state.first + state.events.len() as u64
    }

    /// Index of the last event that was delivered.
    #[must_use]
    pub fn delivered(&self) -> u64 {
        self.lock().next - 1
    }

    /// Reads from the first event on that follows the event `after`. Whoever read before stops.
    pub fn read_after(self: &Arc<Self>, after: u64) -> Reader {
        let mut state = self.lock();
        state.reader += 1;
        state.unread_since = None;
        let (first, end) = (state.first, state.first + state.events.len() as u64);
        if after.saturating_add(1) < first {
            tracing::warn!(
                "a client came back for events that are no longer kept; it gets those that are"
            );
        }
        state.next = after.saturating_add(1).clamp(first, end);
        let next = state.next;
        let undelivered = state.events.iter().skip(index(next - first));
        state.undelivered = undelivered.map(|event| event.bytes).sum();
        state.kept =
            state.events.iter().map(|event| event.bytes).sum::<usize>() - state.undelivered;
        let (generation, begin) = (state.reader, state.next - 1);
        drop(state);
        self.changed.notify_waiters();
        Reader {
            log: Arc::clone(self),
            generation,
            begin,
        }
    }

    async fn next(&self, reader: u64) -> Option<ServerSseMessage> {
        self.until(|state| {
            if state.reader != reader {
                return Some(None);
            }
            let event = state.events.get(index(state.next - state.first));
            let Some(event) = event else {
                return state.done.then_some(None);
            };
            let mut message = ServerSseMessage::default();
            message.event_id = Some(format!("{}-{}", self.number, state.next));
            message.message = Some(Arc::clone(&event.message));
            let bytes = event.bytes;
            state.next += 1;
            state.undelivered -= bytes;
            state.kept += bytes;
            let keep = if self.room.is_scarce() { 0 } else { KEPT };
            state.forget_until_kept_is(keep);
            state.release_ticket();
            Some(Some(message))
        })
        .await
    }

    /// Waits until `look` finds what it looks for.
    async fn until<T>(&self, mut look: impl FnMut(&mut State) -> Option<T>) -> T {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            let found = look(&mut self.lock());
            if let Some(found) = found {
                // A writer may wait for the room that was made.
                self.changed.notify_waiters();
                return found;
            }
            changed.await;
        }
    }

    fn forget_delivered(&self) {
        self.lock().forget_until_kept_is(0);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// A run counts no more when all of it has been delivered.
    fn release_ticket(&mut self) {
        if self.done && self.undelivered == 0 {
            self.ticket = None;
        }
    }

    /// Forgets the oldest delivered events until no more than `bytes` of them are kept. The last one stays,
    /// however long it is: its connection may be breaking just now.
    fn forget_until_kept_is(&mut self, bytes: usize) {
        while self.kept > bytes && self.first + 1 < self.next {
            let Some(event) = self.events.pop_front() else {
                return;
            };
            self.first += 1;
            self.kept -= event.bytes;
        }
    }

    /// Forgets the oldest events until no more than `bytes` wait to be delivered.
    fn forget_undelivered(&mut self, bytes: usize) {
        while self.undelivered > bytes {
            let Some(event) = self.events.pop_front() else {
                return;
            };
            if self.first < self.next {
                self.kept -= event.bytes;
            } else {
                self.next += 1;
                self.undelivered -= event.bytes;
            }
            self.first += 1;
        }
    }
}

/// One connection that reads a stream.
pub struct Reader {
    log: Arc<EventLog>,
    /// Which one it is of those that have read the log.
    generation: u64,
    /// Index of the event that it begins after.
    begin: u64,
}

impl Reader {
    /// The next message; `None` after the last one.
    pub async fn next(&mut self) -> Option<ServerSseMessage> {
        self.log.next(self.generation).await
    }

    /// The events as they come; first what tells the client how to come back, if it is to hear it.
    pub fn into_stream(
        self,
        priming: Option<Duration>,
    ) -> impl Stream<Item = ServerSseMessage> + Send + Sync + 'static {
        // A client that comes back a second time goes on from here, not from the beginning: what it did at
        // the word of an event must not be done twice.
        let id = format!("{}-{}", self.log.number, self.begin);
        let priming = priming.map(|retry| ServerSseMessage::priming(id, retry));
        let events = futures::stream::unfold(self, |mut reader| async move {
            reader.next().await.map(|event| (event, reader))
        });
        futures::StreamExt::chain(futures::stream::iter(priming), events)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut state = self.log.lock();
        if state.reader == self.generation {
            state.unread_since = Some(Instant::now());
        }
    }
}

/// `<stream>-<index>`, as in the ids of events. rmcp's own priming event of a GET stream is `0`.
#[must_use]
pub fn parse_event_id(id: &str) -> Option<(u64, u64)> {
    let (stream, index) = id.split_once('-').unwrap_or((id, "0"));
    Some((stream.parse().ok()?, index.parse().ok()?))
}

fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Bytes of a message on the wire.
fn length(message: &ServerJsonRpcMessage) -> usize {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    match serde_json::to_writer(&mut count, message) {
        Ok(()) => count.0,
        Err(_) => 1024,
    }
}
