//! One server of a configuration as it stands there, in the dialects of desktop clients.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use serde_json::{Map, Value};

use super::{
    config::Transport,
    expand::{self, Variables},
};

/// Keys that mean something here.
const UNDERSTOOD: [&str; 18] = [
    "args",
    "command",
    "cwd",
    "description",
    "disabled",
    "enabled",
    "env",
    "headers",
    "httpUrl",
    "serverUrl",
    "startTimeoutMs",
    "startupTimeout",
    "transport",
    "type",
    "url",
    // What these are for is said by the others.
    "config",
    "name",
    "source",
];

/// Keys by which clients remember what their user chose; they say nothing of the way to a server.
const OF_CLIENTS: [&str; 8] = [
    "alwaysAllow",
    "autoApprove",
    "dev",
    "gallery",
    "icon",
    "settings",
    "trust",
    "version",
];

/// What an entry says, before its variables have values.
#[derive(Debug)]
pub(super) struct Entry {
    /// What the server is for.
    pub description: Option<String>,
    /// How long it may take to start.
    pub start_timeout: Option<Duration>,
    way: Way,
}

#[derive(Debug)]
enum Way {
    Stdio {
        command: String,
        args: Vec<String>,
        env: BTreeMap<String, String>,
        cwd: Option<String>,
    },
    Http {
        url: String,
        headers: BTreeMap<String, String>,
        is_sse: bool,
    },
}

/// Whether an entry is switched off. It may make no sense otherwise.
pub(super) fn is_off(entry: &Value) -> bool {
    entry["disabled"] == Value::Bool(true) || entry["enabled"] == Value::Bool(false)
}

/// Keys that mean nothing here, though they may have to the client whose entry it is.
pub(super) fn unknown_keys(entry: &Value) -> Vec<String> {
    let flat = flattened(entry);
    let keys = flat.keys().map(String::as_str);
    let unknown = keys.filter(|key| !UNDERSTOOD.contains(key) && !OF_CLIENTS.contains(key));
    unknown.map(str::to_owned).collect()
}

/// Zed has `{"source": "custom", "command": {"path": …, "args": …, "env": …}}`, and older tiny agents
/// `{"type": …, "config": {…}}`.
pub(super) fn flattened(entry: &Value) -> Map<String, Value> {
    let mut whole = entry.as_object().cloned().unwrap_or_default();
    for (key, path) in [("command", Some("path")), ("config", None)] {
        let Some(Value::Object(inner)) = whole.get(key) else {
            continue;
        };
        let mut inner = inner.clone();
        if let Some(path) = path
            && let Some(program) = inner.shift_remove(path)
        {
            inner.insert(key.to_owned(), program);
        }
        whole.shift_remove(key);
        whole.extend(inner);
    }
    whole
}

impl Entry {
    /// Reads an entry.
    ///
    /// # Errors
    /// Why it makes no sense. It quotes no value: many are secret.
    pub fn read(entry: &Value) -> Result<Self, String> {
        if !entry.is_object() {
            let is = kind_of(entry);
            return Err(format!(
                r#"it has to be an object like {{"command": "npx", "args": ["…"]}} or {{"url": "https://…/mcp"}}, not {is}"#
            ));
        }
        let fields = Fields(flattened(entry));
        fields.flag("disabled")?;
        fields.flag("enabled")?;
        let start_timeout = match fields.milliseconds("startTimeoutMs")? {
            None => fields.milliseconds("startupTimeout")?,
            given => given,
        };
        let entry = Self {
            // What clients write there is for people.
            description: fields.0.get("description").and_then(text),
            start_timeout,
            way: Way::of(&fields)?,
        };
        entry.check()?;
        Ok(entry)
    }

    /// What can be told before variables have values.
    fn check(&self) -> Result<(), String> {
        for text in self.way.texts() {
            expand::asks(text)?;
        }
        match &self.way {
            Way::Http { url, .. } if !url.contains("${") => parsed(url).map(|_| ()),
            _ => Ok(()),
        }
    }

    /// The way to the server with all variables in place. Collects what nobody may see.
    ///
    /// # Errors
    /// When a variable has no value, or the wrong one.
    pub fn transport(
        &self,
        variables: &Variables,
        secrets: &mut Vec<String>,
    ) -> Result<Transport, String> {
        let expand = |text: &String| expand::expand(text, variables);
        let expand_all = |of: &BTreeMap<String, String>| {
            let pairs = of.iter();
            let pairs = pairs.map(|(name, value)| Ok((name.clone(), expand(value)?)));
            pairs.collect::<Result<BTreeMap<String, String>, String>>()
        };
        match &self.way {
            Way::Stdio {
                command,
                args,
                env,
                cwd,
            } => {
                let environment = expand_all(env)?;
                secrets.extend(environment.values().cloned());
                let arguments: Vec<String> = args.iter().map(expand).collect::<Result<_, _>>()?;
                let pairs = arguments.iter().zip(args);
                let of_variables = pairs.filter(|(expanded, written)| expanded != written);
                secrets.extend(of_variables.map(|(expanded, _)| expanded.clone()));
                let cwd = cwd.as_ref().map(expand).transpose()?;
                Ok(Transport::Stdio {
                    command: expand(command)?,
                    arguments,
                    environment,
                    folder: cwd.map(|cwd| variables.folder().join(PathBuf::from(cwd))),
                })
            }
            Way::Http {
                url,
                headers,
                is_sse,
            } => {
                let url = expand(url)?;
                let parsed = parsed(&url)?;
                secrets.extend(parsed.query().map(str::to_owned));
                secrets.extend(parsed.query_pairs().map(|(_, value)| value.into_owned()));
                secrets.extend(parsed.password().map(str::to_owned));
                let headers = expand_all(headers)?;
                for value in headers.values() {
                    secrets.push(value.clone());
                    secrets.extend(value.split_whitespace().skip(1).map(str::to_owned));
                }
                Ok(if *is_sse {
                    Transport::Sse { url, headers }
                } else {
                    Transport::Http { url, headers }
                })
            }
        }
    }
}

