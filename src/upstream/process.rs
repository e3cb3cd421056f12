//! A server that is a process of its own, with everything that it starts.

use std::{
    collections::BTreeMap,
    io,
    path::Path,
    process::{ExitStatus, Stdio},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader},
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
    time::timeout,
};
use tokio_util::task::AbortOnDropHandle;

use super::secrets::Secrets;

/// How long a process has to end by itself once its input has ended, and again once it was asked to.
const PATIENCE: Duration = Duration::from_millis(500);

/// What every program needs; the rest of the environment may hold what is not for this server.
const PASSED_ON: [&str; 20] = [
    "HOME",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "LANG",
    "LC_ALL",
    "LOGNAME",
    "NODE_EXTRA_CA_CERTS",
    "NO_PROXY",
    "PATH",
    "REQUESTS_CA_BUNDLE",
    "SHELL",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
];

/// The longest line of standard error that is logged (bytes).
const LONGEST_LINE: u64 = 2000;

/// Of the last line this much is told (characters).
const LAST_LINE: usize = 300;

/// How long to wait for the last line of a process that has ended.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// A running process.
pub struct Process {
    child: Child,
    group: Option<Pid>,
}

/// Its ends.
pub struct Pipes {
    pub input: ChildStdin,
    pub output: ChildStdout,
    pub errors: ChildStderr,
}

impl Process {
    /// Starts a program in a process group of its own.
    ///
    /// # Errors
    /// When it can't be started.
    pub fn start(
        command: &str,
        arguments: &[String],
        environment: &BTreeMap<String, String>,
        folder: Option<&Path>,
    ) -> io::Result<(Self, Pipes)> {
        let passed_on =
            |name: &&str| std::env::var_os(name).map(|value| ((*name).to_owned(), value));
        let mut command = Command::new(command);
        command
            .args(arguments)
            .env_clear()
            .envs(PASSED_ON.iter().filter_map(passed_on))
            .envs(environment)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        if let Some(folder) = folder {
            command.current_dir(folder);
        }
        let mut child = command.spawn().map_err(|error| match folder {
            // The error is the same, whichever is missing.
            Some(folder) if !folder.is_dir() => {
                io::Error::other(format!("there is no folder `{}` (`cwd`)", folder.display()))
            }
            _ => error,
        })?;
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        let missing = || io::Error::other("a pipe is missing");
        let pipes = Pipes {
            input: child.stdin.take().ok_or_else(missing)?,
            output: child.stdout.take().ok_or_else(missing)?,
            errors: child.stderr.take().ok_or_else(missing)?,
        };
        let group = id.and_then(Pid::from_raw);
        Ok((Self { child, group }, pipes))
    }

    /// Waits until it has ended by itself.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Ends it: its input has been closed, then it is asked, then it is killed; and so is what it has
    /// started and left behind.
    pub async fn end(&mut self) {
        if timeout(PATIENCE, self.child.wait()).await.is_err() {
            self.signal(Signal::TERM);
            let _ = timeout(PATIENCE, self.child.wait()).await;
        }
        self.signal(Signal::KILL);
        let _ = self.child.wait().await;
        self.group = None;
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // It fails only where nobody is left.
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

/// Follows what a server says on standard error: logs it, a line at a time, the beginning of long ones, and keeps the
/// last line.
pub struct Errors {
    last: Arc<Mutex<String>>,
    reading: AbortOnDropHandle<()>,
}

impl Errors {
    /// Of the server `name`; what nobody may see is taken out.
    #[must_use]
    pub fn follow(name: &str, errors: ChildStderr, secrets: &Secrets) -> Self {
        let last = Arc::<Mutex<String>>::default();
        let reading = read_errors(name.to_owned(), errors, secrets.clone(), Arc::clone(&last));
        Self {
            last,
            reading: AbortOnDropHandle::new(tokio::spawn(reading)),
        }
    }

    /// The last line, of a server that has ended: it mostly says why.
    pub async fn last(&mut self) -> Option<String> {
        if !self.reading.is_finished() {
            // What it started may hold the pipe open.
            let _ = timeout(LAST_WORDS, &mut self.reading).await;
        }
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        (!last.is_empty()).then(|| last.clone())
    }
}

async fn read_errors(
    name: String,
    errors: ChildStderr,
    secrets: Secrets,
    last: Arc<Mutex<String>>,
) {
    let mut errors = BufReader::new(errors);
    let mut line = Vec::new();
    let mut is_beginning = true;
    loop {
        line.clear();
        let mut part = (&mut errors).take(LONGEST_LINE);
        match part.read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {
                let text = secrets.remove(String::from_utf8_lossy(&line).trim_end());
                tracing::info!(server = %name, "{}", text.escape_debug());
                if is_beginning && !text.trim().is_empty() {
                    let kept: String = text.trim().chars().take(LAST_LINE).collect();
                    *last.lock().unwrap_or_else(PoisonError::into_inner) =
                        kept.escape_debug().to_string();
                }
                is_beginning = line.ends_with(b"\n");
            }
        }
    }
}
