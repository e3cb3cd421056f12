//! A server that is a process of its own, with everything that it starts.

use std::{
    collections::BTreeMap,
    io,
    path::Path,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader},
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
    time::timeout,
};

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
        let mut child = command.spawn()?;
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

/// Logs what a server says on standard error, a line at a time; the beginning of long ones.
pub async fn log_errors(name: String, errors: ChildStderr) {
    let mut errors = BufReader::new(errors);
    let mut line = Vec::new();
    loop {
        line.clear();
        let mut part = (&mut errors).take(LONGEST_LINE);
        match part.read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {
                let text = String::from_utf8_lossy(&line);
                let text = text.trim_end().escape_debug();
                tracing::info!(server = %name, "{text}");
            }
        }
    }
}
