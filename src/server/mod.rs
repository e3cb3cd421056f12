//! MCP: the tool, its results, its notifications, and the transports.

mod audience;
mod channel;
mod handler;
mod lines;
mod live;
mod loader;
mod outcome;
mod request;
mod schema;
mod settings;
mod stdio;

pub use self::{
    handler::Callgate,
    loader::Loader,
    outcome::{Pieces, RunOutcome, value_text},
    schema::{CALLBACKS_EXTENSION, RUN_PYTHON_CODE},
    settings::{Callbacks, ReturnMode, Settings},
    stdio::serve as serve_stdio,
};
