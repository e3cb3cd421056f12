//! MCP: the tool, its results, its notifications, and the transports.

mod active;
mod admission;
mod answers;
mod arguments;
mod asking;
mod audience;
mod channel;
mod dispatch;
mod elicit;
mod handler;
pub mod http;
mod in_process;
mod lines;
mod link;
mod live;
mod loader;
mod message;
mod metrics;
mod offer;
mod outcome;
mod request;
mod road;
mod schema;
mod service;
mod settings;
mod signals;
mod stdio;
mod suspended;
mod trace;
mod upstream;
mod waiting;

pub use self::{
    admission::AdmissionLimits,
    handler::Callgate,
    in_process::{ClientEnd, connect as connect_in_process},
    outcome::{Pieces, RunOutcome, value_text},
    schema::{CALLBACKS_EXTENSION, RUN_PYTHON_CODE},
    service::Service,
    settings::{Callbacks, ReturnMode, Settings},
    signals::Signals,
    stdio::serve as serve_stdio,
    suspended::SuspendedLimits,
    trace::TARGET as TRACE_TARGET,
    upstream::{UpstreamRoad, UpstreamServers},
};
