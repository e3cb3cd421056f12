//! Every call takes its road here.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{link::Link, road::Road};
use crate::gate::{Batch, Route, RouteAnswer, RouteError, ToolCall};

/// The roads out of one run.
pub struct Dispatch {
    link: Link,
    /// Takes the calls that the client answers by another request.
    batch: Arc<Batch>,
    /// Takes the calls of the operator's own servers.
    upstream: Arc<dyn Route>,
    /// The road of each call that is under way.
    taken: Arc<Mutex<Taken>>,
}

type Taken = HashMap<String, Arc<dyn Route>>;

impl Dispatch {
    /// For one run.
    #[must_use]
    pub fn new(link: Link, batch: Arc<Batch>, upstream: Arc<dyn Route>) -> Self {
        Self {
            link,
            batch,
            upstream,
            taken: Arc::default(),
        }
    }

    fn road(&self, call: &ToolCall) -> Result<Arc<dyn Route>, &'static str> {
        if call.is_upstream {
            return Ok(Arc::clone(&self.upstream));
        }
        match self.link.road() {
            Road::Notify => self.link.notify().ok_or("no request attends to the run"),
            Road::Resume | Road::Elicit => Ok(Arc::clone(&self.batch) as _),
            Road::Refuse(reason) => Err(reason),
        }
    }
}

impl Route for Dispatch {
    fn call(&self, call: ToolCall) -> RouteAnswer {
        let road = match self.road(&call) {
            Ok(road) => road,
            Err(reason) => {
                let refusal = RouteError::NotSent(reason.to_owned());
                return Box::pin(std::future::ready(Err(refusal)));
            }
        };
        let request_id = call.request_id.clone();
        lock(&self.taken).insert(request_id.clone(), Arc::clone(&road));
        let answer = road.call(call);
        let taken = Arc::clone(&self.taken);
        Box::pin(async move {
            let answer = answer.await;
            // One that timed out will be withdrawn, and one that is given up.
            if answer != Err(RouteError::TimedOut) {
                lock(&taken).remove(&request_id);
            }
            answer
        })
    }

    fn withdraw(&self, request_id: &str, reason: &str) {
        let road = lock(&self.taken).remove(request_id);
        if let Some(road) = road {
            road.withdraw(request_id, reason);
        }
    }
}

fn lock(taken: &Mutex<Taken>) -> MutexGuard<'_, Taken> {
    taken.lock().unwrap_or_else(PoisonError::into_inner)
}
