//! `just bench-http`: what the HTTP server costs, how fair it is, and what it bears.
//!
//! `cargo bench --bench http -- latency` (or `fairness`, `load`) does one part alone.

#[path = "../tests/support/mod.rs"]
mod support;

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::{
    http::{Agent, ERAS, Era, HttpServer, client},
    structured,
    swarm::{Failure, SwarmAgent},
    tool,
};

/// Agents that are connected at once, and the calls that each one's run makes.
const AGENTS: usize = 1000;
const CALLS: usize = 10;

fn main() {
    raise_file_limit();
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with('-'))
        .collect();
    let wants = |part: &str| wanted.is_empty() || wanted.iter().any(|word| word == part);
    if wants("latency") {
        latency();
    }
    if wants("fairness") {
        fairness();
    }
    if wants("load") {
        load();
    }
}

fn add() -> Value {
    json!([tool("add", json!({"a": {"type": "integer"}}))])
}

fn latency() {
    println!("| over HTTP, warm connection | p50 | p99 |\n| --- | --- | --- |");
    let server = HttpServer::start(&[]);
    for era in ERAS {
        let mut agent = Agent::new(&server, era);
        agent.run("print(1+1)");
        let times = (0..500)
            .map(|_| timed(|| agent.run("print(1+1)")))
            .collect();
        line(&format!("`print(1+1)`, {}", name(era)), times);
        let code = "import time\ntimes = []\nfor i in range(1000):\n    start = time.perf_counter()\n    \
            add(a=i)\n    times.append(time.perf_counter() - start)\ntimes";
        let result = agent.run_with(code, add(), &mut |call| {
            Some(json!({"result": call["arguments"]["a"]}))
        });
        let times = structured(&result)["return_value"]
            .as_array()
            .expect("a list");
        let times = times
            .iter()
            .filter_map(Value::as_f64)
            .map(Duration::from_secs_f64);
        line(
            &format!("a callback, seen by the guest, {}", name(era)),
            times.collect(),
        );
    }
    let http = client();
    let url = server.path("/health/live");
    let live = || http.get(&url).send().expect("an answer");
    line("`/health/live`", (0..500).map(|_| timed(live)).collect());
}

fn fairness() {
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    println!("\n| with {cores} endless loops, one a core | p50 | p99 |\n| --- | --- | --- |");
    let server = HttpServer::start(&["--cpu-timeout", "10m", "--run-timeout", "10m"]);
    // Their responses never come: threads wait for them.
    for _ in 0..cores {
        let mut agent = Agent::new(&server, Era::Sessions);
        std::thread::spawn(move || agent.try_run(json!({"python_code": "while True: pass"})));
    }
    #[expect(clippy::cast_precision_loss, reason = "a number of cores")]
    server.wait_for_metric("callgate_runs_executing", cores as f64);
    let http = client();
    let url = server.path("/health/live");
    let live = || http.get(&url).send().expect("an answer");
    line("`/health/live`", (0..1000).map(|_| timed(live)).collect());
    for era in ERAS {
        let mut agent = Agent::new(&server, era);
        let times = (0..300)
            .map(|_| timed(|| agent.run("print(1+1)")))
            .collect();
        line(&format!("`print(1+1)`, {}", name(era)), times);
    }
}

