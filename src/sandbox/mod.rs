//! One run of Python: a fresh instance, its limits, and how it ended.
//!
//! The sandbox knows nothing of tools: what the guest asks of the host is bytes, answered with bytes
//! by whoever started the run.

mod budget;
mod clock;
mod heap;
mod host_memory;
mod limits;
mod pause;
mod ticker;
mod transcript;

use std::{sync::Arc, time::Duration};

use tokio::sync::{AcquireError, Semaphore, oneshot};
use tokio_util::sync::CancellationToken;
use wasmtime::{
    Enabled, Engine, InstanceAllocationStrategy, Module, PoolingAllocationConfig, Store,
};

pub use self::{
    budget::Budget,
    host_memory::{Held, HostMemory},
    limits::{LEAST_MEMORY, Limits},
    pause::Pause,
    transcript::{Listener, Printed, Transcript},
};
use self::{
    budget::MemoryLimiter,
    clock::{CpuClock, Metered},
    heap::Heap,
    ticker::Ticker,
};
use crate::{
    image::{
        Image, ImageError,
        abi::{Guest, GuestState, HostCalls},
        engine,
    },
    wasi::{Library, MemoryBudget, Output, ProcExit, ScratchLimits, Wasi},
};

/// What the prelude's run consists of, for the guest.
const RUN: &str = "import _callgate; _callgate.main()";

/// An image made ready to run: everything that many runs share.
pub struct Sandbox {
    shared: Arc<Shared>,
    slots: Arc<Semaphore>,
    /// How many slots there are.
    capacity: usize,
    /// Instances that the pool still has; paused runs hold one without a slot.
    instances: Arc<Semaphore>,
    heap: Arc<Heap>,
    executor: Executor,
}

struct Shared {
    engine: Engine,
    guest: Guest<RunState>,
    state: Module,
    library: Arc<Library>,
    ticker: Arc<Ticker>,
    budget: Arc<Budget>,
}

/// How large the sandbox may become.
#[derive(Debug, Clone, Copy)]
pub struct Capacity {
    /// Runs at once.
    pub runs: u32,
    /// Runs that are paused meanwhile.
    pub paused: u32,
    /// Memory of all runs together, beyond the snapshot that they share (bytes).
    pub memory: u64,
}

/// One run.
pub struct Run {
    /// Who answers the guest's host calls.
    pub host_calls: Arc<dyn HostCalls>,
    /// Where its output goes.
    pub output: Box<dyn Output>,
    /// What it may use.
    pub limits: Limits,
    /// Stops it from outside.
    pub stop: CancellationToken,
    /// Stops its time.
    pub pause: Arc<Pause>,
}

/// How a run ended, as far as the sandbox can tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// The prelude came to its end; what the program did was told by its last host call.
    Returned,
    /// The guest left with `os._exit`.
    Exited(i32),
    /// It ran longer than it may.
    CpuLimit,
    /// It existed longer than it may.
    TimeLimit,
    /// It was stopped from outside.
    Stopped,
    /// The guest trapped: its instance is gone, the host is unharmed.
    Crashed(String),
    /// The host could not start it.
    Failed(String),
}

/// The end of a run.
#[derive(Debug, Clone)]
pub struct Report {
    /// How it ended.
    pub ending: Ending,
    /// From start to end.
    pub elapsed: Duration,
    /// Processor time of the guest.
    pub cpu: Duration,
}

struct RunState {
    wasi: Wasi,
    host_calls: Arc<dyn HostCalls>,
    limiter: MemoryLimiter,
}

impl GuestState for RunState {
    fn wasi(&mut self) -> &mut Wasi {
        &mut self.wasi
    }

    fn host_calls(&self) -> &Arc<dyn HostCalls> {
        &self.host_calls
    }
}

