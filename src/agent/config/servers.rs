//! The servers of an agent: `{"type": "stdio" | "http" | "sse", …}`, as they are today, and with a `config` inside, as
//! they were until the middle of 2025.

use std::{collections::BTreeMap, env};

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{AgentServer, folder::type_only};
use crate::upstream::{ServerConfig, Transport};

/// The longest name that is made from a configuration: it is a name in Python.
const LONGEST_NAME: usize = 40;

/// Servers of one agent: all are started at once.
const MOST: usize = 64;

/// One server as it stands there.
#[derive(Debug, Deserialize)]
struct Entry {
    #[serde(default, rename = "type")]
    kind: Option<String>,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    command: Option<String>,
    #[serde(default)]
    args: Option<Vec<String>>,
    #[serde(default)]
    env: Option<BTreeMap<String, String>>,
    #[serde(default)]
    cwd: Option<String>,
    #[serde(default)]
    url: Option<String>,
    #[serde(default)]
    headers: Option<BTreeMap<String, String>>,
    #[serde(default)]
    allowed_tools: Option<Vec<String>>,
}

/// Reads the list of servers.
///
/// # Errors
/// For the first that can't be understood, with its place.
pub(super) fn parse(entries: &[Value]) -> Result<Vec<AgentServer>, String> {
    if entries.len() > MOST {
        return Err(format!(
            "`servers`: there are {}; an agent may have {MOST}",
            entries.len()
        ));
    }
    let mut servers: Vec<AgentServer> = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        let place = format!("servers[{index}]");
        let entry: Entry = serde_path_to_error::deserialize(flattened(entry)).map_err(|error| {
            let path = error.path().to_string();
            let reason = type_only(&error.into_inner().to_string());
            match path.as_str() {
                "." => format!("`{place}`: {reason}"),
                path => format!("`{place}.{path}`: {reason}"),
            }
        })?;
        let transport = transport(&entry, &place)?;
        let secrets = entry
            .env
            .iter()
            .chain(&entry.headers)
            .flat_map(BTreeMap::values);
        let config = ServerConfig {
            name: unique(&name(&entry), &servers),
            description: None,
            transport: Ok(transport),
            start_timeout: None,
            secrets: secrets.flat_map(|value| with_token(value)).collect(),
        };
        let allowed_tools = entry.allowed_tools;
        servers.push(AgentServer {
            config,
            allowed_tools,
        });
    }
    Ok(servers)
}

/// `{"type": …, "config": {…, "options": {"requestInit": {"headers": …}}}}` as it is written today.
fn flattened(entry: &Value) -> Value {
    let Some(Value::Object(inner)) = entry.get("config") else {
        return entry.clone();
    };
    let mut whole: Map<String, Value> = entry.as_object().cloned().unwrap_or_default();
    whole.remove("config");
    whole.extend(inner.clone());
    let headers = inner
        .get("options")
        .and_then(|options| options.pointer("/requestInit/headers"));
    if let Some(headers) = headers {
        whole.entry("headers").or_insert_with(|| headers.clone());
    }
    Value::Object(whole)
}

fn transport(entry: &Entry, place: &str) -> Result<Transport, String> {
    let kind = match (&entry.kind, &entry.command, &entry.url) {
        (Some(kind), ..) => kind.as_str(),
        (None, Some(_), None) => "stdio",
        (None, None, Some(_)) => "http",
        (None, ..) => {
            return Err(format!(
                r#"`{place}`: it has no `type`; write "type": "stdio" with a `command`, or "http" or "sse" with a `url`"#
            ));
        }
    };
    let headers = || entry.headers.clone().unwrap_or_default();
    match kind {
        "stdio" => Ok(Transport::Stdio {
            command: needed(entry.command.as_ref(), "command", kind, place)?,
            arguments: entry.args.clone().unwrap_or_default(),
            environment: entry.env.clone().unwrap_or_default(),
            folder: entry.cwd.as_ref().map(|folder| {
                let here = env::current_dir().unwrap_or_default();
                here.join(folder)
            }),
        }),
        "http" | "streamable-http" | "streamableHttp" => Ok(Transport::Http {
            url: needed(entry.url.as_ref(), "url", kind, place)?,
            headers: headers(),
        }),
        "sse" => Ok(Transport::Sse {
            url: needed(entry.url.as_ref(), "url", kind, place)?,
            headers: headers(),
        }),
        other => Err(format!(
            r#"`{place}.type`: there is no kind `{}`; write "stdio", "http" or "sse""#,
            other.escape_debug()
        )),
    }
}

/// A header's value and the token in it.
fn with_token(value: &str) -> Vec<String> {
    let token = value.split_once(' ').map(|(_, token)| token.to_owned());
    [value.to_owned()].into_iter().chain(token).collect()
}

fn needed(value: Option<&String>, key: &str, kind: &str, place: &str) -> Result<String, String> {
    let value = value.filter(|value| !value.trim().is_empty());
    value.cloned().ok_or_else(|| {
        format!("`{place}.{key}` is missing; a server of the type `{kind}` needs one")
    })
}

