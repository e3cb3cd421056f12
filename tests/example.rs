//! Promise: the example that the README begins with works, with real tools, and does what it says.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

// The tools' own tests run here: cargo does not run those of an example.
#[path = "../examples/news_agent/database.rs"]
mod database;
#[path = "../examples/news_agent/date.rs"]
mod date;
#[path = "../examples/news_agent/outbox.rs"]
mod outbox;
#[path = "../examples/news_agent/search.rs"]
mod search;

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::SystemTime,
};

use rusqlite::Connection;
use serde_json::{Value, json};

const CALLGATE: &str = env!("CARGO_BIN_EXE_callgate");
const NEWS: &str = include_str!("../fixtures/news.jsonl");
const CUSTOMERS: &str = include_str!("../fixtures/customers.sql");

/// The program looks this far back: today is 2026-03-16.
const EARLIEST: &str = "2026-03-02";

#[test]
fn every_enterprise_customer_gets_the_news_of_its_industry() {
    let outbox = tempfile::tempdir().unwrap();
    let output = Command::new(example())
        .arg("--outbox")
        .arg(outbox.path())
        .env("CALLGATE_BIN", CALLGATE)
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{printed}\n{log}");

    let articles = articles();
    let mut mails = mails(outbox.path());
    let mut bounced = Vec::new();
    for customer in enterprise_customers() {
        let Some(mail) = mails.remove(&customer.mail) else {
            bounced.push(customer);
            continue;
        };
        assert!(
            mail.contains(&format!("Dear {},", customer.contact)),
            "{mail}"
        );
        let mentioned: Vec<&Value> = articles
            .iter()
            .filter(|article| mail.contains(&format!("* {} (", text(article, "title"))))
            .collect();
        assert_eq!(mentioned.len(), 3, "{mail}");
        for article in mentioned {
            assert_eq!(text(article, "section"), customer.industry, "{article}");
            assert!(text(article, "date") >= EARLIEST, "{article}");
        }
    }
    assert!(mails.is_empty(), "mails to others: {:?}", mails.keys());

    let [bounced] = &bounced[..] else {
        panic!("one customer's mail comes back, no more: {}", bounced.len());
    };
    let reason = format!("mailbox unavailable: {}", bounced.mail);
    assert!(
        printed.contains(&format!("\nno mail to {}: {reason}\n", bounced.name)),
        "{printed}"
    );
    let value = return_value(&printed);
    assert_eq!(
        value["failed"],
        json!([{"customer": bounced.name, "reason": reason}])
    );
    assert_eq!(value["sent"].as_array().map(Vec::len), Some(8));
    assert_eq!(value["articles"], 18);
}

struct Customer {
    name: String,
    industry: String,
    contact: String,
    mail: String,
}

fn enterprise_customers() -> Vec<Customer> {
    let connection = Connection::open_in_memory().unwrap();
    connection.execute_batch(CUSTOMERS).unwrap();
    let sql = "select name, industry, contact, mail from customers where plan = 'enterprise'";
    let mut statement = connection.prepare(sql).unwrap();
    let customers = statement.query_map([], |row| {
        Ok(Customer {
            name: row.get(0)?,
            industry: row.get(1)?,
            contact: row.get(2)?,
            mail: row.get(3)?,
        })
    });
    customers.unwrap().collect::<Result<_, _>>().unwrap()
}

fn articles() -> Vec<Value> {
    NEWS.lines()
        .skip(1)
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The mails in a folder by address; two to one address are an error.
fn mails(folder: &Path) -> HashMap<String, String> {
    let mut mails = HashMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let mail = fs::read_to_string(entry.unwrap().path()).unwrap();
        let to = mail
            .lines()
            .find_map(|line| line.strip_prefix("To: "))
            .unwrap()
            .to_owned();
        assert!(mails.insert(to, mail).is_none(), "two mails to one address");
    }
    mails
}

fn return_value(printed: &str) -> Value {
    let (_, rest) = printed.split_once("<return_value>\n").unwrap();
    let (value, _) = rest.split_once("\n</return_value>").unwrap();
    serde_json::from_str(value).unwrap()
}

fn text<'a>(object: &'a Value, key: &str) -> &'a str {
    object[key].as_str().unwrap()
}

/// The example. `cargo test` builds it, `cargo test --test example` does not, so this does if need be.
fn example() -> PathBuf {
    let folder = Path::new(CALLGATE).parent().unwrap();
    let example = folder
        .join("examples")
        .join(format!("news_agent{}", std::env::consts::EXE_SUFFIX));
    if modified(&example) < newest_source() {
        let mut cargo = Command::new(env!("CARGO"));
        cargo
            .args([
                "build",
                "--quiet",
                "--example",
                "news_agent",
                "--target-dir",
            ])
            .arg(folder.parent().unwrap());
        if !folder.ends_with("debug") {
            cargo.arg("--profile").arg(folder.file_name().unwrap());
        }
        assert!(
            cargo
                .current_dir(env!("CARGO_MANIFEST_DIR"))
                .status()
                .unwrap()
                .success()
        );
    }
    example
}

fn newest_source() -> Option<SystemTime> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let sources = fs::read_dir(root.join("examples/news_agent"))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let fixtures = ["fixtures/news.jsonl", "fixtures/customers.sql"].map(|path| root.join(path));
    sources
        .chain(fixtures)
        .map(|path| modified(&path))
        .max()
        .flatten()
}

/// `None`, which is before all times, if it is not there.
fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path)
        .and_then(|metadata| metadata.modified())
        .ok()
}
