//! Promise: `callgate agent` works on a task with the tools of MCP servers, by Python or one by one, and says what came of
//! it; whatever its model, its tools and its user do.

mod support {
    pub mod agents;
    pub mod toolchain;
}

use std::{
    io::{BufRead as _, BufReader, Read as _},
    process::{Child, Command},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use support::agents::{Folder, ScriptedModel, code, end, of_type, run, start, stdio};

const ADD: &str = "import asyncio\n\
    sums = await asyncio.gather(*[add.aio(a=n, b=1) for n in range(3)])\n\
    [of['sum'] for of in sums]";

#[test]
fn the_model_writes_python_that_calls_the_tools_and_reads_what_it_returns() {
    let model = ScriptedModel::start(&json!([
        {"text": "I add. ✓ äöü", "tool_calls": code(ADD)["tool_calls"]},
        {"expect": {"last message contains": ["success", "3"]}, "text": "The sums are there."}
    ]));
    let folder = Folder::with_servers(&model.url, &json!([stdio("real.py", &[])]));
    // What is set for other clients does not concern this one.
    let ran = folder.run("Add some numbers.", &["--yes", "--callbacks", "resume"]);
    assert_eq!(
        (ran.code, ran.out.as_str()),
        (Some(0), "The sums are there.\n"),
        "{}",
        ran.log
    );
    let request = &model.requests()[0]["body"];
    assert_eq!(request["stream"], true);
    let tools: Vec<&Value> = request["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| &tool["function"]["name"])
        .collect();
    assert_eq!(tools, ["task_complete", "ask_question", "run_python_code"]);
    let description = request["tools"][2]["function"]["description"]
        .as_str()
        .unwrap();
    assert!(
        description.contains("def add(a: int, b: int = 10):"),
        "{description}"
    );
    let messages = model.messages();
    assert_eq!(
        messages[1],
        json!({"role": "user", "content": "Add some numbers."})
    );
    assert_eq!(messages[2]["content"], "I add. ✓ äöü");
    assert_eq!(
        messages[3]["tool_call_id"],
        messages[2]["tool_calls"][0]["id"]
    );
}

#[test]
fn events_tell_of_everything_as_it_happens() {
    let model = ScriptedModel::start(&json!([
        {"reasoning": "hm", "tool_calls": code(ADD)["tool_calls"], "usage": {"prompt_tokens": 100, "completion_tokens": 20}},
        {"text": "Done.", "usage": {"prompt_tokens": 150, "completion_tokens": 3}}
    ]));
    let folder = Folder::with_servers(&model.url, &json!([stdio("real.py", &[])]));
    let events = folder.events("Add.", &[]);
    assert_eq!(
        events[0],
        json!({"type": "server_up", "server": "real", "tools": 10})
    );
    let calls = of_type(&events, "call");
    assert_eq!(calls.len(), 3);
    assert!(calls.iter().all(|call| call["server"] == "real"
        && call["tool"] == "add"
        && call["from_code"] == true));
    assert_eq!(of_type(&events, "call_result").len(), 3);
    assert_eq!(of_type(&events, "code")[0]["code"], ADD);
    assert_eq!(of_type(&events, "code_result")[0]["status"], "success");
    assert_eq!(of_type(&events, "reasoning")[0]["text"], "hm");
    let end = end(&events);
    assert_eq!(end["reason"], "answered");
    assert_eq!(end["answer"], "Done.");
    assert_eq!((&end["turns"], &end["calls"]), (&json!(2), &json!(3)));
    assert_eq!(
        end["usage"],
        json!({"prompt_tokens": 250, "completion_tokens": 23})
    );
}

#[test]
fn calls_of_one_program_run_side_by_side_on_many_servers() {
    let program = "import asyncio, time\nstart = time.monotonic()\n\
        await asyncio.gather(*[getattr(mcp, s).sleep.aio(seconds=0.5) for s in ('real', 'real_2', 'real_3') for _ in range(3)])\n\
        time.monotonic() - start < 3";
    let model = ScriptedModel::start(&json!([
        code(program),
        {"expect": {"last message contains": "true"}, "text": "Side by side."}
    ]));
    let servers = json!([
        stdio("real.py", &[]),
        stdio("real.py", &[]),
        stdio("real.py", &[])
    ]);
    let ran = Folder::with_servers(&model.url, &servers).run("x", &["--yes"]);
    assert_eq!(
        ran.out,
        "Side by side.\n",
        "{}\n{:?}",
        ran.log,
        model.messages()
    );
}

#[test]
fn one_by_one_and_both_are_there_too_and_names_that_clash_are_told_apart() {
    let servers = json!([
        stdio("bad.py", &["tells its name", "first"]),
        stdio("bad.py", &["tells its name", "second"])
    ]);
    let calls = json!({"tool_calls": [{"name": "call", "arguments": {}}, {"name": "bad_2_call", "arguments": {}}]});
    let model = ScriptedModel::start(&json!([calls, {"text": "Both."}]));
    let ran = Folder::with_servers(&model.url, &servers).run("x", &["--yes", "--direct"]);
    assert_eq!(ran.out, "Both.\n", "{}", ran.log);
    let messages = model.messages();
    assert!(
        messages[3]["content"]
            .as_str()
            .unwrap()
            .starts_with("first")
    );
    assert!(
        messages[4]["content"]
            .as_str()
            .unwrap()
            .starts_with("second")
    );
    let names = |request: &Value| -> Vec<String> {
        let tools = request["body"]["tools"].as_array().unwrap().iter();
        tools
            .map(|tool| tool["function"]["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(
        names(&model.requests()[0]),
        ["task_complete", "ask_question", "call", "bad_2_call"]
    );

    let program = "mcp.bad.call()[:5] + mcp.bad_2.call()[:6]";
    let model = ScriptedModel::start(&json!([
        code(program), {"expect": {"last message contains": "firstsecond"}, "text": "Both again."}
    ]));
    let ran = Folder::with_servers(&model.url, &servers).run("x", &["--yes", "--both"]);
    assert_eq!(ran.out, "Both again.\n", "{}", ran.log);
    let expected = [
        "task_complete",
        "ask_question",
        "run_python_code",
        "call",
        "bad_2_call",
    ];
    assert_eq!(names(&model.requests()[0]), expected);
}

#[test]
fn the_model_ends_its_turn_by_an_answer_or_by_an_exit_tool() {
    for (tool, reason) in [
        ("task_complete", "task_complete"),
        ("ask_question", "ask_question"),
    ] {
        let model = ScriptedModel::start(&json!([
            {"text": "Here you are.", "tool_calls": [
                {"name": "echo", "arguments": {"text": "1"}}, {"name": tool, "arguments": {}}, {"name": "echo", "arguments": {"text": "2"}}]}
        ]));
        let folder = Folder::with_servers(&model.url, &json!([stdio("real.py", &[])]));
        let events = folder.events("x", &["--direct"]);
        assert_eq!(end(&events)["reason"], reason);
        assert_eq!(end(&events)["answer"], "Here you are.");
        assert_eq!(
            of_type(&events, "call").len(),
            2,
            "what was called beside it is called"
        );
    }
}

#[test]
fn a_model_that_never_ends_is_stopped() {
    let turns: Vec<Value> = (0..10).map(|_| code("1")).collect();
    let model = ScriptedModel::start(&json!(turns));
    let folder = Folder::with_servers(&model.url, &json!([]));
    let ran = folder.run("x", &["--max-turns", "3"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.log.contains("--max-turns"), "{}", ran.log);
    assert_eq!(model.requests().len(), 3);
}

#[test]
fn mistakes_of_the_model_are_told_to_it() {
    let model = ScriptedModel::start(&json!([
        {"tool_calls": [
            {"name": "no_such", "arguments": {}}, {"name": "echo", "arguments": "{\"text\": "},
            {"name": "echo", "arguments": "[1]"}, {"name": "run_python_code", "arguments": {"code": "1"}},
            {"name": "run_python_code", "arguments": {"python_code": "1/0"}}, {"name": "echo", "arguments": {"text": 5}}]},
        {"text": "Sorry."}
    ]));
    let folder = Folder::with_servers(&model.url, &json!([stdio("real.py", &[])]));
    let ran = folder.run("x", &["--yes", "--both"]);
    assert_eq!(ran.out, "Sorry.\n", "{}", ran.log);
    let messages = model.messages();
    let contents: Vec<&str> = messages[3..]
        .iter()
        .map(|message| message["content"].as_str().unwrap())
        .collect();
    for (content, expected) in contents.iter().zip([
        "there is no tool `no_such`; there are: task_complete,",
        "the arguments are not JSON",
        "the arguments of a call are a JSON object",
        "give the program as `python_code`",
        "ZeroDivisionError",
        "Error",
    ]) {
        assert!(content.contains(expected), "{content}");
    }
    assert_eq!(contents.len(), 6);
}

#[test]
fn a_server_that_fails_ends_nothing_but_itself() {
    let model = ScriptedModel::start(&json!([
        code("try:\n    die()\nexcept ToolCallError as error:\n    print(error)\ncall_mcp_tool('real', 'echo', text='still here')"),
        {"expect": {"last message contains": "still here"}, "text": "Fine."}
    ]));
    let servers = json!([stdio("bad.py", &["exits"]), stdio("real.py", &[]), {"type": "http", "url": "http://127.0.0.1:1/mcp"},
        {"type": "stdio", "command": "/no/such/program"}]);
    let folder = Folder::with_servers(&model.url, &servers);
    let events = folder.events("x", &[]);
    let down = of_type(&events, "server_down");
    assert_eq!(down.len(), 3, "{events:?}");
    let reasons: String = down
        .iter()
        .map(|event| event["reason"].as_str().unwrap())
        .collect();
    assert!(
        reasons.contains("can't be started") && reasons.contains("it ended before it answered"),
        "{reasons}"
    );
    assert_eq!(end(&events)["answer"], "Fine.", "{events:?}");
}

#[test]
fn long_results_are_cut() {
    let model = ScriptedModel::start(&json!([
        code("print('begin', 'x' * 100_000, 'end')"), {"text": "Long."},
    ]));
    let folder = Folder::with_servers(&model.url, &json!([]));
    folder.run("x", &["--max-result-chars", "1000"]);
    let content = model.messages()[3]["content"].as_str().unwrap().to_owned();
    assert!(content.chars().count() < 1200, "{}", content.len());
    assert!(
        content.contains("begin")
            && content.contains("end")
            && content.contains("are left out here"),
        "{content}"
    );
}

#[test]
fn tools_with_side_effects_are_not_called_unasked() {
    let script = json!([
        code("try:\n    echo(text='x')\nexcept ToolCallError as error:\n    print('refused:', error)"), {"text": "{{last}}"}
    ]);
    let model = ScriptedModel::start(&script);
    let servers = json!([stdio("real.py", &[])]);
    let ran = Folder::with_servers(&model.url, &servers).run("x", &[]);
    assert!(
        ran.out.contains("refused:") && ran.out.contains("--yes"),
        "{ran:?}"
    );
    let model = ScriptedModel::start(&script);
    let ran = Folder::with_servers(&model.url, &servers).run("x", &["--yes"]);
    assert!(
        ran.out.contains("success") && !ran.out.contains("refused:"),
        "{ran:?}"
    );
}

#[test]
fn a_chat_keeps_its_history_and_ends_with_its_input() {
    let model = ScriptedModel::start(&json!([{"text": "One."}, {"text": "Two."}]));
    let folder = Folder::with_servers(&model.url, &json!([]));
    let ran = run(folder.path(), &[], "first\n\n  \nsecond", &[]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(
        ran.out.contains("One.") && ran.out.contains("Two."),
        "{}",
        ran.out
    );
    assert!(
        !ran.out.contains('\u{1b}'),
        "no colours in a pipe: {:?}",
        ran.out
    );
    let messages = model.messages();
    let said: Vec<&str> = messages[1..]
        .iter()
        .map(|message| message["content"].as_str().unwrap())
        .collect();
    assert_eq!(said, ["first", "One.", "second"]);
}

#[test]
fn what_would_move_the_cursor_is_not_shown() {
    let model = ScriptedModel::start(&json!([{"text": "a\u{1b}[2Jb\u{7}"}]));
    let folder = Folder::with_servers(&model.url, &json!([]));
    let ran = run(folder.path(), &[], "x", &[]);
    assert!(ran.out.contains("a[2Jb"), "{:?}", ran.out);
}

fn interrupt(process: &Child) {
    let id = process.id().to_string();
    let sent = Command::new("kill").args(["-INT", &id]).status();
    assert!(sent.expect("kill runs").success());
}

fn wait(process: &mut Child) -> Option<i32> {
    let deadline = Instant::now() + Duration::from_mins(1);
    loop {
        if let Some(status) = process.try_wait().expect("it can be waited for") {
            return status.code();
        }
        assert!(Instant::now() < deadline, "it does not end");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn ctrl_c_stops_the_turn_and_a_second_one_leaves() {
    use std::io::Write as _;
    let model = ScriptedModel::start(&json!([
        {"text": "Half of what I want to say", "stall": 100}, code("while True: pass"), {"text": "Back again."}
    ]));
    let folder = Folder::with_servers(&model.url, &json!([]));
    let mut process = start(folder.path(), &[], &[]);
    let mut input = process.stdin.take().unwrap();
    let mut output = BufReader::new(process.stdout.take().unwrap());
    let mut until = |part: &str| {
        let mut seen = Vec::new();
        while !String::from_utf8_lossy(&seen).contains(part) {
            let mut byte = [0];
            assert_ne!(
                output.read(&mut byte).unwrap(),
                0,
                "{}",
                String::from_utf8_lossy(&seen)
            );
            seen.push(byte[0]);
        }
    };
    writeln!(input, "first").unwrap();
    until("Half");
    interrupt(&process);
    until("interrupted");
    writeln!(input, "second").unwrap();
    until("while True");
    std::thread::sleep(Duration::from_millis(300));
    interrupt(&process);
    until("interrupted");
    writeln!(input, "third").unwrap();
    // Only then the next one is not for this turn.
    until("Back again.");
    until("1 turn");
    let messages = model.messages();
    let roles: Vec<&str> = messages
        .iter()
        .map(|message| message["role"].as_str().unwrap())
        .collect();
    assert_eq!(
        roles,
        [
            "system",
            "user",
            "assistant",
            "user",
            "assistant",
            "tool",
            "assistant",
            "user"
        ]
    );
    assert!(
        messages[2]["content"].as_str().unwrap().starts_with("Half"),
        "{messages:?}"
    );
    interrupt(&process);
    let mut log = BufReader::new(process.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("Ctrl-C again") {
        line.clear();
        assert_ne!(log.read_line(&mut line).unwrap(), 0);
    }
    interrupt(&process);
    assert_eq!(wait(&mut process), Some(130));
}

#[test]
fn ctrl_c_ends_a_single_task() {
    let model = ScriptedModel::start(&json!([code("while True: pass")]));
    let folder = Folder::with_servers(&model.url, &json!([stdio("real.py", &[])]));
    let mut process = start(folder.path(), &["--prompt", "x", "--json"], &[]);
    let mut output = BufReader::new(process.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains(r#""type":"code""#) {
        line.clear();
        assert_ne!(output.read_line(&mut line).unwrap(), 0);
    }
    interrupt(&process);
    assert_eq!(wait(&mut process), Some(130));
}

#[test]
fn ctrl_c_ends_it_though_nobody_reads_what_it_says() {
    let model = ScriptedModel::start(
        &json!([{"text": "x".repeat(1_000_000), "cut": 65536, "fragment": 1000}]),
    );
    let folder = Folder::with_servers(&model.url, &json!([]));
    let mut process = start(folder.path(), &["--prompt", "x", "--json"], &[]);
    // The pipe is full by now.
    std::thread::sleep(Duration::from_secs(2));
    interrupt(&process);
    assert_eq!(wait(&mut process), Some(130));
}
