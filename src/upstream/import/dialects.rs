//! What clients write in their own way, as callgate writes it.

use std::{collections::BTreeMap, path::Path, time::Duration};

use serde_json::{Map, Value, json};

use super::sources::{Dialect, Source};
use crate::upstream::config::{self, Entries};

/// The folder that a project's file means by this.
const FOLDER: &str = "${workspaceFolder}";

/// Reads a configuration.
///
/// # Errors
/// When it is none.
pub(super) fn entries(text: &str, source: &Source) -> Result<Entries, String> {
    match source.dialect {
        Dialect::Codex => of_toml(text),
        Dialect::ClaudeLocal => Ok(of_folder(text, source.project.as_deref())),
        Dialect::Usual | Dialect::Gemini => match config::entries(text) {
            // Settings of a client that has no servers.
            Err(reason) if reason.starts_with("there is no") || text.trim().is_empty() => {
                Ok(Vec::new())
            }
            entries => entries,
        },
    }
}

/// An entry without what only its client understands.
pub(super) fn translated(mut entry: Value, source: &Source) -> Value {
    if let Value::Object(members) = &mut entry {
        match source.dialect {
            Dialect::Codex => translate_codex(members),
            Dialect::Gemini => members.values_mut().for_each(brace_variables),
            Dialect::Usual | Dialect::ClaudeLocal => {}
        }
        if let Some(project) = &source.project {
            place(members, project);
        }
    }
    entry
}

/// Whether an entry speaks of the folder in which its client works.
pub(super) fn needs_folder(entry: &Value) -> bool {
    match entry {
        Value::String(text) => text.contains(FOLDER),
        Value::Array(items) => items.iter().any(needs_folder),
        Value::Object(members) => members.values().any(needs_folder),
        _ => false,
    }
}

/// Codex keeps servers in tables `mcp_servers.NAME`.
fn of_toml(text: &str) -> Result<Entries, String> {
    #[derive(serde::Deserialize)]
    struct Codex {
        #[serde(default)]
        mcp_servers: BTreeMap<String, Value>,
    }
    let codex: Codex = toml::from_str(text).map_err(|error| error.message().to_owned())?;
    let servers = codex.mcp_servers.into_iter();
    Ok(servers.map(|(name, entry)| (name, Ok(entry))).collect())
}

fn of_folder(text: &str, folder: Option<&Path>) -> Entries {
    // Whether it can be read is told where the servers of the user are.
    let whole: Value = serde_json::from_str(text).unwrap_or_default();
    let folder = folder.and_then(Path::to_str).unwrap_or_default();
    match &whole["projects"][folder]["mcpServers"] {
        Value::Object(servers) => {
            let servers = servers.iter();
            servers
                .map(|(name, entry)| (name.clone(), Ok(entry.clone())))
                .collect()
        }
        _ => Vec::new(),
    }
}

fn translate_codex(entry: &mut Map<String, Value>) {
    if let Some(headers) = entry.shift_remove("http_headers") {
        entry.insert("headers".to_owned(), headers);
    }
    if let Some(Value::Array(names)) = entry.get("env_vars").cloned()
        && let Some(names) = names.iter().map(Value::as_str).collect::<Option<Vec<_>>>()
    {
        entry.shift_remove("env_vars");
        for name in names {
            add(entry, "env", name, format!("${{{name}}}"));
        }
    }
    if let Some(Value::Object(headers)) = entry.get("env_http_headers").cloned() {
        entry.shift_remove("env_http_headers");
        for (header, variable) in &headers {
            let variable = variable.as_str().unwrap_or_default();
            add(entry, "headers", header, format!("${{{variable}}}"));
        }
    }
    if let Some(Value::String(name)) = entry.get("bearer_token_env_var").cloned() {
        entry.shift_remove("bearer_token_env_var");
        add(
            entry,
            "headers",
            "Authorization",
            format!("Bearer ${{{name}}}"),
        );
    }
    for (key, seconds) in [("startup_timeout_sec", 1.0), ("startup_timeout_ms", 0.001)] {
        let Some(given) = entry.get(key).and_then(Value::as_f64) else {
            continue;
        };
        entry.shift_remove(key);
        let timeout = Duration::try_from_secs_f64(given * seconds).unwrap_or(Duration::MAX);
        let milliseconds = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        entry.insert("startTimeoutMs".to_owned(), json!(milliseconds));
    }
}

/// Adds to an object of texts what does not stand there yet.
fn add(entry: &mut Map<String, Value>, key: &str, name: &str, value: String) {
    let texts = entry.entry(key).or_insert_with(|| json!({}));
    if let Value::Object(texts) = texts {
        texts.entry(name).or_insert(Value::String(value));
    }
}

/// `$NAME` becomes `${NAME}` in every text.
fn brace_variables(value: &mut Value) {
    match value {
        Value::String(text) => *text = with_braces(text),
        Value::Array(items) => items.iter_mut().for_each(brace_variables),
        Value::Object(members) => members.values_mut().for_each(brace_variables),
        _ => {}
    }
}

fn with_braces(text: &str) -> String {
    let mut parts = text.split('$');
    let mut braced = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let is_name = |of: char| of.is_ascii_alphanumeric() || of == '_';
        let end = part.find(|of| !is_name(of)).unwrap_or(part.len());
        let (name, rest) = part.split_at(end);
        braced.push('$');
        if name.is_empty() || name.starts_with(|of: char| of.is_ascii_digit()) {
            braced.push_str(part);
        } else {
            braced.extend(["{", name, "}", rest]);
        }
    }
    braced
}

/// What a project's file says of its folder stays true where it is written to.
fn place(entry: &mut Map<String, Value>, project: &Path) {
    let folder = project.display().to_string();
    entry.values_mut().for_each(|value| replace(value, &folder));
    if let Some(Value::String(cwd)) = entry.get_mut("cwd")
        && !cwd.starts_with('$')
    {
        *cwd = project.join(&*cwd).display().to_string();
    }
}

fn replace(value: &mut Value, folder: &str) {
    match value {
        Value::String(text) => *text = text.replace(FOLDER, folder),
        Value::Array(items) => items.iter_mut().for_each(|item| replace(item, folder)),
        Value::Object(members) => members
            .values_mut()
            .for_each(|member| replace(member, folder)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::with_braces;

    #[test]
    fn variables_get_their_braces() {
        for (written, braced) in [
            ("$TOKEN", "${TOKEN}"),
            ("Bearer $A_1.x", "Bearer ${A_1}.x"),
            ("${TOKEN} $5 a$ $", "${TOKEN} $5 a$ $"),
        ] {
            assert_eq!(with_braces(written), braced);
        }
    }
}
