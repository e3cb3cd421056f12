//! The configuration of servers, in the format of desktop clients: `{"mcpServers": {NAME: {…}}}`, or `servers` as VS
//! Code has it. Comments and trailing commas are fine; what a client keeps there for itself is skipped.

use std::{
    collections::{BTreeMap, HashSet},
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use jsonc_parser::{
    CollectOptions, ParseOptions,
    ast::{self, ObjectProp},
    common::Ranged as _,
    parse_to_ast,
};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::expand::{self, Variables};

/// Keys under which clients keep their servers.
pub(super) const KEYS: [&str; 3] = ["mcpServers", "servers", "context_servers"];

/// The longest name of a server: it stands in what models read.
const LONGEST_NAME: usize = 100;

/// A larger configuration is not one (bytes).
const LARGEST: u64 = 4 << 20;

/// What is wrong with a configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// It can't be read.
    #[error("{}: {error}", path.display())]
    Unreadable {
        /// Where it should be.
        path: PathBuf,
        /// Why it can't be read.
        error: std::io::Error,
    },
    /// It can be read, but not understood.
    #[error("{}: {reason}", path.display())]
    Wrong {
        /// Where it is.
        path: PathBuf,
        /// What is wrong, with the place, and what would be right.
        reason: String,
    },
}

/// How servers are reached.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// In the order in which they stand there.
    pub servers: Vec<ServerConfig>,
}

/// How one server is reached.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Its name.
    pub name: String,
    /// What it is for, if the configuration says so.
    pub description: Option<String>,
    /// The way to it, or why there is none: an environment variable that is not set.
    pub transport: Result<Transport, String>,
    /// How long it may take to start, if not as long as usual.
    pub start_timeout: Option<Duration>,
    /// Texts that nobody may see.
    pub secrets: Vec<String>,
}

/// The way to a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transport {
    /// A process of its own.
    Stdio {
        /// The program.
        command: String,
        /// Its arguments.
        arguments: Vec<String>,
        /// Its environment, beside what every program needs.
        environment: BTreeMap<String, String>,
        /// Where it is started.
        folder: Option<PathBuf>,
    },
    /// Streamable HTTP.
    Http {
        /// The endpoint.
        url: String,
        /// What every request carries.
        headers: BTreeMap<String, String>,
    },
}

/// An entry as it stands there.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    #[serde(default, rename = "type", alias = "transport")]
    kind: Option<String>,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    command: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, Scalar>,
    #[serde(default)]
    cwd: Option<String>,
    #[serde(default, alias = "httpUrl", alias = "serverUrl")]
    url: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, Scalar>,
    #[serde(default)]
    disabled: Option<bool>,
    #[serde(default)]
    enabled: Option<bool>,
    /// In milliseconds.
    #[serde(default, alias = "startupTimeout")]
    start_timeout_ms: Option<u64>,
}

/// Values of environment variables are often written without quotes.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Scalar {
    Text(String),
    Number(serde_json::Number),
    Flag(bool),
}

impl Scalar {
    fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Number(number) => number.to_string(),
            Self::Flag(flag) => flag.to_string(),
        }
    }
}

impl Config {
    /// Reads the configuration at `path`.
    ///
    /// # Errors
    /// When it can't be read, or something in it can't be understood; with the place.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let unreadable = |error| ConfigError::Unreadable {
            path: path.to_owned(),
            error,
        };
        let length = fs::metadata(path).map_err(unreadable)?.len();
        if length > LARGEST {
            let too_large = std::io::Error::other(format!("{length} bytes are no configuration"));
            return Err(unreadable(too_large));
        }
        let text = fs::read_to_string(path).map_err(unreadable)?;
        let folder = path.parent().unwrap_or(Path::new("."));
        Self::parse(&text, &Variables::of_process(folder)).map_err(|reason| ConfigError::Wrong {
            path: path.to_owned(),
            reason,
        })
    }

    /// Reads the text of a configuration.
    ///
    /// # Errors
    /// What can't be understood, with the place.
    pub fn parse(text: &str, variables: &Variables) -> Result<Self, String> {
        let mut config = Self::default();
        for (name, entry) in entries(text)? {
            if let Some(server) = server(name, entry, variables)? {
                config.servers.push(server);
            }
        }
        Ok(config)
    }
}

