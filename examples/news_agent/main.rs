//! An agent whose model has written a program: find recent news, pick what concerns each enterprise
//! customer, and send each one a mail.
//!
//! The program runs in callgate. It calls three tools, and the calls come back here, to real ones: a
//! search engine, a database and an outbox. `cargo run --example news_agent` shows it all.

mod client;
mod database;
mod date;
mod outbox;
mod search;
mod server;
mod toolbox;

use std::{
    error::Error,
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

use clap::Parser;
use rmcp::{
    RoleClient, ServiceExt,
    model::{CallToolRequestParams, CallToolResult, JsonObject},
    service::RunningService,
    transport::TokioChildProcess,
};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::{client::Agent, database::Database, outbox::Outbox, search::News, toolbox::Toolbox};

/// What the model wrote.
const PROGRAM: &str = include_str!("program.py");

const NEWS: &str = include_str!("../../fixtures/news.jsonl");
const CUSTOMERS: &str = include_str!("../../fixtures/customers.sql");

/// Runs a program that searches news, asks a database and sends mails, all through callgate.
#[derive(Parser)]
struct Arguments {
    /// Where the mails go [default: `news_agent/outbox` in cargo's target folder, emptied first]
    #[arg(long, value_name = "FOLDER")]
    outbox: Option<PathBuf>,
}

/// A connection to a running callgate.
type Callgate = RunningService<RoleClient, Agent>;

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Does everything; says whether the program succeeded.
async fn run(arguments: Arguments) -> Result<bool, Box<dyn Error>> {
    let outbox = match arguments.outbox {
        Some(folder) => folder,
        None => default_outbox()?,
    };
    let scratch = tempfile::tempdir()?;
    let agent = Agent::new(Toolbox {
        news: News::parse(NEWS)?,
        database: Database::create(&scratch.path().join("customers.db"), CUSTOMERS)?,
        outbox: Outbox::open(&outbox)?,
    });
    let binary = server::binary().await?;
    server::prepare_image(&binary).await?;

    let (callgate, handshake) = {
        let start = Instant::now();
        let process = TokioChildProcess::new(Command::new(&binary))?;
        (agent.clone().serve(process).await?, start.elapsed())
    };
    let (_, first_run) = run_python(&callgate, "'ready'", json!([])).await?;

    println!("The program's calls, as they happen:");
    let (result, program) = run_python(&callgate, PROGRAM, Toolbox::offered()).await?;
    println!("\nThe result, as the model reads it:");
    for block in &result.content {
        if let Some(text) = block.as_text() {
            println!("{}", text.text);
        }
    }
    let tally = agent.tally();
    let details = result.structured_content.unwrap_or_default();
    println!("\nThe time it took:");
    print_time(handshake, "to start callgate and shake hands");
    print_time(first_run, "for a first run, with loading the runtime image");
    print_time(program, "for the program");
    println!(
        "{:8.1} ms    of which Python",
        details["cpu_ms"].as_f64().unwrap_or_default()
    );
    print_time(
        tally.time,
        &format!("  of which tools, {} calls added up", tally.calls),
    );
    println!("\nThe mails are in {}", outbox.display());
    agent.finish().await;
    callgate.cancel().await?;
    Ok(details["status"] == "success")
}

/// Runs code and says how long that took.
async fn run_python(
    callgate: &Callgate,
    code: &str,
    tools: Value,
) -> Result<(CallToolResult, Duration), Box<dyn Error>> {
    let arguments = JsonObject::from_iter([
        ("python_code".to_owned(), json!(code)),
        ("available_tools".to_owned(), tools),
    ]);
    let start = Instant::now();
    let call = CallToolRequestParams::new("run_python_code").with_arguments(arguments);
    let result = callgate.call_tool(call).await?;
    Ok((result, start.elapsed()))
}

fn print_time(time: Duration, what: &str) {
    println!("{:8.1} ms  {what}", time.as_secs_f64() * 1e3);
}

/// A folder of our own beside cargo's, without the mails of an earlier run.
fn default_outbox() -> Result<PathBuf, Box<dyn Error>> {
    let build = server::build_folder()?;
    let target = build
        .parent()
        .ok_or("the example is not in a target folder")?;
    let folder = target.join("news_agent").join("outbox");
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    Ok(folder)
}
