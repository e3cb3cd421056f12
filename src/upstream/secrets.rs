//! What a configuration holds that nobody may see, taken out of texts that others read.

/// Shorter values are words like `1` or `true`, not secrets (bytes).
const SHORTEST: usize = 6;

/// Stands where a secret stood.
const REMOVED: &str = "***";

/// The secrets of one server.
#[derive(Debug, Clone, Default)]
pub struct Secrets(Vec<String>);

impl Secrets {
    /// These texts, those too short to be secrets left out.
    #[must_use]
    pub fn new(mut texts: Vec<String>) -> Self {
        texts.retain(|text| text.len() >= SHORTEST);
        // A longer one may hold a shorter one.
        texts.sort_by_key(|text| std::cmp::Reverse(text.len()));
        texts.dedup();
        Self(texts)
    }

    /// The text without them.
    #[must_use]
    pub fn remove(&self, text: &str) -> String {
        let without = |text: String, secret: &String| text.replace(secret.as_str(), REMOVED);
        self.0.iter().fold(text.to_owned(), without)
    }
}