/// The servers of a configuration as they stand there.
///
/// # Errors
/// When it is not JSON, has no servers, or two of one name.
pub(super) fn entries(text: &str) -> Result<Vec<(String, Value)>, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let parsed = parse_to_ast(text, &CollectOptions::default(), &options());
    let parsed = parsed.map_err(|error| format!("not JSON: {error}"))?;
    let Some(ast::Value::Object(root)) = parsed.value else {
        return Err(format!("not a configuration of servers: {SHAPE}"));
    };
    let Some(servers) = KEYS.iter().find_map(|key| root.get(key)) else {
        let keys: Vec<&str> = root.properties.iter().map(|of| of.name.as_str()).collect();
        return Err(format!(
            "there is no `mcpServers`; there is: {}. {SHAPE}",
            if keys.is_empty() {
                "nothing".to_owned()
            } else {
                keys.join(", ")
            }
        ));
    };
    let ast::Value::Object(servers) = &servers.value else {
        let key = servers.name.as_str();
        return Err(format!(
            "`{key}` has to be an object with a server for each name"
        ));
    };
    let mut seen = HashSet::new();
    let mut entries = Vec::new();
    for property in &servers.properties {
        let name = property.name.as_str();
        if !seen.insert(name.to_owned()) {
            return Err(format!(
                "line {}: there are two servers named `{name}`; give one of them another name",
                line_of(text, property)
            ));
        }
        entries.push((name.to_owned(), property.value.clone().into()));
    }
    Ok(entries)
}

const SHAPE: &str = r#"It should look like {"mcpServers": {"files": {"command": "npx", "args": ["…"]}, "web": {"url": "https://…/mcp"}}}"#;

fn options() -> ParseOptions {
    ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    }
}

fn line_of(text: &str, property: &ObjectProp<'_>) -> usize {
    let before = text.get(..property.start()).unwrap_or_default();
    before.matches('\n').count() + 1
}

/// One server; `None` for one that is switched off.
fn server(
    name: String,
    entry: Value,
    variables: &Variables,
) -> Result<Option<ServerConfig>, String> {
    if name.trim().is_empty() || name.len() > LONGEST_NAME || name.chars().any(char::is_control) {
        return Err(format!(
            "`{}` can't be the name of a server: a name has 1 to {LONGEST_NAME} bytes and no control characters",
            name.escape_debug()
        ));
    }
    let wrong = |reason: String| format!("mcpServers.{name}: {reason}");
    if !entry.is_object() {
        return Err(wrong(format!("it has to be an object. {SHAPE}")));
    }
    let entry = Entry::deserialize(flattened(entry)).map_err(|error| wrong(error.to_string()))?;
    if entry.disabled == Some(true) || entry.enabled == Some(false) {
        return Ok(None);
    }
    let shape = Shape::of(&entry).map_err(wrong)?;
    let mut secrets = Vec::new();
    let transport = shape.expand(&entry, variables, &mut secrets);
    Ok(Some(ServerConfig {
        name,
        description: entry.description,
        transport,
        start_timeout: entry.start_timeout_ms.map(Duration::from_millis),
        secrets,
    }))
}

/// Zed has `{"source": "custom", "command": {"path": …, "args": …, "env": …}}`, and older tiny agents
/// `{"type": …, "config": {…}}`.
fn flattened(mut entry: Value) -> Value {
    for (key, path) in [("command", Some("path")), ("config", None)] {
        let Some(Value::Object(mut inner)) = entry.get(key).cloned() else {
            continue;
        };
        if let Some(path) = path
            && let Some(program) = inner.remove(path)
        {
            inner.insert(key.to_owned(), program);
        }
        let mut whole: Map<String, Value> = entry.as_object().cloned().unwrap_or_default();
        whole.remove(key);
        whole.extend(inner);
        entry = Value::Object(whole);
    }
    entry
}

