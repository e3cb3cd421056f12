//! Promise: clients that vanish, stall, answer twice or send garbage disturb nobody else.

mod support;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use support::{
    http::{ERAS, HttpServer},
    structured,
    swarm::{Failure, SwarmAgent},
    tool,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{sleep, timeout},
};

/// How long it goes on.
const TIME: Duration = Duration::from_mins(1);

const HONEST: u64 = 6;
const FAULTY: u64 = 12;

fn search() -> Value {
    json!([tool("search", json!({"query": {"type": "integer"}}))])
}

/// Random enough for choosing faults, and the same every time (Marsaglia's xorshift64).
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    async fn pause(&mut self) {
        sleep(Duration::from_millis(self.below(50))).await;
    }
}

/// Runs programs until the time is over; every one of them must do what it should.
async fn honest(url: String, n: u64, until: Instant, done: Arc<AtomicU64>) -> Result<(), Failure> {
    let era = ERAS[usize::from(n.is_multiple_of(2))];
    let mut agent = SwarmAgent::connect(&url, era).await?;
    let mut round = 0;
    while Instant::now() < until {
        round += 1;
        let from = n * 1_000_000 + round;
        let code = format!(
            "import asyncio\n\
            await asyncio.gather(*(search.aio(query={from} + i) for i in range(3)))"
        );
        let result = agent
            .run(&code, &search(), |arguments| arguments["query"].clone())
            .await?;
        let value = &structured(&result)["return_value"];
        if value != &json!([from, from + 1, from + 2]) {
            return Err(format!("agent {n}, round {round}: {result}").into());
        }
        done.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// Does harm in one way after the other. What becomes of it itself does not matter.
async fn faulty(url: String, n: u64, until: Instant, done: Arc<AtomicU64>) {
    let mut chance = Chance(0x9e37_79b9_7f4a_7c15 ^ (n + 1));
    while Instant::now() < until {
        // A fault that waits for an answer may wait in vain: that is its own affair.
        let _ = timeout(Duration::from_secs(5), fault(&url, &mut chance)).await;
        done.fetch_add(1, Ordering::Relaxed);
        chance.pause().await;
    }
}

async fn fault(url: &str, chance: &mut Chance) -> Result<(), Failure> {
    match chance.below(7) {
        0 => vanish(url, chance).await,
        1 => stall(url, chance).await,
        2 => answer_twice(url, chance).await,
        3 => answer_nonsense(url, chance).await,
        4 => garbage(url, chance).await,
        5 => burn(url, chance).await,
        _ => reset(url, chance).await,
    }
}

async fn agent(url: &str, chance: &mut Chance) -> Result<SwarmAgent, Failure> {
    let era = ERAS[usize::from(chance.below(2) == 0)];
    SwarmAgent::connect(url, era).await
}

/// Goes away in the middle of a run.
async fn vanish(url: &str, chance: &mut Chance) -> Result<(), Failure> {
    let mut agent = agent(url, chance).await?;
    let mut events = agent.start_run("search(query=1)", &search()).await?;
    events.next().await?;
    chance.pause().await;
    Ok(())
}

/// Sends half of a request, and no more for a while.
async fn stall(url: &str, chance: &mut Chance) -> Result<(), Failure> {
    let mut stream = connect(url).await?;
    let head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
        Accept: application/json, text/event-stream\r\nContent-Length: 1000\r\n\r\n{\"jsonrpc\":";
    let part = usize::try_from(chance.below(head.len() as u64))?;
    stream.write_all(&head.as_bytes()[..part]).await?;
    sleep(Duration::from_millis(chance.below(3000))).await;
    Ok(())
}

/// Answers a call, and again, and that of a made-up id.
async fn answer_twice(url: &str, chance: &mut Chance) -> Result<(), Failure> {
    let mut agent = agent(url, chance).await?;
    let mut events = agent.start_run("search(query=1)", &search()).await?;
    let call = events.next().await?;
    for n in 0..3 {
        agent.answer(&call["params"]["requestId"], json!(n)).await?;
    }
    agent.answer(&json!("made up"), json!(1)).await
}

/// Answers with what is no answer.
async fn answer_nonsense(url: &str, chance: &mut Chance) -> Result<(), Failure> {
    let mut agent = agent(url, chance).await?;
    let mut events = agent.start_run("search(query=1)", &search()).await?;
    let id = events.next().await?["params"]["requestId"].clone();
    let method = "notifications/tool_call_response";
    for params in [
        json!(null),
        json!([]),
        json!({"requestId": 5}),
        json!({"requestId": {"a": id}}),
        json!({"result": 1}),
    ] {
        let message = json!({"jsonrpc": "2.0", "method": method, "params": params});
        agent.post(&message).await?;
    }
    let unknown = json!({"jsonrpc": "2.0", "method": "notifications/nonsense", "params": {"x": 1}});
    agent.post(&unknown).await?;
    Ok(())
}

/// Sends random bytes.
async fn garbage(url: &str, chance: &mut Chance) -> Result<(), Failure> {
    let mut stream = connect(url).await?;
    let bytes: Vec<u8> = (0..chance.below(5000))
        .map(|_| chance.below(256).to_le_bytes()[0])
        .collect();
    stream.write_all(&bytes).await?;
    let mut sink = Vec::new();
    stream.read_to_end(&mut sink).await?;
    Ok(())
}

/// Runs a loop that does not end, and goes away.
async fn burn(url: &str, chance: &mut Chance) -> Result<(), Failure> {
    let mut agent = agent(url, chance).await?;
    let tools = search();
    let run = agent.start_run("while True: pass", &tools);
    let time = Duration::from_millis(50 + chance.below(200));
    let _ = timeout(time, run).await;
    Ok(())
}

/// Resets its connection in the middle of an answer.
async fn reset(url: &str, chance: &mut Chance) -> Result<(), Failure> {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {}});
    let body = body.to_string();
    let mut stream = connect(url).await?;
    let request = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
        Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await?;
    chance.pause().await;
    // With nothing left to linger for, closing is a reset.
    stream.set_zero_linger()?;
    Ok(())
}

async fn connect(url: &str) -> Result<TcpStream, Failure> {
    let address = url.trim_start_matches("http://").trim_end_matches("/mcp");
    Ok(TcpStream::connect(address).await?)
}

#[test]
fn honest_agents_see_no_error_while_others_misbehave_for_a_minute() {
    // What burns is left behind by sessions, and is stopped soon; it must not be the processors that are tested.
    let server = HttpServer::start(&["--cpu-timeout", "1s", "--resume-grace", "1s"]);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("threads");
    let until = Instant::now() + TIME;
    let (rounds, faults) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
    runtime.block_on(async {
        for n in 0..FAULTY {
            tokio::spawn(faulty(
                server.url().to_owned(),
                n,
                until,
                Arc::clone(&faults),
            ));
        }
        let honest: Vec<_> = (0..HONEST)
            .map(|n| {
                tokio::spawn(honest(
                    server.url().to_owned(),
                    n,
                    until,
                    Arc::clone(&rounds),
                ))
            })
            .collect();
        for agent in honest {
            let ended = agent.await.expect("no panic");
            ended.unwrap_or_else(|error| panic!("{error}; log:\n{}", server.log()));
        }
    });
    runtime.shutdown_timeout(Duration::from_secs(1));
    let (rounds, faults) = (
        rounds.load(Ordering::Relaxed),
        faults.load(Ordering::Relaxed),
    );
    println!("{rounds} honest runs beside {faults} faults");
    assert!(rounds >= HONEST && faults >= FAULTY);
    for metric in [
        "callgate_runs_executing",
        "callgate_tool_calls_in_flight",
        "callgate_runs_memory_bytes",
    ] {
        server.wait_for_metric(metric, 0.0);
    }
    assert!(!server.log().contains("panic"), "{}", server.log());
}
