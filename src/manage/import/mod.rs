//! Bringing a cluster that already runs under management (`behaviour.md` 13, `docs/IMPORT.md`).
//!
//! Look at everything, judge, then write all in one transaction or nothing.
//!
//! What this must not know: operations, the wire.

pub mod file;
pub mod judge;
pub mod look;
mod problems;
mod rows;

use std::path::Path;

use secrecy::SecretString;
use serde::Serialize;
use sqlx::PgPool;

use crate::db::imports::{self, Known};
use crate::db::secrets::Cipher;
use crate::db::ssh::SshIdentity;
use crate::db::{self, DbError};
use crate::domain::cluster::State;
use crate::domain::id::{ClusterId, InstallationId, VmId};
use crate::ports::Ports;
use crate::ports::shell::{Fence, NodeTarget};
use file::{FileError, ImportFile};
use judge::{Stored, TakeOver, Verdict};
use look::Seen;
use rows::Writing;

/// The port of the Kubernetes API on a control node.
const API_PORT: u16 = 6443;

/// How an import is to be done.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Look and report, write nothing.
    pub dry_run: bool,
    /// Replace the fence of another installation.
    pub take_over: TakeOver,
    /// Port of SSH on nodes that are reached directly.
    pub node_ssh_port: u16,
}

/// What came of an import.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The cluster.
    pub cluster: ClusterId,
    /// Its name.
    pub name: String,
    /// Imported, would be imported, or already there.
    pub outcome: Outcome,
    /// The state that it has got.
    pub state: Option<State>,
    /// Why it is in Alert.
    pub reason: Option<String>,
    /// Host key fingerprints by machine name: compare them.
    pub fingerprints: Vec<(String, Vec<String>)>,
    /// What could not be read and will be at the first start.
    pub not_yet_known: Vec<String>,
}

/// How an import ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Outcome {
    /// Written.
    Imported,
    /// Would have been written.
    WouldImport,
    /// The same cluster is managed already; nothing was changed.
    AlreadyManaged,
}

