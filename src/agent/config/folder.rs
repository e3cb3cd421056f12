//! An agent as it lies in a folder, or on the Hub.

use std::{
    env, fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use jsonc_parser::{CollectOptions, parse_to_ast};
use serde_json::Value;

use super::{
    AgentConfig, ConfigError, Document, Input, InputValues, Overrides, hub, inputs, servers,
};
use crate::upstream::jsonc;

const FILE: &str = "agent.json";

/// Prompts, the first that is there.
pub(super) const PROMPTS: [&str; 2] = ["PROMPT.md", "AGENTS.md"];

/// A larger file is no configuration, and a larger prompt none (bytes).
const LARGEST: u64 = 4 << 20;

/// Where an agent comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// This machine.
    Local,
    /// The Hub: somebody else wrote it.
    Hub,
}

/// An agent whose inputs have no values yet.
#[derive(Debug, Clone)]
pub struct AgentFolder {
    /// Where it comes from.
    pub origin: Origin,
    /// Its name, for people.
    pub name: String,
    /// The file, for messages.
    place: String,
    document: Value,
    prompt: Option<String>,
}

impl AgentFolder {
    /// Reads the folder or the file at `path`, or fetches the agent of that name from the Hub's collection.
    ///
    /// # Errors
    /// When there is none, or its file is not JSON.
    pub async fn load(path: &str) -> Result<Self, ConfigError> {
        let local = expanded(path);
        if local.is_dir() {
            return Self::of_folder(&local);
        }
        if local.is_file() {
            return Self::of_file(&local, None);
        }
        if !hub::is_name(path) {
            return Err(ConfigError::Missing(format!(
                "there is no folder and no file `{path}`; give a folder with an {FILE}, the file itself, or the name of \
                 an agent of the Hub's collection, like `julien-c/flux-schnell-generator`"
            )));
        }
        let fetched = hub::fetch(path).await?;
        Self::new(
            Origin::Hub,
            path.to_owned(),
            fetched.place,
            &fetched.document,
            fetched.prompt,
        )
    }

    fn of_folder(folder: &Path) -> Result<Self, ConfigError> {
        let file = folder.join(FILE);
        if !file.is_file() {
            return Err(ConfigError::Missing(format!(
                "there is no {FILE} in {}; an agent's folder needs one, with its `model` and its `servers`",
                folder.display()
            )));
        }
        let prompt = PROMPTS
            .iter()
            .map(|name| folder.join(name))
            .find(|prompt| prompt.is_file());
        Self::of_file(&file, prompt.as_deref())
    }

    fn of_file(file: &Path, prompt: Option<&Path>) -> Result<Self, ConfigError> {
        let text = read(file)?;
        let prompt = prompt.map(read).transpose()?;
        let folder = file
            .parent()
            .and_then(Path::file_name)
            .unwrap_or(file.as_os_str());
        let name = folder.to_string_lossy().into_owned();
        Self::new(
            Origin::Local,
            name,
            file.display().to_string(),
            &text,
            prompt,
        )
    }