impl Sandbox {
    /// Makes an image ready to run.
    ///
    /// # Errors
    /// When the image does not load or the machine refuses the address space.
    pub fn new(image: &Image, capacity: Capacity) -> Result<Self, ImageError> {
        let instances = capacity.runs.saturating_add(capacity.paused);
        let engine = pooled_engine(instances)?;
        let guest = Guest::link(&engine, image.runtime.code(&engine)?)?;
        let state = image.state(&engine)?;
        let ticker = Ticker::start(&engine).map_err(wasmtime::Error::from)?;
        let shared = Shared {
            guest,
            state,
            library: image.runtime.library()?,
            ticker,
            budget: Budget::new(capacity.memory),
            engine,
        };
        Ok(Self {
            shared: Arc::new(shared),
            slots: Arc::new(Semaphore::new(capacity.runs as usize)),
            capacity: capacity.runs as usize,
            instances: Arc::new(Semaphore::new(instances as usize)),
            heap: Arc::default(),
            executor: Executor::start().map_err(wasmtime::Error::from)?,
        })
    }

    /// Counts what a new run will hold of the host's memory.
    #[must_use]
    pub fn host_memory(&self) -> Arc<HostMemory> {
        HostMemory::new(Arc::clone(&self.shared.budget))
    }

    /// Runs the guest to its end. When no slot is free it waits for one. Dropping the future stops
    /// the run.
    pub async fn run(&self, run: Run) -> Report {
        let (slots, instances) = (Arc::clone(&self.slots), Arc::clone(&self.instances));
        let room = tokio::select! {
            // In this order: who waits for an instance must not hold a slot, for which paused runs may wait
            // that hold instances.
            room = async { Ok((instances.acquire_owned().await?, slots.acquire_owned().await?)) } => room,
            () = run.stop.cancelled() => return Report::before_start(Ending::Stopped),
        };
        let room: Result<_, AcquireError> = room;
        let Ok((instance, slot)) = room else {
            return Report::before_start(Ending::Failed("the sandbox is closed".to_owned()));
        };
        let shared = Arc::clone(&self.shared);
        let (report, reported) = oneshot::channel();
        let (heap, slots) = (Arc::clone(&self.heap), Arc::clone(&self.slots));
        let capacity = self.capacity;
        let running = move || capacity.saturating_sub(slots.available_permits());
        heap.begun(running());
        let pause = Arc::clone(&run.pause);
        pause.take_slot(Arc::clone(&self.slots), slot);
        let stop_on_drop = run.stop.clone().drop_guard();
        self.executor.spawn(async move {
            let (ended, remains) = shared.execute(run).await;
            // The answer first: taking the instance apart is nobody's wait.
            let _ = report.send(ended);
            drop(remains);
            drop(instance);
            pause.leave_slot();
            if heap.ended(running()) {
                tokio::time::sleep(heap::QUIET).await;
                if running() == 0 {
                    heap::give_back();
                }
            }
        });
        let report = reported.await;
        let _ = stop_on_drop.disarm();
        report.unwrap_or_else(|_| {
            let reason = "the run was lost: its task ended without a report";
            Report::before_start(Ending::Failed(reason.to_owned()))
        })
    }

    /// Whether the kernel tells which pages of an instance were written, so that recycling one costs less.
    #[must_use]
    pub fn has_pagemap_scan() -> bool {
        PoolingAllocationConfig::is_pagemap_scan_available()
    }

    /// Runs that exist now, suspended ones included.
    #[must_use]
    pub fn running(&self) -> usize {
        self.capacity.saturating_sub(self.slots.available_permits())
    }

    /// Memory that runs hold now, beyond the snapshot that they share (bytes).
    #[must_use]
    pub fn memory_used(&self) -> u64 {
        self.shared.budget.used()
    }
}

