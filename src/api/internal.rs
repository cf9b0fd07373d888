//! Health, readiness and metrics: for the platform, without authentication, without CloudStack's envelopes.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};

use super::Api;
use crate::db::settings;

/// The process lives.
pub async fn healthz() -> &'static str {
    "ok\n"
}

/// The process can serve: it reaches its database and is not about to stop.
pub async fn readyz(State(api): State<Arc<Api>>) -> Response {
    if api.state.options.stopping.is_cancelled() {
        return (StatusCode::SERVICE_UNAVAILABLE, "stopping\n").into_response();
    }
    let reached = match api.state.pool.acquire().await {
        Ok(mut conn) => settings::load(&mut conn).await.is_ok(),
        Err(_) => false,
    };
    if reached {
        "ready\n".into_response()
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "the database does not answer\n").into_response()
    }
}

/// Metrics in Prometheus' text form.
pub async fn metrics(State(api): State<Arc<Api>>) -> Response {
    match &api.state.metrics {
        Some(handle) => (
            [(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")],
            handle.render(),
        )
            .into_response(),
        None => (StatusCode::NOT_FOUND, "no metrics are kept\n").into_response(),
    }
}
