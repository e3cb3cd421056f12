//! `callgate run`: the sandbox from a shell.

use std::{
    io::{self, Read as _, Write as _},
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
};

use clap::Args;
use tokio_util::sync::CancellationToken;

use super::{Options, Problem, progress::Bar};
use crate::{
    gate::{
        Batch, Gate, OfferedTools, Program, Roads, Route, RouteAnswer, RouteError, TimedRoute,
        ToolCall,
    },
    image::{Image, Store},
    sandbox::{Pause, Run, Sandbox, Transcript},
    server::{Pieces, RunOutcome, Settings, UpstreamRoad, UpstreamServers, value_text},
    wasi::Stream,
};

/// Exit code after a time limit, as `timeout` has it.
const TIMED_OUT: u8 = 124;

/// What to run.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("program").required(true))]
pub struct RunArguments {
    /// A file with Python code, or `-` for standard input
    #[arg(value_name = "FILE", group = "program")]
    file: Option<PathBuf>,
    /// The code itself
    #[arg(
        short,
        value_name = "CODE",
        group = "program",
        allow_hyphen_values = true
    )]
    code: Option<String>,
}

/// Runs the program: output as it comes, the value of the last expression on standard output, a
/// traceback on standard error.
pub(super) fn execute(arguments: RunArguments, options: &Options) -> Result<ExitCode, Problem> {
    let source = source(arguments)?;
    let mut settings = options.settings()?;
    settings.capacity.runs = 1;
    let store = Store::open(settings.cache.clone())?;
    let image = Image::ensure(&store, &settings.recipe, &Bar::new())?;
    let sandbox = Sandbox::new(&image, settings.capacity)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let outcome = runtime.block_on(async {
        settings.upstreams.settle();
        let outcome = run(&sandbox, source, &settings).await;
        settings.upstreams.close().await;
        outcome
    });
    Ok(show(&outcome))
}

fn source(arguments: RunArguments) -> Result<String, Problem> {
    if let Some(code) = arguments.code {
        return Ok(code);
    }
    let file = arguments.file.unwrap_or_else(|| PathBuf::from("-"));
    let mut bytes = Vec::new();
    if file.as_os_str() == "-" {
        io::stdin().lock().read_to_end(&mut bytes)?;
    } else {
        bytes = std::fs::read(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    String::from_utf8(bytes)
        .map_err(|error| format!("{} is not UTF-8: {error}", file.display()).into())
}

async fn run(sandbox: &Sandbox, source: String, settings: &Settings) -> RunOutcome {
    let program = Program {
        source,
        tools: Vec::new(),
        offered: OfferedTools::default(),
        global_variables: serde_json::Map::new(),
    };
    let stop = CancellationToken::new();
    let gate = Arc::new(Gate::new(
        program,
        Roads {
            route: Arc::new(UpstreamOnly(TimedRoute {
                route: Arc::new(UpstreamRoad(Arc::clone(&settings.upstreams))),
                timeout: settings.call_limits.tool_timeout,
            })),
            batch: Batch::new(),
            servers: Arc::new(UpstreamServers(Arc::clone(&settings.upstreams))),
            memory: sandbox.host_memory(),
        },
        settings.call_limits.clone(),
        stop.clone(),
    ));
    let transcript = Transcript::new(settings.max_output, Some(Box::new(show_live)));
    let report = sandbox
        .run(Run {
            host_calls: Arc::clone(&gate) as _,
            output: Box::new(transcript.clone()),
            limits: settings.limits.clone(),
            stop,
            pause: Pause::new(),
        })
        .await;
    let calls = gate.close();
    let pieces = Pieces {
        report,
        finish: gate.finish(),
        stopped: gate.stopped(),
        calls,
        printed: transcript.printed(),
    };
    RunOutcome::new(pieces, settings)
}

fn show_live(stream: Stream, bytes: &[u8]) {
    // A reader that went away (`callgate run … | head`) is no error of the program.
    let _ = match stream {
        Stream::Stdout => io::stdout()
            .write_all(bytes)
            .and_then(|()| io::stdout().flush()),
        Stream::Stderr => io::stderr().write_all(bytes),
    };
}

fn show(outcome: &RunOutcome) -> ExitCode {
    if outcome.printed.truncated {
        eprintln!("callgate: the output was cut at its limit (--max-output)");
    }
    let Some(error) = &outcome.error else {
        if let Some(text) = value_text(&outcome.return_value) {
            let _ = writeln!(io::stdout(), "{text}");
        }
        return ExitCode::SUCCESS;
    };
    if let Some(code) = outcome.exit_code {
        // What the system keeps of an exit code is its low byte.
        return ExitCode::from(code.to_le_bytes()[0]);
    }
    eprintln!("{}", error.text().trim_end());
    match error.kind.as_str() {
        "cpu_limit" | "time_limit" => ExitCode::from(TIMED_OUT),
        _ => ExitCode::FAILURE,
    }
}

/// Nobody is there to answer but the operator's servers.
struct UpstreamOnly(TimedRoute);

impl Route for UpstreamOnly {
    fn call(&self, call: ToolCall) -> RouteAnswer {
        if call.is_upstream {
            return self.0.call(call);
        }
        let reason = "`callgate run` offers no tools".to_owned();
        Box::pin(std::future::ready(Err(RouteError::NotSent(reason))))
    }

    fn withdraw(&self, request_id: &str, reason: &str) {
        self.0.withdraw(request_id, reason);
    }
}
