//! Nodes of the lab: one SSH server per machine, with a real shell behind it.
//!
//! A node has a root folder of its own, kept over restarts. Command lines run in the real `/bin/sh`; the paths
//! that a node has for itself are mapped into the root folder by their text ([`paths`]), and a few programs
//! (`sudo`, `hostname`, `kubeadm`, …) are stand-ins in its `PATH` ([`shims`]). `/opt/bin/kubectl` is the real one.
//! There is no container and no other user: what this does not show faithfully is in
//! `docs/adr/2026-11-30-lab-node-shell.md`. Start reading at [`LabNode::boot`].
//!
//! What this must not know: the cloud and the Kubernetes API of the lab (they are behind [`NodeHost`]), and any
//! module of the service.

mod exec;
mod firstboot;
mod journal;
mod keys;
mod layout;
mod machine;
mod paths;
mod processes;
mod requests;
mod server;
mod shims;
#[cfg(test)]
mod tests;
mod userdata;

use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use self::journal::Journal;
pub use self::journal::{JournalEntry, JournalKind};
use self::machine::{Machine, POWERED};
use self::paths::PathMap;
use self::userdata::UserData;

/// How long a power off waits for what the node's processes leave to be put away.
const LAST_TASKS: Duration = Duration::from_secs(5);

/// What a node is made of.
#[derive(Debug, Clone)]
pub struct NodeSpec {
    /// The machine's id in the cloud, which is also its system UUID.
    pub vm_id: Uuid,
    /// Its host name: ASCII letters, digits, dots and dashes.
    pub hostname: String,
    /// The addresses of its cards.
    pub addresses: Vec<IpAddr>,
    /// Its root folder; made if absent, kept over restarts. It is named in command lines, so its full path
    /// must consist of ASCII letters, digits and `/ . _ + -`.
    pub root: PathBuf,
    /// Who may log in, `cloud` on a CloudStack node.
    pub login_user: String,
    /// With which keys, in OpenSSH's public form; user data may add some.
    pub authorized_keys: Vec<String>,
    /// The private host key in OpenSSH's form. None: the user data's of the first boot, else the stored one,
    /// else a new one.
    pub host_key: Option<String>,
    /// The user data, decoded from base64, gzipped or not.
    pub user_data: Option<Vec<u8>>,
    /// The real kubectl.
    pub kubectl: PathBuf,
}

/// What the world around a node provides to it.
#[async_trait]
pub trait NodeHost: Send + Sync {
    /// Makes a token for joining and returns the whole line `kubeadm join host:port --token t
    /// --discovery-token-ca-cert-hash h`. A time to live of zero is for ever. An error is printed by `kubeadm`.
    async fn create_join_token(&self, vm_id: Uuid, ttl: Duration) -> Result<String, String>;
    /// Joins the machine to a cluster with the words after `kubeadm join`, and returns the kubelet's kubeconfig,
    /// which the node stores as `/etc/kubernetes/kubelet.conf`. An error is printed by `kubeadm`.
    async fn join(&self, vm_id: Uuid, args: Vec<String>) -> Result<String, String>;
    /// The kubelet was started or stopped on the node.
    async fn kubelet(&self, vm_id: Uuid, running: bool);
    /// The node switches itself off, or off and on again. False: there is no such switch, and the command on
    /// the node says so.
    async fn power(&self, vm_id: Uuid, again: bool) -> bool {
        let _: (Uuid, bool) = (vm_id, again);
        false
    }
}

/// Why a node did not start.
#[derive(Debug, thiserror::Error)]
pub enum LabNodeError {
    /// Its root folder cannot be used.
    #[error("the node's root folder {} cannot be used: {reason}", path.display())]
    Root {
        /// The folder.
        path: PathBuf,
        /// Why, and what would work.
        reason: String,
    },
    /// A name in its description cannot be used.
    #[error("the node's {what} {name:?} cannot be used: only ASCII letters, digits, `.`, `_` and `-`")]
    Name {
        /// Which one.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// Its host key cannot be read.
    #[error("the node's host key cannot be used ({reason}); an OpenSSH private key is expected")]
    HostKey {
        /// Why.
        reason: String,
    },
    /// Its files cannot be written.
    #[error("the node could not {what}")]
    Files {
        /// What it wanted to do.
        what: &'static str,
        /// What went wrong.
        source: io::Error,
    },
}

/// A running node. Clones are the same node.
#[derive(Clone)]
pub struct LabNode {
    machine: Arc<Machine>,
    config: Arc<russh::server::Config>,
    host_key: String,
}

impl std::fmt::Debug for LabNode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LabNode")
            .field("spec", &self.machine.spec)
            .finish_non_exhaustive()
    }
}