impl Shared {
    /// The report, and what is to be dropped after it was sent.
    async fn execute(&self, run: Run) -> (Report, Option<Store<RunState>>) {
        let clock = Arc::new(CpuClock::default());
        let pause = Arc::clone(&run.pause);
        pause.start(&clock);
        let limits = run.limits.clone();
        let stop = run.stop.clone();
        let mut store = self.store(run, Arc::clone(&clock));
        let guest = async {
            let instance = match self.guest.instantiate(&mut store, &self.state).await {
                Ok(instance) => instance,
                Err(error) => {
                    return Ending::Failed(format!("no instance could be made: {error:#}"));
                }
            };
            ending(instance.turn(&mut store, RUN).await)
        };
        let metered = Metered {
            guest: Box::pin(guest),
            clock: Arc::clone(&clock),
            limit: limits.cpu,
            ticker: Arc::clone(&self.ticker),
        };
        let ending = tokio::select! {
            biased;
            () = stop.cancelled() => Ending::Stopped,
            () = pause.out_of_time(limits.run) => Ending::TimeLimit,
            ended = metered => ended.unwrap_or(Ending::CpuLimit),
        };
        let report = Report {
            ending,
            elapsed: pause.elapsed(),
            cpu: clock.elapsed(),
        };
        (report, Some(store))
    }

    fn store(&self, run: Run, clock: Arc<CpuClock>) -> Store<RunState> {
        let Run {
            host_calls,
            output,
            limits,
            pause,
            ..
        } = run;
        let scratch = ScratchLimits {
            bytes: limits.scratch,
            files: limits.files,
            open_files: limits::OPEN_FILES,
        };
        let budget: Arc<dyn MemoryBudget> = Arc::clone(&self.budget) as _;
        let cpu_time = Box::new(move || clock.elapsed());
        let wasi = Wasi::new(Arc::clone(&self.library), scratch, output, budget, cpu_time)
            .with_monotonic_start(limits::MONOTONIC_START)
            .with_pauses({
                let pause = Arc::clone(&pause);
                Box::new(move || pause.total())
            });
        let limiter = MemoryLimiter::new(limits.memory, Arc::clone(&self.budget), pause);
        let mut store = Store::new(
            &self.engine,
            RunState {
                wasi,
                host_calls,
                limiter,
            },
        );
        store.limiter(|state| &mut state.limiter);
        store.set_epoch_deadline(1);
        store.epoch_deadline_async_yield_and_update(1);
        store
    }
}

impl Report {
    fn before_start(ending: Ending) -> Self {
        Self {
            ending,
            elapsed: Duration::ZERO,
            cpu: Duration::ZERO,
        }
    }
}

fn ending(turn: wasmtime::Result<i32>) -> Ending {
    let Err(error) = turn else {
        return Ending::Returned;
    };
    if let Some(ProcExit(code)) = error.downcast_ref::<ProcExit>() {
        return Ending::Exited(*code);
    }
    match error.downcast_ref::<wasmtime::Trap>() {
        Some(trap) => Ending::Crashed(trap.to_string()),
        None => Ending::Crashed(format!("{error:#}")),
    }
}

fn pooled_engine(runs: u32) -> wasmtime::Result<Engine> {
    let mut pool = PoolingAllocationConfig::default();
    // Two instances a run: the code, and the state that it imports.
    pool.total_core_instances(runs.saturating_mul(2))
        // And two memories: the guest's own, and the heap on which wasmtime keeps thrown exceptions.
        .total_memories(runs.saturating_mul(2))
        .total_gc_heaps(runs)
        .total_tables(runs)
        // And two stacks: the guest's, and one for the guest's allocator, called from a host call.
        .total_stacks(runs.saturating_mul(2))
        .max_memory_size(limits::MEMORY_RESERVATION)
        .table_elements(limits::TABLE_ELEMENTS)
        .max_core_instance_size(limits::INSTANCE_BYTES)
        .pagemap_scan(Enabled::Auto);
    let mut configuration = engine::configuration();
    configuration.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    Engine::new(&configuration)
}

/// Threads of their own for guests, so that a busy one never delays the protocol.
struct Executor(Option<tokio::runtime::Runtime>);

impl Executor {
    fn start() -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .thread_name("callgate-guest")
            .enable_time()
            // Guests run for a whole epoch between two polls: look at timers after each of them.
            .event_interval(1)
            // And for what other threads woke, such as runs that are cancelled.
            .global_queue_interval(1)
            .build()?;
        Ok(Self(Some(runtime)))
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        if let Some(runtime) = &self.0 {
            runtime.spawn(task);
        }
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            // Waiting for guests here would block whoever drops the sandbox.
            runtime.shutdown_background();
        }
    }
}
