//! What a cluster's Kubernetes shows us: nodes, pods, budgets and attached volumes, as values.

use std::collections::BTreeMap;
use std::net::IpAddr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A node as the cluster reports it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KubeNode {
    /// Its name.
    pub name: String,
    /// `spec.unschedulable`.
    pub unschedulable: bool,
    /// Condition Ready is True.
    pub ready: bool,
    /// Since when the Ready condition is what it is.
    pub ready_since: Option<Timestamp>,
    /// `status.nodeInfo.kubeletVersion`, raw.
    pub kubelet_version: String,
    /// `status.nodeInfo.systemUUID`.
    pub system_uuid: Option<String>,
    /// `spec.providerID`.
    pub provider_id: Option<String>,
    /// `status.addresses` of type InternalIP and ExternalIP.
    pub addresses: Vec<IpAddr>,
    /// `status.addresses` of type Hostname.
    pub host_name: Option<String>,
    /// Label `node-role.kubernetes.io/control-plane` is there.
    pub control_plane: bool,
}

/// A pod as a drain sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Pending, Running, Succeeded, Failed or Unknown.
    pub phase: String,
    /// Condition Ready is True.
    pub ready: bool,
    /// Being deleted since.
    pub deleting_since: Option<Timestamp>,
    /// The kind of its controller (`ReplicaSet`, `DaemonSet`, …); none for a bare pod.
    pub controller: Option<String>,
    /// A static pod's mirror.
    pub mirror: bool,
    /// Uses an emptyDir volume.
    pub empty_dir: bool,
    /// Its finalizers.
    pub finalizers: Vec<String>,
    /// Its labels, which budgets select on.
    pub labels: BTreeMap<String, String>,
    /// Names of its persistent volume claims.
    pub claims: Vec<String>,
}

/// A pod disruption budget.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// `spec.selector` as JSON (matchLabels and matchExpressions); null selects nothing, `{}` everything.
    pub selector: serde_json::Value,
    /// `status.disruptionsAllowed`.
    pub disruptions_allowed: i64,
    /// `status.currentHealthy`.
    pub current_healthy: i64,
    /// `status.desiredHealthy`.
    pub desired_healthy: i64,
}

/// A volume attached to a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeAttachment {
    /// Its own name.
    pub name: String,
    /// The node.
    pub node: String,
    /// The persistent volume, if it names one.
    pub volume: Option<String>,
    /// The namespace and name of the claim that is bound to the volume.
    pub claim: Option<(String, String)>,
    /// `status.attached`.
    pub attached: bool,
}
