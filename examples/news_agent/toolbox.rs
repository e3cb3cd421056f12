//! The agent's tools: what the program is offered, and what happens when it calls.

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::{database::Database, outbox::Outbox, search::News};

/// All three tools.
pub struct Toolbox {
    /// For `search_news`.
    pub news: News,
    /// For `query_database`.
    pub database: Database,
    /// For `send_mail`.
    pub outbox: Outbox,
}

#[derive(Deserialize)]
struct Search {
    query: String,
    #[serde(default = "a_week")]
    days: u32,
}

#[derive(Deserialize)]
struct Query {
    sql: String,
}

#[derive(Deserialize)]
struct Mail {
    to: String,
    subject: String,
    body: String,
}

impl Toolbox {
    /// The argument `available_tools`: name, description and JSON schema of each tool.
    pub fn offered() -> Value {
        json!([
            {
                "name": "search_news",
                "description": "Search the news of the last days. Returns at most five articles, best first, \
                                each with id, date, title, text and score.",
                "parameters": {
                    "type": "object",
                    "required": ["query"],
                    "additionalProperties": false,
                    "properties": {
                        "query": {"type": "string", "description": "Words to look for."},
                        "days": {"type": "integer", "minimum": 1, "default": 7, "description": "How far back to look."}
                    }
                }
            },
            {
                "name": "query_database",
                "description": "Run one SQLite query over the table customers (id, name, plan, industry, contact, \
                                mail); plan is enterprise, team or free. Returns a list of rows, each an object.",
                "parameters": {
                    "type": "object",
                    "required": ["sql"],
                    "additionalProperties": false,
                    "properties": {"sql": {"type": "string"}}
                }
            },
            {
                "name": "send_mail",
                "description": "Send a mail as plain text. Fails if the address does not exist.",
                "parameters": {
                    "type": "object",
                    "required": ["to", "subject", "body"],
                    "additionalProperties": false,
                    "properties": {
                        "to": {"type": "string"},
                        "subject": {"type": "string"},
                        "body": {"type": "string"}
                    }
                }
            }
        ])
    }

    /// Does what a call asks for.
    ///
    /// # Errors
    /// The text of the `ToolCallError` that the program gets.
    pub fn call(&self, tool: &str, arguments: Value) -> Result<Value, String> {
        match tool {
            "search_news" => {
                let Search { query, days } = parse(arguments)?;
                Ok(self.news.search(&query, days))
            }
            "query_database" => {
                let Query { sql } = parse(arguments)?;
                self.database.query(&sql)
            }
            "send_mail" => {
                let Mail { to, subject, body } = parse(arguments)?;
                let file = self.outbox.send(&to, &subject, &body)?;
                Ok(json!({ "sent": file }))
            }
            unknown => Err(format!("there is no tool `{unknown}`")),
        }
    }
}

/// callgate has checked the arguments against the schema; this gives them their types.
fn parse<T: DeserializeOwned>(arguments: Value) -> Result<T, String> {
    serde_json::from_value(arguments).map_err(|error| format!("wrong arguments: {error}"))
}

/// Days that a search looks back unless told otherwise.
fn a_week() -> u32 {
    7
}
