//! The world around the cloud's records: listeners of rules, machines that run, Kubernetes APIs, kubelets.
//!
//! All of it is made equal to the records by [`World::settle`], which looks at what should be and what is. So a
//! start after a crash, a job of the cloud and a command on a node all end in the same code.
//!
//! What this must not know: the wire of the cloud, and any module of the service.

mod begin;
mod forwards;
mod host;
mod kubelets;
mod kubes;
mod nodes;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use self::forwards::Place;
use self::kubes::Kubes;
use super::cloud::{Cloud, Outside};
use super::node::LabNode;
use super::record::WorldRecord;

/// The world of one lab.
pub(crate) struct World {
    me: Weak<World>,
    pub(crate) cloud: Arc<Cloud>,
    pub(crate) record: WorldRecord,
    data: PathBuf,
    kubectl: PathBuf,
    nodes: Mutex<HashMap<Uuid, LabNode>>,
    listeners: Mutex<HashMap<Place, CancellationToken>>,
    pub(crate) kubes: Kubes,
    /// One settling at a time.
    settling: tokio::sync::Mutex<()>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

/// A lock whose holder's panic does not matter: what it guards is looked at anew by each settling.
fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

impl World {
    /// A world in which nothing runs yet.
    pub(crate) fn new(cloud: Arc<Cloud>, record: WorldRecord, data: PathBuf, kubectl: PathBuf) -> Arc<Self> {
        let world = Arc::new_cyclic(|me| Self {
            me: Weak::clone(me),
            kubes: Kubes::new(data.join("world")),
            cloud,
            record,
            data,
            kubectl,
            nodes: Mutex::default(),
            listeners: Mutex::default(),
            settling: tokio::sync::Mutex::default(),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        });
        let outside: Arc<dyn Outside> = Arc::clone(&world) as Arc<dyn Outside>;
        world.cloud.set_outside(Arc::downgrade(&outside));
        world
    }

    /// Settles now, and after each change of the records from then on.
    pub(crate) async fn run(self: &Arc<Self>) {
        self.settle_all().await;
        let world = Arc::clone(self);
        let mut changes = self.cloud.watch();
        self.tasks.spawn(async move {
            loop {
                tokio::select! {
                    () = world.stop.cancelled() => return,
                    changed = changes.changed() => if changed.is_err() { return },
                }
                world.settle_all().await;
            }
        });
        let world = Arc::clone(self);
        self.tasks.spawn(async move { world.keep_kubes().await });
    }

    async fn settle_all(&self) {
        let _one = self.settling.lock().await;
        if self.stop.is_cancelled() {
            return;
        }
        self.settle_listeners().await;
        self.settle_kubes().await;
        self.settle_nodes().await;
        self.settle_kubelets().await;
    }

    /// A running machine's node.
    pub(crate) fn node(&self, vm: Uuid) -> Option<LabNode> {
        held(&self.nodes).get(&vm).cloned()
    }

    /// Where a machine's files are.
    pub(crate) fn root_of(&self, vm: Uuid) -> PathBuf {
        self.data.join("nodes").join(vm.to_string())
    }

    /// Ends all tasks without putting anything away.
    pub(crate) fn halt(&self) {
        self.stop.cancel();
        self.cloud.halt();
    }

    /// Ends everything, the Kubernetes side saved.
    pub(crate) async fn close(&self) {
        self.stop.cancel();
        for (_, stop) in held(&self.listeners).drain() {
            stop.cancel();
        }
        let _one = self.settling.lock().await;
        self.kubes.stop_kubelets().await;
        let nodes: Vec<LabNode> = held(&self.nodes).drain().map(|(_, node)| node).collect();
        for node in nodes {
            node.shutdown().await;
        }
        self.kubes.stop_servers().await;
        self.tasks.close();
        self.tasks.wait().await;
    }
}

#[async_trait]
impl Outside for World {
    async fn settle(&self) {
        self.settle_all().await;
    }
}

/// The join line that a control node would print.
#[cfg(test)]
pub(crate) async fn join_line(world: &Arc<World>, control: Uuid) -> String {
    let host = host::Host::of(Arc::downgrade(world));
    host.create_join_token(control, std::time::Duration::from_mins(1))
        .await
        .unwrap()
}
