//! The service as a whole: pools, ports, API, workers, background work, and how they end together.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::Context as _;
use secrecy::ExposeSecret as _;
use tokio::net::TcpListener;

use crate::config::Config;
use crate::db::secrets::Cipher;
use crate::db::{self, Pools};
use crate::lifecycle::{Ended, Lifecycle};
pub use crate::manage::import::Outcome as ImportOutcome;
use crate::manage::import::judge::TakeOver;
use crate::manage::{check, import};
use crate::observe::Eyes;
use crate::ports::Ports;

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
        let mut conn = self
            .pools
            .main
            .acquire()
            .await
            .context("the database does not answer")?;
        let installation = db::installation::get_or_make(&mut conn, self.ports.ids.random()).await?;
        Ok(Eyes {
            pool: self.pools.main.clone(),
            cipher: self.cipher.clone(),
            ports: self.ports.clone(),
            installation,
            node_ssh_port: self.node_ssh_port,
        })
    }

    /// Judges the invariants.
    pub async fn check(&self) -> anyhow::Result<check::Report> {
        Ok(check::check(&self.eyes().await?).await?)
    }

    /// Brings the cluster of `file` under management.
    pub async fn import(
        &self,
        file: &Path,
        dry_run: bool,
        take_over: bool,
    ) -> anyhow::Result<import::Report> {
        let options = import::Options {
            dry_run,
            take_over: if take_over { TakeOver::Yes } else { TakeOver::No },
            node_ssh_port: self.node_ssh_port,
        };
        Ok(import::import(file, options, &self.pools.main, &self.cipher, &self.ports).await?)
    }
}

/// A process that serves.
#[derive(Debug)]
pub struct Running {
    lifecycle: Lifecycle,
    /// Where the API listens, if it does.
    pub address: Option<SocketAddr>,
}

impl Running {
    /// Ends everything in order and says what did not end in time.
    pub async fn end(self, grace: std::time::Duration) {
        if let Ended::StillRunning(count) = self.lifecycle.end(grace).await {
            tracing::warn!(
                count,
                "tasks did not end in time; another process takes up their work"
            );
        }
    }
}

/// Binds the API's address. Done before anything else is started, so that a taken port stops nothing half way.
pub async fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address)
        .await
        .with_context(|| format!("listening on {address}"))
}
