//! Logs, metrics and the panic hook of a process.
//!
//! Logs go to standard error, so that what a command prints on standard output stays clean. `RUST_LOG` chooses
//! what is logged, as everywhere in the Rust world.

use std::io::IsTerminal as _;
use std::panic;

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::FmtSpan;

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// One JSON object a line, for machines.
    Json,
    /// For people.
    Text,
}

/// A part of the telemetry that cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// `RUST_LOG` cannot be read.
    #[error("RUST_LOG cannot be read: {0}; for example `info` or `cksd=debug,sqlx=warn`")]
    Filter(String),
    /// Something has set up logs or metrics before.
    #[error("{0} are set up already")]
    Twice(&'static str),
}

/// Sets up logs: `filter` in the form of `RUST_LOG`.
pub fn logs(format: LogFormat, filter: &str) -> Result<(), TelemetryError> {
    let filter = EnvFilter::try_new(filter).map_err(|error| TelemetryError::Filter(error.to_string()))?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_span_events(FmtSpan::NONE);
    let set = match format {
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
        LogFormat::Text => builder.compact().try_init(),
    };
    set.map_err(|_| TelemetryError::Twice("logs"))?;
    log_panics();
    Ok(())
}

/// Sets up metrics; the handle renders them for `/metrics`.
pub fn metrics() -> Result<PrometheusHandle, TelemetryError> {
    PrometheusBuilder::new()
        .install_recorder()
        .map_err(|_| TelemetryError::Twice("metrics"))
}

/// A panic is a bug: it is logged with its place like every other failure, not printed past the log.
fn log_panics() {
    panic::set_hook(Box::new(|info| {
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        let text = info.payload_as_str().unwrap_or("no message");
        tracing::error!(panic.place = place, "panic: {text}");
    }));
}
