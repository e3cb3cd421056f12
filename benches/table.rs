//! `just bench`: the numbers of SPECIFICATION.md, in one table.
//!
//! Machines are noisy: every line is a median, and lines that compare are measured in turns.

#[path = "../tests/support/mod.rs"]
mod support;

use std::{
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

use callgate::{
    gate::{
        Batch, CallLimits, Gate, NoServers, OfferedTools, Program, Roads, Route, RouteAnswer,
        ToolCall,
    },
    image::{Image, Recipe, Store, progress::Silent},
    sandbox::{Budget, Capacity, Ending, HostMemory, Limits, Pause, Run, Sandbox, Transcript},
};
use serde_json::{Map, Value, json};
use support::{Client, structured, tool};
use tokio_util::sync::CancellationToken;

const PANDAS: &str = "import pandas as pd\n\
    df = pd.DataFrame({'city': ['Oslo', 'Rome', 'Oslo'], 'sales': [3, 5, 4]})\n\
    print(df.groupby('city').sum())";

const FIBONACCI: &str = "def fib(n):\n    return n if n < 2 else fib(n - 1) + fib(n - 2)\nfib(27)";

const LOOP: &str = "d = {}\nfor i in range(1_000_000):\n    d[i % 1000] = str(i)";

/// Measures a program inside Python, so that neither start counts. The process wants it in seconds.
const TIMED: &str =
    "import time\nstart = time.perf_counter()\nexec(CODE)\nelapsed = time.perf_counter() - start\n";

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("threads");
    let store = Store::open(Store::default_root()).expect("the cache");
    let image = Image::ensure(&store, &Recipe::named("default"), &Silent).expect("the image");
    println!("| what | p50 | p99 |\n| --- | --- | --- |");
    // `cargo bench --bench table -- calls` does one part alone.
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with('-'))
        .collect();
    let wants = |part: &str| wanted.is_empty() || wanted.iter().any(|word| word == part);
    if wants("runs") {
        runtime.block_on(in_process(&image));
        over_stdio();
        process_start();
    }
    if wants("calls") {
        runtime.block_on(call_in_process(&image));
        calls_over_stdio();
        gathered();
    }
    if wants("cancellation") {
        runtime.block_on(cancellation(&image));
        cancellation_over_stdio();
    }
    if wants("suspended") {
        memory();
        thousand_suspended();
    }
    if wants("processor") {
        runtime.block_on(processor_bound(&image));
    }
}

async fn in_process(image: &Image) {
    let sandbox = Sandbox::new(image, capacity(16)).expect("the sandbox");
    line(
        "fresh run, `print(1+1)`, in process",
        runs(&sandbox, "print(1+1)", 1000).await,
    );
    line(
        "fresh run, a DataFrame grouped and printed, in process",
        runs(&sandbox, PANDAS, 200).await,
    );
    println!(
        "| runs of `print(1+1)` a second, two at a time | {:.0} | |",
        throughput(sandbox).await
    );
}

async fn runs(sandbox: &Sandbox, code: &str, count: usize) -> Vec<Duration> {
    run(sandbox, code, Value::Null).await;
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        let start = Instant::now();
        run(sandbox, code, Value::Null).await;
        times.push(start.elapsed());
    }
    times
}

async fn call_in_process(image: &Image) {
    let sandbox = Sandbox::new(image, capacity(1)).expect("the sandbox");
    let add = tool("add", json!({"a": {"type": "integer"}}));
    let value = run(&sandbox, CALLBACKS, add).await;
    line(
        "one callback, in process, seen by the guest",
        seconds(&value),
    );
}

/// The time of each of 1,000 calls, in seconds, as the guest sees it.
const CALLBACKS: &str = "import time\ntimes = []\nfor i in range(1000):\n    start = time.perf_counter()\n    add(a=i)\n    \
    times.append(time.perf_counter() - start)\ntimes";