    fn new(
        origin: Origin,
        name: String,
        place: String,
        text: &str,
        prompt: Option<String>,
    ) -> Result<Self, ConfigError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let document = parse_to_ast(text, &CollectOptions::default(), &jsonc());
        let document = document.map(|parsed| parsed.value.map_or(Value::Null, Into::into));
        let document = match document {
            Ok(document @ Value::Object(_)) => document,
            Ok(_) => return Err(wrong(&place, format!("not an agent: {SHAPE}"))),
            Err(error) => return Err(wrong(&place, format!("not JSON: {error}"))),
        };
        // An empty prompt says nothing.
        let prompt = prompt.filter(|prompt| !prompt.trim().is_empty());
        let folder = Self {
            origin,
            name,
            place,
            document,
            prompt,
        };
        // What is wrong is told before anything is asked.
        let read = folder.read(&folder.document)?;
        let servers = read.servers.as_deref().unwrap_or_default();
        servers::parse(servers).map_err(|reason| wrong(&folder.place, reason))?;
        Ok(folder)
    }

    /// The inputs that something uses, in their order.
    #[must_use]
    pub fn inputs(&self) -> Vec<Input> {
        let document = self.read(&self.document);
        let declared = document.ok().and_then(|document| document.inputs);
        let mut used = declared.unwrap_or_default();
        used.retain(|input| inputs::is_used(&self.document, input));
        used
    }

    /// What looks like a mistake and is none.
    #[must_use]
    pub fn remarks(&self) -> Vec<String> {
        let document = self.read(&self.document);
        let declared = document
            .ok()
            .and_then(|document| document.inputs)
            .unwrap_or_default();
        let unused = declared
            .iter()
            .filter(|input| !inputs::is_used(&self.document, input));
        let unused = unused.map(|input| format!("nothing uses the input `{}`", input.id));
        let undeclared = inputs::undeclared(&self.document, &declared);
        let undeclared = undeclared.into_iter().map(|id| {
            format!(
                "there is no input `{id}`, so `${{input:{id}}}` stays as it is; add it to `inputs`"
            )
        });
        unused
            .chain(undeclared)
            .map(|remark| format!("{}: {remark}", self.place))
            .collect()
    }

    /// The agent, with values for its inputs.
    ///
    /// # Errors
    /// When something in it can't be understood, with the place.
    pub fn configure(
        &self,
        values: &InputValues,
        overrides: &Overrides,
    ) -> Result<AgentConfig, ConfigError> {
        let mut filled = self.document.clone();
        values.fill(&mut filled);
        let document = self.read(&filled)?;
        let wrong = |reason| wrong(&self.place, reason);
        let mut servers =
            servers::parse(document.servers.as_deref().unwrap_or_default()).map_err(wrong)?;
        // Names are seen by everybody; they are made from what stands there, not from what was answered.
        let bare = self.read(&self.document)?.servers.unwrap_or_default();
        let bare = servers::parse(&bare).map_err(wrong)?;
        for (server, bare) in servers.iter_mut().zip(bare) {
            server.config.name = bare.config.name;
            server.config.secrets.extend(values.secrets());
        }
        let endpoint = document.endpoint(overrides).map_err(wrong)?;
        Ok(AgentConfig {
            endpoint: endpoint.with_secrets(&values.secrets()),
            prompt: self.prompt.clone(),
            servers,
            policy: Arc::default(),
        })
    }

    fn read(&self, document: &Value) -> Result<Document, ConfigError> {
        serde_path_to_error::deserialize(document).map_err(|error| {
            let path = error.path().to_string();
            let reason = type_only(&error.into_inner().to_string());
            wrong(&self.place, format!("`{path}`: {reason}. {SHAPE}"))
        })
    }
}

const SHAPE: &str = r#"It should look like {"model": "…", "endpointUrl": "http://localhost:8080/v1", "servers": [{"type": "stdio", "command": "…", "args": ["…"]}]}"#;

fn wrong(place: &str, reason: String) -> ConfigError {
    ConfigError::Wrong {
        place: place.to_owned(),
        reason,
    }
}

/// serde quotes the value that is wrong, and it may be a secret.
pub(super) fn type_only(reason: &str) -> String {
    let quoted = reason
        .split_once(": ")
        .filter(|(what, _)| what.starts_with("invalid "));
    let Some((what, found)) = quoted else {
        return reason.to_owned();
    };
    let kind = found
        .split(['"', '`', ','])
        .next()
        .unwrap_or_default()
        .trim();
    match found.rsplit_once(", expected ") {
        Some((_, expected)) => format!("{what}: {kind}, expected {expected}"),
        None => what.to_owned(),
    }
}

/// `~` is the user's folder.
fn expanded(path: &str) -> PathBuf {
    match (path.strip_prefix("~/"), env::var_os("HOME")) {
        (Some(rest), Some(home)) => PathBuf::from(home).join(rest),
        _ => PathBuf::from(path),
    }
}

fn read(file: &Path) -> Result<String, ConfigError> {
    let unreadable = |error: std::io::Error| ConfigError::Wrong {
        place: file.display().to_string(),
        reason: format!("it can't be read: {error}"),
    };
    let length = fs::metadata(file).map_err(unreadable)?.len();
    if length > LARGEST {
        return Err(unreadable(std::io::Error::other(format!(
            "{length} bytes are too many"
        ))));
    }
    fs::read_to_string(file).map_err(unreadable)
}
