//! By which road a client is asked to answer tool calls. This is the only place that decides it;
//! docs/clients.md has the order for people.

use std::sync::atomic::{AtomicBool, Ordering};

use rmcp::{RoleServer, model::ProtocolVersion, service::RequestContext};

use super::{schema, settings::Callbacks};

/// The first revision whose clients must declare that they answer callbacks.
const FIRST_DECLARING_REVISION: &str = "2026-07-28";

/// Names by which clients for people introduce themselves that have no way to answer a notification,
/// in lower case; what follows after a character that is no letter or digit does not matter.
const WITHOUT_A_HOOK: [&str; 29] = [
    "amp-mcp-client",
    "anthropic/claudeai",
    "antigravity-client",
    "chatgpt",
    "claude-ai",
    "claude-code",
    "cline",
    "code - oss",
    "codex",
    "continue-cli-client",
    "continue-client",
    "crush",
    "cursor",
    "factory-cli",
    "gemini-cli-mcp-client",
    "github-copilot-developer",
    "goose",
    "junie-client",
    "kilo-code",
    "lmstudio-mcp-bridge",
    "local-agent-mode",
    "opencode",
    "q-dev-cli",
    "qwen-cli-mcp-client",
    "roo-code",
    "visual studio code",
    "visual-studio-code",
    "windsurf",
    "zed",
];

const REFUSED: &str =
    "this server was started with `--callbacks refuse`: code may not call the client's tools";
const NO_ELICITATION: &str = "this server was started with `--callbacks elicitation`, and this client has not declared \
     that it answers elicitation requests";

/// How a call reaches the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Road {
    /// As a notification; the answer is another.
    Notify,
    /// In the result of the run; the answer is a call of `resume_python_code`.
    Resume,
    /// As an elicitation: a request, or on 2026-07-28 an `input_required` result.
    Elicit,
    /// Not at all, for this reason.
    Refuse(&'static str),
}

/// What matters of a client.
#[derive(Debug, Default)]
pub struct Client {
    /// How it introduces itself.
    pub name: String,
    /// The revision that it speaks.
    pub version: Option<ProtocolVersion>,
    /// Whether it declared the extension for callbacks.
    pub declares_callbacks: bool,
    /// Whether it declared that it answers elicitations.
    pub declares_elicitation: bool,
    /// Whether its connection has shown that nobody answers notifications there.
    pub is_silent: bool,
}

impl Client {
    /// The client that made a request.
    #[must_use]
    pub fn of(context: &RequestContext<RoleServer>, hearing: &Hearing) -> Self {
        let capabilities = context.client_capabilities().unwrap_or_default();
        let extensions = capabilities.extensions.unwrap_or_default();
        Self {
            name: context
                .client_info()
                .map(|client| client.name)
                .unwrap_or_default(),
            version: context.protocol_version(),
            declares_callbacks: extensions.contains_key(schema::CALLBACKS_EXTENSION),
            declares_elicitation: capabilities.elicitation.is_some(),
            is_silent: hearing.is_silent(),
        }
    }

    /// Whether the client speaks a revision without handshake and requests of the server's own.
    #[must_use]
    pub fn is_modern(&self) -> bool {
        let version = self.version.as_ref();
        version.is_some_and(|version| version.as_str() >= FIRST_DECLARING_REVISION)
    }

    fn has_no_hook(&self) -> bool {
        let name = self.name.to_lowercase();
        let follows = |rest: &str| !rest.starts_with(char::is_alphanumeric);
        let is = |known: &&str| name.strip_prefix(known).is_some_and(follows);
        WITHOUT_A_HOOK.iter().any(is)
    }
}

/// The road for a call, from what the operator set and what is known of the client.
#[must_use]
pub fn choose(set: Callbacks, client: &Client) -> Road {
    #[expect(
        clippy::match_same_arms,
        reason = "the order of the lines is the table of docs/clients.md"
    )]
    match set {
        Callbacks::Refuse => Road::Refuse(REFUSED),
        Callbacks::Notify => Road::Notify,
        Callbacks::Resume => Road::Resume,
        Callbacks::Elicitation if client.declares_elicitation => Road::Elicit,
        Callbacks::Elicitation => Road::Refuse(NO_ELICITATION),
        // One that declared it answers; a call of its that timed out was slow, not unheard.
        Callbacks::Auto if client.declares_callbacks => Road::Notify,
        Callbacks::Auto if client.is_silent || client.has_no_hook() || client.is_modern() => {
            Road::Resume
        }
        Callbacks::Auto => Road::Notify,
    }
}

