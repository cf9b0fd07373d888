//! Which Kubernetes node belongs to a member, and where the member is reached (`behaviour.md` 4).
//!
//! What this must not know: how machines, nodes and rules were listed, and whether an endpoint answers.
//!
//! A node is matched by provider id, system UUID or address first, by name last. The name is the weakest of
//! all, since a name can be given twice; so a match by name alone is refused when the node carries the id of
//! another machine.

mod endpoint;
mod matching;

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::domain::cluster::{MatchedNode, Member, Role};
use crate::domain::id::VmId;
use crate::domain::observed::{ForwardingRule, KubeNode, Machine, MachineState};

pub use endpoint::forwarded_port;
pub use matching::fold_name;

/// The first public port on which nodes of a cluster are reached, and from which a missing rule is guessed.
pub const FIRST_SSH_PORT: u16 = 2222;
/// The port of SSH on a node.
pub const SSH_PORT: u16 = 22;

/// How the nodes of a cluster are reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reach {
    /// Through forwarding rules on a public address (isolated networks and VPC tiers).
    Forwarded {
        /// The address.
        address: IpAddr,
    },
    /// At their own addresses (shared and routed networks).
    Direct {
        /// The port of SSH on every node (`node_ssh_port`).
        port: u16,
    },
}

/// Where a member's SSH answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    /// Address.
    pub address: IpAddr,
    /// Port.
    pub port: u16,
    /// No rule says so: base port and index, to be used only after the machine has proved itself.
    #[serde(default)]
    pub guess: bool,
}

/// What the cloud says of a member's machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum MachineWitness {
    /// It is in this state.
    State(MachineState),
    /// The cloud has no such machine, and shows us other members.
    NoSuchMachine,
    /// It shows us no member at all: our keys may have lost sight of the owner.
    Unknown,
}

impl MachineWitness {
    /// Whether the machine is surely off or gone. Error is not: such a machine may still run on its host.
    #[must_use]
    pub fn off(&self) -> bool {
        match self {
            Self::State(state) => matches!(
                state,
                MachineState::Stopped | MachineState::Destroyed | MachineState::Expunging
            ),
            Self::NoSuchMachine => true,
            Self::Unknown => false,
        }
    }

    /// Whether the machine runs; one that moves between hosts does.
    #[must_use]
    pub fn running(&self) -> bool {
        matches!(self, Self::State(MachineState::Running | MachineState::Migrating))
    }

    /// In words, for errors and events.
    #[must_use]
    pub fn words(&self) -> String {
        match self {
            Self::State(MachineState::Other(word)) => word.clone(),
            Self::State(state) => format!("{state:?}"),
            Self::NoSuchMachine => "gone".to_owned(),
            Self::Unknown => "unknown".to_owned(),
        }
    }
}

/// What Kubernetes says of a member's node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum NodeWitness {
    /// It is there.
    Present(MatchedNode),
    /// It was there once, or its machine is gone; now it is not.
    Gone(Option<MatchedNode>),
    /// The member has no node by its role.
    NotExpected,
}

impl NodeWitness {
    /// The name of the node, present or gone.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Present(node) | Self::Gone(Some(node)) => Some(&node.name),
            Self::Gone(None) | Self::NotExpected => None,
        }
    }
}

/// A member with all that an operation must know of it: machine, Kubernetes node, endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resolved {
    /// The machine.
    pub vm_id: VmId,
    /// Its name.
    pub vm_name: String,
    /// Its role.
    pub role: Role,
    /// Brought by the user.
    pub external: bool,
    /// What the cloud says.
    pub machine: MachineWitness,
    /// What Kubernetes says.
    pub node: NodeWitness,
    /// Where it is reached; none when nothing is known (no address, no rule and no guess).
    pub endpoint: Option<Endpoint>,
    /// Host keys that it must show.
    pub host_keys: Vec<String>,
    /// Addresses of its cards, for the proof by host name.
    pub addresses: Vec<IpAddr>,
    /// CPU cores, as the cloud says.
    pub cores: i64,
    /// Memory in MB, as the cloud says.
    pub memory_mb: i64,
}

impl Resolved {
    /// The node's name for texts: what Kubernetes calls it, else what it would be called.
    #[must_use]
    pub fn node_name(&self) -> String {
        self.node
            .name()
            .map_or_else(|| self.vm_name.to_lowercase(), str::to_owned)
    }
}

