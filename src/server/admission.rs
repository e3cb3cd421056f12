//! Who may run how much at once, and how much may wait.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use crate::gate::Principal;

/// What one principal may have.
#[derive(Debug, Clone, Copy)]
pub struct AdmissionLimits {
    /// Runs at once.
    pub runs: usize,
    /// Runs that wait for one of those to end.
    pub waiting: usize,
}

/// Why a run is not admitted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAdmitted {
    /// The principal has as many as it may.
    #[error(
        "{runs} runs of `{principal}` are under way and {waiting} wait; no more are taken until one has ended"
    )]
    Full {
        /// Who asks.
        principal: Principal,
        /// Its runs at once.
        runs: usize,
        /// Its runs that may wait.
        waiting: usize,
    },
    /// The server is about to end.
    #[error("the server is shutting down and takes no more runs")]
    Draining,
}

/// The door for runs that come by HTTP.
#[derive(Debug)]
pub struct Admission {
    limits: AdmissionLimits,
    lanes: Mutex<HashMap<Principal, Arc<Lane>>>,
    inside: AtomicUsize,
    left: Notify,
    closed: AtomicBool,
}

/// The runs of one principal.
#[derive(Debug)]
struct Lane {
    turns: Arc<Semaphore>,
    inside: AtomicUsize,
}

impl Admission {
    /// An open door.
    #[must_use]
    pub fn new(limits: AdmissionLimits) -> Arc<Self> {
        Arc::new(Self {
            limits,
            lanes: Mutex::default(),
            inside: AtomicUsize::new(0),
            left: Notify::new(),
            closed: AtomicBool::new(false),
        })
    }

    /// Lets a run in, or says why not.
    ///
    /// # Errors
    /// When the principal has too many already or the door is closed.
    pub fn enter(self: &Arc<Self>, principal: &Principal) -> Result<Ticket, NotAdmitted> {
        if self.is_closed() {
            return Err(NotAdmitted::Draining);
        }
        let lane = self.lane(principal);
        let AdmissionLimits { runs, waiting } = self.limits;
        let more = |inside| (inside < runs.saturating_add(waiting)).then(|| inside + 1);
        let entered = lane
            .inside
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, more);
        if entered.is_err() {
            return Err(NotAdmitted::Full {
                principal: principal.clone(),
                runs,
                waiting,
            });
        }
        self.inside.fetch_add(1, Ordering::SeqCst);
        let admission = Arc::clone(self);
        Ok(Ticket { admission, lane })
    }

    /// Lets nobody in any more.
    pub fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    /// Whether nobody is let in any more.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// Waits until nobody is inside.
    pub async fn empty(&self) {
        loop {
            let mut left = std::pin::pin!(self.left.notified());
            left.as_mut().enable();
            if self.inside.load(Ordering::SeqCst) == 0 {
                return;
            }
            left.await;
        }
    }

    fn lane(&self, principal: &Principal) -> Arc<Lane> {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let lane = lanes.entry(principal.clone()).or_insert_with(|| {
            Arc::new(Lane {
                turns: Arc::new(Semaphore::new(self.limits.runs)),
                inside: AtomicUsize::new(0),
            })
        });
        Arc::clone(lane)
    }
}

/// A run that was let in. It counts until this is dropped: when its answer has been delivered.
#[derive(Debug)]
pub struct Ticket {
    admission: Arc<Admission>,
    lane: Arc<Lane>,
}

impl Ticket {
    /// Waits until it is this run's turn; the turn lasts as long as what is returned.
    pub async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        // It is never closed.
        Arc::clone(&self.lane.turns).acquire_owned().await.ok()
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.lane.inside.fetch_sub(1, Ordering::SeqCst);
        self.admission.inside.fetch_sub(1, Ordering::SeqCst);
        self.admission.left.notify_waiters();
    }
}
