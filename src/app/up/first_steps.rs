//! What a new installation needs before clients can use it: an administrator with keys, and for a lab the
//! accounts, versions and clusters of its world. All of it is found instead of made at a second start.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::Deserialize;
use uuid::Uuid;

use super::folder::{ClientEnv, Folder};
use crate::app::manage::{ImportOutcome, Role, VersionRequest};
use crate::app::service::Parts;
use crate::db::accounts;
use crate::db::imports::{self, Known};
use crate::domain::cluster::State;
use crate::manage::import::file;

/// The administrator's account and user.
const ADMIN: &str = "admin";

/// The least that a node of the lab must have; its smallest offering has less than CloudStack asks for.
const MIN_CPU: i32 = 1;
/// The same in MB.
const MIN_RAM_MB: i64 = 512;

/// A version of the lab's world, as `versions.json` names it.
#[derive(Debug, Deserialize)]
struct LabVersion {
    name: String,
    version: String,
    iso: Uuid,
}

/// Makes sure of the administrator and of `client.env`, which leads to `endpoint`.
pub(super) async fn administrator(parts: &Parts, folder: &Folder, endpoint: &str) -> anyhow::Result<()> {
    parts.ensure_account("ROOT", ADMIN, Role::Admin).await?;
    let path = folder.client_env();
    let mut client = match ClientEnv::read(&path)? {
        Some(client) if is_known(parts, &client.key).await? => client,
        _ => {
            let keys = parts.new_keys("ROOT", ADMIN, ADMIN).await?;
            ClientEnv {
                endpoint: String::new(),
                key: keys.api_key,
                secret: keys.secret_key,
            }
        }
    };
    if client.endpoint != endpoint {
        endpoint.clone_into(&mut client.endpoint);
        client.write(&path)?;
    }
    Ok(())
}

async fn is_known(parts: &Parts, key: &str) -> anyhow::Result<bool> {
    let mut conn = parts.connection().await?;
    Ok(accounts::by_api_key(&mut conn, key).await?.is_some())
}

/// Registers the versions of the lab's world and imports its clusters.
pub(super) async fn world(parts: &Parts, folder: &Folder) -> anyhow::Result<()> {
    let versions = folder.lab().join("versions.json");
    let text = fs::read(&versions).with_context(|| format!("reading `{}`", versions.display()))?;
    let versions: Vec<LabVersion> =
        serde_json::from_slice(&text).context("reading the versions of the lab")?;
    for version in versions {
        let request = VersionRequest {
            semantic_version: version.version,
            iso: version.iso.into(),
            name: Some(version.name),
            zone: None,
            min_cpu: MIN_CPU,
            min_ram_mb: MIN_RAM_MB,
        };
        parts.ensure_version(&request).await?;
    }
    for path in import_files(&folder.lab())? {
        let file = file::read(&path)?;
        // Scaled since its import, it has other machines than the file names.
        if let Some(id) = file.cluster.id
            && imports::known(&mut *parts.connection().await?, id).await? == Some(Known::Managed)
        {
            continue;
        }
        if let Some(account) = &file.cluster.account {
            let domain = file.cluster.domain.as_deref().unwrap_or("ROOT");
            let role = if account == ADMIN { Role::Admin } else { Role::User };
            parts.ensure_account(domain, account, role).await?;
        }
        let report = parts.import(&path, false, false).await?;
        if report.outcome == ImportOutcome::Imported {
            let state = report.state.map(State::name).unwrap_or_default();
            tracing::info!(cluster.name = %report.name, cluster.id = %report.cluster, state, "imported");
        }
    }
    Ok(())
}

fn import_files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("reading `{}`", folder.display()))?;
    let paths = entries.flatten().map(|entry| entry.path());
    let mut found: Vec<PathBuf> = paths
        .filter(|path| path.to_string_lossy().ends_with(".import.toml"))
        .collect();
    found.sort();
    Ok(found)
}