/// Why an import wrote nothing.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The file cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// The private key cannot be read.
    #[error("private key {path}: {source}")]
    Key {
        /// Its path.
        path: std::path::PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// All that is wrong.
    #[error("nothing was imported:\n  - {}", .0.join("\n  - "))]
    Refused(Vec<String>),
    /// The database failed; nothing was written.
    #[error("nothing was imported: {0}")]
    Db(#[from] DbError),
}

/// Imports the cluster of a file.
///
/// # Errors
/// [`ImportError`]; in every case nothing was written.
pub async fn import(
    path: &Path,
    options: Options,
    pool: &PgPool,
    cipher: &Cipher,
    ports: &Ports,
) -> Result<Report, ImportError> {
    let file = file::read(path)?;
    let base = path.parent().unwrap_or_else(|| Path::new("."));
    let private_key = read_secret(&base.join(&file.ssh.private_key_file))?;
    let given_kubeconfig = file
        .cluster
        .kubeconfig_file
        .as_ref()
        .map(|name| read_secret(&base.join(name)))
        .transpose()?;
    let mut conn = pool.acquire().await.map_err(DbError::from)?;
    let installation = db::installation::get_or_make(&mut conn, ports.ids.random()).await?;
    let members: std::collections::BTreeSet<VmId> = file.members.iter().map(|member| member.vm).collect();
    let taken = imports::taken(&mut conn).await?;
    if let Some(id) = file.cluster.id {
        let managed = imports::known(&mut conn, id).await? == Some(Known::Managed);
        let same: std::collections::BTreeSet<VmId> = taken
            .iter()
            .filter(|(_, (cluster, _))| *cluster == id)
            .map(|(vm, _)| *vm)
            .collect();
        if managed && same == members {
            return Ok(already(id, &file));
        }
    }
    let stored = Stored {
        installation: Some(installation),
        versions: imports::versions(&mut conn).await?,
        accounts: imports::accounts(&mut conn).await?,
        taken: taken.into_iter().map(|(vm, (_, name))| (vm, name)).collect(),
        same_id: match file.cluster.id {
            Some(id) => imports::known(&mut conn, id).await?.is_some(),
            None => false,
        },
    };
    drop(conn);
    let seen = look::look(&file, &private_key, ports, installation, options.node_ssh_port).await;
    let verdict = judge::judge(&file, &seen, &stored, options.take_over).map_err(ImportError::Refused)?;
    let id = file.cluster.id.unwrap_or_else(|| ClusterId(ports.ids.random()));
    let report = report(id, &file, &seen, &verdict, options);
    if options.dry_run {
        return Ok(report);
    }
    if options.take_over == TakeOver::Yes {
        take_over(
            &file,
            &private_key,
            &seen,
            ports,
            installation,
            options.node_ssh_port,
        )
        .await?;
    }
    let writing = Writing {
        row: rows::row(id, &file, &seen, &verdict)?,
        members: &verdict.members,
        upgrade_to: verdict
            .upgrade_to
            .and_then(|id| stored.versions.iter().find(|(found, _)| *found == id).cloned()),
        identity: SshIdentity {
            user: file.ssh.user.clone(),
            private_key,
        },
        kubeconfig: seen.kubeconfig.clone().or(given_kubeconfig),
        rules: rows::rules(&seen, &verdict.members),
        objects: rows::objects(&seen, ports.clock.now()),
    };
    let mut tx = pool.begin().await.map_err(DbError::from)?;
    writing.write(&mut tx, cipher).await?;
    tx.commit().await.map_err(DbError::from)?;
    Ok(report)
}

fn read_secret(path: &Path) -> Result<SecretString, ImportError> {
    std::fs::read_to_string(path)
        .map(SecretString::from)
        .map_err(|source| ImportError::Key {
            path: path.to_owned(),
            source,
        })
}

fn already(id: ClusterId, file: &ImportFile) -> Report {
    Report {
        cluster: id,
        name: file.cluster.name.clone(),
        outcome: Outcome::AlreadyManaged,
        state: None,
        reason: None,
        fingerprints: Vec::new(),
        not_yet_known: Vec::new(),
    }
}

fn report(id: ClusterId, file: &ImportFile, seen: &Seen, verdict: &Verdict, options: Options) -> Report {
    let name = |vm: &VmId| {
        seen.machines
            .get(vm)
            .map_or_else(|| vm.to_string(), |machine| machine.name.clone())
    };
    Report {
        cluster: id,
        name: file.cluster.name.clone(),
        outcome: if options.dry_run {
            Outcome::WouldImport
        } else {
            Outcome::Imported
        },
        state: Some(verdict.state),
        reason: verdict.reason.clone(),
        fingerprints: seen
            .scans
            .iter()
            .map(|(vm, scan)| (name(vm), scan.fingerprints.clone()))
            .collect(),
        not_yet_known: verdict.unknown.clone(),
    }
}

/// Replaces foreign fences by ours, on every node that shows one.
async fn take_over(
    file: &ImportFile,
    private_key: &SecretString,
    seen: &Seen,
    ports: &Ports,
    installation: InstallationId,
    node_ssh_port: u16,
) -> Result<(), ImportError> {
    let mut problems = Vec::new();
    for (vm, fence) in &seen.fences {
        let (Some(machine), Some(at)) = (seen.machines.get(vm), look::endpoint(seen, *vm, node_ssh_port))
        else {
            continue;
        };
        if fence.installation == installation {
            continue;
        }
        let target = NodeTarget {
            vm_id: *vm,
            vm_name: machine.name.clone(),
            host: at.0.to_string(),
            port: at.1,
            user: file.ssh.user.clone(),
            private_key: private_key.clone(),
            host_keys: seen
                .scans
                .get(vm)
                .map(|scan| scan.host_keys.clone())
                .unwrap_or_default(),
            addresses: machine.nics.iter().filter_map(|nic| nic.address).collect(),
        };
        let ours = Fence {
            installation,
            epoch: 0,
        };
        if let Err(error) = ports.shell.take_over(&target, ours).await {
            problems.push(format!(
                "machine {}: the fence could not be replaced: {error}",
                machine.name
            ));
        }
    }
    if problems.is_empty() {
        Ok(())
    } else {
        Err(ImportError::Refused(problems))
    }
}
