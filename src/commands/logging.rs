//! Logs and traces.

use std::{io::IsTerminal as _, time::Duration};

use clap::Args;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::{Resource, trace::SdkTracerProvider};
use tracing::{Subscriber, level_filters::LevelFilter};
use tracing_subscriber::{
    EnvFilter, Layer, filter::Targets, layer::SubscriberExt as _, registry::LookupSpan,
    util::SubscriberInitExt as _,
};

use crate::server::TRACE_TARGET;

/// A collector that takes longer is given up.
const EXPORT_TIME: Duration = Duration::from_secs(5);

/// What is logged unless somebody says otherwise.
const DEFAULT_LOG: &str = "warn";

/// What is told of what happens.
#[derive(Debug, Clone, Args)]
pub struct Logging {
    /// What to log on standard error: `error`, `warn`, `info`, `debug`, or a filter as in `callgate=debug,rmcp=warn`
    #[arg(
        long,
        global = true,
        value_name = "FILTER",
        env = "CALLGATE_LOG",
        default_value = DEFAULT_LOG,
        help_heading = "Logs and traces"
    )]
    log: String,
    /// How to write logs
    #[arg(
        long,
        global = true,
        value_name = "FORMAT",
        env = "CALLGATE_LOG_FORMAT",
        default_value = "text",
        value_enum,
        help_heading = "Logs and traces"
    )]
    log_format: LogFormat,
    /// The OpenTelemetry collector that gets the traces (OTLP over HTTP), as in `http://localhost:4318` [default: none]
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "OTEL_EXPORTER_OTLP_ENDPOINT",
        help_heading = "Logs and traces"
    )]
    otlp_endpoint: Option<String>,
}

/// How logs are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Exports what is left of the traces when it is dropped.
pub(super) struct Exporting(Option<SdkTracerProvider>);

impl Drop for Exporting {
    fn drop(&mut self) {
        if let Some(provider) = &self.0
            && let Err(error) = provider.shutdown_with_timeout(EXPORT_TIME)
        {
            eprintln!("callgate: the last traces were not exported: {error}");
        }
    }
}

impl Logging {
    /// For a program that itself tells what happens: only what nobody else tells.
    #[must_use]
    pub(super) fn of_agent(mut self) -> Self {
        if self.log == DEFAULT_LOG {
            "error".clone_into(&mut self.log);
        }
        self
    }

    /// Logs go to standard error: standard output belongs to the protocol.
    pub(super) fn start(&self) -> Exporting {
        let provider = self.provider();
        let traces = provider.as_ref().map(|provider| {
            tracing_opentelemetry::layer()
                .with_tracer(provider.tracer("callgate"))
                .with_location(false)
                .with_threads(false)
                .with_filter(Targets::new().with_target(TRACE_TARGET, LevelFilter::INFO))
        });
        tracing_subscriber::registry()
            .with(self.lines())
            .with(traces)
            .init();
        std::panic::set_hook(Box::new(|info| tracing::error!("panic: {info}")));
        Exporting(provider)
    }

    fn lines<S>(&self) -> Box<dyn Layer<S> + Send + Sync>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let layer = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
        let filter = self.filter();
        match self.log_format {
            LogFormat::Text => layer
                .with_ansi(std::io::stderr().is_terminal())
                .with_filter(filter)
                .boxed(),
            LogFormat::Json => layer.json().with_filter(filter).boxed(),
        }
    }

    fn filter(&self) -> EnvFilter {
        // rmcp logs the bodies of notifications, tool results included, at INFO, and complains of every
        // request that ends with its connection.
        let quiet = match self.log.as_str() {
            log if log.contains("rmcp::service") => log.to_owned(),
            log if log.contains("rmcp") => {
                format!("{log},rmcp::service=off,rmcp::transport::worker=off")
            }
            log => format!("{log},rmcp=warn,rmcp::service=off,rmcp::transport::worker=off"),
        };
        EnvFilter::try_new(&quiet).unwrap_or_else(|error| {
            eprintln!("callgate: --log {}: {error}; logging warnings", self.log);
            EnvFilter::new("warn")
        })
    }

    fn provider(&self) -> Option<SdkTracerProvider> {
        let endpoint = self.otlp_endpoint.as_deref()?;
        // The collector may be behind TLS; the library wants one provider for the process.
        let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
        let exporter = SpanExporter::builder()
            .with_http()
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(format!("{}/v1/traces", endpoint.trim_end_matches('/')))
            .with_timeout(EXPORT_TIME)
            .build();
        match exporter {
            Ok(exporter) => {
                let resource = Resource::builder().with_service_name("callgate").build();
                let provider = SdkTracerProvider::builder()
                    .with_batch_exporter(exporter)
                    .with_resource(resource)
                    .build();
                Some(provider)
            }
            Err(error) => {
                eprintln!("callgate: no traces: --otlp-endpoint {endpoint}: {error}");
                None
            }
        }
    }
}
