//! What the cloud shows us: machines, networks, addresses and rules, as values.

use std::net::IpAddr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::domain::id::{
    DomainId, IsoId, NetworkId, OfferingId, ProjectId, PublicIpId, RuleId, TemplateId, VmId, ZoneId,
};

/// A virtual machine as the cloud lists it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Its id.
    pub id: VmId,
    /// Its name, which is its host name.
    pub name: String,
    /// The name for people.
    pub display_name: String,
    /// Its state.
    pub state: MachineState,
    /// Owner: account name; absent for a project's.
    pub account: Option<String>,
    /// Owner's domain.
    pub domain_id: Option<DomainId>,
    /// Owning project.
    pub project_id: Option<ProjectId>,
    /// Zone.
    pub zone_id: Option<ZoneId>,
    /// Offering.
    pub offering_id: Option<OfferingId>,
    /// CPU cores.
    pub cpu_number: i64,
    /// Memory in MB.
    pub memory_mb: i64,
    /// Template.
    pub template_id: Option<TemplateId>,
    /// Key pair name.
    pub key_pair: Option<String>,
    /// Its network cards, the default one first.
    pub nics: Vec<Nic>,
    /// The ISO in its drive.
    pub iso_id: Option<IsoId>,
    /// A backup offering that stops its destroy.
    pub backup_offering_id: Option<Uuid>,
    /// Whether the cloud refuses to destroy it.
    pub delete_protection: bool,
    /// `CKS_NODE` when CloudStack's own Kubernetes plug-in made it, else `User` or absent.
    pub vm_type: Option<String>,
    /// When it was made.
    pub created: Option<Timestamp>,
    /// The whole object as the cloud sent it, for replies (`virtualmachines[]`).
    pub raw: serde_json::Value,
}

/// A network card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nic {
    /// Its network.
    pub network_id: NetworkId,
    /// Its address.
    pub address: Option<IpAddr>,
}

/// The state of a machine (`api-protocol.md` 5.1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum MachineState {
    /// Being started.
    Starting,
    /// On.
    Running,
    /// Being stopped.
    Stopping,
    /// Off.
    Stopped,
    /// Moving to another host; counts as on.
    Migrating,
    /// Destroyed, can be recovered until it is expunged.
    Destroyed,
    /// Being expunged.
    Expunging,
    /// Failed; may still run on its host.
    Error,
    /// Any other word of the cloud.
    Other(String),
}

/// A port-forwarding rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForwardingRule {
    /// Its id.
    pub id: RuleId,
    /// The public address.
    pub ip_id: PublicIpId,
    /// The public address itself.
    pub address: IpAddr,
    /// First public port.
    pub public_port: u16,
    /// Last public port.
    pub public_end_port: u16,
    /// First port on the machine.
    pub private_port: u16,
    /// `tcp` or `udp`.
    pub protocol: String,
    /// The machine.
    pub vm_id: Option<VmId>,
    /// Being removed: to be ignored (state Revoke or Deleting).
    pub revoked: bool,
}

/// A firewall rule on a public address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FirewallRule {
    /// Its id.
    pub id: RuleId,
    /// The public address.
    pub ip_id: PublicIpId,
    /// `tcp`, `udp`, `icmp` or `all`.
    pub protocol: String,
    /// First port; absent means all.
    pub start_port: Option<u16>,
    /// Last port; absent means `start_port`.
    pub end_port: Option<u16>,
    /// Being removed.
    pub revoked: bool,
}

/// A public address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublicIp {
    /// Its id.
    pub id: PublicIpId,
    /// The address.
    pub address: IpAddr,
    /// The source-NAT address of its network.
    pub source_nat: bool,
}

/// A network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Network {
    /// Its id.
    pub id: NetworkId,
    /// Its name.
    pub name: String,
    /// `Isolated`, `Shared` or `L2`.
    pub kind: String,
    /// The VPC that it is a tier of.
    pub vpc_id: Option<Uuid>,
    /// Whether machines are reached at their own addresses although it is isolated (`ip4routing` is set).
    pub routed: bool,
}

/// An extra disk of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataDisk {
    /// Its id.
    pub id: Uuid,
    /// Its name.
    pub name: String,
}
