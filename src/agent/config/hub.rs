//! Agents of the Hub's collection: the dataset `tiny-agents/tiny-agents`, a folder for each.

use std::{env, time::Duration};

use super::{ConfigError, folder::PROMPTS};

const HUB: &str = "https://huggingface.co";
const COLLECTION: &str = "datasets/tiny-agents/tiny-agents/resolve/main";

/// How long one file may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A larger file is none of an agent's (bytes).
const LARGEST: usize = 4 << 20;

/// An agent as it was fetched.
pub(super) struct Fetched {
    /// Its URL, for messages.
    pub(super) place: String,
    /// The text of `agent.json`.
    pub(super) document: String,
    /// The prompt, if it has one.
    pub(super) prompt: Option<String>,
}

/// Whether this can be the name of an agent, and not a path that does not exist.
pub(super) fn is_name(name: &str) -> bool {
    let is_word = |word: &str| {
        let is_fine =
            |character: char| character.is_ascii_alphanumeric() || "-_.".contains(character);
        !word.is_empty() && !word.starts_with('.') && word.chars().all(is_fine)
    };
    let parts: Vec<&str> = name.split('/').collect();
    parts.len() <= 2
        && parts.into_iter().all(is_word)
        && std::path::Path::new(name)
            .extension()
            .is_none_or(|kind| kind != "json")
}

/// Fetches an agent.
///
/// # Errors
/// When there is none of that name, or no network.
pub(super) async fn fetch(name: &str) -> Result<Fetched, ConfigError> {
    let hub = env::var("HF_ENDPOINT").unwrap_or_else(|_| HUB.to_owned());
    let folder = format!("{}/{COLLECTION}/{name}", hub.trim_end_matches('/'));
    let missing = |reason: String| {
        ConfigError::Missing(format!("there is no folder `{name}` here, and {reason}"))
    };
    let client = client().map_err(missing)?;
    let place = format!("{folder}/agent.json");
    let document = get(&client, &place).await.map_err(missing)?;
    let document = document.ok_or_else(|| {
        missing(format!(
            "the Hub's collection of agents has none of that name ({folder})"
        ))
    })?;
    let mut prompt = None;
    for file in PROMPTS {
        prompt = get(&client, &format!("{folder}/{file}"))
            .await
            .map_err(missing)?;
        if prompt.is_some() {
            break;
        }
    }
    Ok(Fetched {
        place,
        document,
        prompt,
    })
}

fn client() -> Result<reqwest::Client, String> {
    // Needed once in a process; it fails only where it was done already.
    let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().timeout(TIMEOUT).build();
    client.map_err(|error| format!("no HTTP client could be made: {error}"))
}

/// A file, if there is one.
async fn get(client: &reqwest::Client, url: &str) -> Result<Option<String>, String> {
    let unreachable = |error: reqwest::Error| {
        format!("the Hub can't be asked for an agent of that name ({error}); is there a network?")
    };
    let mut request = client.get(url);
    if let Ok(token) = env::var("HF_TOKEN")
        && !token.is_empty()
    {
        request = request.bearer_auth(token);
    }
    let mut response = request.send().await.map_err(unreachable)?;
    match response.status().as_u16() {
        200 => {}
        // It says the same of what is private and of what is not there.
        401 | 403 | 404 => return Ok(None),
        status => return Err(format!("the Hub answered {status} to {url}")),
    }
    let mut body = Vec::new();
    while let Some(bytes) = response.chunk().await.map_err(unreachable)? {
        body.extend_from_slice(&bytes);
        if body.len() > LARGEST {
            return Err(format!("{url} is too large"));
        }
    }
    let text = String::from_utf8(body).map_err(|_| format!("{url} is not UTF-8"))?;
    Ok(Some(text))
}

#[cfg(test)]
mod tests {
    use super::is_name;

    #[test]
    fn names_are_told_from_paths() {
        assert!(is_name("julien-c/flux-schnell-generator"));
        assert!(is_name("playwright"));
        for path in [
            "./x", "../x", "/x", "x/y/z", "x.json", "~/x", "", "a b", "x/",
        ] {
            assert!(!is_name(path), "{path}");
        }
    }
}
