//! Promise: folders made for tiny-agents load unchanged, and mistakes in them are told with the place and the fix.

mod support {
    pub mod agents;
    pub mod toolchain;
}

use std::{
    fs,
    process::{Child, Command, Stdio},
};

use serde_json::{Value, json};
use support::agents::{Folder, Listening, ScriptedModel, end, filled, of_type, run};

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/agents");

/// The names of the servers that came up, and the rest of the events.
fn up(events: &[Value]) -> Vec<&str> {
    of_type(events, "server_up")
        .iter()
        .map(|event| event["server"].as_str().unwrap())
        .collect()
}

#[test]
fn folders_of_tiny_agents_load_unchanged() {
    let http = Listening::start("current", "real.py");
    let sse = Listening::start("previous", "legacy.py");
    for (name, origin, servers) in [
        ("minimal", "", 1),
        ("python", &*http.origin, 1),
        ("javascript", &*http.origin, 2),
        ("comments", "", 1),
        ("prompts", "", 0),
        ("http", &*http.origin, 1),
        ("sse", &*sse.origin, 1),
        ("clash", "", 2),
        ("odd_tools", "", 1),
        ("both", "", 0),
    ] {
        let model = ScriptedModel::start(&json!([{"text": "Loaded."}]));
        let folder = Folder::fixture(name, &model.url, origin);
        let ran = run(
            folder.path(),
            &["--prompt", "x", "--json", "--yes"],
            "",
            &[],
        );
        let events = ran.events();
        assert_eq!(end(&events)["answer"], "Loaded.", "{name}: {ran:?}");
        assert!(up(&events).len() >= servers, "{name}: {events:?}");
        assert!(
            of_type(&events, "server_down").is_empty(),
            "{name}: {events:?}"
        );
    }
}

#[test]
fn the_shape_of_before_loads_too() {
    let http = Listening::start("current", "real.py");
    let model = ScriptedModel::start(&json!([{"text": "Loaded."}]));
    let folder = Folder::fixture("nested", &model.url, &http.origin);
    let ran = run(
        folder.path(),
        &["--prompt", "x", "--json", "--yes"],
        "",
        &[("TOKEN", "t-2718")],
    );
    let events = ran.events();
    assert_eq!(up(&events).len(), 2, "{ran:?}");
    let down = of_type(&events, "server_down");
    assert_eq!(down.len(), 1, "nobody speaks SSE there: {events:?}");
}

#[test]
fn the_prompt_is_the_system_message_first_and_unchanged() {
    let model = ScriptedModel::start(&json!([{"text": "1"}, {"text": "2"}, {"text": "3"}]));
    let folder = Folder::with_servers(&model.url, &json!([]));
    let prompt = "You are  a pirate. 🏴‍☠️\n\nAlways say arr.\n\n";
    let system = || model.messages()[0].clone();
    folder.write("AGENTS.md", "Not this one.");
    let prompt_file = folder.write("PROMPT.md", prompt);
    folder.run("x", &[]);
    assert_eq!(system(), json!({"role": "system", "content": prompt}));
    fs::remove_file(prompt_file).unwrap();
    folder.run("x", &[]);
    assert_eq!(system()["content"], "Not this one.");
    // A file alone has no prompt beside it.
    run(
        &folder.path().join("agent.json"),
        &["--prompt", "x"],
        "",
        &[],
    );
    assert!(
        system()["content"]
            .as_str()
            .unwrap()
            .starts_with("You are an agent.")
    );
}

#[test]
fn inputs_are_substituted_and_never_shown() {
    let http = Listening::start("current", "real.py");
    let model = ScriptedModel::start(&json!([
        support::agents::code("mcp.real.environment()"), {"expect": {"last message contains": "TOKEN"}, "text": "Done."}
    ]));
    let folder = Folder::fixture("inputs", &model.url, &http.origin);
    let values = [("MODEL_KEY", "k-161803"), ("TOKEN", "t-271828")];
    let arguments = ["--prompt", "x", "--json", "--yes", "--log", "debug"];
    let ran = run(folder.path(), &arguments, "", &values);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(
        ran.log.contains("nothing uses the input `never-used`"),
        "{}",
        ran.log
    );
    assert!(
        ran.log.contains("there is no input `not-defined`"),
        "{}",
        ran.log
    );
    assert_eq!(model.requests()[0]["authorization"], "Bearer k-161803");
    for (_, secret) in values {
        assert!(
            !ran.log.contains(secret) && !ran.out.contains(secret),
            "{ran:?}"
        );
    }
    let empty = run(folder.path(), &["--prompt", "x"], "", &[]);
    assert!(
        empty.log.contains("set the environment variable MODEL_KEY"),
        "{}",
        empty.log
    );
}

