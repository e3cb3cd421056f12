//! Which tools of which servers may be used.

use globset::{Glob, GlobSet, GlobSetBuilder};

/// What the operator allows, by patterns on `SERVER.TOOL`.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    /// If there are none, all are allowed.
    allowed: Option<GlobSet>,
    denied: GlobSet,
}

/// A pattern that is not one.
#[derive(Debug, thiserror::Error)]
#[error(
    "`{pattern}` is not a pattern for tools: {reason}; write it like `github.search_*` or `*.delete_*`"
)]
pub struct PolicyError {
    pattern: String,
    reason: String,
}

impl Policy {
    /// What matches a pattern of `allowed`, or everything if there are none, but nothing that matches
    /// one of `denied`. A pattern without a dot is for all tools of a server.
    ///
    /// # Errors
    /// When a pattern can't be read.
    pub fn new(allowed: &[String], denied: &[String]) -> Result<Self, PolicyError> {
        let some = !allowed.is_empty();
        Ok(Self {
            allowed: some.then(|| set(allowed)).transpose()?,
            denied: set(denied)?,
        })
    }

    /// Whether a tool may be used.
    #[must_use]
    pub fn allows(&self, server: &str, tool: &str) -> bool {
        let name = format!("{server}.{tool}");
        let allowed = self.allowed.as_ref();
        allowed.is_none_or(|allowed| allowed.is_match(&name)) && !self.denied.is_match(&name)
    }
}

fn set(patterns: &[String]) -> Result<GlobSet, PolicyError> {
    let wrong = |pattern: &str, reason: String| PolicyError {
        pattern: pattern.to_owned(),
        reason,
    };
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        if pattern.trim().is_empty() {
            return Err(wrong(pattern, "it is empty".to_owned()));
        }
        let whole = if pattern.contains('.') {
            pattern.clone()
        } else {
            format!("{pattern}.*")
        };
        let glob = Glob::new(&whole).map_err(|error| wrong(pattern, error.kind().to_string()))?;
        set.add(glob);
    }
    set.build()
        .map_err(|error| wrong(&patterns.join(","), error.kind().to_string()))
}

#[cfg(test)]
mod tests {
    use super::Policy;

    fn policy(allowed: &[&str], denied: &[&str]) -> Policy {
        let owned = |of: &[&str]| of.iter().map(|of| (*of).to_owned()).collect::<Vec<_>>();
        Policy::new(&owned(allowed), &owned(denied)).unwrap()
    }

    #[test]
    fn patterns_choose_tools_and_denial_wins() {
        assert!(policy(&[], &[]).allows("github", "search"));
        let only = policy(&["github.search_*", "files"], &[]);
        assert!(only.allows("github", "search_issues"));
        assert!(!only.allows("github", "delete_repo"));
        assert!(only.allows("files", "read"));
        let but = policy(&["github"], &["*.delete_*"]);
        assert!(but.allows("github", "search"));
        assert!(!but.allows("github", "delete_repo"));
        assert!(!but.allows("other", "search"));
        assert!(Policy::new(&["[".to_owned()], &[]).is_err());
    }
}
