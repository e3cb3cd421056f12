//! Variables in a configuration: `${NAME}` and `${NAME:-default}` as Claude Code has them, `${env:NAME}`,
//! `${workspaceFolder}`, `${userHome}` and `${pathSeparator}` as VS Code and Cursor have them.

use std::path::{Path, PathBuf};

/// Knows the value of a variable, if it has one.
type Environment = Box<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Where values come from.
pub struct Variables {
    environment: Environment,
    folder: PathBuf,
}

impl Variables {
    /// Those of this process, for a configuration in `folder`.
    #[must_use]
    pub fn of_process(folder: &Path) -> Self {
        Self::of(folder, |name| std::env::var(name).ok())
    }

    /// Those that `environment` knows.
    pub fn of(
        folder: &Path,
        environment: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        Self {
            environment: Box::new(environment),
            folder: folder.to_owned(),
        }
    }

    /// The folder of the configuration.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn value(&self, name: &str) -> Result<String, String> {
        let kind = name.split_once(':').map_or("", |(kind, _)| kind);
        if let Some(variable) = name.strip_prefix("env:") {
            return self.variable(variable);
        }
        match (kind, name) {
            (_, "workspaceFolder") => Ok(self.folder.display().to_string()),
            (_, "userHome") => self.variable("HOME"),
            (_, "pathSeparator" | "/") => Ok(std::path::MAIN_SEPARATOR.to_string()),
            ("input", _) => Err(nobody_to_ask(name)),
            _ => self.variable(name),
        }
    }

    fn variable(&self, name: &str) -> Result<String, String> {
        let (name, default) = match name.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (name, None),
        };
        (self.environment)(name)
            .filter(|value| !value.is_empty() || default.is_none())
            .or_else(|| default.map(str::to_owned))
            .ok_or_else(|| format!("the environment variable `{name}` is not set"))
    }
}

fn nobody_to_ask(name: &str) -> String {
    let input = name.strip_prefix("input:").unwrap_or(name);
    format!(
        "`${{{name}}}` asks a person, and nobody is there to ask: put the value into an environment variable and write \
         `${{{}}}`",
        input.to_uppercase().replace('-', "_")
    )
}

/// Whether nothing in a text has to be asked of a person.
///
/// # Errors
/// What to do about it.
pub fn asks(text: &str) -> Result<(), String> {
    let names = text.split("${").skip(1);
    let names = names.filter_map(|rest| rest.split_once('}').map(|(name, _)| name));
    match names.into_iter().find(|name| name.starts_with("input:")) {
        Some(name) => Err(nobody_to_ask(name)),
        None => Ok(()),
    }
}

/// The text with its variables replaced.
///
/// # Errors
/// When one has no value.
pub fn expand(text: &str, variables: &Variables) -> Result<String, String> {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((name, after)) = after.split_once('}') else {
            break;
        };
        expanded.push_str(before);
        expanded.push_str(&variables.value(name)?);
        rest = after;
    }
    expanded.push_str(rest);
    Ok(expanded)
}
