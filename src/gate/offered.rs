//! The tools that a client offered for a run, and the schemas of their arguments.

use std::{
    collections::{HashMap, HashSet, hash_map},
    sync::Arc,
};

use serde::Deserialize;
use serde_json::Value;

use super::{
    schema::{Schema, Verdict},
    servers::Servers,
    violation,
};

/// Errors of one validation that are told at most.
const TOLD_ERRORS: usize = 5;

/// What is wrong with the offered tools.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum OfferError {
    /// An entry lacks a name or a field has the wrong type.
    #[error("available_tools[{index}]: {reason}")]
    Malformed {
        /// Which entry.
        index: usize,
        /// What is wrong.
        reason: String,
    },
    /// The name is empty.
    #[error("available_tools[{index}]: the name is empty; a tool needs one to be called by")]
    EmptyName {
        /// Which entry.
        index: usize,
    },
    /// Two tools of one name.
    #[error(
        "available_tools: two tools are named `{name}`; each name may stand once (for each `serverName`)"
    )]
    Duplicate {
        /// The name.
        name: String,
    },
    /// `parameters` is not a JSON schema.
    #[error("available_tools[{index}] (`{name}`): `parameters` is not a JSON schema: {reason}")]
    BadSchema {
        /// Which entry.
        index: usize,
        /// The tool.
        name: String,
        /// What is wrong.
        reason: String,
    },
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    name: String,
    #[serde(default)]
    #[expect(
        dead_code,
        reason = "read to check its type; the guest gets the entry as it came"
    )]
    description: Option<String>,
    #[serde(default)]
    parameters: Option<serde_json::Map<String, Value>>,
    #[serde(default)]
    server_name: Option<String>,
}

/// One offered tool.
pub struct OfferedTool {
    /// Its name.
    pub name: String,
    /// The server it belongs to, if the client said so.
    pub server: Option<String>,
    /// Names of its arguments, in the schema's order.
    pub arguments: Vec<String>,
    schema: Option<Arc<Schema>>,
}

/// The tools offered for one run.
#[derive(Default)]
pub struct OfferedTools {
    tools: Vec<OfferedTool>,
    by_name: HashMap<String, usize>,
    /// Names that several servers have tools of.
    shared_names: HashSet<String>,
}

impl OfferedTools {
    /// Reads `available_tools`.
    ///
    /// # Errors
    /// For the first entry that can't be a tool.
    pub fn parse(entries: &[Value]) -> Result<Self, OfferError> {
        let mut offered = Self::default();
        for (index, entry) in entries.iter().enumerate() {
            offered.add(index, entry)?;
        }
        Ok(offered)
    }

    /// The tool of that name, or the list of what there is.
    ///
    /// # Errors
    /// The reason for the refusal, naming what was offered, and the other `servers`.
    pub fn find(
        &self,
        name: &str,
        server: Option<&str>,
        servers: &dyn Servers,
    ) -> Result<&OfferedTool, String> {
        match server {
            Some(server) => self.find_of(server, name, servers),
            None => self.find_plain(name, servers),
        }
    }

    fn find_plain(&self, name: &str, servers: &dyn Servers) -> Result<&OfferedTool, String> {
        let Some(index) = self.by_name.get(name) else {
            return Err(self.not_offered(name, servers));
        };
        if !self.shared_names.contains(name) {
            return Ok(&self.tools[*index]);
        }
        let of_name = self.tools.iter().filter(|tool| tool.name == name);
        let owners = of_name.map(|tool| tool.server.as_deref().unwrap_or("no server"));
        Err(format!(
            "more than one server offers `{}`: {}; say which with call_mcp_tool(\"SERVER\", \"{}\", …)",
            bounded(name),
            list(owners.collect()),
            bounded(name)
        ))
    }

    fn find_of(
        &self,
        server: &str,
        name: &str,
        servers: &dyn Servers,
    ) -> Result<&OfferedTool, String> {
        let of_server = || {
            self.tools
                .iter()
                .filter(|tool| tool.server.as_deref() == Some(server))
        };
        if let Some(tool) = of_server().find(|tool| tool.name == name) {
            return Ok(tool);
        }
        let names: Vec<&str> = of_server().map(|tool| tool.name.as_str()).collect();
        if !names.is_empty() {
            return Err(format!(
                "the server `{}` offers no tool `{}`; it offers: {}",
                bounded(server),
                bounded(name),
                list(names)
            ));
        }
        let own = servers.names();
        let mut servers: Vec<&str> = self
            .tools
            .iter()
            .filter_map(|tool| tool.server.as_deref())
            .chain(own.iter().map(String::as_str))
            .collect();
        servers.sort_unstable();
        servers.dedup();
        Err(format!(
            "there is no server `{}`; servers: {}",
            bounded(server),
            list(servers)
        ))
    }

