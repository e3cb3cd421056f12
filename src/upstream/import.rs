//! Configurations of desktop clients on this machine, and one configuration out of all of them.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value, json};

use super::config;

/// Where a client keeps its servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The client.
    pub client: &'static str,
    /// Its configuration.
    pub path: PathBuf,
}

/// What was found in a configuration.
#[derive(Debug)]
pub struct Found {
    /// Where.
    pub source: Source,
    /// Names of servers that were taken, as they are named now.
    pub taken: Vec<String>,
    /// Names of servers that were not taken, and why.
    pub left: Vec<(String, String)>,
    /// Why it can't be read, if it can't.
    pub problem: Option<String>,
}

/// A larger configuration is not read (bytes).
const LARGEST: u64 = 16 << 20;

/// Folders of `Code`-like editors, below the folder for configurations.
const EDITORS: [(&str, &str); 3] = [
    ("VS Code", "Code"),
    ("VS Code Insiders", "Code - Insiders"),
    ("VSCodium", "VSCodium"),
];

/// Where the usual desktop clients keep their servers: those of the user in `home`, those of the
/// project in `folder`.
#[must_use]
pub fn sources(home: &Path, folder: &Path) -> Vec<Source> {
    let configs = match std::env::consts::OS {
        "macos" => home.join("Library/Application Support"),
        _ => {
            std::env::var_os("XDG_CONFIG_HOME").map_or_else(|| home.join(".config"), PathBuf::from)
        }
    };
    let mut sources = vec![
        (
            "Claude Desktop",
            configs.join("Claude/claude_desktop_config.json"),
        ),
        ("Claude Code", home.join(".claude.json")),
        ("Cursor", home.join(".cursor/mcp.json")),
    ];
    for (client, editor) in EDITORS {
        let user = configs.join(editor).join("User");
        let cline = "globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json";
        sources.push(("Cline", user.join(cline)));
        sources.push((client, user.join("mcp.json")));
    }
    sources.extend([
        (
            "Cline",
            home.join(".cline/data/settings/cline_mcp_settings.json"),
        ),
        ("Windsurf", home.join(".codeium/windsurf/mcp_config.json")),
        ("Devin Desktop", configs.join("devin/mcp_config.json")),
        ("LM Studio", home.join(".lmstudio/mcp.json")),
        ("Gemini CLI", home.join(".gemini/settings.json")),
        ("Zed", configs.join("zed/settings.json")),
        ("Codex", home.join(".codex/config.toml")),
        ("this folder (Claude Code)", folder.join(".mcp.json")),
        ("this folder (Cursor)", folder.join(".cursor/mcp.json")),
        ("this folder (VS Code)", folder.join(".vscode/mcp.json")),
        (
            "this folder (Gemini CLI)",
            folder.join(".gemini/settings.json"),
        ),
    ]);
    let source = |(client, path)| Source { client, path };
    sources.into_iter().map(source).collect()
}

/// Puts the servers of all `sources` together; returns the configuration and what was found where.
/// Those that are there are read, callgate itself is left out.
#[must_use]
pub fn collect(sources: Vec<Source>) -> (Value, Vec<Found>) {
    let mut servers = Map::new();
    let mut found = Vec::new();
    for source in sources {
        if !source.path.is_file() {
            continue;
        }
        let entries = read(&source.path);
        let mut of_source = Found {
            source,
            taken: Vec::new(),
            left: Vec::new(),
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

fn take(servers: &mut Map<String, Value>, found: &mut Found, name: String, entry: Value) {
    if is_callgate(&entry) {
        let reason = "it is callgate itself".to_owned();
        return found.left.push((name, reason));
    }
    if servers.values().any(|known| *known == entry) {
        let reason = "the same server was found already".to_owned();
        return found.left.push((name, reason));
    }
    let client = found.source.client.to_lowercase();
    let plain: String = client
        .chars()
        .map(|of| if of.is_alphanumeric() { of } else { '-' })
        .collect();
    let mut free = name.clone();
    let mut number = 1;
    while servers.contains_key(&free) {
        free = match number {
            1 => format!("{name}-{}", plain.trim_matches('-')),
            _ => format!("{name}-{}-{number}", plain.trim_matches('-')),
        };
        number += 1;
    }
    servers.insert(free.clone(), entry);
    found.taken.push(free);
}

fn is_callgate(entry: &Value) -> bool {
    let command = entry["command"].as_str().unwrap_or_default();
    Path::new(command)
        .file_stem()
        .is_some_and(|stem| stem == "callgate")
}

fn read(path: &Path) -> Result<Vec<(String, Value)>, String> {
    let length = fs::metadata(path).map_err(|error| error.to_string())?.len();
    if length > LARGEST {
        return Err(format!("{length} bytes are no configuration"));
    }
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    if path
        .extension()
        .is_some_and(|extension| extension == "toml")
    {
        return of_toml(&text);
    }
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    match config::entries(&text) {
        // Settings of a client that has no servers.
        Err(reason) if reason.starts_with("there is no") => Ok(Vec::new()),
        entries => entries,
    }
}

/// Codex keeps servers in tables `mcp_servers.NAME`, with the same keys.
fn of_toml(text: &str) -> Result<Vec<(String, Value)>, String> {
    #[derive(serde::Deserialize)]
    struct Codex {
        #[serde(default)]
        mcp_servers: BTreeMap<String, Value>,
    }
    let codex: Codex = toml::from_str(text).map_err(|error| error.message().to_owned())?;
    let mut servers: Vec<(String, Value)> = codex.mcp_servers.into_iter().collect();
    for (_, server) in &mut servers {
        if let Some(server) = server.as_object_mut()
            && let Some(headers) = server.remove("http_headers")
        {
            server.insert("headers".to_owned(), headers);
        }
    }
    Ok(servers)
}
