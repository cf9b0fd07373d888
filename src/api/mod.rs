//! The HTTP API. Translation only: wire to domain call to wire.
//!
//! `/client/api` takes every command as CloudStack does; `/client/api/{command}` is the same with the command
//! in the path, so that the OpenAPI document can describe each command. Start at [`commands`].
//!
//! What this must not know: operations, adapters, background.

pub mod auth;
pub mod cloud_facts;
pub mod commands;
pub mod context;
pub mod dispatch;
pub mod error;
pub mod internal;
pub mod limit;
pub mod openapi;
pub mod scope;
pub mod settings;
pub mod views;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use axum::Router;
use axum::routing::get;
use metrics_exporter_prometheus::PrometheusHandle;
use sqlx::PgPool;
use tokio_util::sync::CancellationToken;

use crate::db::secrets::Cipher;
use crate::ports::clock::{Clock, Ids};
use crate::ports::cloud::Cloud;

pub use error::ApiError;

/// What the composition root gives the API.
#[derive(Clone)]
pub struct ApiState {
    /// The database.
    pub pool: PgPool,
    /// Opens the secrets at rest.
    pub cipher: Cipher,
    /// The cloud.
    pub cloud: Arc<dyn Cloud>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// New ids.
    pub ids: Arc<dyn Ids>,
    /// What `/metrics` shows; nothing without it.
    pub metrics: Option<PrometheusHandle>,
    /// How this process runs.
    pub options: ApiOptions,
}

/// How this process runs.
#[derive(Debug, Clone)]
pub struct ApiOptions {
    /// The setting `cloud.kubernetes.service.enabled` as it was at the start.
    pub service_enabled: bool,
    /// Cancelled when the process begins to stop: it is no longer ready then, and admits no job.
    pub stopping: CancellationToken,
}

impl Default for ApiOptions {
    fn default() -> Self {
        Self {
            service_enabled: true,
            stopping: CancellationToken::new(),
        }
    }
}

/// The running API.
pub struct Api {
    /// What it was given.
    pub state: ApiState,
    /// The settings.
    pub settings: settings::SettingsCache,
    /// The rate limit.
    pub limiter: limit::Limiter,
}

/// The routes of the API, of health, readiness and metrics.
pub fn router(state: ApiState) -> Router {
    let api = Arc::new(Api {
        state,
        settings: settings::SettingsCache::default(),
        limiter: limit::Limiter::default(),
    });
    Router::new()
        .route("/client/api", get(dispatch::plain).post(dispatch::plain))
        .route("/client/api/", get(dispatch::plain).post(dispatch::plain))
        .route(
            "/client/api/{command}",
            get(dispatch::alias).post(dispatch::alias),
        )
        .route("/healthz", get(internal::healthz))
        .route("/readyz", get(internal::readyz))
        .route("/metrics", get(internal::metrics))
        .with_state(api)
}