impl Way {
    fn of(fields: &Fields) -> Result<Self, String> {
        let kind = match fields.text("type")? {
            None => fields.text("transport")?,
            given => given,
        };
        let kind = kind.map(|kind| kind.to_lowercase());
        let command = fields.text("command")?;
        let command = command.filter(|command| !command.trim().is_empty());
        // Gemini CLI may have both: `httpUrl` is the one for streamable HTTP.
        let mut url = None;
        for key in ["httpUrl", "url", "serverUrl"] {
            let given = fields.text(key)?;
            url = url.or(given);
        }
        let is_sse = kind.as_deref() == Some("sse");
        match (kind.as_deref(), command, url) {
            (None | Some("stdio"), Some(command), _) => Ok(Self::Stdio {
                command,
                args: fields.texts("args")?,
                env: fields.pairs("env")?,
                cwd: fields.text("cwd")?,
            }),
            (Some("stdio"), None, _) => {
                Err("a server of type `stdio` needs a `command`".to_owned())
            }
            (
                None
                | Some("http" | "sse" | "streamable-http" | "streamablehttp" | "streamable_http"),
                _,
                Some(url),
            ) => Ok(Self::Http {
                url,
                headers: fields.pairs("headers")?,
                is_sse,
            }),
            (
                Some(
                    kind @ ("http" | "sse" | "streamable-http" | "streamablehttp"
                    | "streamable_http"),
                ),
                _,
                None,
            ) => Err(format!("a server of type `{kind}` needs a `url`")),
            (Some(_), _, _) => {
                Err("its `type` is not known; there are `stdio`, `http` and `sse`".to_owned())
            }
            (None, None, None) => {
                Err("it needs a `command` (a program to start) or a `url`".to_owned())
            }
        }
    }

    /// All texts in which variables may stand.
    fn texts(&self) -> Vec<&String> {
        match self {
            Self::Stdio {
                command,
                args,
                env,
                cwd,
            } => {
                let all = std::iter::once(command).chain(args).chain(env.values());
                all.chain(cwd).collect()
            }
            Self::Http { url, headers, .. } => {
                std::iter::once(url).chain(headers.values()).collect()
            }
        }
    }
}

fn parsed(url: &str) -> Result<reqwest::Url, String> {
    let parsed = reqwest::Url::parse(url);
    let parsed = parsed.map_err(|error| format!("its `url` is not one: {error}"))?;
    if !matches!(parsed.scheme(), "http" | "https") {
        return Err("its `url` has to begin with http:// or https://".to_owned());
    }
    Ok(parsed)
}

/// The fields of an entry. `null` is as good as nothing: some clients write all that there could be.
struct Fields(Map<String, Value>);

impl Fields {
    fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key).filter(|value| !value.is_null())
    }

    fn text(&self, key: &str) -> Result<Option<String>, String> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        match value {
            Value::String(text) => Ok(Some(text.clone())),
            other => Err(wrong(key, "a text", other)),
        }
    }

    fn flag(&self, key: &str) -> Result<(), String> {
        match self.get(key) {
            None | Some(Value::Bool(_)) => Ok(()),
            Some(other) => Err(wrong(key, "true or false", other)),
        }
    }

    fn milliseconds(&self, key: &str) -> Result<Option<Duration>, String> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        let number = value.as_u64();
        let number = number.ok_or_else(|| wrong(key, "a whole number of milliseconds", value))?;
        Ok(Some(Duration::from_millis(number)))
    }

    fn texts(&self, key: &str) -> Result<Vec<String>, String> {
        match self.get(key) {
            None => Ok(Vec::new()),
            Some(Value::Array(items)) => {
                let places = items.iter().enumerate();
                let texts = places.map(|(index, item)| {
                    text(item).ok_or_else(|| wrong(&format!("{key}[{index}]"), "a text", item))
                });
                texts.collect()
            }
            Some(other) => Err(wrong(key, "a list of texts", other)),
        }
    }

    /// Without those that are `null`.
    fn pairs(&self, key: &str) -> Result<BTreeMap<String, String>, String> {
        match self.get(key) {
            None => Ok(BTreeMap::new()),
            Some(Value::Object(members)) => {
                let given = members.iter().filter(|(_, value)| !value.is_null());
                let pairs = given.map(|(name, value)| {
                    let text = text(value);
                    let text = text.ok_or_else(|| wrong(&format!("{key}.{name}"), "a text", value));
                    Ok((name.clone(), text?))
                });
                pairs.collect()
            }
            Some(other) => Err(wrong(key, "an object of texts", other)),
        }
    }
}

/// The text of a scalar: values of environment variables are often written without quotes.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        _ => None,
    }
}

fn wrong(key: &str, right: &str, value: &Value) -> String {
    format!("`{key}` has to be {right}, not {}", kind_of(value))
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