/// Why a member cannot be resolved.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// More than one node could be the member's.
    #[error("VM {vm_name} ({vm_id}) matches more than one Kubernetes node: {}", nodes.join(", "))]
    TwoMatches {
        /// The machine.
        vm_id: VmId,
        /// Its name.
        vm_name: String,
        /// The nodes.
        nodes: Vec<String>,
    },
    /// Two members match one node.
    #[error("Kubernetes node {node} matches more than one VM of the cluster: {}", vms.join(", "))]
    SharedNode {
        /// The node.
        node: String,
        /// The machines.
        vms: Vec<String>,
    },
    /// The node that has the member's name is another machine's.
    #[error(
        "Kubernetes node {node} has the name of VM {vm_name} ({vm_id}) but carries the id of another machine ({found})"
    )]
    AnotherMachine {
        /// The machine.
        vm_id: VmId,
        /// Its name.
        vm_name: String,
        /// The node.
        node: String,
        /// The id that was found.
        found: String,
    },
    /// No node, and nothing says that there ever was one.
    #[error(
        "no Kubernetes node matches VM {vm_name} ({vm_id}) by provider id, system UUID, address or name, and none was known before"
    )]
    NoMatch {
        /// The machine.
        vm_id: VmId,
        /// Its name.
        vm_name: String,
    },
}

/// Everything that resolving looks at.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The members in map order.
    pub members: &'a [Member],
    /// Their machines, as far as the cloud shows them.
    pub machines: &'a [Machine],
    /// All nodes of the cluster.
    pub nodes: &'a [KubeNode],
    /// The forwarding rules on the cluster's address.
    pub rules: &'a [ForwardingRule],
    /// How nodes are reached.
    pub reach: Reach,
}

/// Resolves every member, in map order.
///
/// # Errors
/// The first member that cannot be resolved, named.
pub fn resolve(facts: Facts<'_>) -> Result<Vec<Resolved>, ResolveError> {
    let mut resolved = Vec::with_capacity(facts.members.len());
    for (index, member) in facts.members.iter().enumerate() {
        resolved.push(resolve_one(facts, index, member)?);
    }
    no_shared_node(&resolved)?;
    Ok(resolved)
}

/// Machine and endpoint of every member, before any node is known: enough to reach a control node.
#[must_use]
pub fn endpoints(facts: Facts<'_>) -> Vec<Resolved> {
    let members = facts.members.iter().enumerate();
    members
        .map(|(index, member)| without_node(facts, index, member))
        .collect()
}

/// The node of one member among these, if one matches.
///
/// # Errors
/// When more than one does, or the one that does is another machine's.
pub fn find_node(
    member: &Member,
    machine: Option<&Machine>,
    nodes: &[KubeNode],
) -> Result<Option<KubeNode>, ResolveError> {
    let members = std::slice::from_ref(member);
    let machines = machine.map(std::slice::from_ref).unwrap_or_default();
    let reach = Reach::Direct { port: SSH_PORT };
    let facts = Facts {
        members,
        machines,
        nodes,
        rules: &[],
        reach,
    };
    Ok(matching::match_node(member, machine, facts)?.cloned())
}

fn resolve_one(facts: Facts<'_>, index: usize, member: &Member) -> Result<Resolved, ResolveError> {
    let machine = facts.machines.iter().find(|machine| machine.id == member.vm_id);
    Ok(Resolved {
        node: matching::node_witness(member, machine, facts)?,
        ..without_node(facts, index, member)
    })
}

fn without_node(facts: Facts<'_>, index: usize, member: &Member) -> Resolved {
    let machine = facts.machines.iter().find(|machine| machine.id == member.vm_id);
    Resolved {
        vm_id: member.vm_id,
        vm_name: member.vm_name.clone(),
        role: member.role,
        external: member.external,
        machine: machine_witness(machine, facts.machines),
        node: NodeWitness::NotExpected,
        endpoint: endpoint::endpoint(member, machine, index, facts),
        host_keys: member.host_keys.clone(),
        addresses: machine.map(addresses).unwrap_or_default(),
        cores: machine.map_or(0, |machine| machine.cpu_number),
        memory_mb: machine.map_or(0, |machine| machine.memory_mb),
    }
}

/// What the cloud says of one member's machine, given all machines of members that it shows.
#[must_use]
pub fn machine_witness(machine: Option<&Machine>, shown: &[Machine]) -> MachineWitness {
    match machine {
        Some(machine) => MachineWitness::State(machine.state.clone()),
        None if shown.is_empty() => MachineWitness::Unknown,
        None => MachineWitness::NoSuchMachine,
    }
}

fn addresses(machine: &Machine) -> Vec<IpAddr> {
    machine.nics.iter().filter_map(|nic| nic.address).collect()
}

fn no_shared_node(resolved: &[Resolved]) -> Result<(), ResolveError> {
    for one in resolved {
        let NodeWitness::Present(node) = &one.node else {
            continue;
        };
        let same: Vec<&Resolved> = resolved
            .iter()
            .filter(|other| matches!(&other.node, NodeWitness::Present(found) if found.name == node.name))
            .collect();
        if same.len() > 1 {
            return Err(ResolveError::SharedNode {
                node: node.name.clone(),
                vms: same.iter().map(|other| other.vm_name.clone()).collect(),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
