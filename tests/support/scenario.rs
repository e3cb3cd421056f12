//! One task, twenty calls over three servers: every customer of a plan gets a mail with tomorrow's weather. The model is
//! scripted, the servers, the sandbox and the agent are real.
#![allow(dead_code, reason = "the test and the bench use their own parts")]

use serde_json::{Value, json};

use super::agents::{Folder, ScriptedModel, code, end, of_type, stdio};

/// Calls that the task takes.
pub const CALLS: u64 = 20;

const TASK: &str = "Send every customer of the gold plan a mail with tomorrow's weather in their city, then check that \
     all mails are out.";

/// What a model writes for it in code mode.
const PROGRAM: &str = r#"import asyncio

people = mcp.crm.customers(plan="gold")
weather = await asyncio.gather(*[mcp.weather.forecast.aio(city=person["city"]) for person in people])
await asyncio.gather(*[
    mcp.mail.send.aio(
        to=person["mail"],
        subject=f"Tomorrow in {person['city']}",
        text=f"Dear {person['name']}, expect {day['minimum']} to {day['maximum']} degrees"
        + (f" and {day['rain']} mm of rain." if day["rain"] else " and no rain."),
    )
    for person, day in zip(people, weather)
])
print(len(mcp.mail.sent()), "mails are out")
"#;

const CITIES: [&str; 9] = [
    "Oslo", "Lima", "Cairo", "Quito", "Hanoi", "Perth", "Dakar", "Turin", "Ghent",
];

/// How the model works on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// One program.
    Code,
    /// The tools one by one, those that can be called together in one turn.
    DirectTogether,
    /// The tools one by one, one a turn.
    DirectOneByOne,
}

/// What it took.
#[derive(Debug)]
pub struct Took {
    pub turns: u64,
    pub calls: u64,
    pub read: u64,
    pub written: u64,
    pub milliseconds: f64,
}

/// Does the task; the model begins each answer after `wait` seconds.
pub fn work(way: Way, wait: f64) -> Took {
    let model = ScriptedModel::start(&script(way, wait));
    let server = |name: &str| {
        let mut server = stdio("shop.py", &[name]);
        server["name"] = json!(name);
        server
    };
    let folder = Folder::with_servers(
        &model.url,
        &json!([server("crm"), server("weather"), server("mail")]),
    );
    let mode: &[&str] = if way == Way::Code { &[] } else { &["--direct"] };
    let events = folder.events(TASK, mode);
    let end = end(&events);
    assert_eq!(end["answer"], "All 9 mails are out.", "{events:?}");
    let sent = of_type(&events, "call")
        .iter()
        .filter(|call| call["tool"] == "send")
        .count();
    assert_eq!(sent, CITIES.len());
    Took {
        turns: end["turns"].as_u64().expect("a number"),
        calls: end["calls"].as_u64().expect("a number"),
        read: end["usage"]["prompt_tokens"].as_u64().expect("a number"),
        written: end["usage"]["completion_tokens"]
            .as_u64()
            .expect("a number"),
        milliseconds: end["duration_ms"].as_f64().expect("a number"),
    }
}

fn script(way: Way, wait: f64) -> Value {
    let answer = json!({"expect": {"messages contain": "ghent@example.com"}, "text": "All 9 mails are out."});
    let mut turns = match way {
        Way::Code => vec![
            code(PROGRAM),
            json!({"expect": {"last message contains": "9 mails are out"}, "text": "All 9 mails are out."}),
        ],
        Way::DirectTogether => {
            let together = |calls: Vec<Value>| json!({"tool_calls": calls});
            vec![
                together(vec![customers()]),
                together(CITIES.map(forecast).to_vec()),
                together(CITIES.map(send).to_vec()),
                together(vec![sent()]),
                answer,
            ]
        }
        Way::DirectOneByOne => {
            let calls = [
                vec![customers()],
                CITIES.map(forecast).to_vec(),
                CITIES.map(send).to_vec(),
                vec![sent()],
            ]
            .concat();
            let turns = calls.into_iter().map(|call| json!({"tool_calls": [call]}));
            turns.chain([answer]).collect()
        }
    };
    for turn in &mut turns {
        turn["wait"] = json!(wait);
        turn["cut"] = json!(4096);
    }
    json!(turns)
}

fn customers() -> Value {
    json!({"name": "customers", "arguments": {"plan": "gold"}})
}

fn forecast(city: &str) -> Value {
    json!({"name": "forecast", "arguments": {"city": city}})
}

fn send(city: &str) -> Value {
    let text = format!("Dear Customer of {city}, expect 10 to 21 degrees and some rain.");
    let subject = format!("Tomorrow in {city}");
    json!({"name": "send", "arguments": {"to": format!("{}@example.com", city.to_lowercase()), "subject": subject, "text": text}})
}

fn sent() -> Value {
    json!({"name": "sent", "arguments": {}})
}