async fn throughput(sandbox: Sandbox) -> f64 {
    const EACH: u32 = 1000;
    let sandbox = Arc::new(sandbox);
    let start = Instant::now();
    let workers: Vec<_> = (0..2)
        .map(|_| {
            let sandbox = Arc::clone(&sandbox);
            tokio::spawn(async move {
                for _ in 0..EACH {
                    run(&sandbox, "print(1+1)", Value::Null).await;
                }
            })
        })
        .collect();
    for worker in workers {
        worker.await.expect("the worker ends well");
    }
    f64::from(2 * EACH) / start.elapsed().as_secs_f64()
}

fn over_stdio() {
    let mut client = Client::start(&[]);
    client.run("print(1+1)");
    let times: Vec<Duration> = (0..1000)
        .map(|_| {
            let start = Instant::now();
            client.run("print(1+1)");
            start.elapsed()
        })
        .collect();
    line("`print(1+1)` over stdio, request to result", times);
}

fn calls_over_stdio() {
    let mut client = Client::start(&[]);
    let tools = json!([tool("add", json!({"a": {"type": "integer"}}))]);
    let result = client.run_with(CALLBACKS, tools, &mut |call| {
        Some(json!({"result": call["arguments"]["a"]}))
    });
    line(
        "one callback over stdio, seen by the guest",
        seconds(&structured(&result)["return_value"]),
    );
}

/// Calls that run at once: eight that take 200 ms each, and a thousand that are answered at once.
fn gathered() {
    let mut client = Client::start(&[]);
    client.run("print(1+1)");
    let mut eight = Vec::new();
    for _ in 0..5 {
        let id = client.start_run(gather(8));
        let calls: Vec<Value> = (0..8).map(|_| client.receive()["params"].clone()).collect();
        std::thread::sleep(Duration::from_millis(200));
        for call in &calls {
            client.notify(
                "notifications/tool_call_response",
                json!({"requestId": call["requestId"], "result": 1}),
            );
        }
        let result = client.finish(id, &mut |_| None);
        eight.extend(seconds(&structured(&result)["return_value"]));
    }
    line("gather of 8 tools that take 200 ms each", eight);
    let mut each = Vec::new();
    for _ in 0..20 {
        let result = client.call(gather(1000), &mut |call| {
            Some(json!({"result": call["arguments"]["a"]}))
        });
        let all = seconds(&structured(&result)["return_value"])[0];
        each.push(all / 1000);
    }
    line(
        "one of 1,000 gathered tools over stdio, the client's own time included",
        each,
    );
}

/// A program that gathers `count` calls and returns how long that took.
fn gather(count: u32) -> Value {
    let code = format!(
        "import asyncio, time\nstart = time.perf_counter()\n\
         await asyncio.gather(*(add.aio(a=i) for i in range({count})))\n[time.perf_counter() - start]"
    );
    json!({"python_code": code, "available_tools": [tool("add", json!({"a": {"type": "integer"}}))]})
}

fn process_start() {
    let times = (0..20)
        .map(|_| {
            let start = Instant::now();
            let mut client = Client::start(&[]);
            client.run("print(1+1)");
            start.elapsed()
        })
        .collect();
    line("process start to first result, image cached", times);
}

/// From the order to stop until the run has ended, while two busy guests a core run beside it.
async fn cancellation(image: &Image) {
    let sandbox = Arc::new(Sandbox::new(image, capacity(32)).expect("the sandbox"));
    let ends = CancellationToken::new();
    let busy: Vec<_> = (0..2 * cores())
        .map(|_| {
            let (sandbox, stop) = (Arc::clone(&sandbox), ends.child_token());
            tokio::spawn(async move { stopped(&sandbox, "while True: pass", stop).await })
        })
        .collect();
    let victims = [
        "while True: pass",
        "sum(range(10**13))",
        "import re\nre.match('(a+)+$', 'a' * 60 + 'b')",
        "x = []\nwhile True:\n    x = [bytearray(30_000_000) for _ in range(5)]",
        "import time\ntime.sleep(3600)",
    ];
    let mut times = Vec::new();
    for (number, victim) in victims.into_iter().cycle().take(500).enumerate() {
        let stop = CancellationToken::new();
        let ordered = stop.clone();
        let order = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(60 + number as u64 % 7)).await;
            let start = Instant::now();
            ordered.cancel();
            start
        });
        let ended = stopped(&sandbox, victim, stop).await;
        times.push(ended - order.await.expect("the order was given"));
    }
    ends.cancel();
    for run in busy {
        run.await.expect("the busy run has ended");
    }
    line(
        "cancellation, beside two busy guests a core, in process",
        times,
    );
}

