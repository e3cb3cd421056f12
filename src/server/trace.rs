//! Traces: a run is a span of the trace that its client began, and each tool call a span below it.
//!
//! Names and attributes follow OpenTelemetry's semantic conventions for MCP. They hold neither code,
//! nor arguments, nor results.

use std::{collections::HashMap, sync::Arc};

use opentelemetry::propagation::TextMapPropagator as _;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use rmcp::{RoleServer, model::ProtocolVersion, service::RequestContext};
use tracing::{Instrument as _, Span, field};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use super::outcome::RunOutcome;
use crate::gate::{Route, RouteAnswer, ToolCall, TraceContext};

/// Spans with this target are exported, if anything is.
pub const TARGET: &str = "callgate::trace";

const TRACEPARENT: &str = "traceparent";
const TRACESTATE: &str = "tracestate";

/// The trace of one run.
#[derive(Clone)]
pub struct RunTrace {
    span: Span,
    /// What the client sent.
    inherited: TraceContext,
}

impl RunTrace {
    /// Begins the span of a call of `tool`, below the one that the request names.
    #[must_use]
    pub fn begin(tool: &str, context: &RequestContext<RoleServer>) -> Self {
        let inherited = TraceContext {
            traceparent: context.meta.get_traceparent().map(str::to_owned),
            tracestate: context.meta.get_tracestate().map(str::to_owned),
        };
        let version = context.protocol_version();
        let span = tracing::info_span!(
            target: TARGET,
            "tools/call",
            otel.name = format!("tools/call {tool}"),
            otel.kind = "server",
            otel.status_code = field::Empty,
            mcp.method.name = "tools/call",
            gen_ai.tool.name = tool,
            mcp.protocol.version = version.as_ref().map(ProtocolVersion::as_str),
            jsonrpc.request.id = %context.id,
            error.type = field::Empty,
        );
        // Without an exporter there is no span to have a parent.
        let _ = span.set_parent(TraceContextPropagator::new().extract(&carrier(&inherited)));
        Self { span, inherited }
    }

    /// The span.
    #[must_use]
    pub fn span(&self) -> &Span {
        &self.span
    }

    /// Says how the run ended.
    pub fn end(&self, outcome: &RunOutcome) {
        if outcome.error.is_some() {
            self.span.record("otel.status_code", "error");
            self.span.record("error.type", outcome.label());
        }
    }

    /// The span of one call, and what tells the tool of it.
    fn call(&self, tool: &str) -> (Span, TraceContext) {
        let span = tracing::info_span!(
            target: TARGET,
            parent: &self.span,
            "tool call",
            otel.name = format!("call_tool {tool}"),
            otel.kind = "client",
            otel.status_code = field::Empty,
            mcp.method.name = "notifications/tool_call_request",
            gen_ai.tool.name = tool,
            error.type = field::Empty,
        );
        let mut passed_on = HashMap::new();
        TraceContextPropagator::new().inject_context(&span.context(), &mut passed_on);
        let Some(traceparent) = passed_on.remove(TRACEPARENT) else {
            return (span, self.inherited.clone());
        };
        let context = TraceContext {
            traceparent: Some(traceparent),
            tracestate: passed_on
                .remove(TRACESTATE)
                .filter(|state| !state.is_empty()),
        };
        (span, context)
    }
}

fn carrier(context: &TraceContext) -> HashMap<String, String> {
    let TraceContext {
        traceparent,
        tracestate,
    } = context.clone();
    [(TRACEPARENT, traceparent), (TRACESTATE, tracestate)]
        .into_iter()
        .filter_map(|(key, value)| Some((key.to_owned(), value?)))
        .collect()
}

/// A route whose calls are spans of a trace.
pub struct TracedRoute {
    /// The route itself.
    pub route: Arc<dyn Route>,
    /// The trace of the run.
    pub trace: RunTrace,
}

impl Route for TracedRoute {
    fn call(&self, mut call: ToolCall) -> RouteAnswer {
        let (span, context) = self.trace.call(&call.tool);
        call.trace = context;
        let answer = self.route.call(call);
        let recorded = span.clone();
        let answer = async move {
            let answer = answer.await;
            if answer.is_err() {
                recorded.record("otel.status_code", "error");
                recorded.record("error.type", "tool_error");
            }
            answer
        };
        Box::pin(answer.instrument(span))
    }

    fn withdraw(&self, request_id: &str, reason: &str) {
        self.route.withdraw(request_id, reason);
    }
}
