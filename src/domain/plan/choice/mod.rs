//! Which workers leave a cluster, and why (`behaviour.md` 6.1).
//!
//! What this must not know: how the facts were seen and how a node is removed.
//!
//! A worker is *down* only on two witnesses: the cloud calls its machine off or gone, and Kubernetes calls
//! its node NotReady or has none. One witness alone is a disagreement, and nothing is destroyed on it.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::resolve::{MachineWitness, NodeWitness, Resolved};
use crate::domain::cluster::Role;
use crate::domain::id::VmId;
use crate::domain::observed::KubeNode;

/// What was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Wanted {
    /// This many workers in the end.
    Size(i64),
    /// Exactly these machines leave.
    Nodes(Vec<VmId>),
}

/// A member with the facts that decide whether it leaves.
#[derive(Debug, Clone)]
pub struct Candidate<'a> {
    /// The member.
    pub member: &'a Resolved,
    /// Its node as Kubernetes reports it.
    pub node: Option<&'a KubeNode>,
    /// Cordoned, and no pod is on it that a drain would move. Only looked at for cordoned nodes.
    pub drained: bool,
}

/// Why a worker is among those that leave, in the order in which they leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Reason {
    /// Its machine is off or gone, and its node is NotReady or absent.
    Down,
    /// Its node is NotReady or absent, but its machine is not surely off.
    NotReady,
    /// Cordoned, with nothing on it to move.
    Drained,
    /// The newest of those that are left.
    Newest,
}

impl Reason {
    /// In words, for the Started event.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Down => "down",
            Self::NotReady => "not ready",
            Self::Drained => "drained already",
            Self::Newest => "newest",
        }
    }
}

/// A worker that leaves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leaving {
    /// The machine.
    pub vm_id: VmId,
    /// What it is like now; by id this is no reason, but decides whether it is drained.
    pub reason: Reason,
}

/// The outcome of a choice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    /// Those that leave, in the order of leaving.
    pub leaving: Vec<Leaving>,
    /// Workers that were passed over because cloud and Kubernetes disagree, in words.
    pub passed_over: Vec<String>,
}

/// Why no choice can be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChoiceError {
    /// An id that is no member.
    #[error("VM {0} is not a node of this Kubernetes cluster")]
    NotAMember(VmId),
    /// A control node by id.
    #[error(
        "VM {vm_name} ({vm_id}) is a control node: etcd membership is not managed, so control nodes cannot be removed"
    )]
    ControlNode {
        /// The machine.
        vm_id: VmId,
        /// Its name.
        vm_name: String,
    },
    /// An etcd machine by id.
    #[error(
        "VM {vm_name} ({vm_id}) is an etcd node: etcd membership is not managed, so it cannot be removed"
    )]
    EtcdNode {
        /// The machine.
        vm_id: VmId,
        /// Its name.
        vm_name: String,
    },
    /// An external node by id.
    #[error(
        "VM {vm_name} ({vm_id}) is an external node: remove it with removeNodesFromKubernetesCluster instead"
    )]
    ExternalNode {
        /// The machine.
        vm_id: VmId,
        /// Its name.
        vm_name: String,
    },
    /// Every worker by id.
    #[error("the node ids name all workers of the cluster; at least one must stay")]
    AllWorkers,
    /// The cloud calls a machine off, and its node is Ready.
    #[error(
        "the cloud and Kubernetes disagree about {}: nothing is removed until they agree",
        .0.join("; ")
    )]
    Disagreement(Vec<String>),
    /// Too few workers can leave.
    #[error("{wanted} workers would have to leave but only {able} can{}", because(.passed_over))]
    TooFew {
        /// How many should leave.
        wanted: usize,
        /// How many can.
        able: usize,
        /// Those that were passed over.
        passed_over: Vec<String>,
    },
}

fn because(passed_over: &[String]) -> String {
    if passed_over.is_empty() {
        ": the others are external nodes".to_owned()
    } else {
        format!(
            ": the cloud and Kubernetes disagree about {}",
            passed_over.join("; ")
        )
    }
}

