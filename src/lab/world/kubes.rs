//! The clusters' Kubernetes APIs, each alive while a control node of its cluster runs, and the kubelets.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use serde_json::{Value, json};
use uuid::Uuid;

use super::{World, held};
use crate::lab::cloud::model::{CloudState, Vm};
use crate::lab::kube::{KubeOptions, KubeServer, KubeTimings, Kubelet};
use crate::lab::record::{API_PORT, ClusterRecord};
use crate::lab::{clock, files};

/// How often the Kubernetes side is saved, if it has changed.
const SAVE_EVERY: Duration = Duration::from_millis(200);

/// The APIs and kubelets that run.
pub(crate) struct Kubes {
    folder: PathBuf,
    servers: Mutex<HashMap<String, KubeServer>>,
    pub(super) kubelets: Mutex<HashMap<Uuid, Kubelet>>,
    /// Machines whose node was deleted before the lab went down: their kubelets do not register again until
    /// the machine starts anew, as they would not have without the lab's restart.
    pub(super) silent: Mutex<HashSet<Uuid>>,
}

impl Kubes {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            servers: Mutex::default(),
            kubelets: Mutex::default(),
            silent: Mutex::default(),
        }
    }

    /// Asks the API of a cluster, if it is alive.
    pub(super) fn with<R>(&self, cluster: &str, f: impl FnOnce(&KubeServer) -> R) -> Option<R> {
        held(&self.servers).get(cluster).map(f)
    }

    /// A join token and the hash of the authority's key.
    pub(super) fn token(&self, cluster: &str, ttl: Duration) -> Result<(String, String), String> {
        // A time to live of zero is for ever.
        let ttl = if ttl.is_zero() {
            Duration::from_hours(24 * 3650)
        } else {
            ttl
        };
        self.with(cluster, |server| {
            (server.create_join_token(ttl), server.ca_cert_hash())
        })
        .ok_or_else(|| format!("the API server of cluster {cluster} does not answer"))
    }

    /// A kubelet's kubeconfig for a valid token.
    pub(super) fn join(&self, cluster: &ClusterRecord, token: &str, node: &str) -> Result<String, String> {
        let joined = self.with(&cluster.name, |server| server.join(token, node, &inside(cluster)));
        match joined {
            Some(joined) => joined.map_err(|error| error.to_string()),
            None => Err(format!(
                "the API server of cluster {} does not answer",
                cluster.name
            )),
        }
    }

    pub(super) async fn stop_kubelet(&self, vm: Uuid) {
        held(&self.silent).remove(&vm);
        let kubelet = held(&self.kubelets).remove(&vm);
        if let Some(kubelet) = kubelet {
            kubelet.stop().await;
        }
    }

    pub(super) async fn stop_kubelets(&self) {
        let all: Vec<Kubelet> = held(&self.kubelets).drain().map(|(_, kubelet)| kubelet).collect();
        for kubelet in all {
            kubelet.stop().await;
        }
    }

    pub(super) async fn stop_servers(&self) {
        let all: Vec<(String, KubeServer)> = held(&self.servers).drain().collect();
        for (name, server) in all {
            self.save(&name, &server.snapshot());
            server.stop().await;
        }
    }

    pub(super) fn file(&self, cluster: &str, what: &str) -> PathBuf {
        self.folder.join(format!("kube-{cluster}.{what}.json"))
    }

    fn save(&self, cluster: &str, snapshot: &Value) {
        let path = self.file(cluster, "objects");
        if let Err(error) = files::save_json(&path, snapshot) {
            tracing::error!(file = %path.display(), %error, "the Kubernetes side of the lab was not saved");
        }
    }
}

/// The API's URL for nodes.
fn inside(cluster: &ClusterRecord) -> String {
    format!("https://{}:{API_PORT}", cluster.kube_address)
}

pub(super) fn seconds(value: f64) -> Duration {
    Duration::try_from_secs_f64(value).unwrap_or_default()
}

/// Whether a control node of a cluster is on.
fn has_control(state: &CloudState, cluster: &str) -> bool {
    state
        .vms
        .iter()
        .any(|vm| vm.state.is_on() && vm.guest.control && vm.guest.cluster.as_deref() == Some(cluster))
}