#[test]
fn only_the_tools_that_the_agent_may_have_are_there() {
    let model = ScriptedModel::start(&json!([
        {"tool_calls": [{"name": "echo", "arguments": {"text": "x"}}, {"name": "add", "arguments": {"a": 1}}]}, {"text": "."}
    ]));
    let mut server = support::agents::stdio("real.py", &[]);
    server["allowed_tools"] = json!(["add", "no_such"]);
    let folder = Folder::with_servers(&model.url, &json!([server]));
    let ran = folder.run("x", &["--yes", "--direct"]);
    let messages = model.messages();
    assert!(
        messages[3]["content"]
            .as_str()
            .unwrap()
            .contains("there is no tool `echo`"),
        "{ran:?}"
    );
    assert!(
        messages[4]["content"].as_str().unwrap().contains("11"),
        "{messages:?}"
    );
}

#[test]
fn mistakes_are_told_with_the_place_and_the_fix() {
    let model = "http://127.0.0.1:1/v1";
    for (file, expected) in [
        ("a_list", "not an agent: It should look like"),
        ("empty", "not an agent: It should look like"),
        ("env_type", "`servers[0].env.PORT`"),
        (
            "model_type",
            "`model`: invalid type: integer, expected a string",
        ),
        ("no_command", "`servers[0].command` is missing"),
        ("no_model", "`model` is missing; name the model"),
        ("no_url", "`servers[0].url` is missing"),
        (
            "server_kind",
            r#"`servers[0].type`: there is no kind `websocket`; write "stdio", "http" or "sse""#,
        ),
        (
            "servers_type",
            "`servers`: invalid type: map, expected a sequence",
        ),
        ("syntax", "not JSON: Expected comma"),
    ] {
        let text = fs::read_to_string(format!("{FIXTURES}/wrong/{file}.json")).unwrap();
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("agent.json"), filled(&text, model, "")).unwrap();
        let ran = run(folder.path(), &["--prompt", "x"], "", &[]);
        assert_eq!(ran.code, Some(1), "{file}: {ran:?}");
        assert!(ran.log.contains(expected), "{file}: {}", ran.log);
        assert!(ran.log.contains("agent.json"), "{file}: {}", ran.log);
    }
    // What the originals refuse and makes sense: no list of servers, no kind where the rest says it.
    let model = ScriptedModel::start(&json!([{"text": "a"}, {"text": "b"}]));
    for file in ["no_servers", "input_without_description"] {
        let text = fs::read_to_string(format!("{FIXTURES}/wrong/{file}.json")).unwrap();
        let folder = tempfile::tempdir().unwrap();
        fs::write(
            folder.path().join("agent.json"),
            filled(&text, &model.url, ""),
        )
        .unwrap();
        assert_eq!(
            run(folder.path(), &["--prompt", "x"], "", &[]).code,
            Some(0),
            "{file}"
        );
    }
}

#[test]
fn a_path_that_is_none_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let ran = run(folder.path(), &["--prompt", "x"], "", &[]);
    assert!(ran.log.contains("there is no agent.json in"), "{}", ran.log);
    let ran = run(&folder.path().join("missing"), &["--prompt", "x"], "", &[]);
    assert!(
        ran.log.contains("there is no folder and no file"),
        "{}",
        ran.log
    );
}

/// A Hub with one agent, until it is dropped.
struct Hub {
    process: Child,
    _folder: tempfile::TempDir,
    url: String,
}

impl Hub {
    fn start(agent: &Value) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let place = folder
            .path()
            .join("datasets/tiny-agents/tiny-agents/resolve/main/somebody/helper");
        fs::create_dir_all(&place).unwrap();
        fs::write(place.join("agent.json"), agent.to_string()).unwrap();
        fs::write(place.join("PROMPT.md"), "You help.").unwrap();
        let port = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let process = Command::new("python3")
            .args([
                "-m",
                "http.server",
                "--bind",
                "127.0.0.1",
                &port.to_string(),
            ])
            .current_dir(folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        Self {
            process,
            _folder: folder,
            url: format!("http://127.0.0.1:{port}"),
        }
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_name_is_an_agent_of_the_hub() {
    let model = ScriptedModel::start(&json!([{"text": "From the Hub."}]));
    let server = support::agents::stdio("real.py", &[]);
    let hub = Hub::start(&json!({"model": "m", "endpointUrl": model.url, "servers": [server]}));
    let named = |name: &str, more: &[&str], hub: &str| {
        run(
            std::path::Path::new(name),
            &[&["--prompt", "x"], more].concat(),
            "",
            &[("HF_ENDPOINT", hub)],
        )
    };
    let ran = named("somebody/helper", &["--yes"], &hub.url);
    assert_eq!(ran.out, "From the Hub.\n", "{ran:?}");
    assert_eq!(model.messages()[0]["content"], "You help.");
    // What somebody else wrote starts nothing unasked.
    let ran = named("somebody/helper", &[], &hub.url);
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.log.contains("wants to use")
            && ran.log.contains("real.py")
            && ran.log.contains("--yes"),
        "{}",
        ran.log
    );
    let ran = named("somebody/else", &["--yes"], &hub.url);
    assert!(
        ran.log
            .contains("the Hub's collection of agents has none of that name"),
        "{}",
        ran.log
    );
    let ran = named("somebody/helper", &["--yes"], "http://127.0.0.1:1");
    assert!(ran.log.contains("is there a network?"), "{}", ran.log);
}
