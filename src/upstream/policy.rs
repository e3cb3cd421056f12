//! Which tools of which servers may be used.

use std::collections::HashSet;

use globset::{Glob, GlobSet, GlobSetBuilder};
use regex_automata::{Anchored, Input, hybrid::dfa::DFA, nfa::thompson, util::syntax};

/// What the operator allows, by patterns on `SERVER.TOOL`.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    /// If there are none, all are allowed.
    allowed: Option<Patterns>,
    denied: Patterns,
}

/// A pattern that is not one, or one that means nothing.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// It can't be read.
    #[error(
        "`{pattern}` is not a pattern for tools: {reason}; write it like `github.search_*` or `*.delete_*`"
    )]
    Malformed {
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        reason: String,
    },
    /// No tool of any server that is configured can match it.
    #[error(
        "`{pattern}` ({option}) matches no tool of any server of --mcp-config; there are: {}. A pattern is SERVER.TOOL, or \
         SERVER alone for all of its tools",
        if servers.is_empty() { "none".to_owned() } else { servers.join(", ") }
    )]
    MatchesNothing {
        /// The pattern.
        pattern: String,
        /// Where it was given.
        option: &'static str,
        /// The servers that there are.
        servers: Vec<String>,
    },
}

impl Policy {
    /// What matches a pattern of `allowed`, or everything if there are none, but nothing that matches
    /// one of `denied`. A pattern without a dot is for all tools of a server.
    ///
    /// # Errors
    /// When a pattern can't be read.
    pub fn new(allowed: &[String], denied: &[String]) -> Result<Self, PolicyError> {
        Self::read(allowed, denied, None)
    }

    /// The same for these servers. A pattern that is the name of one means that one, whatever its characters mean
    /// otherwise.
    ///
    /// # Errors
    /// When a pattern can't be read, or no tool of any of the servers can match it: a slip in what is denied would
    /// allow it.
    pub fn of_servers(
        allowed: &[String],
        denied: &[String],
        servers: &[&str],
    ) -> Result<Self, PolicyError> {
        Self::read(allowed, denied, Some(servers))
    }

    fn read(
        allowed: &[String],
        denied: &[String],
        servers: Option<&[&str]>,
    ) -> Result<Self, PolicyError> {
        let some = !allowed.is_empty();
        let read = |of, option| Patterns::read(of, servers, option);
        Ok(Self {
            allowed: some.then(|| read(allowed, "--allow")).transpose()?,
            denied: read(denied, "--deny")?,
        })
    }

    /// Whether a tool may be used.
    #[must_use]
    pub fn allows(&self, server: &str, tool: &str) -> bool {
        let allowed = self.allowed.as_ref();
        let is_allowed = allowed.is_none_or(|allowed| allowed.match_tool(server, tool));
        is_allowed && !self.denied.match_tool(server, tool)
    }
}

/// Patterns, any of which may match.
#[derive(Debug, Clone, Default)]
struct Patterns {
    /// Names of servers, all of whose tools match.
    servers: HashSet<String>,
    globs: GlobSet,
}

impl Patterns {
    fn read(
        patterns: &[String],
        servers: Option<&[&str]>,
        option: &'static str,
    ) -> Result<Self, PolicyError> {
        let wrong = |pattern: &str, reason: String| PolicyError::Malformed {
            pattern: pattern.to_owned(),
            reason,
        };
        let known = servers.unwrap_or_default();
        let mut whole = HashSet::new();
        let mut globs = GlobSetBuilder::new();
        for pattern in patterns {
            let pattern = pattern.trim();
            if pattern.is_empty() {
                return Err(wrong(pattern, "it is empty".to_owned()));
            }
            if known.contains(&pattern) {
                whole.insert(pattern.to_owned());
                continue;
            }
            let text = glob_of(pattern, known);
            let glob = Glob::new(&text);
            let glob = glob.map_err(|error| wrong(pattern, error.kind().to_string()))?;
            if servers.is_some() && !known.iter().any(|server| can_match(&glob, server)) {
                return Err(PolicyError::MatchesNothing {
                    pattern: pattern.to_owned(),
                    option,
                    servers: known.iter().map(|server| (*server).to_owned()).collect(),
                });
            }
            globs.add(glob);
        }
        let globs = globs.build();
        let globs = globs.map_err(|error| wrong(&patterns.join(","), error.kind().to_string()))?;
        Ok(Self {
            servers: whole,
            globs,
        })
    }