fn load<T: serde::de::DeserializeOwned>(path: &Path) -> Result<Option<T>, String> {
    files::load_json(path).map_err(|error| format!("{}: {error}", path.display()))
}

impl World {
    /// Starts and stops the APIs as their control nodes run.
    pub(super) async fn settle_kubes(&self) {
        for cluster in &self.record.clusters {
            let wanted = self.cloud.read(|state| has_control(state, &cluster.name));
            let running = held(&self.kubes.servers).contains_key(&cluster.name);
            if wanted && !running {
                if let Err(problem) = self.start_server(cluster).await {
                    tracing::error!(cluster = %cluster.name, problem, "a Kubernetes API did not start");
                }
            } else if running && !wanted {
                let server = held(&self.kubes.servers).remove(&cluster.name);
                if let Some(server) = server {
                    self.kubes.save(&cluster.name, &server.snapshot());
                    server.stop().await;
                }
            }
        }
    }

    async fn start_server(&self, cluster: &ClusterRecord) -> Result<(), String> {
        let pki_file = self.kubes.file(&cluster.name, "pki");
        let restore: Option<Value> = load(&self.kubes.file(&cluster.name, "objects"))?;
        let server = KubeServer::start(KubeOptions {
            listen: SocketAddr::from((cluster.kube_address, API_PORT)),
            server_names: vec![cluster.public_ip.to_string(), cluster.kube_address.to_string()],
            version: format!("v{}", cluster.version),
            pki: load(&pki_file)?,
            restore,
            timings: KubeTimings {
                pod_start_delay: seconds(self.record.kube.pod_start_seconds),
                heartbeat: seconds(self.record.kube.heartbeat_seconds),
                ..KubeTimings::default()
            },
        })
        .await
        .map_err(|error| error.to_string())?;
        files::save_json(&pki_file, server.pki()).map_err(|error| error.to_string())?;
        self.admit_members(cluster, &server)?;
        self.find_silent(cluster, &server);
        held(&self.kubes.servers).insert(cluster.name.clone(), server);
        Ok(())
    }

    /// Gives the members that the scenario made their way to the API.
    fn admit_members(&self, cluster: &ClusterRecord, server: &KubeServer) -> Result<(), String> {
        let without = |vm: &&Vm| {
            vm.guest.cluster.as_ref() == Some(&cluster.name) && vm.guest.kubeconfig.is_none() && !vm.removed
        };
        let new: Vec<(Uuid, String)> = self.cloud.read(|state| {
            state
                .vms
                .iter()
                .filter(without)
                .map(|vm| (vm.id, vm.name.to_lowercase()))
                .collect()
        });
        if new.is_empty() {
            return Ok(());
        }
        let token = server.create_join_token(Duration::from_mins(1));
        let mut given = BTreeMap::new();
        for (id, name) in new {
            let kubeconfig = server
                .join(&token, &name, &inside(cluster))
                .map_err(|error| error.to_string())?;
            given.insert(id, kubeconfig);
        }
        let secret = format!("bootstrap-token-{}", token.split('.').next().unwrap_or_default());
        server
            .delete("secrets", "kube-system", &secret)
            .map_err(|error| error.to_string())?;
        self.cloud.change(|state| {
            for vm in &mut state.vms {
                if let Some(kubeconfig) = given.remove(&vm.id) {
                    vm.guest.kubeconfig = Some(kubeconfig);
                }
            }
        });
        Ok(())
    }

    fn find_silent(&self, cluster: &ClusterRecord, server: &KubeServer) {
        let registered: Vec<(Uuid, String)> = self.cloud.read(|state| {
            let here = |vm: &&Vm| vm.guest.registered && vm.guest.cluster.as_ref() == Some(&cluster.name);
            state
                .vms
                .iter()
                .filter(here)
                .map(|vm| (vm.id, vm.name.to_lowercase()))
                .collect()
        });
        for (id, name) in registered {
            if server.get("nodes", "", &name).is_err() {
                held(&self.kubes.silent).insert(id);
            }
        }
    }