/// Chooses who leaves. `candidates` are all members in map order (oldest first).
///
/// # Errors
/// What stands against the request, with the machine that it concerns.
pub fn choose(candidates: &[Candidate<'_>], wanted: &Wanted) -> Result<Choice, ChoiceError> {
    match wanted {
        Wanted::Nodes(ids) => by_ids(candidates, ids),
        Wanted::Size(size) => by_size(candidates, *size),
    }
}

fn by_ids(candidates: &[Candidate<'_>], ids: &[VmId]) -> Result<Choice, ChoiceError> {
    let asked: BTreeSet<VmId> = ids.iter().copied().collect();
    for id in &asked {
        let Some(candidate) = candidates.iter().find(|candidate| candidate.member.vm_id == *id) else {
            return Err(ChoiceError::NotAMember(*id));
        };
        removable(candidate.member)?;
    }
    let workers = candidates
        .iter()
        .filter(|candidate| candidate.member.role == Role::Worker)
        .count();
    if asked.len() >= workers {
        return Err(ChoiceError::AllWorkers);
    }
    let chosen: Vec<&Candidate<'_>> = candidates
        .iter()
        .filter(|candidate| asked.contains(&candidate.member.vm_id))
        .collect();
    let disagreements: Vec<String> = chosen
        .iter()
        .filter_map(|candidate| disagreement(candidate))
        .collect();
    if !disagreements.is_empty() {
        return Err(ChoiceError::Disagreement(disagreements));
    }
    Ok(Choice {
        leaving: in_order(chosen),
        passed_over: Vec::new(),
    })
}

fn removable(member: &Resolved) -> Result<(), ChoiceError> {
    let (vm_id, vm_name) = (member.vm_id, member.vm_name.clone());
    match member.role {
        Role::Control => Err(ChoiceError::ControlNode { vm_id, vm_name }),
        Role::Etcd => Err(ChoiceError::EtcdNode { vm_id, vm_name }),
        Role::Worker if member.external => Err(ChoiceError::ExternalNode { vm_id, vm_name }),
        Role::Worker => Ok(()),
    }
}

fn by_size(candidates: &[Candidate<'_>], size: i64) -> Result<Choice, ChoiceError> {
    let workers = candidates
        .iter()
        .filter(|candidate| candidate.member.role == Role::Worker);
    let have = i64::try_from(workers.clone().count()).unwrap_or(i64::MAX);
    let wanted = usize::try_from(have.saturating_sub(size)).unwrap_or(0);
    let own: Vec<&Candidate<'_>> = workers.filter(|candidate| !candidate.member.external).collect();
    let passed_over: Vec<String> = own
        .iter()
        .filter_map(|candidate| disagreement(candidate))
        .collect();
    let able: Vec<&Candidate<'_>> = own
        .into_iter()
        .filter(|candidate| disagreement(candidate).is_none())
        .collect();
    if able.len() < wanted {
        return Err(ChoiceError::TooFew {
            wanted,
            able: able.len(),
            passed_over,
        });
    }
    let mut leaving = in_order(able);
    leaving.truncate(wanted);
    Ok(Choice { leaving, passed_over })
}

/// Down, then NotReady, then drained already, then newest first; newest first within each.
fn in_order(chosen: Vec<&Candidate<'_>>) -> Vec<Leaving> {
    let mut leaving: Vec<Leaving> = chosen
        .into_iter()
        .rev()
        .map(|candidate| Leaving {
            vm_id: candidate.member.vm_id,
            reason: reason(candidate),
        })
        .collect();
    leaving.sort_by_key(|one| one.reason);
    leaving
}

fn reason(candidate: &Candidate<'_>) -> Reason {
    let ready = ready(candidate);
    if !ready && candidate.member.machine.off() {
        Reason::Down
    } else if !ready {
        Reason::NotReady
    } else if candidate.drained {
        Reason::Drained
    } else {
        Reason::Newest
    }
}

fn ready(candidate: &Candidate<'_>) -> bool {
    matches!(candidate.member.node, NodeWitness::Present(_)) && candidate.node.is_some_and(|node| node.ready)
}

/// The cloud says off, the node is Ready: somebody is wrong, and both are named.
fn disagreement(candidate: &Candidate<'_>) -> Option<String> {
    let member = candidate.member;
    (ready(candidate) && member.machine.off()).then(|| {
        format!(
            "VM {} is {} in the cloud but its node {} is Ready",
            member.vm_name,
            member.machine.words(),
            member.node_name()
        )
    })
}

/// Whether a member is down: both witnesses say so.
#[must_use]
pub fn is_down(machine: &MachineWitness, node: Option<&KubeNode>) -> bool {
    machine.off() && !node.is_some_and(|node| node.ready)
}

#[cfg(test)]
mod tests;
