//! callgate runs Python that a language model wrote, and lets it call the agent's tools.
//!
//! - [`commands`]: the command line, one file a subcommand.
//! - [`agent`]: the tiny agent: a model client, a loop, and callgate's own server in the middle.
//! - [`server`]: MCP: tool schemas, results, notifications, transports.
//! - [`gate`]: tool calls out of the sandbox: what was offered, pending calls, timeouts, routes.
//! - [`upstream`]: callgate as a client of other MCP servers; knows none of the others.
//! - [`sandbox`]: one run of Python: a fresh instance, its limits, its end.
//! - [`image`]: runtime images: obtaining CPython, compiling, snapshotting, caching, loading it.
//! - [`wasi`]: the guest's system: files in memory, clocks, randomness; nothing of the host.
//!
//! Each knows only those below it.

// Input can reach everything here. (Tests say `unwrap` for `assert`.)
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::expect_used))]

pub mod agent;
pub mod commands;
pub mod gate;
pub mod image;
pub mod sandbox;
pub mod server;
pub mod upstream;
pub mod wasi;
