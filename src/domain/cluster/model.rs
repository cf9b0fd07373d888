//! A cluster and its members as our database knows them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::state::State;
use crate::domain::id::{
    AccountId, ClusterId, DomainId, NetworkId, OfferingId, ProjectId, TemplateId, VersionId, VmId, ZoneId,
};

/// A cluster row. Columns are those of `cks-facts.md` 6.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cluster {
    /// The key inside the database.
    pub key: i64,
    /// The id that clients see.
    pub id: ClusterId,
    /// Its name; not unique.
    pub name: String,
    /// Its description.
    pub description: Option<String>,
    /// The zone.
    pub zone_id: ZoneId,
    /// The version that the cluster as a whole has.
    pub version_id: Option<VersionId>,
    /// The semantic version of `version_id`, for example `1.32.5`.
    pub semantic_version: Option<String>,
    /// The default offering.
    pub service_offering_id: Option<OfferingId>,
    /// The offering of each role that has one of its own.
    pub control_offering_id: Option<OfferingId>,
    /// The workers' own offering.
    pub worker_offering_id: Option<OfferingId>,
    /// The etcd nodes' own offering.
    pub etcd_offering_id: Option<OfferingId>,
    /// The default template.
    pub template_id: Option<TemplateId>,
    /// The workers' own template.
    pub worker_template_id: Option<TemplateId>,
    /// The network.
    pub network_id: Option<NetworkId>,
    /// Number of control nodes.
    pub control_count: i64,
    /// Number of workers, external ones included ("size").
    pub node_count: i64,
    /// Number of separate etcd machines.
    pub etcd_count: i64,
    /// The owner.
    pub account_id: AccountId,
    /// The owner's domain.
    pub domain_id: DomainId,
    /// The owning project, if a project owns it.
    pub project_id: Option<ProjectId>,
    /// The state; changes only through `db::clusters::transition`.
    pub state: State,
    /// Rises with each change of state; half of the compare-and-set.
    pub generation: i64,
    /// The SSH key pair's name in the cloud.
    pub key_pair: Option<String>,
    /// Total CPU cores of the members.
    pub cores: i64,
    /// Total memory of the members in MB.
    pub memory_mb: i64,
    /// `https://<ip>:6443/`.
    pub endpoint: Option<String>,
    /// `CloudManaged` or `ExternalManaged`.
    pub cluster_type: ClusterType,
    /// Whether the autoscaler runs in the cluster.
    pub autoscaling_enabled: bool,
    /// Least number of workers for the autoscaler.
    pub min_size: Option<i64>,
    /// Greatest number of workers for the autoscaler.
    pub max_size: Option<i64>,
    /// When the row was made.
    pub created: Timestamp,
}

/// Who runs the machines of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClusterType {
    /// We do.
    CloudManaged,
    /// Somebody else does (Cluster API, for example); we only list them.
    ExternalManaged,
}

/// What a member does in its cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Runs the Kubernetes API.
    Control,
    /// Runs workloads.
    Worker,
    /// Runs etcd alone; no Kubernetes node.
    Etcd,
}

/// A row of `kubernetes_cluster_vm_map`: a machine that belongs to a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// The key of the map row; members are ordered by it (oldest first).
    pub key: i64,
    /// The machine.
    pub vm_id: VmId,
    /// The machine's name in the cloud, which is its host name.
    pub vm_name: String,
    /// Its role.
    pub role: Role,
    /// Brought by the user, never destroyed by us.
    pub external: bool,
    /// Left out of upgrades.
    pub manual_upgrade: bool,
    /// The version that we recorded for its kubelet, bare semver.
    pub node_version: Option<String>,
    /// The Kubernetes node that was matched to it when it was first seen (`behaviour.md` 4).
    pub node: Option<MatchedNode>,
    /// Host keys that it must show, in OpenSSH public form (`ssh-ed25519 AAAA…`).
    pub host_keys: Vec<String>,
}

/// The stored match of a member with its Kubernetes node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MatchedNode {
    /// The Kubernetes node's name.
    pub name: String,
    /// Its system UUID when first seen.
    pub system_uuid: Option<String>,
    /// Its provider id when first seen.
    pub provider_id: Option<String>,
}

/// How the nodes of a cluster are reached, and with what: what an operation must know of SSH.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Access {
    /// The login user on every node.
    pub user: String,
    /// The public address on which the forwarding rules stand; none on shared and routed networks.
    pub address: Option<IpAddr>,
    /// Forwarding rules that are ours, by machine (`cluster_rule`), filled by the operation from the cloud.
    pub rules: BTreeMap<VmId, u16>,
}