/// What a server is called in Python and in messages; the format has no names, so it is made from what there is.
fn name(entry: &Entry) -> String {
    if let Some(name) = &entry.name {
        return identifier(name);
    }
    if let Some(url) = &entry.url {
        let url = reqwest::Url::parse(url).ok();
        let host = url
            .as_ref()
            .and_then(reqwest::Url::host_str)
            .unwrap_or("web");
        let labels: Vec<&str> = host.split('.').collect();
        let is_address = host.parse::<std::net::IpAddr>().is_ok() || host.starts_with('[');
        return match labels.as_slice() {
            _ if is_address => "web".to_owned(),
            [.., name, _] => identifier(name),
            _ => identifier(host),
        };
    }
    // `npx -y @scope/server-files@1.2 /folder`, `uvx mcp-server-git`, `python server.py`: what says most is the
    // first argument that is no flag, if a runner runs it.
    let command = entry.command.as_deref().unwrap_or_default();
    let runner = stem(command);
    let is_runner = [
        "npx", "uvx", "uv", "bunx", "pipx", "node", "deno", "docker", "bash", "sh",
    ]
    .contains(&runner)
        || runner.starts_with("python");
    let words = ["run", "tool", "-m", "x", "dlx", "exec"];
    let arguments = entry.args.iter().flatten().map(String::as_str);
    let mut arguments = arguments.filter(|word| !word.starts_with('-') && !words.contains(word));
    let what = is_runner
        .then(|| arguments.next())
        .flatten()
        .unwrap_or(command);
    let what = stem(what).trim_start_matches('@');
    let bare = what.split('@').next().unwrap_or(what);
    let bare = bare.strip_prefix("mcp-").unwrap_or(bare);
    let bare = bare.strip_prefix("server-").unwrap_or(bare);
    let bare = bare
        .strip_suffix("-mcp")
        .or_else(|| bare.strip_suffix("-server"))
        .unwrap_or(bare);
    identifier(bare)
}

/// The last part of a path or package, without what a file's kind adds.
fn stem(path: &str) -> &str {
    let last = path
        .trim_end_matches(['/', '\\'])
        .rsplit(['/', '\\'])
        .next()
        .unwrap_or(path);
    let kinds = [".py", ".js", ".mjs", ".ts", ".sh", ".exe", ".cmd"];
    kinds
        .iter()
        .find_map(|kind| last.strip_suffix(kind))
        .unwrap_or(last)
}

fn identifier(text: &str) -> String {
    let mut name: String = text
        .chars()
        .take(LONGEST_NAME)
        .map(|character| {
            if character.is_ascii_alphanumeric() {
                character
            } else {
                '_'
            }
        })
        .collect();
    if name.trim_matches('_').is_empty() {
        "server".clone_into(&mut name);
    }
    if name.starts_with(|first: char| first.is_ascii_digit()) {
        name.insert(0, '_');
    }
    name
}

fn unique(name: &str, known: &[AgentServer]) -> String {
    let is_free = |name: &str| !known.iter().any(|server| server.config.name == name);
    if is_free(name) {
        return name.to_owned();
    }
    let numbered = (2..).map(|number| format!("{name}_{number}"));
    numbered
        .into_iter()
        .find(|name| is_free(name))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Transport, parse};

    fn names(entries: &[Value]) -> Vec<String> {
        let servers = parse(entries).unwrap();
        servers
            .into_iter()
            .map(|server| server.config.name)
            .collect()
    }

    #[test]
    fn servers_are_named_after_what_they_are() {
        let stdio = |command: &str, args: &[&str]| json!({"type": "stdio", "command": command, "args": args});
        let found = names(&[
            stdio(
                "npx",
                &["-y", "@modelcontextprotocol/server-filesystem@1.2", "/home"],
            ),
            stdio("uvx", &["mcp-server-git"]),
            stdio("/usr/bin/python3", &["/opt/weather.py", "x"]),
            stdio("python", &["-m", "my.server"]),
            stdio("/opt/bin/github-mcp-server", &["stdio"]),
            stdio("npx", &["@playwright/mcp@latest"]),
            json!({"type": "http", "url": "https://mcp.example.com/mcp"}),
            json!({"type": "http", "url": "http://127.0.0.1:80/mcp"}),
            json!({"type": "sse", "url": "http://127.0.0.1:81/sse"}),
            json!({"type": "stdio", "command": "x", "name": "My Server"}),
        ]);
        let expected = [
            "filesystem",
            "git",
            "weather",
            "my_server",
            "github_mcp",
            "mcp",
            "example",
            "web",
            "web_2",
            "My_Server",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn the_nested_shape_of_before_is_read_too() {
        let headers = json!({"Authorization": "Bearer x"});
        let entry = json!({"type": "http", "config": {"url": "https://h/mcp", "options": {"requestInit": {"headers": headers}}}});
        let server = parse(&[entry]).unwrap().remove(0).config;
        let Ok(Transport::Http { headers, .. }) = server.transport else {
            unreachable!("it is HTTP");
        };
        assert_eq!(headers["Authorization"], "Bearer x");
        assert_eq!(server.secrets, ["Bearer x", "x"]);
    }

    #[test]
    fn mistakes_are_told_with_their_place_and_without_the_value() {
        for (entry, expected) in [
            (json!({"type": "stdio"}), "`servers[0].command` is missing"),
            (json!({"type": "http"}), "`servers[0].url` is missing"),
            (json!({"type": "tcp"}), "there is no kind `tcp`"),
            (json!({}), "it has no `type`"),
            (json!("x"), "`servers[0]`"),
            (
                json!({"type": "stdio", "command": "x", "env": "sk-secret"}),
                "`servers[0].env`",
            ),
        ] {
            let told = parse(&[entry]).unwrap_err();
            assert!(told.contains(expected), "{told}");
            assert!(!told.contains("sk-secret"), "{told}");
        }
    }
}
