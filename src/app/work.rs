//! Workers and background work of a process.

use std::sync::Arc;

use super::service::Parts;
use crate::api::views::result::Results;
use crate::background;
use crate::config::Config;
use crate::domain::id::InstallationId;
use crate::jobs::{Registry, Worker, WorkerOptions};
use crate::lifecycle::Lifecycle;
use crate::operations;

/// Starts workers and background work.
pub async fn start(parts: &Parts, config: &Config, lifecycle: &Lifecycle) -> anyhow::Result<()> {
    let eyes = parts.eyes().await?;
    if config.workers > 0 {
        start_worker(parts, config, lifecycle, eyes.installation);
    }
    background::start(&eyes, lifecycle.tracker(), &lifecycle.token());
    Ok(())
}

fn start_worker(parts: &Parts, config: &Config, lifecycle: &Lifecycle, installation: InstallationId) {
    let registry = Registry::new(operations::all(operations::Options {
        poll_cap: config.cloud.poll_interval,
    }));
    let mut options = WorkerOptions::new(
        &parts.pools,
        parts.ports.clone(),
        registry,
        Arc::new(Results),
        installation,
        Arc::new(parts.cipher.clone()),
    );
    options.tuning.lease = config.lease;
    options.tuning.concurrency = usize::try_from(config.workers).unwrap_or(1);
    Worker::start(options, lifecycle.tracker(), lifecycle.token());
}
