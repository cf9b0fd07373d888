//! What the parts of a running node share.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::Shutdown;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::journal::Journal;
use super::paths::PathMap;
use super::{NodeHost, NodeSpec, processes, shims};

/// There while the node has power: a lab that was killed finds its nodes running.
pub(super) const POWERED: &str = "powered";

/// What the parts of a node share.
pub(super) struct Machine {
    pub(super) spec: NodeSpec,
    pub(super) map: PathMap,
    pub(super) journal: Journal,
    pub(super) host: Arc<dyn NodeHost>,
    /// Cancelled when the power goes.
    pub(super) off: CancellationToken,
    pub(super) tasks: TaskTracker,
    /// Counts commands, for their names in the journal.
    pub(super) commands: AtomicU64,
    /// The process groups of what was started and has not ended.
    pub(super) groups: Mutex<BTreeSet<i32>>,
    /// A second handle of each connection, to cut it.
    pub(super) connections: Mutex<BTreeMap<u64, std::net::TcpStream>>,
}

impl Machine {
    /// A process group begins.
    pub(super) fn enter(&self, group: Option<i32>) {
        let mut groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        groups.extend(group);
    }

    /// Its first process has ended.
    pub(super) fn leave(&self, group: Option<i32>) {
        if let Some(group) = group {
            let mut groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
            groups.remove(&group);
        }
    }

    /// Writes a file of the node.
    pub(super) fn store(&self, path: &str, content: &str, mode: u32) -> Result<(), String> {
        let place = self.map.inside(path)?;
        let write = || {
            if let Some(folder) = place.parent() {
                std::fs::create_dir_all(folder)?;
            }
            shims::replace(&place, content, mode)
        };
        write().map_err(|error: io::Error| format!("{path} cannot be written: {error}"))
    }

    /// Whether [`Self::set_flag`] noted it.
    pub(super) fn flag(&self, name: &str) -> bool {
        self.map.lab().join(name).exists()
    }

    /// Notes something that outlives the process, or that it is no longer so.
    pub(super) fn set_flag(&self, name: &str, set: bool) {
        let path = self.map.lab().join(name);
        if set {
            if let Err(error) = std::fs::write(&path, "") {
                tracing::warn!(path = %path.display(), %error, "a node's state cannot be noted");
            }
        } else {
            // Not set before is as good.
            std::fs::remove_file(&path).ok();
        }
    }

    /// Cuts every connection: what was sent may still arrive, nothing follows.
    pub(super) fn cut(&self) {
        let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        for stream in std::mem::take(&mut *connections).into_values() {
            // One that the client has closed already needs no cutting.
            stream.shutdown(Shutdown::Both).ok();
        }
    }

    /// Kills every process of the node.
    pub(super) async fn end_processes(&self) {
        let groups = {
            let groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
            groups.clone()
        };
        let left = processes::end_all(self.map.root(), groups).await;
        if left > 0 {
            tracing::warn!(node = %self.spec.hostname, left, "processes of a node without power go on");
        }
    }
}
