//! `callgate mcp`: the other servers that code may call.

use std::{
    fs::{self, OpenOptions},
    io::Write as _,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use clap::{Args, Subcommand};
use directories::{BaseDirs, ProjectDirs};
use futures::future::join_all;
use serde_json::{Value, json};

use super::{Options, Problem};
use crate::upstream::{
    Server,
    import::{Found, collect, sources},
};

/// What to do with them.
#[derive(Debug, Subcommand)]
pub enum McpCommand {
    /// Start the servers of --mcp-config and show their states and tools
    List(ListArguments),
    /// Find the configurations of desktop clients and write one out of all of them
    Import(ImportArguments),
}

/// What to show.
#[derive(Debug, Args)]
pub struct ListArguments {
    /// Write JSON, with the descriptions and schemas of all tools
    #[arg(long)]
    json: bool,
}

/// Where to import from and to.
#[derive(Debug, Args)]
pub struct ImportArguments {
    /// Where to write the configuration [default: mcp.json in the user's configuration folder for callgate]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Overwrite a file that is there
    #[arg(long)]
    force: bool,
    /// Say what would be written, and write nothing
    #[arg(long)]
    dry_run: bool,
}

/// Does it.
pub(super) fn execute(command: McpCommand, options: &Options) -> Result<ExitCode, Problem> {
    match command {
        McpCommand::List(arguments) => list(&arguments, options),
        McpCommand::Import(arguments) => import(arguments),
    }
}

fn list(arguments: &ListArguments, options: &Options) -> Result<ExitCode, Problem> {
    if !options.has_mcp_config() {
        return Err("say which servers: callgate mcp list --mcp-config FILE (`callgate mcp import` writes one)".into());
    }
    let upstreams = options.upstreams()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let shown = runtime.block_on(async {
        upstreams.settle();
        let shown = join_all(upstreams.servers().iter().map(Shown::of)).await;
        upstreams.close().await;
        shown
    });
    runtime.shutdown_background();
    if arguments.json {
        let servers: Vec<Value> = shown.iter().map(Shown::json).collect();
        let text = serde_json::to_string_pretty(&json!({"servers": servers}))?;
        println!("{text}");
    } else if upstreams.servers().is_empty() {
        println!("the configuration has no servers");
    } else {
        shown.iter().for_each(Shown::print);
    }
    let all_up = shown.iter().all(|server| server.problem.is_none());
    Ok(if all_up {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// What is shown of a server.
struct Shown {
    name: String,
    description: Option<String>,
    tools: Vec<Value>,
    problem: Option<String>,
}

impl Shown {
    async fn of(server: &Arc<Server>) -> Self {
        let (tools, problem) = match server.up().await {
            Ok(up) => {
                let listing = up.listing();
                let tools = listing.tools.iter().map(|tool| json!(tool));
                (tools.collect(), None)
            }
            Err(problem) => (Vec::new(), Some(problem)),
        };
        Self {
            name: server.name().to_owned(),
            description: server.description().map(str::to_owned),
            tools,
            problem,
        }
    }

    fn json(&self) -> Value {
        let state = if self.problem.is_some() { "down" } else { "up" };
        json!({"name": self.name, "description": self.description, "state": state,
            "problem": self.problem, "tools": self.tools})
    }

    fn print(&self) {
        if let Some(problem) = &self.problem {
            println!("✗ {problem}");
            return;
        }
        let count = match self.tools.len() {
            1 => "1 tool".to_owned(),
            count => format!("{count} tools"),
        };
        println!("✓ {}: {count}", self.name);
        for tool in &self.tools {
            let line = tool["description"].as_str().unwrap_or_default();
            let line = line.trim().lines().next().unwrap_or_default();
            let line: String = line.chars().take(100).collect();
            // What a server says of itself may not play with the terminal.
            let text = format!("{}  {line}", tool["name"].as_str().unwrap_or_default());
            println!("    {}", text.trim_end().escape_debug());
        }
    }
}

fn import(arguments: ImportArguments) -> Result<ExitCode, Problem> {
    let directories = BaseDirs::new().ok_or("this user has no home folder")?;
    let folder = std::env::current_dir()?;
    let (config, found) = collect(sources(directories.home_dir(), &folder));
    for of in &found {
        tell(of);
    }
    let count = config["mcpServers"]
        .as_object()
        .map_or(0, serde_json::Map::len);
    if count == 0 {
        return Err("no servers were found in the configurations of desktop clients".into());
    }
    let output = match arguments.output {
        Some(output) => output,
        None => default_output()?,
    };
    if arguments.dry_run {
        println!("{count} servers would be written to {}", output.display());
        return Ok(ExitCode::SUCCESS);
    }
    write(&output, &config, arguments.force)?;
    println!(
        "{count} servers are in {}. Next: callgate mcp list --mcp-config {0}",
        output.display()
    );
    Ok(ExitCode::SUCCESS)
}

fn tell(found: &Found) {
    let Found {
        source,
        taken,
        left,
        notes,
        problem,
    } = found;
    println!("{} ({})", source.client, source.path.display());
    if let Some(problem) = problem {
        println!("    ✗ {problem}");
    }
    for name in taken {
        println!("    ✓ {}", name.escape_debug());
    }
    for (name, note) in notes {
        println!("    ! {}: {note}", name.escape_debug());
    }
    for (name, reason) in left {
        println!("    – {}: {reason}", name.escape_debug());
    }
}

fn default_output() -> Result<PathBuf, Problem> {
    let directories =
        ProjectDirs::from("", "", "callgate").ok_or("this user has no home folder")?;
    Ok(directories.config_dir().join("mcp.json"))
}

/// Writes the configuration for the user alone: it has the keys of servers.
fn write(path: &Path, config: &Value, force: bool) -> Result<(), Problem> {
    let told = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            format!("{} is there already; --force overwrites it", path.display())
        }
        _ => format!("{}: {error}", path.display()),
    };
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(told)?;
    }
    if force && path.exists() {
        fs::remove_file(path).map_err(told)?;
    }
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path);
    let mut file = file.map_err(told)?;
    writeln!(file, "{}", serde_json::to_string_pretty(config)?).map_err(told)?;
    Ok(())
}
