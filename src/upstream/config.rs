//! The configuration of servers, in the format of desktop clients: `{"mcpServers": {NAME: {…}}}`, or `servers` as VS
//! Code has it. Comments and trailing commas are fine; what a client keeps there for itself is skipped.

use std::{
    collections::BTreeMap,
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
use serde_json::Value;

use super::{
    entry::{self, Entry},
    expand::Variables,
};

/// Keys under which clients keep their servers.
pub(super) const KEYS: [&str; 3] = ["mcpServers", "servers", "context_servers"];

/// The longest name of a server: it stands in what models read.
const LONGEST_NAME: usize = 100;

/// A larger configuration is not one (bytes).
const LARGEST: u64 = 4 << 20;

/// Servers as they stand there by their names, or what is wrong with one.
pub(super) type Entries = Vec<(String, Result<Value, String>)>;

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
    /// Names of those that are switched off.
    pub switched_off: Vec<String>,
}

/// How one server is reached.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Its name.
    pub name: String,
    /// What it is for, if the configuration says so.
    pub description: Option<String>,
    /// The way to it, or why there is none: a variable that is not set, an entry that makes no sense.
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
    /// Streamable HTTP, or what came before it where a server knows no other.
    Http {
        /// The endpoint.
        url: String,
        /// What every request carries.
        headers: BTreeMap<String, String>,
    },
    /// HTTP+SSE, as it was until 2024-11-05.
    Sse {
        /// Where its events are.
        url: String,
        /// What every request carries.
        headers: BTreeMap<String, String>,
    },
}

impl Config {
    /// Reads the configuration at `path`.
    ///
    /// # Errors
    /// When it can't be read, or is no configuration; with the place.
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
        // What the file says of its folder shall be true wherever a server is started.
        let path = std::path::absolute(path).map_err(unreadable)?;
        let folder = path.parent().unwrap_or(Path::new("/"));
        Self::parse(&text, &Variables::of_process(folder)).map_err(|reason| ConfigError::Wrong {
            path: path.clone(),
            reason,
        })
    }

    /// The names of all servers, of those that are switched off too.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        let on = self.servers.iter().map(|server| server.name.as_str());
        on.chain(self.switched_off.iter().map(String::as_str))
            .collect()
    }

    /// Reads the text of a configuration.
    ///
    /// # Errors
    /// When the whole is no configuration. A server that makes no sense is one that is down.
    pub fn parse(text: &str, variables: &Variables) -> Result<Self, String> {
        let mut config = Self::default();
        for (name, entry) in entries(text)? {
            if let Err(reason) = check_name(&name) {
                let name: String = name.chars().take(LONGEST_NAME).collect();
                tracing::warn!("`{}` is left out: {reason}", name.escape_debug());
                continue;
            }
            match server(name.clone(), entry, variables) {
                Some(server) => config.servers.push(server),
                None => config.switched_off.push(name),
            }
        }
        Ok(config)
    }
}

/// The servers of a configuration as they stand there; instead of two of one name, what is wrong with them.
///
/// # Errors
/// When it is not JSON, or has no servers.
pub(super) fn entries(text: &str) -> Result<Entries, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let parsed = parse_to_ast(text, &CollectOptions::default(), &jsonc());
    let parsed = parsed.map_err(|error| format!("not JSON: {error}"))?;
    let Some(ast::Value::Object(root)) = parsed.value else {
        return Err(format!("not a configuration of servers: {SHAPE}"));
    };
    let servers = servers_of(text, &root)?;
    let mut entries = Entries::new();
    for property in &servers.properties {
        let name = property.name.as_str();
        let line = line_of(text, property);
        // Whichever is meant, it would be the wrong one half of the time.
        if let Some((_, first)) = entries.iter_mut().find(|(known, _)| known == name) {
            *first = Err(format!(
                "there are two servers named `{name}` (line {line}); give one of them another name"
            ));
            continue;
        }
        entries.push((name.to_owned(), Ok(property.value.clone().into())));
    }
    Ok(entries)
}