    /// Lets a cluster's API take connections and answer nothing; false if it is not alive.
    pub(crate) fn hang_api(&self, cluster: &str, hung: bool) -> bool {
        self.kubes.with(cluster, |server| server.set_hung(hung)).is_some()
    }

    /// Saves the Kubernetes side whenever it has changed, until the world stops.
    pub(super) async fn keep_kubes(&self) {
        let mut saved: HashMap<String, Value> = HashMap::new();
        loop {
            tokio::select! {
                () = self.stop.cancelled() => return,
                () = clock::pause(SAVE_EVERY) => {}
            }
            for cluster in &self.record.clusters {
                let Some(snapshot) = self.kubes.with(&cluster.name, KubeServer::snapshot) else {
                    continue;
                };
                let version = snapshot.get("resourceVersion").cloned().unwrap_or_default();
                if saved.get(&cluster.name) != Some(&version) {
                    self.kubes.save(&cluster.name, &snapshot);
                    self.note_registered(cluster);
                    saved.insert(cluster.name.clone(), version);
                }
            }
        }
    }

    fn note_registered(&self, cluster: &ClusterRecord) {
        let known: HashSet<String> = self
            .kube_nodes(&cluster.name)
            .iter()
            .filter_map(|node| text(node, "name"))
            .collect();
        let fresh = |vm: &Vm| {
            vm.guest.cluster.as_ref() == Some(&cluster.name)
                && !vm.guest.registered
                && vm.state.is_on()
                && known.contains(&vm.name.to_lowercase())
        };
        if self.cloud.read(|state| state.vms.iter().any(fresh)) {
            self.cloud.change(|state| {
                for vm in &mut state.vms {
                    if fresh(vm) {
                        vm.guest.registered = true;
                    }
                }
            });
        }
    }

    /// Writes what a control node has for its administrator.
    pub(super) fn provision(&self, vm: Uuid) {
        let Some(node) = self.node(vm) else {
            return;
        };
        let guest = self
            .cloud
            .read(|state| state.vm(vm).map(|vm| vm.guest.clone()))
            .unwrap_or_default();
        let cluster = self
            .record
            .clusters
            .iter()
            .find(|have| Some(&have.name) == guest.cluster.as_ref());
        if let Some(kubeconfig) = &guest.kubeconfig {
            node.write_file("/etc/kubernetes/kubelet.conf", kubeconfig);
        }
        if let Some(cluster) = cluster.filter(|_| guest.control) {
            let admin = self.kubeconfig(&cluster.name, &inside(cluster));
            if !admin.is_empty() {
                node.write_file("/etc/kubernetes/admin.conf", &admin);
                node.write_file("/root/.kube/config", &admin);
            }
        }
    }

    /// The administrator's kubeconfig by a URL; empty while the API is down.
    pub(crate) fn kubeconfig(&self, cluster: &str, server_url: &str) -> String {
        self.kubes
            .with(cluster, |server| server.kubeconfig(server_url))
            .unwrap_or_default()
    }

    /// The nodes of a cluster, each with name, readiness, cordon and version.
    pub(crate) fn kube_nodes(&self, cluster: &str) -> Vec<Value> {
        let found = self.kubes.with(cluster, |server| server.list("nodes", None));
        let nodes = found.and_then(Result::ok).unwrap_or_default();
        nodes.iter().map(node_view).collect()
    }
}

fn text(value: &Value, key: &str) -> Option<String> {
    value.get(key).and_then(Value::as_str).map(str::to_owned)
}

fn node_view(node: &Value) -> Value {
    let conditions = node.pointer("/status/conditions").and_then(Value::as_array);
    let ready = conditions.into_iter().flatten().any(|condition| {
        condition.get("type") == Some(&json!("Ready")) && condition.get("status") == Some(&json!("True"))
    });
    json!({
        "name": node.pointer("/metadata/name"),
        "ready": ready,
        "unschedulable": node.pointer("/spec/unschedulable").and_then(Value::as_bool).unwrap_or(false),
        "version": node.pointer("/status/nodeInfo/kubeletVersion"),
    })
}