    fn not_offered(&self, name: &str, servers: &dyn Servers) -> String {
        let names: Vec<&str> = self.tools.iter().map(|tool| tool.name.as_str()).collect();
        let hint = nearest(name, names.iter().copied())
            .map(|nearest| format!(" did you mean `{nearest}`?"))
            .unwrap_or_default();
        let own = servers.names();
        let servers = if own.is_empty() {
            String::new()
        } else {
            let own = list(own.iter().map(String::as_str).collect());
            format!(
                "; tools of the servers {own} are called with call_mcp_tool(\"SERVER\", \"TOOL\", …)"
            )
        };
        format!(
            "no tool `{}` was offered;{hint} offered: {}{servers}",
            bounded(name),
            list(names)
        )
    }

    fn add(&mut self, index: usize, entry: &Value) -> Result<(), OfferError> {
        let malformed = |reason: &str| OfferError::Malformed {
            index,
            reason: bounded(reason),
        };
        if !matches!(entry["serverName"], Value::Null | Value::String(_)) {
            return Err(malformed("`serverName` must be a string"));
        }
        let parsed = Entry::deserialize(entry);
        let entry = parsed.map_err(|error| malformed(&error.to_string()))?;
        if entry.name.is_empty() {
            return Err(OfferError::EmptyName { index });
        }
        let same = |tool: &OfferedTool| tool.name == entry.name && tool.server == entry.server_name;
        if self.by_name.contains_key(&entry.name) && self.tools.iter().any(same) {
            let name = bounded(&entry.name);
            return Err(OfferError::Duplicate { name });
        }
        let properties = entry
            .parameters
            .as_ref()
            .and_then(|parameters| parameters.get("properties"));
        let arguments = match properties {
            Some(Value::Object(properties)) => properties.keys().cloned().collect(),
            _ => Vec::new(),
        };
        let schema = match entry.parameters {
            None => None,
            Some(parameters) => Schema::compile(&Value::Object(parameters)).map_err(|reason| {
                OfferError::BadSchema {
                    index,
                    name: bounded(&entry.name),
                    reason,
                }
            })?,
        };
        match self.by_name.entry(entry.name.clone()) {
            hash_map::Entry::Occupied(_) => {
                self.shared_names.insert(entry.name.clone());
            }
            hash_map::Entry::Vacant(place) => {
                place.insert(self.tools.len());
            }
        }
        self.tools.push(OfferedTool {
            name: entry.name,
            server: entry.server_name,
            arguments,
            schema,
        });
        Ok(())
    }
}

impl OfferedTool {
    /// What its schema says about arguments.
    pub(super) fn verdict<'a>(&'a self, arguments: &'a Value) -> Verdict<'a> {
        let schema = self.schema.as_ref();
        schema.map_or(Verdict::Fits, |schema| schema.check(arguments))
    }

    /// Checks arguments against the tool's schema.
    ///
    /// # Errors
    /// What is wrong with them, for the program that made the call.
    pub fn check(&self, arguments: &Value) -> Result<(), String> {
        let errors = match self.verdict(arguments) {
            Verdict::Fits => return Ok(()),
            Verdict::Errors(errors) => errors,
            Verdict::Wrong => {
                let reason = "the arguments do not fit the tool's schema; they and it are too large to tell where";
                return Err(reason.to_owned());
            }
            Verdict::TooLarge => {
                let reason = "the arguments are too large to be checked against the tool's schema; send less at once";
                return Err(reason.to_owned());
            }
        };
        let errors: Vec<String> = errors
            .iter()
            .take(TOLD_ERRORS)
            .map(|error| violation::describe(error, &self.arguments))
            .collect();
        Err(format!(
            "the arguments do not fit the tool's schema: {}",
            errors.join("; ")
        ))
    }
}

/// The name that `name` is a slip of, if there is one so much like it.
pub(super) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    /// How alike two names must be, from 0 to 1.
    const ALIKE: f64 = 0.75;
    // Comparing takes time with the square of the length.
    let name: String = name.chars().take(100).collect();
    known
        .filter(|other| other.len() <= 200)
        .map(|other| (strsim::jaro_winkler(&name, other), other))
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .filter(|(similarity, _)| *similarity > ALIKE)
        .map(|(_, nearest)| nearest)
}

/// A text that names or quotes what the program sent, which may be as large as the arguments; on one
/// line, so that it cannot pass for anything else.
pub(super) fn bounded(text: &str) -> String {
    const LONGEST: usize = 300;
    let mut kept = String::new();
    for (number, character) in text.chars().enumerate() {
        if number == LONGEST {
            kept.push('…');
            break;
        }
        if character.is_control() {
            kept.extend(character.escape_default());
        } else {
            kept.push(character);
        }
    }
    kept
}

fn list(names: Vec<&str>) -> String {
    const LISTED: usize = 50;
    if names.is_empty() {
        return "none".to_owned();
    }
    let rest = names.len().saturating_sub(LISTED);
    let shown = names
        .into_iter()
        .take(LISTED)
        .collect::<Vec<_>>()
        .join(", ");
    if rest == 0 {
        shown
    } else {
        format!("{shown} and {rest} more")
    }
}