/// Runs a program until it is stopped; returns when it ended.
async fn stopped(sandbox: &Sandbox, source: &str, stop: CancellationToken) -> Instant {
    let limits = Limits {
        cpu: Duration::from_mins(10),
        run: Duration::from_mins(10),
        ..Limits::default()
    };
    let program = program(source, Value::Null);
    let gate = Gate::new(program, roads(), CallLimits::default(), stop.clone());
    let report = sandbox
        .run(Run {
            host_calls: Arc::new(gate),
            output: Box::new(Transcript::new(1 << 20, None)),
            limits,
            stop,
            pause: Pause::new(),
        })
        .await;
    assert_eq!(report.ending, Ending::Stopped, "{source}");
    Instant::now()
}

/// From `notifications/cancelled` to the withdrawal of the call that the run had made.
fn cancellation_over_stdio() {
    let mut client = Client::start(&["--cpu-timeout", "10m", "--run-timeout", "10m"]);
    for _ in 0..2 * cores() {
        client.start_run(json!({"python_code": "while True: pass"}));
    }
    let code = "import asyncio\nasync def work():\n    asyncio.ensure_future(wait.aio())\n    await asyncio.sleep(0)\n    while True: pass\nawait work()";
    let mut times = Vec::new();
    for _ in 0..100 {
        let id = client
            .start_run(json!({"python_code": code, "available_tools": [tool("wait", json!({}))]}));
        while client.receive()["method"] != "notifications/tool_call_request" {}
        std::thread::sleep(Duration::from_millis(20));
        let start = Instant::now();
        client.notify("notifications/cancelled", json!({"requestId": id}));
        while client.receive()["method"] != "notifications/tool_call_cancelled" {}
        times.push(start.elapsed());
    }
    line(
        "cancellation to withdrawal of the call, over stdio, the same",
        times,
    );
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from)
}

/// A thousand runs that wait for a tool each: what they cost, and what it takes to resume them.
fn thousand_suspended() {
    const COUNT: u32 = 1000;
    let mut client = Client::start(&["--tool-timeout", "5m"]);
    client.run("print(1+1)");
    let tools = json!([tool("wait", json!({}))]);
    let mut calls: Vec<Value> = (0..COUNT)
        .map(|_| {
            client.start_run(json!({"python_code": "wait()", "available_tools": tools}));
            loop {
                let message = client.receive();
                if message["method"] == "notifications/tool_call_request" {
                    return message["params"]["requestId"].clone();
                }
            }
        })
        .collect();
    let before = client.processor_time();
    std::thread::sleep(Duration::from_secs(3));
    let spent = client.processor_time().saturating_sub(before);
    println!(
        "| processor time of 1,000 suspended runs, a second | {:.1} ms | |",
        spent.as_secs_f64() * 1e3 / 3.0
    );
    let held = client.anonymous_kib();
    // Their ids are random.
    calls.sort_by_key(ToString::to_string);
    let start = Instant::now();
    for request_id in &calls {
        client.notify(
            "notifications/tool_call_response",
            json!({"requestId": request_id, "result": 1}),
        );
    }
    let mut ended = 0;
    while ended < COUNT {
        let message = client.receive();
        ended += u32::from(message["result"]["structuredContent"]["return_value"] == 1);
    }
    let each = start.elapsed() / COUNT;
    println!(
        "| one of 1,000 suspended runs, resumed in random order, to its result | {:.3} ms | |",
        each.as_secs_f64() * 1e3
    );
    println!(
        "| anonymous memory of the process with 1,000 suspended runs, and after them | {} MiB | {} MiB |",
        held >> 10,
        client.anonymous_kib() >> 10
    );
}

