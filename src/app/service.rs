//! The service as a whole: pools, ports, API, workers, background work, and how they end together.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use metrics_exporter_prometheus::PrometheusHandle;
use secrecy::ExposeSecret as _;
use tokio::net::TcpListener;

use super::work;
use crate::api::{self, ApiOptions, ApiState};
use crate::config::Config;
use crate::db::secrets::Cipher;
use crate::db::{self, Pools};
use crate::domain::settings;
use crate::lifecycle::{self, Ended, Lifecycle};
use crate::observe::Eyes;
use crate::ports::Ports;
use crate::telemetry;

/// What everything in a process shares.
#[derive(Clone)]
pub struct Parts {
    /// The database.
    pub pools: Pools,
    /// The outside.
    pub ports: Ports,
    /// Opens and seals the secrets at rest.
    pub cipher: Cipher,
    /// The SSH port of nodes on shared and routed networks.
    pub node_ssh_port: u16,
}

/// Which process it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Process {
    /// API, workers, background work.
    Serve,
    /// Workers and background work.
    Worker,
}

impl Parts {
    /// Builds them. Nothing is connected yet.
    pub fn build(config: &Config) -> anyhow::Result<Self> {
        Ok(Self {
            pools: db::pools(config.database_url.expose_secret()).context("database_url")?,
            ports: super::ports(&config.cloud)?,
            cipher: Cipher::new(&config.master_key).context("master_key")?,
            node_ssh_port: config.node_ssh_port,
        })
    }

    /// What the scanner and `check` look with.
    pub async fn eyes(&self) -> anyhow::Result<Eyes> {
        let mut conn = self.connection().await?;
        let installation = db::installation::get_or_make(&mut conn, self.ports.ids.random()).await?;
        Ok(Eyes {
            pool: self.pools.main.clone(),
            cipher: self.cipher.clone(),
            ports: self.ports.clone(),
            installation,
            node_ssh_port: self.node_ssh_port,
        })
    }
}

/// Serves until a signal, then ends in order. `notify` is the service manager's socket.
///
/// # Errors
/// What cannot be started.
pub async fn run(config: &Config, process: Process, notify: Option<&str>) -> anyhow::Result<()> {
    let parts = Parts::build(config)?;
    db::check_schema(&parts.pools.main)
        .await
        .context("the schema of the database: run `cksd migrate`")?;
    let lifecycle = Lifecycle::new();
    if process == Process::Serve {
        let listener = bind(config.listen).await?;
        tracing::info!(address = %listener.local_addr()?, "the API listens");
        serve_api(&parts, &lifecycle, listener, Some(telemetry::metrics()?)).await?;
    }
    work::start(&parts, config, &lifecycle).await?;
    tell(notify, "READY=1");
    let signal = lifecycle::signalled().await?;
    tracing::info!(signal, "stopping");
    tell(notify, "STOPPING=1");
    end(&lifecycle, config.grace).await;
    Ok(())
}

/// Ends all parts and says what did not end in time.
pub async fn end(lifecycle: &Lifecycle, grace: Duration) {
    if let Ended::StillRunning(count) = lifecycle.end(grace).await {
        tracing::warn!(
            count,
            "tasks did not end in time; another process takes up their work"
        );
    }
}

fn tell(socket: Option<&str>, state: &str) {
    if let Err(error) = lifecycle::notify(socket, state) {
        tracing::warn!(%error, state, "the service manager could not be told");
    }
}

/// Binds the API's address. Done before anything else is started, so that a taken port stops nothing half way.
pub async fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address)
        .await
        .with_context(|| format!("listening on {address}"))
}

/// Starts the API on `listener`.
pub async fn serve_api(
    parts: &Parts,
    lifecycle: &Lifecycle,
    listener: TcpListener,
    metrics: Option<PrometheusHandle>,
) -> anyhow::Result<()> {
    let mut conn = parts.connection().await?;
    let settings = db::settings::load(&mut conn).await?;
    drop(conn);
    let router = api::router(ApiState {
        pool: parts.pools.main.clone(),
        cipher: parts.cipher.clone(),
        cloud: Arc::clone(&parts.ports.cloud),
        clock: Arc::clone(&parts.ports.clock),
        ids: Arc::clone(&parts.ports.ids),
        metrics,
        options: ApiOptions {
            service_enabled: settings.boolean(&settings::SERVICE_ENABLED),
            stopping: lifecycle.token(),
        },
    });
    let stop = lifecycle.token();
    lifecycle.spawn(async move {
        let served = axum::serve(listener, router)
            .with_graceful_shutdown(stop.cancelled_owned())
            .await;
        if let Err(error) = served {
            tracing::error!(%error, "the API ended");
        }
    });
    Ok(())
}
