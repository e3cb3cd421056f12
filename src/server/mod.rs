//! MCP: the tool, its results, its notifications, and the transports.

mod admission;
mod audience;
mod channel;
mod handler;
pub mod http;
mod lines;
mod live;
mod loader;
mod message;
mod metrics;
mod outcome;
mod request;
mod schema;
mod service;
mod settings;
mod stdio;
mod trace;

pub use self::{
    admission::AdmissionLimits,
    handler::Callgate,
    outcome::{Pieces, RunOutcome, value_text},
    schema::{CALLBACKS_EXTENSION, RUN_PYTHON_CODE},
    service::Service,
    settings::{Callbacks, ReturnMode, Settings},
    stdio::serve as serve_stdio,
    trace::TARGET as TRACE_TARGET,
};