fn load() {
    let server = HttpServer::start(&[]);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("threads");
    // What the first runs allocate for good is not what is looked for.
    runtime
        .block_on(swarm(&server, AGENTS / 10))
        .expect("no agent sees an error");
    settle(&server);
    let before = server.metric("callgate_process_resident_memory_bytes");
    let start = Instant::now();
    let swarmed = runtime
        .block_on(swarm(&server, AGENTS))
        .expect("no agent sees an error");
    let elapsed = start.elapsed();
    settle(&server);
    let after = server.metric("callgate_process_resident_memory_bytes");
    println!(
        "\n| {AGENTS} agents connected, a run with {CALLS} callbacks each | p50 | p99 |\n| --- | --- | --- |"
    );
    line("connecting", swarmed.connecting);
    line("a run", swarmed.runs);
    line("a callback, as the server sees it", swarmed.calls);
    #[expect(clippy::cast_precision_loss, reason = "thousands")]
    let (runs, calls) = (AGENTS as f64, (AGENTS * CALLS) as f64);
    let running = swarmed.running.as_secs_f64();
    println!("| runs a second | {:.0} | |", runs / running);
    println!("| callbacks a second | {:.0} | |", calls / running);
    println!("| all of it | {:.1} s | |", elapsed.as_secs_f64());
    println!(
        "| resident memory before and after | {:.0} MiB, {:.0} MiB | |",
        before / f64::from(1 << 20),
        after / f64::from(1 << 20)
    );
}

/// Waits until nothing is left of what was.
fn settle(server: &HttpServer) {
    for metric in ["callgate_runs_executing", "callgate_tool_calls_in_flight"] {
        server.wait_for_metric(metric, 0.0);
    }
    server.wait_for_metric("callgate_connections", 1.0);
    // Memory is given back when it has been quiet for two seconds.
    std::thread::sleep(Duration::from_secs(4));
}

#[derive(Default)]
struct Swarmed {
    connecting: Vec<Duration>,
    runs: Vec<Duration>,
    calls: Vec<Duration>,
    running: Duration,
}

/// All agents connect, and then all run at once.
async fn swarm(server: &HttpServer, count: usize) -> Result<Swarmed, Failure> {
    let mut swarmed = Swarmed::default();
    let mut agents = Vec::with_capacity(count);
    for n in 0..count {
        let start = Instant::now();
        agents.push(SwarmAgent::connect(server.url(), ERAS[n % 2]).await?);
        swarmed.connecting.push(start.elapsed());
    }
    let start = Instant::now();
    let runs: Vec<_> = (0..)
        .zip(agents)
        .map(|(n, agent)| tokio::spawn(run(n, agent)))
        .collect();
    for run in runs {
        let (time, calls) = run.await??;
        swarmed.runs.push(time);
        swarmed.calls.extend(calls);
    }
    swarmed.running = start.elapsed();
    Ok(swarmed)
}

async fn run(n: i64, mut agent: SwarmAgent) -> Result<(Duration, Vec<Duration>), Failure> {
    let code = format!("[add(a={n} + i) for i in range({CALLS})]");
    let start = Instant::now();
    let result = agent
        .run(&code, &add(), |arguments| arguments["a"].clone())
        .await?;
    let elapsed = start.elapsed();
    agent.close().await?;
    let result = structured(&result);
    let expected: Vec<i64> = (n..).take(CALLS).collect();
    if result["return_value"] != json!(expected) {
        return Err(format!("agent {n} got {result}").into());
    }
    let calls = result["tool_calls"].as_array().ok_or("a list")?.iter();
    let calls = calls.filter_map(|call| call["duration_ms"].as_f64());
    Ok((
        elapsed,
        calls
            .map(|ms| Duration::from_secs_f64(ms / 1000.0))
            .collect(),
    ))
}

fn name(era: Era) -> &'static str {
    match era {
        Era::Sessions => "2025-11-25",
        Era::Stateless => "2026-07-28",
    }
}

fn timed<T>(what: impl FnOnce() -> T) -> Duration {
    let start = Instant::now();
    what();
    start.elapsed()
}

fn line(what: &str, mut times: Vec<Duration>) {
    times.sort();
    let at = |share: usize| times[(times.len() * share / 100).min(times.len() - 1)];
    let ms = |time: Duration| time.as_secs_f64() * 1000.0;
    println!("| {what} | {:.2} ms | {:.2} ms |", ms(at(50)), ms(at(99)));
}

/// Each agent is a few connections.
fn raise_file_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).expect("the limit may be raised to its maximum");
}
