//! The callgate binary: where it is, and that it is ready.

use std::{
    env,
    error::Error,
    path::{Path, PathBuf},
    process::Stdio,
};

use tokio::process::Command;

/// Names another binary than the one of this build.
const OVERRIDE: &str = "CALLGATE_BIN";

/// The folder that cargo builds into, such as `target/debug`: this example is in its `examples`.
///
/// # Errors
/// When the example has been moved elsewhere.
pub fn build_folder() -> Result<PathBuf, Box<dyn Error>> {
    let example = env::current_exe()?;
    let folder = example.parent().and_then(Path::parent);
    Ok(folder
        .ok_or("the example is not where cargo puts examples")?
        .to_owned())
}

/// The path of the binary. `cargo run --example` does not build it, so this does.
///
/// # Errors
/// When it can't be built.
pub async fn binary() -> Result<PathBuf, Box<dyn Error>> {
    if let Some(path) = env::var_os(OVERRIDE) {
        return Ok(path.into());
    }
    let folder = build_folder()?;
    let binary = folder.join(format!("callgate{}", env::consts::EXE_SUFFIX));
    build(&folder, binary.exists())
        .await
        .map_err(|problem| format!("{problem}; {OVERRIDE} can name a callgate that is there"))?;
    Ok(binary)
}

/// Builds the binary into `folder`; quick if it is fresh.
async fn build(folder: &Path, quiet: bool) -> Result<(), Box<dyn Error>> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .args(["build", "--bin", "callgate"])
        // With the example, the libraries have the features that they already are built with.
        .args(["--example", "news_agent"])
        .args([
            "--manifest-path",
            concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"),
        ]);
    match folder.file_name().and_then(|name| name.to_str()) {
        None | Some("debug") => {}
        Some(profile) => {
            command.args(["--profile", profile]);
        }
    }
    if let Some(target) = folder.parent() {
        command.arg("--target-dir").arg(target);
    }
    if quiet {
        command.arg("--quiet");
    }
    run(command, "building callgate").await
}

/// Makes the runtime image unless it is there. The server would, too, but without showing progress.
///
/// # Errors
/// When it can't be made.
pub async fn prepare_image(binary: &Path) -> Result<(), Box<dyn Error>> {
    let mut command = Command::new(binary);
    command.args(["image", "build"]);
    run(command, "preparing the runtime image").await
}

/// Runs a command whose progress the user sees.
async fn run(mut command: Command, what: &str) -> Result<(), Box<dyn Error>> {
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let status = command
        .status()
        .await
        .map_err(|error| format!("{what} did not start: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{what} failed ({status})").into())
    }
}
