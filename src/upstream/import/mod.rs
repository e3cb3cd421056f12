//! Configurations of desktop clients on this machine, and one configuration out of all of them.

mod dialects;
mod sources;

use std::{fs, path::Path};

use serde_json::{Map, Value, json};

pub use self::sources::{Dialect, Source, sources};
use super::{
    config::{self, Entries},
    entry::{self, Entry},
};

/// What was found in a configuration.
#[derive(Debug)]
pub struct Found {
    /// Where.
    pub source: Source,
    /// Names of servers that were taken, as they are named now.
    pub taken: Vec<String>,
    /// Names of servers that were not taken, and why.
    pub left: Vec<(String, String)>,
    /// Names of servers that were taken, and what to look at.
    pub notes: Vec<(String, String)>,
    /// Why it can't be read, if it can't.
    pub problem: Option<String>,
}

/// A larger configuration is not read (bytes).
const LARGEST: u64 = 16 << 20;

/// Puts the servers of all `sources` together; returns the configuration and what was found where.
/// Those that are there are read; callgate itself is left out, and what it could not use.
#[must_use]
pub fn collect(sources: Vec<Source>) -> (Value, Vec<Found>) {
    let mut servers = Map::new();
    let mut found = Vec::new();
    for source in sources {
        if !source.path.is_file() {
            continue;
        }
        let entries = read(&source);
        // The file stands there already, for the servers of the user.
        if source.dialect == Dialect::ClaudeLocal && entries.as_ref().is_ok_and(Vec::is_empty) {
            continue;
        }
        let mut of_source = Found {
            source,
            taken: Vec::new(),
            left: Vec::new(),
            notes: Vec::new(),
            problem: None,
        };
        match entries {
            Ok(entries) => {
                for (name, entry) in entries {
                    take(&mut servers, &mut of_source, name, entry);
                }
            }
            Err(problem) => of_source.problem = Some(problem),
        }
        found.push(of_source);
    }
    (json!({"mcpServers": servers}), found)
}

fn take(
    servers: &mut Map<String, Value>,
    found: &mut Found,
    name: String,
    entry: Result<Value, String>,
) {
    let entry = entry.map(|entry| dialects::translated(entry, &found.source));
    let entry = match entry.and_then(|entry| usable(&name, entry)) {
        Ok(entry) => entry,
        Err(reason) => return found.left.push((name, reason)),
    };
    if servers.values().any(|known| *known == entry) {
        let reason = "the same server was found already".to_owned();
        return found.left.push((name, reason));
    }
    let name = free_name(servers, &name, found.source.client);
    for key in entry::unknown_keys(&entry) {
        let note = format!("the key `{}` is not understood", key.escape_debug());
        found.notes.push((name.clone(), note));
    }
    if dialects::needs_folder(&entry) {
        let note = "`${workspaceFolder}` means the folder of the new file now".to_owned();
        found.notes.push((name.clone(), note));
    }
    servers.insert(name.clone(), entry);
    found.taken.push(name);
}

/// The entry, if callgate can use it.
fn usable(name: &str, entry: Value) -> Result<Value, String> {
    if is_callgate(&entry) {
        return Err("it is callgate itself".to_owned());
    }
    if entry::is_off(&entry) {
        return Err("it is switched off there".to_owned());
    }
    config::check_name(name)?;
    Entry::read(&entry)?;
    Ok(entry)
}

fn free_name(servers: &Map<String, Value>, name: &str, client: &str) -> String {
    let client = client.to_lowercase();
    let plain: String = client
        .chars()
        .map(|of| if of.is_alphanumeric() { of } else { '-' })
        .collect();
    let plain = plain.trim_matches('-');
    let mut free = name.to_owned();
    let mut number = 1;
    while servers.contains_key(&free) {
        free = match number {
            1 => format!("{name}-{plain}"),
            _ => format!("{name}-{plain}-{number}"),
        };
        number += 1;
    }
    free
}

fn is_callgate(entry: &Value) -> bool {
    let flat = entry::flattened(entry);
    let command = flat.get("command").and_then(Value::as_str);
    Path::new(command.unwrap_or_default())
        .file_stem()
        .is_some_and(|stem| stem == "callgate")
}

fn read(source: &Source) -> Result<Entries, String> {
    let length = fs::metadata(&source.path).map_err(|error| error.to_string())?;
    if length.len() > LARGEST {
        return Err(format!("{} bytes are no configuration", length.len()));
    }
    let text = fs::read_to_string(&source.path).map_err(|error| error.to_string())?;
    dialects::entries(&text, source)
}
