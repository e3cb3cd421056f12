//! Where a model is asked.

use std::fmt;

use super::ModelError;

/// Hugging Face's router, which speaks the API of chat completions for all of its providers.
const ROUTER: &str = "https://router.huggingface.co/v1";

/// The host that a Hugging Face token may be sent to without being asked, and those below it.
const HUB_HOST: &str = "huggingface.co";

/// What is shorter is no secret, and stands everywhere (bytes).
const SHORTEST_SECRET: usize = 4;

/// The endpoint of a model.
#[derive(Clone)]
pub struct Endpoint {
    url: reqwest::Url,
    model: String,
    key: Option<String>,
    /// Texts that nobody may see.
    secrets: Vec<String>,
}

impl Endpoint {
    /// A model at a base URL like `http://localhost:8080/v1`, or at the URL of chat completions itself.
    ///
    /// # Errors
    /// When that is no HTTP URL.
    pub fn new(base: &str, model: &str, key: Option<String>) -> Result<Self, String> {
        let shown = base.split('?').next().unwrap_or(base);
        let wrong = |reason: &str| {
            format!(
                "`{shown}` is not the URL of a model's server: {reason}; it looks like http://localhost:8080/v1"
            )
        };
        let mut url = reqwest::Url::parse(base).map_err(|error| wrong(&error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(wrong("only http and https are understood"));
        }
        let path = url.path().trim_end_matches('/').to_owned();
        let path = if path.ends_with("/chat/completions") {
            path
        } else if path.ends_with("/v1") {
            format!("{path}/chat/completions")
        } else {
            format!("{path}/v1/chat/completions")
        };
        url.set_path(&path);
        Ok(Self {
            url,
            model: model.to_owned(),
            key: key
                .map(|key| key.trim().to_owned())
                .filter(|key| !key.is_empty()),
            secrets: Vec::new(),
        })
    }

    /// Texts beside the key that nobody may see.
    #[must_use]
    pub fn with_secrets(mut self, secrets: &[String]) -> Self {
        self.secrets.extend_from_slice(secrets);
        self
    }

    /// Whether the key can be sent.
    ///
    /// # Errors
    /// When it has characters that no header may have.
    pub fn check_key(&self) -> Result<(), String> {
        let key = self.key.as_deref().unwrap_or_default();
        let value = http::HeaderValue::try_from(format!("Bearer {key}"));
        value
            .map(drop)
            .map_err(|_| "the key has characters that no key can have; is it whole?".to_owned())
    }

    /// A model at one of Hugging Face's providers; `auto` leaves the choice to the router.
    ///
    /// # Errors
    /// Never, as long as the router's URL is one.
    pub fn of_provider(provider: &str, model: &str, key: Option<String>) -> Result<Self, String> {
        let model = match provider {
            "auto" => model.to_owned(),
            provider => format!("{model}:{provider}"),
        };
        Self::new(ROUTER, &model, key)
    }

    /// The key that a model's server gets where the configuration has none: a general one for any, that of
    /// Hugging Face only for its own hosts.
    #[must_use]
    pub fn with_key_of_environment(mut self, variable: impl Fn(&str) -> Option<String>) -> Self {
        let variable = |name: &str| {
            let value = variable(name).map(|value| value.trim().to_owned());
            value.filter(|value| !value.is_empty())
        };
        let of_hub = || {
            let host = self.url.host_str()?;
            let is_hub = host == HUB_HOST || host.ends_with(&format!(".{HUB_HOST}"));
            let is_hub = is_hub && self.url.scheme() == "https";
            is_hub.then(|| variable("HF_TOKEN")).flatten()
        };
        self.key = self.key.or_else(|| variable("API_KEY")).or_else(of_hub);
        self
    }

    /// The model.
    #[must_use]
    pub fn model(&self) -> &str {
        &self.model
    }

    /// The host, for people.
    #[must_use]
    pub fn host(&self) -> String {
        let host = self.url.host_str().unwrap_or_default();
        self.url
            .port()
            .map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
    }

    pub(super) fn request(&self, client: &reqwest::Client) -> reqwest::RequestBuilder {
        let request = client.post(self.url.clone());
        match &self.key {
            Some(key) => request.bearer_auth(key),
            None => request,
        }
    }

    /// A text without what nobody may see, also where it is cut off in the middle of that.
    fn cleaned_text(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in self.key.iter().chain(&self.secrets) {
            if secret.len() < SHORTEST_SECRET {
                continue;
            }
            text = text.replace(secret.as_str(), "***");
            let beginnings = secret.char_indices().map(|(end, _)| &secret[..end]).rev();
            let cut = beginnings
                .take_while(|beginning| beginning.len() >= SHORTEST_SECRET)
                .find(|beginning| {
                    text.strip_suffix('…')
                        .is_some_and(|text| text.ends_with(beginning))
                });
            if let Some(cut) = cut {
                text.truncate(text.len() - '…'.len_utf8() - cut.len());
                text.push_str("***");
            }
        }
        text
    }

    /// An error without what nobody may see.
    pub(super) fn cleaned(&self, error: ModelError) -> ModelError {
        let clean = |text: String| self.cleaned_text(&text);
        match error {
            ModelError::Unreachable(text) => ModelError::Unreachable(clean(text)),
            ModelError::Status {
                status,
                message,
                retry_after,
            } => ModelError::Status {
                status,
                message: clean(message),
                retry_after,
            },
            ModelError::InStream(text) => ModelError::InStream(clean(text)),
            ModelError::Broken(text) => ModelError::Broken(clean(text)),
            ModelError::Nonsense(text) => ModelError::Nonsense(clean(text)),
            ModelError::Stalled(time) => ModelError::Stalled(time),
        }
    }
}

impl fmt::Debug for Endpoint {
    /// Without the key, and without what a URL may hide.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} at {}", self.model, self.host())
    }
}

