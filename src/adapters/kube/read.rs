//! kubectl's JSON in the service's words. Only the fields that are needed; unknown ones do not matter.

use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::ports::kube::{Budget, KubeNode, Pod, VolumeAttachment};

/// The label of a control node.
const CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";
/// The annotation of the mirror of a static pod.
const MIRROR: &str = "kubernetes.io/config.mirror";

#[derive(Deserialize)]
struct List<T> {
    items: Vec<T>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    name: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    uid: String,
    #[serde(default)]
    labels: Option<BTreeMap<String, String>>,
    #[serde(default)]
    annotations: Option<BTreeMap<String, String>>,
    #[serde(default)]
    finalizers: Vec<String>,
    deletion_timestamp: Option<Timestamp>,
    #[serde(default)]
    owner_references: Vec<Owner>,
}

#[derive(Deserialize)]
struct Owner {
    kind: String,
    #[serde(default)]
    controller: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    last_transition_time: Option<Timestamp>,
}

#[derive(Deserialize)]
struct WireNode {
    metadata: Meta,
    #[serde(default)]
    spec: NodeSpec,
    #[serde(default)]
    status: NodeStatus,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct NodeSpec {
    #[serde(default)]
    unschedulable: bool,
    #[serde(rename = "providerID")]
    provider_id: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct NodeStatus {
    #[serde(default)]
    conditions: Vec<Condition>,
    #[serde(default)]
    addresses: Vec<Address>,
    #[serde(default)]
    node_info: NodeInfo,
}

#[derive(Deserialize)]
struct Address {
    #[serde(rename = "type")]
    kind: String,
    address: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct NodeInfo {
    #[serde(default)]
    kubelet_version: String,
    #[serde(rename = "systemUUID")]
    system_uuid: Option<String>,
}

#[derive(Deserialize)]
struct WirePod {
    metadata: Meta,
    #[serde(default)]
    spec: PodSpec,
    #[serde(default)]
    status: PodStatus,
}

#[derive(Deserialize, Default)]
struct PodSpec {
    #[serde(default)]
    volumes: Vec<Volume>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Volume {
    empty_dir: Option<serde_json::Value>,
    persistent_volume_claim: Option<Claim>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Claim {
    claim_name: String,
}

#[derive(Deserialize, Default)]
struct PodStatus {
    #[serde(default)]
    phase: String,
    #[serde(default)]
    conditions: Vec<Condition>,
}

#[derive(Deserialize)]
struct WireBudget {
    metadata: Meta,
    #[serde(default)]
    spec: BudgetSpec,
    #[serde(default)]
    status: BudgetStatus,
}

#[derive(Deserialize, Default)]
struct BudgetSpec {
    #[serde(default)]
    selector: serde_json::Value,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct BudgetStatus {
    #[serde(default)]
    disruptions_allowed: i64,
    #[serde(default)]
    current_healthy: i64,
    #[serde(default)]
    desired_healthy: i64,
}

#[derive(Deserialize)]
struct WireAttachment {
    metadata: Meta,
    spec: AttachmentSpec,
    #[serde(default)]
    status: AttachmentStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AttachmentSpec {
    node_name: String,
    #[serde(default)]
    source: AttachmentSource,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct AttachmentSource {
    persistent_volume_name: Option<String>,
}

#[derive(Deserialize, Default)]
struct AttachmentStatus {
    #[serde(default)]
    attached: bool,
}

#[derive(Deserialize)]
struct WireVolume {
    metadata: Meta,
    #[serde(default)]
    spec: VolumeSpec,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct VolumeSpec {
    claim_ref: Option<ClaimRef>,
}

#[derive(Deserialize)]
struct ClaimRef {
    namespace: String,
    name: String,
}

fn items<T: DeserializeOwned>(json: &str) -> Result<Vec<T>, serde_json::Error> {
    serde_json::from_str::<List<T>>(json).map(|list| list.items)
}

fn ready(conditions: &[Condition]) -> Option<&Condition> {
    conditions.iter().find(|condition| condition.kind == "Ready")
}

/// Reads `get nodes -o json`.
pub(super) fn nodes(json: &str) -> Result<Vec<KubeNode>, serde_json::Error> {
    Ok(items::<WireNode>(json)?.into_iter().map(node).collect())
}

fn node(wire: WireNode) -> KubeNode {
    let condition = ready(&wire.status.conditions);
    let of_type = |kinds: &'static [&str]| {
        wire.status
            .addresses
            .iter()
            .filter(|address| kinds.contains(&address.kind.as_str()))
    };
    KubeNode {
        unschedulable: wire.spec.unschedulable,
        ready: condition.is_some_and(|condition| condition.status == "True"),
        ready_since: condition.and_then(|condition| condition.last_transition_time),
        addresses: of_type(&["InternalIP", "ExternalIP"])
            .filter_map(|address| address.address.parse().ok())
            .collect(),
        host_name: of_type(&["Hostname"])
            .next()
            .map(|address| address.address.clone()),
        kubelet_version: wire.status.node_info.kubelet_version,
        system_uuid: wire.status.node_info.system_uuid.filter(|uuid| !uuid.is_empty()),
        provider_id: wire.spec.provider_id.filter(|id| !id.is_empty()),
        control_plane: wire
            .metadata
            .labels
            .is_some_and(|labels| labels.contains_key(CONTROL_PLANE)),
        name: wire.metadata.name,
    }
}

/// Reads `get pods -o json`.
pub(super) fn pods(json: &str) -> Result<Vec<Pod>, serde_json::Error> {
    Ok(items::<WirePod>(json)?.into_iter().map(pod).collect())
}

fn pod(wire: WirePod) -> Pod {
    let meta = wire.metadata;
    Pod {
        ready: ready(&wire.status.conditions).is_some_and(|condition| condition.status == "True"),
        phase: wire.status.phase,
        deleting_since: meta.deletion_timestamp,
        controller: meta
            .owner_references
            .into_iter()
            .find(|owner| owner.controller == Some(true))
            .map(|owner| owner.kind),
        mirror: meta
            .annotations
            .is_some_and(|annotations| annotations.contains_key(MIRROR)),
        empty_dir: wire.spec.volumes.iter().any(|volume| volume.empty_dir.is_some()),
        claims: wire
            .spec
            .volumes
            .into_iter()
            .filter_map(|volume| volume.persistent_volume_claim.map(|claim| claim.claim_name))
            .collect(),
        namespace: meta.namespace,
        name: meta.name,
        uid: meta.uid,
        finalizers: meta.finalizers,
        labels: meta.labels.unwrap_or_default(),
    }
}

/// Reads `get pdb -o json`.
pub(super) fn budgets(json: &str) -> Result<Vec<Budget>, serde_json::Error> {
    let budget = |wire: WireBudget| Budget {
        namespace: wire.metadata.namespace,
        name: wire.metadata.name,
        selector: wire.spec.selector,
        disruptions_allowed: wire.status.disruptions_allowed,
        current_healthy: wire.status.current_healthy,
        desired_healthy: wire.status.desired_healthy,
    };
    Ok(items::<WireBudget>(json)?.into_iter().map(budget).collect())
}

/// Which claim each persistent volume is bound to.
pub(super) type Claims = HashMap<String, (String, String)>;

/// Reads `get pv -o json`.
pub(super) fn claims(json: &str) -> Result<Claims, serde_json::Error> {
    Ok(items::<WireVolume>(json)?
        .into_iter()
        .filter_map(|volume| {
            let claim = volume.spec.claim_ref?;
            Some((volume.metadata.name, (claim.namespace, claim.name)))
        })
        .collect())
}

/// Reads `get volumeattachments -o json`.
pub(super) fn attachments(json: &str, claims: &Claims) -> Result<Vec<VolumeAttachment>, serde_json::Error> {
    let attachment = |wire: WireAttachment| {
        let volume = wire.spec.source.persistent_volume_name;
        VolumeAttachment {
            name: wire.metadata.name,
            node: wire.spec.node_name,
            claim: volume.as_ref().and_then(|volume| claims.get(volume).cloned()),
            volume,
            attached: wire.status.attached,
        }
    };
    Ok(items::<WireAttachment>(json)?
        .into_iter()
        .map(attachment)
        .collect())
}
