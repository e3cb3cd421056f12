//! What is counted, in the OpenMetrics text format.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::{Registry, Unit},
};

use super::outcome::RunOutcome;
use crate::{
    gate::{Route, RouteAnswer, ToolCall},
    sandbox::Sandbox,
};

/// Upper bounds of the buckets for runs (seconds).
const RUN_BUCKETS: [f64; 12] = [
    0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0, 120.0, 300.0,
];

/// Upper bounds of the buckets for tool calls (seconds).
const CALL_BUCKETS: [f64; 12] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 30.0,
];

/// A label that says how something ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Ended {
    outcome: String,
}

/// A label that says why something was refused.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reason {
    reason: &'static str,
}

/// The counters of a process.
pub struct Metrics {
    registry: Registry,
    runs: Family<Ended, Counter>,
    run_time: Histogram,
    run_processor_time: Histogram,
    active: Gauge,
    awaiting_tools: Gauge,
    calls: Family<Ended, Counter>,
    call_time: Histogram,
    calls_in_flight: Gauge,
    refused: Family<Reason, Counter>,
    executing: Gauge,
    waiting: Gauge,
    memory: Gauge,
    resident: Gauge,
    /// Open sessions of revisions up to 2025-11-25.
    pub sessions: Gauge,
    /// Open connections.
    pub connections: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("callgate"),
            runs: Family::default(),
            run_time: Histogram::new(RUN_BUCKETS),
            run_processor_time: Histogram::new(RUN_BUCKETS),
            active: Gauge::default(),
            awaiting_tools: Gauge::default(),
            calls: Family::default(),
            call_time: Histogram::new(CALL_BUCKETS),
            calls_in_flight: Gauge::default(),
            refused: Family::default(),
            executing: Gauge::default(),
            waiting: Gauge::default(),
            memory: Gauge::default(),
            resident: Gauge::default(),
            sessions: Gauge::default(),
            connections: Gauge::default(),
        };
        metrics.register();
        metrics
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Metrics {
    fn register(&mut self) {
        let Self { registry, .. } = self;
        registry.register("runs", "Runs that have ended", self.runs.clone());
        registry.register_with_unit(
            "run_duration",
            "Time of runs from start to end, without the wait for their turn",
            Unit::Seconds,
            self.run_time.clone(),
        );
        registry.register_with_unit(
            "run_processor_time",
            "Processor time of runs",
            Unit::Seconds,
            self.run_processor_time.clone(),
        );
        registry.register("runs_executing", "Runs that exist", self.executing.clone());
        registry.register(
            "runs_waiting",
            "Runs that wait for their turn",
            self.waiting.clone(),
        );
        registry.register(
            "runs_suspended",
            "Runs that wait for at least one tool call",
            self.awaiting_tools.clone(),
        );
        registry.register(
            "tool_calls",
            "Tool calls that have ended",
            self.calls.clone(),
        );
        registry.register_with_unit(
            "tool_call_duration",
            "Time from a tool call to its answer",
            Unit::Seconds,
            self.call_time.clone(),
        );
        registry.register(
            "tool_calls_in_flight",
            "Tool calls that wait for their answers",
            self.calls_in_flight.clone(),
        );
        registry.register(
            "requests_refused",
            "Requests that were refused before anything ran",
            self.refused.clone(),
        );
        registry.register_with_unit(
            "runs_memory",
            "Memory of all runs beyond the snapshot that they share",
            Unit::Bytes,
            self.memory.clone(),
        );
        registry.register_with_unit(
            "process_resident_memory",
            "Resident memory of the process",
            Unit::Bytes,
            self.resident.clone(),
        );
        registry.register("sessions", "Open sessions", self.sessions.clone());
        registry.register("connections", "Open connections", self.connections.clone());
    }

    /// Counts a request for a run while it lives.
    #[must_use]
    pub fn request(self: &Arc<Self>) -> ActiveRequest {
        self.active.inc();
        ActiveRequest(Arc::clone(self))
    }

    /// Counts a run that has ended, and its calls.
    pub fn ended(&self, outcome: &RunOutcome) {
        let ended = Ended {
            outcome: outcome.label().to_owned(),
        };
        self.runs.get_or_create(&ended).inc();
        self.run_time.observe(outcome.elapsed.as_secs_f64());
        self.run_processor_time.observe(outcome.cpu.as_secs_f64());
        for call in &outcome.calls {
            let ended = Ended {
                outcome: call.outcome.name().to_owned(),
            };
            self.calls.get_or_create(&ended).inc();
            self.call_time.observe(call.duration.as_secs_f64());
        }
    }

    /// Counts a request that was refused.
    pub fn refused(&self, reason: &'static str) {
        self.refused.get_or_create(&Reason { reason }).inc();
    }

    /// The text that a scraper reads. `sandbox` tells what it knows, if it is there.
    #[must_use]
    pub fn text(&self, sandbox: Option<&Sandbox>) -> String {
        let executing = sandbox.map_or(0, Sandbox::running);
        let executing = i64::try_from(executing).unwrap_or(i64::MAX);
        self.executing.set(executing);
        self.waiting.set((self.active.get() - executing).max(0));
        let memory = sandbox.map_or(0, Sandbox::memory_used);
        self.memory.set(i64::try_from(memory).unwrap_or(i64::MAX));
        self.resident.set(resident_memory().unwrap_or(0));
        let mut text = String::new();
        if let Err(error) = encode(&mut text, &self.registry) {
            tracing::error!("metrics could not be written: {error}");
        }
        text
    }
}

/// Resident memory of this process (bytes), where the system tells.
fn resident_memory() -> Option<i64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: i64 = text.split_whitespace().nth(1)?.parse().ok()?;
    let page = i64::try_from(rustix::param::page_size()).ok()?;
    Some(pages * page)
}

/// A request for a run; dropped when it has its answer.
pub struct ActiveRequest(Arc<Metrics>);

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        self.0.active.dec();
    }
}

/// A route whose calls are counted while they are under way.
pub struct CountedRoute {
    route: Arc<dyn Route>,
    metrics: Arc<Metrics>,
    under_way: Arc<AtomicU64>,
}

impl CountedRoute {
    /// Counts the calls of one run.
    #[must_use]
    pub fn new(route: Arc<dyn Route>, metrics: Arc<Metrics>) -> Arc<Self> {
        Arc::new(Self {
            route,
            metrics,
            under_way: Arc::default(),
        })
    }
}

impl Route for CountedRoute {
    fn call(&self, call: ToolCall) -> RouteAnswer {
        let counted = UnderWay::new(&self.metrics, &self.under_way);
        let answer = self.route.call(call);
        Box::pin(async move {
            let _counted = counted;
            answer.await
        })
    }

    fn withdraw(&self, request_id: &str, reason: &str) {
        self.route.withdraw(request_id, reason);
    }
}

struct UnderWay {
    metrics: Arc<Metrics>,
    of_run: Arc<AtomicU64>,
}

impl UnderWay {
    fn new(metrics: &Arc<Metrics>, of_run: &Arc<AtomicU64>) -> Self {
        metrics.calls_in_flight.inc();
        if of_run.fetch_add(1, Ordering::SeqCst) == 0 {
            metrics.awaiting_tools.inc();
        }
        Self {
            metrics: Arc::clone(metrics),
            of_run: Arc::clone(of_run),
        }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.metrics.calls_in_flight.dec();
        if self.of_run.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.metrics.awaiting_tools.dec();
        }
    }
}