impl LabNode {
    /// Starts a node. The first boot of a root folder also does what the user data asks for; its commands run
    /// on after this returns, as on a real machine, and the journal says when they are done.
    pub async fn boot(mut spec: NodeSpec, host: Arc<dyn NodeHost>) -> Result<Self, LabNodeError> {
        check_name("host name", &spec.hostname)?;
        check_name("login user", &spec.login_user)?;
        let map = PathMap::new(&spec.root).map_err(|reason| LabNodeError::Root {
            path: spec.root.clone(),
            reason,
        })?;
        spec.root = PathBuf::from(map.root());
        layout::lay_out(&spec, &map).map_err(|source| LabNodeError::Files {
            what: "lay out its root folder",
            source,
        })?;
        let spool = requests::open(&map.lab()).map_err(|source| LabNodeError::Files {
            what: "open the spool of its stand-ins",
            source,
        })?;
        let machine = Arc::new(Machine {
            journal: Journal::new(map.lab().join("journal"), &spec.hostname),
            map,
            host,
            off: CancellationToken::new(),
            tasks: TaskTracker::new(),
            commands: AtomicU64::new(0),
            groups: Mutex::default(),
            connections: Mutex::default(),
            spec,
        });
        let resumed = machine.flag(POWERED);
        machine.set_flag(POWERED, true);
        machine
            .journal
            .boot(if resumed { "found running" } else { "power on" });
        let data = first_boot(&machine)?;
        let spec = &machine.spec;
        let wanted = data.as_ref().and_then(|data| data.host_key.as_deref());
        let host_key = keys::host_key(&spec.root, wanted, spec.host_key.as_deref())?;
        let mut keys = spec.authorized_keys.clone();
        keys.extend(data.iter().flat_map(|data| data.authorized_keys.iter().cloned()));
        keys::authorize(&spec.root, &spec.login_user, &keys).map_err(|source| LabNodeError::Files {
            what: "store the keys that may log in",
            source,
        })?;
        machine.tasks.spawn(requests::answer(Arc::clone(&machine), spool));
        if !resumed {
            machine.set_flag(requests::STOPPED, machine.flag(requests::DISABLED));
        }
        if machine.flag(requests::STOPPED) {
            machine.host.kubelet(machine.spec.vm_id, false).await;
        }
        if let Some(data) = data {
            firstboot::write_files(&machine, &data.files);
            machine.tasks.spawn(firstboot::run(Arc::clone(&machine), data));
        }
        Ok(Self {
            host_key: keys::public(&host_key),
            config: Arc::new(server::config(host_key)),
            machine,
        })
    }

    /// The host key in OpenSSH's public form, without a comment.
    pub fn host_key_public(&self) -> String {
        self.host_key.clone()
    }

    /// Serves one SSH connection until it ends. A node without power closes it at once.
    pub async fn serve(&self, stream: TcpStream) {
        let machine = &self.machine;
        let id = machine.commands.fetch_add(1, Ordering::Relaxed);
        let Ok(stream) = self.admit(id, stream) else {
            return;
        };
        if !machine.off.is_cancelled() {
            let connection = server::Connection::new(Arc::clone(machine));
            let session = russh::server::run_stream(Arc::clone(&self.config), stream, connection).await;
            let ended = match session {
                Ok(session) => session.await,
                Err(error) => Err(error),
            };
            if let Err(error) = ended {
                tracing::debug!(node = %machine.spec.hostname, %error, "an SSH connection ended");
            }
        }
        let mut connections = machine.connections.lock().unwrap_or_else(PoisonError::into_inner);
        connections.remove(&id);
    }

    /// Keeps a second handle of the connection, by which a power off cuts it.
    fn admit(&self, id: u64, stream: TcpStream) -> io::Result<TcpStream> {
        stream.set_nodelay(true)?;
        let stream = stream.into_std()?;
        let handle = stream.try_clone()?;
        let mut connections = self
            .machine
            .connections
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        connections.insert(id, handle);
        drop(connections);
        TcpStream::from_std(stream)
    }

    /// All entries of the journal, oldest first, also those of earlier boots.
    pub fn journal(&self) -> Vec<JournalEntry> {
        self.machine.journal.read()
    }

    /// Writes a file of the node, by its path there (`/etc/kubernetes/admin.conf`), readable by its owner only.
    /// A file that cannot be written is logged.
    pub fn write_file(&self, path: &str, content: &str) {
        if let Err(error) = self.machine.store(path, content, 0o600) {
            tracing::warn!(node = %self.machine.spec.hostname, %error, "a file of a node cannot be written");
        }
    }

    /// Reads a file of the node, by its path there; none if it cannot be read.
    pub fn read_file(&self, path: &str) -> Option<String> {
        let place = self.machine.map.inside(path).ok()?;
        std::fs::read_to_string(place).ok()
    }

    /// Switches the power off: connections are cut, and every process of the node is killed.
    pub async fn shutdown(&self) {
        let machine = &self.machine;
        machine.off.cancel();
        machine.cut();
        machine.end_processes().await;
        machine.tasks.close();
        if tokio::time::timeout(LAST_TASKS, machine.tasks.wait())
            .await
            .is_err()
        {
            tracing::warn!(node = %machine.spec.hostname, "a task of a node without power goes on");
        }
        // A command may have been starting while the others were killed.
        machine.end_processes().await;
        if machine.flag(POWERED) {
            machine.set_flag(POWERED, false);
            machine.journal.boot("power off");
        }
    }
}

/// Names go into scripts as they are.
fn check_name(what: &'static str, name: &str) -> Result<(), LabNodeError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if name.is_empty() || name.starts_with(['-', '.']) || !name.chars().all(plain) {
        return Err(LabNodeError::Name {
            what,
            name: name.to_owned(),
        });
    }
    Ok(())
}

/// The user data, if it has not been seen to yet; from now on it has.
fn first_boot(machine: &Machine) -> Result<Option<UserData>, LabNodeError> {
    let semaphore = firstboot::semaphore(machine);
    let Some(data) = machine.spec.user_data.as_deref().filter(|_| !semaphore.exists()) else {
        return Ok(None);
    };
    let failed = |source| LabNodeError::Files {
        what: "note its first boot",
        source,
    };
    if let Some(folder) = semaphore.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    std::fs::write(&semaphore, "").map_err(failed)?;
    match userdata::read(data, &machine.spec.login_user) {
        Ok(data) => {
            for name in &data.ignored {
                machine
                    .journal
                    .boot(&format!("user data: {name} is not known here and was ignored"));
            }
            Ok(Some(data))
        }
        // As on a real machine: it starts, without what it was meant to become.
        Err(error) => {
            machine.journal.boot(&format!("user data: {error}"));
            Ok(None)
        }
    }
}
