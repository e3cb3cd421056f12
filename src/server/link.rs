//! The request that attends to a run now. Where a run is continued by another request, it is linked to that one.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{
    live::Ear,
    road::{Client, Hearing, Road, choose},
    settings::Callbacks,
};
use crate::{
    gate::{Route, RouteAnswer, RouteError, ToolCall},
    sandbox::Listener,
};

/// What a run needs of the request that attends to it.
pub struct Attendant {
    /// What the operator set.
    pub callbacks: Callbacks,
    /// Who made the request.
    pub client: Client,
    /// What is known of the connection.
    pub hearing: Arc<Hearing>,
    /// The road of notifications, about this request.
    pub notify: Arc<dyn Route>,
    /// Who hears of what happens, if somebody wants to.
    pub ear: Option<Ear>,
}

/// The link from a run to its request.
#[derive(Clone, Default)]
pub struct Link(Arc<Mutex<Option<Attendant>>>);

impl Link {
    /// From now on `attendant` attends to the run.
    pub fn connect(&self, attendant: Attendant) {
        *self.lock() = Some(attendant);
    }

    /// Nobody does any more; returns who did.
    pub fn disconnect(&self) -> Option<Attendant> {
        self.lock().take()
    }

    /// The road of the next call.
    #[must_use]
    pub fn road(&self) -> Road {
        let mut attendant = self.lock();
        let Some(attendant) = attendant.as_mut() else {
            return Road::Refuse("no request attends to the run");
        };
        attendant.client.is_silent = attendant.hearing.is_silent();
        choose(attendant.callbacks, &attendant.client)
    }

    /// The road of notifications.
    #[must_use]
    pub fn notify(&self) -> Option<Arc<dyn Route>> {
        let attendant = self.lock();
        let attendant = attendant.as_ref()?;
        Some(Arc::clone(&attendant.notify))
    }

    /// Who hears of what happens now, if somebody wants to.
    #[must_use]
    pub fn ear(&self) -> Option<Ear> {
        self.lock().as_ref()?.ear.clone()
    }

    /// Hears what the program prints, and passes it on.
    #[must_use]
    pub fn listener(&self) -> Listener {
        let link = self.clone();
        Box::new(move |stream, bytes| {
            if let Some(ear) = link.ear() {
                ear.print(stream, bytes);
            }
        })
    }

    fn lock(&self) -> MutexGuard<'_, Option<Attendant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A road of notifications that learns whether anybody answers there.
pub struct HeardRoute {
    /// The road itself.
    pub route: Arc<dyn Route>,
    /// What is learnt.
    pub hearing: Arc<Hearing>,
}

impl Route for HeardRoute {
    fn call(&self, call: ToolCall) -> RouteAnswer {
        let answer = self.route.call(call);
        let hearing = Arc::clone(&self.hearing);
        Box::pin(async move {
            let answer = answer.await;
            match &answer {
                Ok(_) | Err(RouteError::Failed(_)) => hearing.answered(),
                Err(RouteError::TimedOut) => hearing.missed(),
                Err(RouteError::NotSent(_)) => {}
            }
            answer
        })
    }

    fn withdraw(&self, request_id: &str, reason: &str) {
        self.route.withdraw(request_id, reason);
    }
}
