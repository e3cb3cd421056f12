//! The events of one task, as a stream.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use futures::{Stream, future::BoxFuture};
use tokio::sync::mpsc;

use super::{Agent, Event};

/// Yields what happens while an agent works. The work goes on only while it is asked for events.
pub struct Events<'a> {
    /// `None` when it is done.
    work: Option<BoxFuture<'a, ()>>,
    events: mpsc::UnboundedReceiver<Event>,
}

impl<'a> Events<'a> {
    pub(super) fn of(agent: &'a mut Agent, task: String) -> Self {
        let (ear, events) = mpsc::unbounded_channel();
        let work = Box::pin(async move { agent.work(task, ear).await });
        Self {
            work: Some(work),
            events,
        }
    }
}

impl Stream for Events<'_> {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Event>> {
        if let Poll::Ready(Some(event)) = self.events.poll_recv(context) {
            return Poll::Ready(Some(event));
        }
        if let Some(work) = &mut self.work
            && work.as_mut().poll(context).is_ready()
        {
            self.work = None;
        }
        match self.events.poll_recv(context) {
            Poll::Ready(Some(event)) => Poll::Ready(Some(event)),
            _ if self.work.is_none() => Poll::Ready(None),
            _ => Poll::Pending,
        }
    }
}
