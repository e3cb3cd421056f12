//! An agent in forty lines: `cargo run --example tiny_agent -- FOLDER TASK`; the folder has an `agent.json`.

use std::{error::Error, sync::Arc};

use callgate::{
    agent::{Agent, AgentFolder, AgentLimits, AllowAll, Event, Mode, config},
    commands::CommandLine,
};
use clap::Parser as _;
use futures::StreamExt as _;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut arguments = std::env::args().skip(1);
    let (folder, task) = (arguments.next(), arguments.next());

    // No values for its inputs, and nothing in place of what it says.
    let folder = AgentFolder::load(&folder.ok_or("say which folder")?).await?;
    let config = folder.configure(
        &config::InputValues::default(),
        &config::Overrides::default(),
    )?;

    // The sandbox has the defaults of `callgate`, or what its environment variables say.
    let settings = CommandLine::parse_from(["callgate"]).settings()?;
    let (mode, limits) = (Mode::Code, AgentLimits::default());
    let mut agent = Agent::start(config, mode, limits, Arc::new(AllowAll), settings).await?;

    let mut events = agent.run(&task.ok_or("say what is to be done")?);
    while let Some(event) = events.next().await {
        match event {
            Event::Text { text } => print!("{text}"),
            Event::Code { code, .. } => println!("--- runs:\n{code}\n---"),
            Event::Call { server, tool, .. } => println!("calls {server}.{tool}"),
            Event::End(end) => println!("\n{} turns, {} calls", end.turns, end.calls),
            _ => {}
        }
    }
    drop(events);
    agent.close().await;
    Ok(())
}