fn servers_of<'a, 'b>(
    text: &str,
    root: &'b ast::Object<'a>,
) -> Result<&'b ast::Object<'a>, String> {
    let of_key = |key: &str| {
        let properties = root.properties.iter();
        let of_key = properties.filter(|property| property.name.as_str() == key);
        of_key.collect::<Vec<_>>()
    };
    let found = KEYS.into_iter().map(of_key);
    let Some(found) = found.into_iter().find(|found| !found.is_empty()) else {
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
    let key = found[0].name.as_str();
    if let Some(second) = found.get(1) {
        return Err(format!(
            "line {}: `{key}` stands there twice; put all servers into one",
            line_of(text, second)
        ));
    }
    match &found[0].value {
        ast::Value::Object(servers) => Ok(servers),
        _ => Err(format!(
            "`{key}` has to be an object with a server for each name"
        )),
    }
}

const SHAPE: &str = r#"It should look like {"mcpServers": {"files": {"command": "npx", "args": ["…"]}, "web": {"url": "https://…/mcp"}}}"#;

/// JSON as people write configurations: with comments and trailing commas, and nothing else.
#[must_use]
pub fn jsonc() -> ParseOptions {
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

/// One server; `None` for one that is switched off. One that makes no sense is a server that is down: the others work.
fn server(
    name: String,
    entry: Result<Value, String>,
    variables: &Variables,
) -> Option<ServerConfig> {
    if entry.as_ref().is_ok_and(entry::is_off) {
        return None;
    }
    let mut secrets = Vec::new();
    let read = entry.and_then(|entry| Entry::read(&entry));
    let (transport, description, start_timeout) = match read {
        Ok(entry) => (
            entry.transport(variables, &mut secrets),
            entry.description,
            entry.start_timeout,
        ),
        Err(reason) => (Err(reason), None, None),
    };
    Some(ServerConfig {
        name,
        description,
        transport,
        start_timeout,
        secrets,
    })
}

/// Whether a server can be called so: its name stands in what models read.
///
/// # Errors
/// What a name has to be like.
pub(super) fn check_name(name: &str) -> Result<(), String> {
    if name.trim().is_empty() || name.len() > LONGEST_NAME || name.chars().any(char::is_control) {
        return Err(format!(
            "a server can't be named so: a name has 1 to {LONGEST_NAME} bytes and no control characters"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Config, Transport, Variables};

    fn variables() -> Variables {
        let known = [("TOKEN", "s3cret-token"), ("EMPTY", "")];
        Variables::of(Path::new("/folder"), move |name| {
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
        assert_eq!(arguments[2], "/folder");
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
    fn what_is_no_configuration_is_told_with_the_place() {
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
                "{\"mcpServers\": {},\n \"mcpServers\": {}}",
                "line 2: `mcpServers` stands there twice",
            ),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn an_entry_that_makes_no_sense_is_a_server_that_is_down() {
        for (entry, expected) in [
            ("1", "it has to be an object like"),
            ("{}", "it needs a `command`"),
            (
                r#"{"command": ["s3cret"]}"#,
                "`command` has to be a text, not a list",
            ),
            (
                r#"{"command": "x", "env": "s3cret"}"#,
                "`env` has to be an object of texts, not a text",
            ),
            (
                r#"{"command": "x", "args": ["a", {"s3cret": 1}]}"#,
                "`args[1]` has to be a text, not an object",
            ),
            (
                r#"{"command": "x", "disabled": "s3cret"}"#,
                "`disabled` has to be true or false, not a text",
            ),
            (r#"{"type": "http"}"#, "needs a `url`"),
            (
                r#"{"type": "s3cret", "url": "x"}"#,
                "its `type` is not known",
            ),
            (r#"{"url": "s3cret"}"#, "its `url` is not one"),
            (
                r#"{"command": "x"}, "a": {"command": "y"}"#,
                "there are two servers named `a` (line 1)",
            ),
        ] {
            let text = format!(r#"{{"mcpServers": {{"a": {entry}, "b": {{"command": "y"}}}}}}"#);
            let config = parse(&text).expect(&text);
            let reason = config.servers[0].transport.clone().expect_err(&text);
            assert!(
                reason.contains(expected) && !reason.contains("s3cret"),
                "{text}: {reason}"
            );
            let other = config.servers.last().expect("it is there");
            assert!(other.name == "b" && other.transport.is_ok(), "{config:?}");
        }
        // What can't even be named.
        let config = parse(r#"{"mcpServers": {"": {"command": "x"}, "b": {"command": "y"}}}"#);
        assert_eq!(config.unwrap().servers.len(), 1);
    }

    #[test]
    fn what_is_null_is_not_there_and_urls_have_their_order() {
        let config = parse(
            r#"{"mcpServers": {
                "a": {"command": "x", "args": null, "env": {"A": null, "B": true}, "cwd": "sub", "url": null, "type": null},
                "b": {"url": "http://x/sse", "httpUrl": "http://x/mcp", "command": null},
                "c": {"url": "http://x/sse", "type": "SSE", "headers": null},
                "d": {"command": null, "enabled": false}
            }}"#,
        )
        .unwrap();
        let Ok(Transport::Stdio {
            environment,
            folder,
            ..
        }) = &config.servers[0].transport
        else {
            panic!("{config:?}");
        };
        assert_eq!(environment.len(), 1);
        assert_eq!(folder.as_deref(), Some(Path::new("/folder/sub")));
        assert!(
            matches!(&config.servers[1].transport, Ok(Transport::Http { url, .. }) if url == "http://x/mcp")
        );
        assert!(matches!(
            config.servers[2].transport,
            Ok(Transport::Sse { .. })
        ));
        assert_eq!(config.switched_off, ["d"]);
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
