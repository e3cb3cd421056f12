//! `callgate agent`: the tiny agent in a terminal, in a pipe, or as a stream of JSON.

mod chat;
mod consent;
mod highlight;
mod keyboard;
mod plain;
mod screen;
mod stops;

use std::{
    collections::HashSet, io::IsTerminal as _, process::ExitCode, sync::Arc, time::Duration,
};

use clap::{Args, Subcommand};
use tokio::sync::oneshot;

use self::{
    chat::{Chat, INTERRUPTED},
    consent::Consent,
    keyboard::Keyboard,
    plain::{LONGEST_NAME, one_line},
    screen::Screen,
    stops::Stops,
};
use super::{Options, Problem, options::duration};
use crate::{
    agent::{
        Agent, AgentConfig, AgentFolder, AgentLimits, AllowAll, Approve, Mode,
        config::{AgentServer, Input, InputValues, Origin, Overrides},
    },
    upstream::{ServerConfig, Transport, Upstreams},
};

/// How long what still runs may take to end.
const END_TIMEOUT: Duration = Duration::from_secs(3);

/// What to do with agents.
#[derive(Debug, Subcommand)]
pub enum AgentCommand {
    /// Run an agent: a folder with agent.json, such a file, or a name of the Hub's tiny-agents collection
    Run(RunArguments),
}

/// Which agent, and how.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub struct RunArguments {
    /// The folder with agent.json, the file itself, or a name like julien-c/flux-schnell-generator
    #[arg(value_name = "PATH")]
    path: String,
    /// Work on this task and print the answer, instead of a chat; `-` reads the task from standard input
    #[arg(long, short, value_name = "TEXT", allow_hyphen_values = true)]
    prompt: Option<String>,
    /// Write what happens as JSON, an event a line
    #[arg(long)]
    json: bool,
    /// Do not ask before tools with side effects are called, nor before an agent from the Hub is started
    #[arg(long, short)]
    yes: bool,
    /// Give the model the tools one by one, instead of Python that calls them
    #[arg(long, conflicts_with = "both")]
    direct: bool,
    /// Give the model both the tools and Python
    #[arg(long)]
    both: bool,
    /// How often the model is asked for one task
    #[arg(long, value_name = "N", default_value_t = AgentLimits::default().turns as u64, value_parser = clap::value_parser!(u64).range(1..))]
    max_turns: u64,
    /// Characters of a result that the model reads
    #[arg(long, value_name = "N", default_value_t = AgentLimits::default().result as u64, value_parser = clap::value_parser!(u64).range(100..))]
    max_result_chars: u64,
    /// How long the model may say nothing
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = duration)]
    model_timeout: Duration,
    /// Another model than that of agent.json
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Another provider of Hugging Face's router
    #[arg(long, value_name = "NAME", conflicts_with = "endpoint_url")]
    provider: Option<String>,
    /// Another endpoint, like <http://localhost:8080/v1>
    #[arg(long, value_name = "URL")]
    endpoint_url: Option<String>,
}

impl RunArguments {
    fn mode(&self) -> Mode {
        match (self.direct, self.both) {
            (true, _) => Mode::Direct,
            (_, true) => Mode::Both,
            _ => Mode::Code,
        }
    }

    fn limits(&self) -> AgentLimits {
        AgentLimits {
            turns: usize::try_from(self.max_turns).unwrap_or(usize::MAX),
            result: usize::try_from(self.max_result_chars).unwrap_or(usize::MAX),
            stall: self.model_timeout,
        }
    }
}

/// Does it.
pub(super) fn execute(command: AgentCommand, options: &Options) -> Result<ExitCode, Problem> {
    let AgentCommand::Run(arguments) = command;
    let _settings = keyboard::Settings::keep();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let ended = runtime.block_on(async {
        let stops = Stops::listen()?;
        let mut early = stops.another()?;
        tokio::spawn(stops.another()?.insist());
        let (begun, has_begun) = oneshot::channel();
        let run = run(arguments, options, stops, begun);
        // Before there is a chat, whatever ends something ends everything.
        let stopped = async {
            let stop = early.next();
            tokio::select! {
                _ = stop => {}
                Ok(()) = has_begun => std::future::pending().await,
            }
        };
        tokio::select! {
            ended = run => ended,
            () = stopped => Ok(ExitCode::from(INTERRUPTED)),
        }
    });
    // What still runs, servers that are being started among it, ends when it is dropped.
    runtime.shutdown_timeout(END_TIMEOUT);
    ended
}