    fn match_tool(&self, server: &str, tool: &str) -> bool {
        self.servers.contains(server) || self.globs.is_match(format!("{server}.{tool}"))
    }
}

/// A pattern as a glob on `SERVER.TOOL`.
fn glob_of(pattern: &str, servers: &[&str]) -> String {
    let tools_of = |server: &&&str| {
        let tools = pattern.strip_prefix(**server);
        tools.is_some_and(|tools| tools.starts_with('.'))
    };
    // The longest: `a.b.c` may be of `a` and of `a.b`.
    let server = servers.iter().filter(tools_of).max_by_key(|of| of.len());
    match server {
        Some(server) => globset::escape(server) + &pattern[server.len()..],
        None if pattern.contains('.') => pattern.to_owned(),
        None => format!("{pattern}.*"),
    }
}

/// Whether some tool of a server could match.
fn can_match(glob: &Glob, server: &str) -> bool {
    // Where that can't be found out, the pattern is taken as it is.
    could_go_on(glob, &format!("{server}.")).unwrap_or(true)
}

/// Whether a text that begins so, and has more, could match.
fn could_go_on(glob: &Glob, beginning: &str) -> Option<bool> {
    // As globset reads it: names are bytes.
    let dfa = DFA::builder()
        .syntax(syntax::Config::new().utf8(false).dot_matches_new_line(true))
        .thompson(thompson::Config::new().utf8(false))
        .build(glob.regex())
        .ok()?;
    let mut cache = dfa.create_cache();
    let input = Input::new(beginning).anchored(Anchored::Yes);
    let mut state = dfa.start_state_forward(&mut cache, &input).ok()?;
    for byte in beginning.bytes() {
        state = dfa.next_state(&mut cache, state, byte).ok()?;
        if state.is_dead() {
            return Some(false);
        }
    }
    for byte in u8::MIN..=u8::MAX {
        let next = dfa.next_state(&mut cache, state, byte).ok()?;
        if !next.is_dead() {
            return Some(true);
        }
    }
    Some(false)
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

    #[test]
    fn names_of_servers_mean_those_servers() {
        let servers = ["git.hub", "we[ir]d", "git"];
        let denied = |pattern: &str| {
            Policy::of_servers(&[], &[pattern.to_owned()], &servers).unwrap_or_else(|error| {
                panic!("{pattern}: {error}");
            })
        };
        assert!(!denied(" git.hub ").allows("git.hub", "search"));
        assert!(denied("git.hub").allows("git", "hub"));
        assert!(!denied("we[ir]d").allows("we[ir]d", "any"));
        assert!(!denied("we[ir]d.del*").allows("we[ir]d", "delete"));
        assert!(denied("we[ir]d.del*").allows("we[ir]d", "read"));
        assert!(!denied("git.hub.se*").allows("git.hub", "search"));
        for pattern in [
            "*.delete_*",
            "g*",
            "{git,other}.x",
            "*x*",
            "git.*",
            "g*b.a.b",
        ] {
            denied(pattern);
        }
        for pattern in ["gitt", "hub.*", "other.search", "GIT.*", "git.hubs.*"] {
            let known = &servers[..2];
            let error = Policy::of_servers(&[], &[pattern.to_owned()], known);
            let error = error.expect_err(pattern).to_string();
            assert!(
                error.contains("(--deny)") && error.contains("there are: git.hub, we[ir]d"),
                "{error}"
            );
        }
    }
}