enum Shape<'a> {
    Stdio(&'a str),
    Http(&'a str),
}

impl<'a> Shape<'a> {
    fn of(entry: &'a Entry) -> Result<Self, String> {
        let kind = entry.kind.as_deref().map(str::to_lowercase);
        let is_http = |kind: &str| {
            matches!(
                kind,
                "http" | "streamable-http" | "streamablehttp" | "streamable_http"
            )
        };
        match (kind.as_deref(), &entry.command, &entry.url) {
            (Some("sse"), _, _) => Err(
                "servers of type `sse` are not supported; most of them have a streamable HTTP endpoint too: give its \
                 `url` with type `http`"
                    .to_owned(),
            ),
            (None | Some("stdio"), Some(command), _) if !command.trim().is_empty() => {
                Ok(Self::Stdio(command))
            }
            (Some("stdio"), _, _) => Err("a server of type `stdio` needs a `command`".to_owned()),
            (None, _, Some(url)) => Ok(Self::Http(url)),
            (Some(kind), _, Some(url)) if is_http(kind) => Ok(Self::Http(url)),
            (Some(kind), _, None) if is_http(kind) => {
                Err(format!("a server of type `{kind}` needs a `url`"))
            }
            (Some(kind), _, _) => Err(format!("the type `{kind}` is not known; there are `stdio` and `http`")),
            (None, _, None) => Err("it needs a `command` (a program to start) or a `url`".to_owned()),
        }
    }

    /// The way to the server with all variables in place. Collects what nobody may see.
    fn expand(
        self,
        entry: &Entry,
        variables: &Variables,
        secrets: &mut Vec<String>,
    ) -> Result<Transport, String> {
        let expand = |text: &str| expand::expand(text, variables);
        let expand_all = |of: &BTreeMap<String, Scalar>| {
            let pairs = of.iter();
            let pairs = pairs.map(|(name, value)| Ok((name.clone(), expand(&value.text())?)));
            pairs.collect::<Result<BTreeMap<String, String>, String>>()
        };
        match self {
            Self::Stdio(command) => {
                let environment = expand_all(&entry.env)?;
                secrets.extend(environment.values().cloned());
                for argument in &entry.args {
                    let expanded = expand(argument)?;
                    if expanded != *argument {
                        secrets.push(expanded);
                    }
                }
                let arguments = entry.args.iter().map(|argument| expand(argument));
                Ok(Transport::Stdio {
                    command: expand(command)?,
                    arguments: arguments.collect::<Result<_, _>>()?,
                    environment,
                    folder: entry
                        .cwd
                        .as_deref()
                        .map(expand)
                        .transpose()?
                        .map(PathBuf::from),
                })
            }
            Self::Http(url) => {
                let url = expand(url)?;
                let parsed = reqwest::Url::parse(&url);
                let parsed = parsed.map_err(|error| format!("its `url` is not one: {error}"))?;
                if !matches!(parsed.scheme(), "http" | "https") {
                    return Err("its `url` has to begin with http:// or https://".to_owned());
                }
                secrets.extend(parsed.query().map(str::to_owned));
                secrets.extend(parsed.query_pairs().map(|(_, value)| value.into_owned()));
                secrets.extend(parsed.password().map(str::to_owned));
                let headers = expand_all(&entry.headers)?;
                for value in headers.values() {
                    secrets.push(value.clone());
                    secrets.extend(value.split_whitespace().skip(1).map(str::to_owned));
                }
                Ok(Transport::Http { url, headers })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Config, Transport, Variables};

    fn variables() -> Variables {
        let known = [("TOKEN", "s3cret-token"), ("EMPTY", "")];
        Variables::of(Path::new("/work"), move |name| {
            let found = known.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    fn parse(text: &str) -> Result<Config, String> {
        Config::parse(text, &variables())
    }

    #[test]
    fn configurations_of_desktop_clients_are_read() {
        let config = parse(
            r#"{
                // As VS Code and Cursor write them.
                "inputs": [],
                "servers": {
                    "files": {"command": "npx", "args": ["-y", "server", "${workspaceFolder}"], "env": {"PORT": 80}},
                    "web": {"type": "streamable-http", "url": "https://example.com/mcp?key=${env:TOKEN}",
                            "headers": {"Authorization": "Bearer ${TOKEN}", "X": "${UNSET:-none}"},},
                    "zed": {"source": "custom", "command": {"path": "zed-server", "args": ["a"]}},
                    "off": {"command": "x", "disabled": true},
                }
            }"#,
        )
        .unwrap();
        let names: Vec<&str> = config.servers.iter().map(|of| of.name.as_str()).collect();
        assert_eq!(names, ["files", "web", "zed"]);
        let Ok(Transport::Stdio {
            arguments,
            environment,
            ..
        }) = &config.servers[0].transport
        else {
            panic!("{config:?}");
        };
        assert_eq!(arguments[2], "/work");
        assert_eq!(environment["PORT"], "80");
        let Ok(Transport::Http { url, headers }) = &config.servers[1].transport else {
            panic!("{config:?}");
        };
        assert_eq!(url, "https://example.com/mcp?key=s3cret-token");
        assert_eq!(headers["Authorization"], "Bearer s3cret-token");
        assert_eq!(headers["X"], "none");
        assert!(
            config.servers[1]
                .secrets
                .contains(&"s3cret-token".to_owned())
        );
        assert!(
            matches!(&config.servers[2].transport, Ok(Transport::Stdio { command, .. }) if command == "zed-server")
        );
    }

    #[test]
    fn mistakes_are_told_with_their_place_and_what_would_be_right() {
        for (text, expected) in [
            ("", "not a configuration"),
            ("{", "not JSON"),
            (
                r#"{"mcpServers": {"a": {"command": "x"}} "more": 1}"#,
                "line 1",
            ),
            ("[]", "not a configuration"),
            (r#"{"servrs": {}}"#, "there is: servrs"),
            (r#"{"mcpServers": []}"#, "has to be an object"),
            (
                r#"{"mcpServers": {"a": 1}}"#,
                "mcpServers.a: it has to be an object",
            ),
            (
                r#"{"mcpServers": {"a": {}}}"#,
                "mcpServers.a: it needs a `command`",
            ),
            (
                r#"{"mcpServers": {"a": {"command": 1}}}"#,
                "mcpServers.a: invalid type",
            ),
            (
                r#"{"mcpServers": {"a": {"type": "http"}}}"#,
                "needs a `url`",
            ),
            (
                r#"{"mcpServers": {"a": {"type": "pigeon", "url": "x"}}}"#,
                "`pigeon` is not known",
            ),
            (
                r#"{"mcpServers": {"a": {"type": "sse", "url": "http://x"}}}"#,
                "`sse` are not supported",
            ),
            (
                r#"{"mcpServers": {"": {"command": "x"}}}"#,
                "can't be the name",
            ),
            (
                "{\"mcpServers\": {\"a\": {\"command\": \"x\"},\n \"a\": {\"command\": \"y\"}}}",
                "line 2: there are two servers named `a`",
            ),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn what_can_not_be_expanded_is_the_servers_own_problem() {
        let config = parse(
            r#"{"mcpServers": {"a": {"command": "x", "env": {"K": "${MISSING}"}}, "b": {"command": "y"},
                "c": {"command": "z", "args": ["${input:key}"]}, "d": {"url": "ftp://x"}}}"#,
        )
        .unwrap();
        let problem = |index: usize| config.servers[index].transport.clone().unwrap_err();
        assert!(
            problem(0).contains("`MISSING` is not set"),
            "{}",
            problem(0)
        );
        assert!(config.servers[1].transport.is_ok());
        assert!(problem(2).contains("input"), "{}", problem(2));
        assert!(problem(3).contains("http://"), "{}", problem(3));
    }
}