async fn run(
    arguments: RunArguments,
    options: &Options,
    stops: Stops,
    begun: oneshot::Sender<()>,
) -> Result<ExitCode, Problem> {
    let keyboard = Keyboard::start(std::io::stdin().is_terminal())?;
    let screen = Screen::new(arguments.json, arguments.prompt.is_some());
    let folder = AgentFolder::load(&arguments.path).await?;
    for remark in folder.remarks() {
        Screen::remark(&remark);
    }
    let overrides = Overrides {
        model: arguments.model.clone(),
        provider: arguments.provider.clone(),
        endpoint_url: arguments.endpoint_url.clone(),
    };
    if folder.origin == Origin::Hub && !arguments.yes {
        let shown = folder.configure(&InputValues::default(), &overrides)?;
        confirm_stranger(&folder.name, &shown, &keyboard).await?;
    }
    let values = ask_inputs(&folder.inputs(), &keyboard).await?;
    let mut config = folder.configure(&values, &overrides)?;
    add_servers(&mut config, options.servers()?);
    let servers = config.servers.iter();
    let names: Vec<&str> = servers.map(|server| server.config.name.as_str()).collect();
    config.policy = Arc::new(options.policy(&names)?);
    let (consent, wishes) = Consent::new(keyboard.has_person());
    let approval: Arc<dyn Approve> = if arguments.yes {
        Arc::new(AllowAll)
    } else {
        Arc::new(consent)
    };
    // Those of --mcp-config are the agent's, like the others.
    let settings = options.settings_with(Upstreams::default());
    let (mode, limits) = (arguments.mode(), arguments.limits());
    screen.wait(config.servers.len());
    let mut agent = Agent::start(config, mode, limits, approval, settings).await?;
    screen.greet(&folder.name, &agent);
    let mut chat = Chat {
        keyboard,
        screen,
        stops,
        wishes,
        always: HashSet::new(),
    };
    let _ = begun.send(());
    let ended = match arguments.prompt {
        Some(prompt) => chat.one(&mut agent, &task(prompt)?).await,
        None => chat.many(&mut agent).await,
    };
    agent.close().await;
    ended
}

fn task(prompt: String) -> Result<String, Problem> {
    let task = match prompt.as_str() {
        "-" => std::io::read_to_string(std::io::stdin())?,
        _ => prompt,
    };
    if task.trim().is_empty() {
        return Err("the task is empty; say what is to be done".into());
    }
    Ok(task)
}

/// Asks for what the configuration wants to know. An empty answer means the environment variable of that name.
async fn ask_inputs(inputs: &[Input], keyboard: &Keyboard) -> Result<InputValues, Problem> {
    let mut values = InputValues::default();
    for input in inputs {
        let variable = input.variable();
        let mut value = String::new();
        if keyboard.has_person() {
            let what = input.description.as_deref().unwrap_or(&input.id);
            let what = one_line(what, LONGEST_NAME);
            let variable = one_line(&variable, LONGEST_NAME);
            let question = format!("{what} [empty: the environment's {variable}]: ");
            let said = keyboard.ask(&question, input.password).await;
            said.ok_or("nothing was started")?
                .trim()
                .clone_into(&mut value);
        }
        if value.is_empty() {
            value = std::env::var(&variable).unwrap_or_default();
        }
        if value.is_empty() {
            Screen::remark(&format!(
                "the input `{}` is empty; set the environment variable {variable}",
                input.id
            ));
        }
        values.set(input, value);
    }
    Ok(values)
}

/// What somebody else wrote starts programs here: the user is to see which.
async fn confirm_stranger(
    name: &str,
    config: &AgentConfig,
    keyboard: &Keyboard,
) -> Result<(), Problem> {
    eprintln!(
        "The agent {} of the Hub wants to use:",
        one_line(name, LONGEST_NAME)
    );
    for server in &config.servers {
        let what = match &server.config.transport {
            Ok(Transport::Stdio {
                command, arguments, ..
            }) => format!("the program {command} {}", arguments.join(" ")),
            Ok(Transport::Http { url, .. } | Transport::Sse { url, .. }) => {
                format!("the server at {url}")
            }
            Err(reason) => reason.clone(),
        };
        eprintln!(
            "  {}: {}",
            server.config.name,
            one_line(&what, LONGEST_NAME)
        );
    }
    eprintln!(
        "  the model: {}",
        one_line(&format!("{:?}", config.endpoint), LONGEST_NAME)
    );
    if !keyboard.has_person() {
        return Err("nobody is there to ask whether that is fine; --yes says so".into());
    }
    let said = keyboard.ask("Start it? [y/N] ", false).await;
    match said.as_deref().map(str::trim) {
        Some("y" | "Y" | "yes") => Ok(()),
        _ => Err("nothing was started".into()),
    }
}

/// Adds servers of --mcp-config; a name that the agent has already gets a number.
fn add_servers(config: &mut AgentConfig, servers: Vec<ServerConfig>) {
    for mut server in servers {
        let is_taken = |name: &str| config.servers.iter().any(|known| known.config.name == name);
        let mut number = 2;
        let name = server.name.clone();
        while is_taken(&server.name) {
            server.name = format!("{name}_{number}");
            number += 1;
        }
        config.servers.push(AgentServer {
            config: server,
            allowed_tools: None,
        });
    }
}
