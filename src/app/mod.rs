//! The composition root: the only module that knows every layer.
//!
//! What this must not know: decisions. It builds, connects and starts what other modules define.

pub mod manage;
pub mod postgres;
pub mod service;
pub mod up;
pub mod work;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use secrecy::{ExposeSecret as _, SecretString};

use crate::adapters::cloudstack::{CloudOptions, CloudStackClient};
use crate::adapters::kube::KubectlOverShell;
use crate::adapters::ssh::SshShell;
use crate::adapters::system::{SystemClock, SystemIds};
use crate::ports::Ports;
use crate::ports::shell::NodeShell;
use crate::{config, db};

/// How long one request to the cloud may take; its slow work is in jobs, which are asked for.
const CLOUD_TIMEOUT: Duration = Duration::from_secs(30);

/// Installs the crypto provider of this process, once. Without one, TLS clients panic.
pub fn install_crypto() {
    // Installed before, by a test for example, is as good.
    rustls::crypto::ring::default_provider().install_default().ok();
}

/// The ports of this process: the cloud's client, SSH, kubectl over SSH, clock and ids.
pub fn ports(cloud: &config::Cloud) -> anyhow::Result<Ports> {
    let client = CloudStackClient::new(CloudOptions {
        endpoint: cloud.endpoint.clone(),
        api_key: cloud.api_key.expose_secret().to_owned(),
        secret_key: cloud.secret_key.clone(),
        timeout: CLOUD_TIMEOUT,
        ca_pem: None,
    });
    let shell: Arc<dyn NodeShell> = Arc::new(SshShell::new());
    Ok(Ports {
        cloud: client.map_err(anyhow::Error::msg).context("cloud_endpoint")?,
        kube: Arc::new(KubectlOverShell::new(Arc::clone(&shell))),
        shell,
        clock: Arc::new(SystemClock),
        ids: Arc::new(SystemIds),
    })
}

/// Brings the schema of the database up to date.
pub async fn migrate(url: &SecretString) -> anyhow::Result<()> {
    let pools = db::pools(url.expose_secret())?;
    db::migrate(&pools.main).await?;
    Ok(())
}
