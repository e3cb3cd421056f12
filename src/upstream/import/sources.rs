//! Where desktop clients keep their servers.

use std::path::{Path, PathBuf};

/// Where a client keeps its servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The client.
    pub client: &'static str,
    /// Its configuration.
    pub path: PathBuf,
    /// The folder whose servers these are, if they are not for everything that the user does.
    pub project: Option<PathBuf>,
    /// How they are written there.
    pub dialect: Dialect,
}

/// How a client writes its servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// As most do.
    Usual,
    /// Claude Code has those of a folder in the user's file, under the folder's path.
    ClaudeLocal,
    /// Gemini CLI has variables without braces.
    Gemini,
    /// Codex has TOML and keys of its own.
    Codex,
}

/// Folders of `Code`-like editors, below the folder for configurations.
const EDITORS: [(&str, &str); 3] = [
    ("VS Code", "Code"),
    ("VS Code Insiders", "Code - Insiders"),
    ("VSCodium", "VSCodium"),
];

/// Where the usual desktop clients keep their servers: those of the user in `home`, those of the
/// project in `folder`.
#[must_use]
pub fn sources(home: &Path, folder: &Path) -> Vec<Source> {
    let mut sources = of_user(home);
    sources.extend(of_project(home, folder));
    sources
}

fn of_user(home: &Path) -> Vec<Source> {
    let configs = match std::env::consts::OS {
        "macos" => home.join("Library/Application Support"),
        _ => {
            std::env::var_os("XDG_CONFIG_HOME").map_or_else(|| home.join(".config"), PathBuf::from)
        }
    };
    let source = |client, dialect, path| Source {
        client,
        path,
        project: None,
        dialect,
    };
    let usual = |client, path| source(client, Dialect::Usual, path);
    let mut sources = vec![
        usual(
            "Claude Desktop",
            configs.join("Claude/claude_desktop_config.json"),
        ),
        usual("Claude Code", home.join(".claude.json")),
        usual("Cursor", home.join(".cursor/mcp.json")),
    ];
    for (client, editor) in EDITORS {
        let user = configs.join(editor).join("User");
        let cline = "globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json";
        sources.push(usual("Cline", user.join(cline)));
        sources.push(usual(client, user.join("mcp.json")));
    }
    sources.extend([
        usual(
            "Cline",
            home.join(".cline/data/settings/cline_mcp_settings.json"),
        ),
        usual("Windsurf", home.join(".codeium/windsurf/mcp_config.json")),
        usual("Devin Desktop", configs.join("devin/mcp_config.json")),
        usual("LM Studio", home.join(".lmstudio/mcp.json")),
        source(
            "Gemini CLI",
            Dialect::Gemini,
            home.join(".gemini/settings.json"),
        ),
        usual("Zed", configs.join("zed/settings.json")),
        source("Codex", Dialect::Codex, home.join(".codex/config.toml")),
    ]);
    sources
}

fn of_project(home: &Path, folder: &Path) -> Vec<Source> {
    let here = |client, dialect, path| Source {
        client,
        path,
        project: Some(folder.to_owned()),
        dialect,
    };
    let usual = |client, path| here(client, Dialect::Usual, folder.join(path));
    vec![
        here(
            "this folder (Claude Code, local)",
            Dialect::ClaudeLocal,
            home.join(".claude.json"),
        ),
        usual("this folder (Claude Code)", ".mcp.json"),
        usual("this folder (Cursor)", ".cursor/mcp.json"),
        usual("this folder (VS Code)", ".vscode/mcp.json"),
        here(
            "this folder (Gemini CLI)",
            Dialect::Gemini,
            folder.join(".gemini/settings.json"),
        ),
        usual("this folder (Zed)", ".zed/settings.json"),
        here(
            "this folder (Codex)",
            Dialect::Codex,
            folder.join(".codex/config.toml"),
        ),
    ]
}