/// Anonymous memory of the process for each further suspended run.
fn memory() {
    for count in [100, 1000] {
        let mut client = Client::start(&["--tool-timeout", "5m", "--max-runs", "1100"]);
        client.run("print(1+1)");
        let tools = json!([tool("wait", json!({}))]);
        let suspend = |client: &mut Client| {
            client.start_run(json!({"python_code": "wait()", "available_tools": tools}));
            while client.receive()["method"] != "notifications/tool_call_request" {}
        };
        suspend(&mut client);
        let before = client.anonymous_kib();
        for _ in 0..count {
            suspend(&mut client);
        }
        let each = client.anonymous_kib().saturating_sub(before) / count;
        println!("| anonymous memory of one more suspended run, of {count} | {each} KiB | |");
    }
}

async fn processor_bound(image: &Image) {
    let sandbox = Sandbox::new(image, capacity(2)).expect("the sandbox");
    for (name, code) in [("fib(27)", FIBONACCI), ("dict and str loop", LOOP)] {
        let (mut inside, mut outside) = (Vec::new(), Vec::new());
        for _ in 0..5 {
            let timed = format!("CODE = {code:?}\n{TIMED}elapsed");
            inside.push(
                run(&sandbox, &timed, Value::Null)
                    .await
                    .as_f64()
                    .unwrap_or(f64::NAN),
            );
            outside.push(native(&format!("CODE = {code:?}\n{TIMED}print(elapsed)")));
        }
        let ratio = median(&mut inside) / median(&mut outside);
        println!("| {name}, times the machine's python3 | × {ratio:.2} | |");
    }
}

fn native(code: &str) -> f64 {
    let output = Command::new("python3")
        .args(["-c", code])
        .output()
        .expect("python3 runs");
    String::from_utf8_lossy(&output.stdout)
        .trim()
        .parse()
        .expect("it prints seconds")
}

fn median(numbers: &mut [f64]) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

fn roads() -> Roads {
    Roads {
        route: Arc::new(Echo),
        batch: Batch::new(),
        servers: Arc::new(NoServers),
        memory: HostMemory::new(Budget::new(Budget::half_of_machine())),
    }
}

fn capacity(runs: u32) -> Capacity {
    Capacity {
        runs,
        paused: 0,
        memory: Budget::half_of_machine(),
    }
}

fn program(source: &str, tool: Value) -> Program {
    let tools: Vec<Value> = if tool.is_null() {
        Vec::new()
    } else {
        vec![tool]
    };
    Program {
        source: source.to_owned(),
        offered: OfferedTools::parse(&tools).expect("the tool is right"),
        tools,
        global_variables: Map::new(),
    }
}

/// Runs a program whose tool, if any, answers at once; returns its value.
async fn run(sandbox: &Sandbox, source: &str, tool: Value) -> Value {
    let stop = CancellationToken::new();
    let gate = Arc::new(Gate::new(
        program(source, tool),
        roads(),
        CallLimits::default(),
        stop.clone(),
    ));
    let report = sandbox
        .run(Run {
            host_calls: Arc::clone(&gate) as _,
            output: Box::new(Transcript::new(1 << 20, None)),
            limits: Limits::default(),
            stop,
            pause: Pause::new(),
        })
        .await;
    assert_eq!(report.ending, Ending::Returned);
    let finish = gate.finish().expect("the program has ended");
    assert!(finish.error.is_none(), "{:?}", finish.error);
    finish.return_value
}

struct Echo;

impl Route for Echo {
    fn call(&self, call: ToolCall) -> RouteAnswer {
        Box::pin(async move {
            tokio::task::yield_now().await;
            Ok(call.arguments.value()["a"].clone())
        })
    }

    fn withdraw(&self, _: &str, _: &str) {}
}

fn seconds(value: &Value) -> Vec<Duration> {
    let numbers = value.as_array().expect("a list of seconds");
    numbers
        .iter()
        .filter_map(Value::as_f64)
        .map(Duration::from_secs_f64)
        .collect()
}

fn line(what: &str, mut times: Vec<Duration>) {
    times.sort();
    let at = |share: usize| times[(times.len() * share / 100).min(times.len() - 1)];
    println!(
        "| {what} | {:.3} ms | {:.3} ms |",
        at(50).as_secs_f64() * 1e3,
        at(99).as_secs_f64() * 1e3
    );
}
