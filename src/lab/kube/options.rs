//! How a cluster of the lab is started.

use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::pki::KubePki;

/// What a server needs to start.
#[derive(Debug, Clone)]
pub struct KubeOptions {
    /// Where it listens: a loopback address; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Names and addresses, beside the one it listens on, that its certificate is good for.
    pub server_names: Vec<String>,
    /// What `/version` reports, as `v1.32.5`.
    pub version: String,
    /// Certificates and credentials of an earlier start; `None` makes new ones.
    pub pki: Option<KubePki>,
    /// What [`super::KubeServer::snapshot`] gave at an earlier time; `None` is an empty cluster.
    pub restore: Option<Value>,
    /// How fast things happen.
    pub timings: KubeTimings,
}

impl Default for KubeOptions {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            server_names: Vec::new(),
            version: "v1.32.5".to_owned(),
            pki: None,
            restore: None,
            timings: KubeTimings::default(),
        }
    }
}

/// How fast things happen. The default suits a lab; [`KubeTimings::real`] is what a real cluster takes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KubeTimings {
    /// How long after the last sign of a kubelet its node becomes NotReady (a real one: 40 s).
    pub node_grace: Duration,
    /// How long after that the node is tainted NoExecute (a real one: some seconds).
    pub no_execute_delay: Duration,
    /// How long the pods of a deleted node stay before they are collected (a real one: 40 s and more).
    pub pod_gc_delay: Duration,
    /// How long a kubelet takes to start a pod. The server does not start pods: this is for those who start kubelets.
    pub pod_start_delay: Duration,
    /// How often a kubelet gives a sign (a real one: 10 s). Also for those who start kubelets.
    pub heartbeat: Duration,
}

impl Default for KubeTimings {
    fn default() -> Self {
        Self {
            node_grace: Duration::from_secs(8),
            no_execute_delay: Duration::from_secs(5),
            pod_gc_delay: Duration::from_secs(2),
            pod_start_delay: Duration::from_millis(300),
            heartbeat: Duration::from_secs(2),
        }
    }
}

impl KubeTimings {
    /// What a real cluster takes.
    pub fn real() -> Self {
        Self {
            node_grace: Duration::from_secs(40),
            no_execute_delay: Duration::from_secs(5),
            pod_gc_delay: Duration::from_secs(40),
            pod_start_delay: Duration::from_secs(1),
            heartbeat: Duration::from_secs(10),
        }
    }
}
