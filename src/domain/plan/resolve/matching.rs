//! Matching a member with its Kubernetes node.

use uuid::Uuid;

use super::{Facts, MachineWitness, NodeWitness, ResolveError, machine_witness};
use crate::domain::cluster::{MatchedNode, Member, Role};
use crate::domain::id::VmId;
use crate::domain::observed::{KubeNode, Machine};

pub(super) fn node_witness(
    member: &Member,
    machine: Option<&Machine>,
    facts: Facts<'_>,
) -> Result<NodeWitness, ResolveError> {
    if member.role == Role::Etcd {
        return Ok(NodeWitness::NotExpected);
    }
    if let Some(node) = match_node(member, machine, facts)? {
        return Ok(NodeWitness::Present(MatchedNode {
            name: node.name.clone(),
            system_uuid: node.system_uuid.clone(),
            provider_id: node.provider_id.clone(),
        }));
    }
    let gone = machine_witness(machine, facts.machines) == MachineWitness::NoSuchMachine;
    if member.node.is_some() || gone {
        return Ok(NodeWitness::Gone(member.node.clone()));
    }
    Err(ResolveError::NoMatch {
        vm_id: member.vm_id,
        vm_name: member.vm_name.clone(),
    })
}

pub(super) fn match_node<'a>(
    member: &Member,
    machine: Option<&Machine>,
    facts: Facts<'a>,
) -> Result<Option<&'a KubeNode>, ResolveError> {
    let strong: Vec<&KubeNode> = facts
        .nodes
        .iter()
        .filter(|node| by_id(node, member.vm_id) || by_address(node, member.vm_id, machine, facts))
        .collect();
    if let [one] = strong.as_slice() {
        return Ok(Some(one));
    }
    if strong.len() > 1 {
        return Err(two_matches(member, &strong));
    }
    let wanted = fold_name(&member.vm_name);
    let named: Vec<&KubeNode> = facts
        .nodes
        .iter()
        .filter(|node| fold_name(&node.name) == wanted)
        .collect();
    match named.as_slice() {
        [] => Ok(None),
        [node] => match other_machine(node, member.vm_id) {
            None => Ok(Some(node)),
            Some(found) => Err(ResolveError::AnotherMachine {
                vm_id: member.vm_id,
                vm_name: member.vm_name.clone(),
                node: node.name.clone(),
                found,
            }),
        },
        several => Err(two_matches(member, several)),
    }
}

fn two_matches(member: &Member, nodes: &[&KubeNode]) -> ResolveError {
    ResolveError::TwoMatches {
        vm_id: member.vm_id,
        vm_name: member.vm_name.clone(),
        nodes: nodes.iter().map(|node| node.name.clone()).collect(),
    }
}

fn by_id(node: &KubeNode, vm_id: VmId) -> bool {
    provider_machine(node) == Some(vm_id.0) || system_machine(node) == Some(vm_id.0)
}

/// By address, unless the node carries the id of another machine that we know: an address can be given to
/// the next machine, an id cannot. An unknown system UUID is no obstacle, since not every hypervisor shows
/// the cloud's id there.
fn by_address(node: &KubeNode, vm_id: VmId, machine: Option<&Machine>, facts: Facts<'_>) -> bool {
    let Some(machine) = machine else { return false };
    let known = |id: Uuid| {
        id != vm_id.0
            && (facts.members.iter().any(|member| member.vm_id.0 == id)
                || facts.machines.iter().any(|machine| machine.id.0 == id))
    };
    let provider_other = provider_machine(node).is_some_and(|id| id != vm_id.0);
    let system_other = system_machine(node).is_some_and(known);
    let shared = machine
        .nics
        .iter()
        .filter_map(|nic| nic.address)
        .any(|a| node.addresses.contains(&a));
    shared && !provider_other && !system_other
}

/// The id of another machine that the node carries, if any.
fn other_machine(node: &KubeNode, vm_id: VmId) -> Option<String> {
    [provider_machine(node), system_machine(node)]
        .into_iter()
        .flatten()
        .find(|id| *id != vm_id.0)
        .map(|id| id.to_string())
}

/// The machine that the provider id names (`cloudstack:///<id>`, `external-cloudstack:///<id>`).
fn provider_machine(node: &KubeNode) -> Option<Uuid> {
    let id = node.provider_id.as_deref()?;
    Uuid::parse_str(id.rsplit('/').next()?.trim()).ok()
}

fn system_machine(node: &KubeNode) -> Option<Uuid> {
    Uuid::parse_str(node.system_uuid.as_deref()?.trim()).ok()
}

/// The first label of a name in lower case: `Node-1.example.org` and `node-1` are the same host.
#[must_use]
pub fn fold_name(name: &str) -> String {
    let name = name.trim().to_lowercase();
    name.split('.').next().unwrap_or_default().to_owned()
}