#[cfg(test)]
mod tests {
    use super::Endpoint;

    #[test]
    fn any_base_url_leads_to_chat_completions() {
        for (base, path) in [
            ("http://localhost:8080/v1", "/v1/chat/completions"),
            ("http://localhost:8080/v1/", "/v1/chat/completions"),
            ("http://localhost:11434", "/v1/chat/completions"),
            (
                "http://h/openai/v1?api-version=2",
                "/openai/v1/chat/completions",
            ),
            ("http://h/x/chat/completions", "/x/chat/completions"),
        ] {
            let endpoint = Endpoint::new(base, "m", None).unwrap();
            assert_eq!(endpoint.url.path(), path, "{base}");
        }
        assert!(Endpoint::new("localhost:8080", "m", None).is_err());
        assert!(Endpoint::new("file:///x", "m", None).is_err());
    }

    #[test]
    fn a_token_of_the_hub_goes_to_the_hub_alone() {
        let variable = |name: &str| (name == "HF_TOKEN").then(|| "hf_x".to_owned());
        let key = |endpoint: Endpoint| endpoint.with_key_of_environment(variable).key;
        let provider = Endpoint::of_provider("groq", "org/model", None).unwrap();
        assert_eq!(provider.model(), "org/model:groq");
        assert_eq!(key(provider).as_deref(), Some("hf_x"));
        for base in [
            "http://localhost:1/v1",
            "https://nothuggingface.co/v1",
            "http://router.huggingface.co/v1",
        ] {
            assert_eq!(key(Endpoint::new(base, "m", None).unwrap()), None, "{base}");
        }
        let own = Endpoint::new("http://h/v1", "m", Some("mine".to_owned())).unwrap();
        assert_eq!(key(own).as_deref(), Some("mine"));
    }

    #[test]
    fn a_key_is_in_no_error_not_even_its_beginning() {
        use crate::agent::model::ModelError;
        let endpoint =
            Endpoint::new("http://h/v1", "m", Some(" sk-31415926\n".to_owned())).unwrap();
        let endpoint = endpoint.with_secrets(&["s3cret-input".to_owned()]);
        for text in [
            "x sk-31415926 y",
            "x sk-3141…",
            "x s3cret-input",
            "x s3cret…",
        ] {
            let told = endpoint
                .cleaned(ModelError::Broken(text.to_owned()))
                .to_string();
            assert!(
                told.contains("***") && !told.contains("sk-3") && !told.contains("s3c"),
                "{told}"
            );
        }
        assert!(endpoint.check_key().is_ok());
        let broken = Endpoint::new("http://h/v1", "m", Some("a\u{1}b".to_owned())).unwrap();
        assert!(broken.check_key().is_err());
    }
}