/// What became of the calls that were sent on a connection as notifications.
#[derive(Debug, Default)]
pub struct Hearing {
    has_answered: AtomicBool,
    has_missed: AtomicBool,
}

impl Hearing {
    /// The client answered a call, with whatever.
    pub fn answered(&self) {
        self.has_answered.store(true, Ordering::Relaxed);
    }

    /// A call went unanswered until its timeout.
    pub fn missed(&self) {
        self.has_missed.store(true, Ordering::Relaxed);
    }

    /// Whether calls went unanswered and none was ever answered.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        self.has_missed.load(Ordering::Relaxed) && !self.has_answered.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::{Callbacks, Client, NO_ELICITATION, ProtocolVersion, REFUSED, Road, choose};

    /// Name, revision, extension declared, elicitation declared, silent.
    fn client(
        name: &str,
        version: ProtocolVersion,
        [declares_callbacks, declares_elicitation, is_silent]: [bool; 3],
    ) -> Client {
        Client {
            name: name.to_owned(),
            version: Some(version),
            declares_callbacks,
            declares_elicitation,
            is_silent,
        }
    }

    #[test]
    fn the_table_of_roads() {
        let old = || ProtocolVersion::V_2025_11_25;
        let new = || ProtocolVersion::V_2026_07_28;
        let (no, yes) = (false, true);
        let plain = [no, no, no];
        let declared = [yes, no, no];
        let table = [
            // What the operator set comes first.
            (
                Callbacks::Refuse,
                client("agent", old(), declared),
                Road::Refuse(REFUSED),
            ),
            (
                Callbacks::Notify,
                client("claude-ai", new(), plain),
                Road::Notify,
            ),
            (
                Callbacks::Notify,
                client("agent", old(), [no, no, yes]),
                Road::Notify,
            ),
            (
                Callbacks::Resume,
                client("agent", old(), declared),
                Road::Resume,
            ),
            (
                Callbacks::Elicitation,
                client("agent", new(), [no, yes, no]),
                Road::Elicit,
            ),
            (
                Callbacks::Elicitation,
                client("agent", new(), plain),
                Road::Refuse(NO_ELICITATION),
            ),
            // Else what the client declared, what the connection has shown, its name, its revision.
            (
                Callbacks::Auto,
                client("agent", old(), [no, no, yes]),
                Road::Resume,
            ),
            (
                Callbacks::Auto,
                client("agent", new(), [yes, no, yes]),
                Road::Notify,
            ),
            (
                Callbacks::Auto,
                client("agent", new(), declared),
                Road::Notify,
            ),
            (
                Callbacks::Auto,
                client("claude-ai", old(), declared),
                Road::Notify,
            ),
            (
                Callbacks::Auto,
                client("claude-ai", old(), plain),
                Road::Resume,
            ),
            (
                Callbacks::Auto,
                client("Visual Studio Code", old(), [no, yes, no]),
                Road::Resume,
            ),
            (
                Callbacks::Auto,
                client("cursor-vscode", old(), plain),
                Road::Resume,
            ),
            (
                Callbacks::Auto,
                client("codex-mcp-client", old(), plain),
                Road::Resume,
            ),
            (Callbacks::Auto, client("Zed", old(), plain), Road::Resume),
            (
                Callbacks::Auto,
                client("Zeditor", old(), plain),
                Road::Notify,
            ),
            (Callbacks::Auto, client("agent", old(), plain), Road::Notify),
            (Callbacks::Auto, client("agent", new(), plain), Road::Resume),
            // Never by default, whatever the client can do.
            (
                Callbacks::Auto,
                client("agent", new(), [no, yes, no]),
                Road::Resume,
            ),
        ];
        for (set, client, road) in table {
            assert_eq!(choose(set, &client), road, "{set:?} {client:?}");
        }
    }

    #[test]
    fn a_connection_that_has_answered_once_is_not_silent() {
        let hearing = super::Hearing::default();
        assert!(!hearing.is_silent());
        hearing.missed();
        assert!(hearing.is_silent());
        hearing.answered();
        assert!(!hearing.is_silent());
        hearing.missed();
        assert!(!hearing.is_silent());
    }
}
