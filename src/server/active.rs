//! A run under way, whichever requests attend to it.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
};

use tokio_util::sync::CancellationToken;

use super::{
    dispatch::Dispatch,
    link::Link,
    live::ToldRoute,
    metrics::CountedRoute,
    outcome::Pieces,
    service::Service,
    trace::{RunTrace, TracedRoute},
};
use crate::{
    gate::{Batch, Gate, Program, Roads, Route},
    sandbox::{Pause, Report, Run, Sandbox, Transcript},
};

/// A run. Dropping it stops it.
pub struct ActiveRun {
    /// What it asks of the host.
    pub gate: Arc<Gate>,
    /// Who attends to it.
    pub link: Link,
    /// Its time.
    pub pause: Arc<Pause>,
    /// What it printed.
    pub transcript: Transcript,
    /// How often the client was asked for answers.
    pub rounds: usize,
    stop: CancellationToken,
    /// In a mutex only because a future may not be shared, and whoever holds a run is.
    running: Mutex<Running>,
}

type Running = Pin<Box<dyn Future<Output = Report> + Send>>;

/// What comes next of a run.
pub enum Next {
    /// It is over.
    Ended(Box<Pieces>),
    /// It can't go on before the client has answered.
    Standstill,
}

impl ActiveRun {
    /// Starts `program`, to be attended by whoever is linked with `link`.
    #[must_use]
    pub fn start(
        service: &Service,
        sandbox: Arc<Sandbox>,
        program: Program,
        link: Link,
        trace: RunTrace,
    ) -> Self {
        let settings = &service.settings;
        let batch = Batch::new();
        let upstream = service.upstream_road();
        let dispatch = Dispatch::new(link.clone(), Arc::clone(&batch), upstream);
        let mut route: Arc<dyn Route> = Arc::new(ToldRoute {
            route: Arc::new(dispatch),
            link: link.clone(),
        });
        route = CountedRoute::new(route, Arc::clone(&service.metrics));
        route = Arc::new(TracedRoute { route, trace });
        let roads = Roads {
            route,
            batch,
            servers: service.servers(),
            memory: sandbox.host_memory(),
        };
        let stop = service.stop.child_token();
        let limits = settings.call_limits.clone();
        let gate = Arc::new(Gate::new(program, roads, limits, stop.clone()));
        let transcript = Transcript::new(settings.max_output, Some(link.listener()));
        let pause = Pause::new();
        let run = Run {
            host_calls: Arc::clone(&gate) as _,
            output: Box::new(transcript.clone()),
            limits: settings.limits.clone(),
            stop: stop.clone(),
            pause: Arc::clone(&pause),
        };
        Self {
            gate,
            link,
            pause,
            transcript,
            rounds: 0,
            stop,
            running: Mutex::new(Box::pin(async move { sandbox.run(run).await })),
        }
    }

    /// Memory that it holds beyond the snapshot's, the host's for it included (bytes).
    #[must_use]
    pub fn memory(&self) -> u64 {
        self.pause.memory() + self.gate.held() + self.transcript.bytes()
    }

    /// Waits until the run is over or stands still. Not to be asked again once it is over.
    pub async fn next(&mut self) -> Next {
        let report = tokio::select! {
            biased;
            report = running(&mut self.running) => report,
            () = self.gate.standstill() => return Next::Standstill,
        };
        Next::Ended(Box::new(self.pieces(report)))
    }

    /// Waits until the run is over.
    pub async fn ended(&mut self) -> Box<Pieces> {
        let report = running(&mut self.running).await;
        Box::new(self.pieces(report))
    }

    /// Stops the run and waits for its end.
    pub async fn stop(&mut self) -> Box<Pieces> {
        self.stop.cancel();
        self.ended().await
    }

    fn pieces(&self, report: Report) -> Pieces {
        let calls = self.gate.close();
        Pieces {
            report,
            finish: self.gate.finish(),
            stopped: self.gate.stopped(),
            calls,
            printed: self.transcript.printed(),
        }
    }
}

fn running(running: &mut Mutex<Running>) -> &mut Running {
    running.get_mut().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for ActiveRun {
    fn drop(&mut self) {
        self.stop.cancel();
        // Its calls would wait for ever, and keep alive what they are answered by.
        let _ = self.gate.close();
    }
}
