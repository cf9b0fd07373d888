//! What a cluster's state becomes after an operation, by evidence (`behaviour.md` 3).
//!
//! What this must not know: how the evidence was gathered.
//!
//! What was given back needs no evidence: the former state returns. Otherwise the settling step looks once,
//! so that nobody sees an Alert that is not one.

use crate::domain::cluster::{Cluster, Member, Role};
use crate::domain::observed::KubeNode;
use crate::domain::plan::resolve::{NodeWitness, Resolved};

/// The numbers of a cluster that must equal its map (invariant I2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Counts {
    /// Control nodes.
    pub control: i64,
    /// Workers, external ones included.
    pub workers: i64,
    /// Separate etcd machines.
    pub etcd: i64,
    /// CPU cores of all members.
    pub cores: i64,
    /// Memory of all members in MB.
    pub memory_mb: i64,
}

impl Counts {
    /// The counts of these members, with the size of each.
    #[must_use]
    pub fn of<'a>(members: impl IntoIterator<Item = (&'a Member, (i64, i64))>) -> Self {
        let mut counts = Self::default();
        for (member, (cores, memory_mb)) in members {
            match member.role {
                Role::Control => counts.control += 1,
                Role::Worker => counts.workers += 1,
                Role::Etcd => counts.etcd += 1,
            }
            counts.cores += cores;
            counts.memory_mb += memory_mb;
        }
        counts
    }

    /// The counts as the cluster's row has them.
    #[must_use]
    pub fn stored(cluster: &Cluster) -> Self {
        Self {
            control: cluster.control_count,
            workers: cluster.node_count,
            etcd: cluster.etcd_count,
            cores: cluster.cores,
            memory_mb: cluster.memory_mb,
        }
    }
}

/// What the settling step saw.
#[derive(Debug, Clone, Copy)]
pub struct Evidence<'a> {
    /// The cluster's row.
    pub cluster: &'a Cluster,
    /// Its members, from the map.
    pub members: &'a [Member],
    /// The same, resolved from one look at cloud and Kubernetes.
    pub resolved: &'a [Resolved],
    /// All nodes of the cluster.
    pub nodes: &'a [KubeNode],
    /// Why an upgrade counts as unfinished, if it does.
    pub unfinished_upgrade: Option<&'a str>,
}

/// What the evidence says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Verdict {
    /// What is not in order; nothing means Running.
    pub faults: Vec<String>,
    /// Kubernetes nodes that are no members: named, but no fault.
    pub strangers: Vec<String>,
}

impl Verdict {
    /// Whether the cluster is as it should be.
    #[must_use]
    pub fn healthy(&self) -> bool {
        self.faults.is_empty()
    }

    /// The reason that is stored and shown with the state.
    #[must_use]
    pub fn reason(&self) -> String {
        let mut text = if self.healthy() {
            "by evidence: every VM is Running and every node Ready".to_owned()
        } else {
            self.faults.join("; ")
        };
        if !self.strangers.is_empty() {
            text.push_str("; Kubernetes nodes that are no members: ");
            text.push_str(&self.strangers.join(", "));
        }
        text
    }
}

/// Judges the evidence.
#[must_use]
pub fn judge(evidence: Evidence<'_>) -> Verdict {
    let mut faults = Vec::new();
    if let Some(upgrade) = evidence.unfinished_upgrade {
        faults.push(upgrade.to_owned());
    }
    for member in evidence.resolved {
        if !member.machine.running() {
            faults.push(format!("VM {} is {}", member.vm_name, member.machine.words()));
        }
        match &member.node {
            NodeWitness::NotExpected => {}
            NodeWitness::Gone(_) => faults.push(format!("node {} is gone", member.node_name())),
            NodeWitness::Present(node) => {
                if !evidence
                    .nodes
                    .iter()
                    .any(|seen| seen.name == node.name && seen.ready)
                {
                    faults.push(format!("node {} is not Ready", node.name));
                }
            }
        }
    }
    faults.extend(count_faults(&evidence));
    let strangers = evidence
        .nodes
        .iter()
        .filter(|node| {
            !evidence
                .resolved
                .iter()
                .any(|one| one.node.name() == Some(node.name.as_str()))
        })
        .map(|node| node.name.clone())
        .collect();
    Verdict { faults, strangers }
}

/// Roles only: cores and memory are what the cloud says of the machines, which may change under us.
fn count_faults(evidence: &Evidence<'_>) -> Option<String> {
    let map = Counts::of(evidence.members.iter().map(|member| (member, (0, 0))));
    let row = Counts::stored(evidence.cluster);
    let differ = (map.control, map.workers, map.etcd) != (row.control, row.workers, row.etcd);
    differ.then(|| {
        format!(
            "the cluster has {} control nodes, {} workers and {} etcd nodes by its row, but {}, {} and {} by its map",
            row.control, row.workers, row.etcd, map.control, map.workers, map.etcd
        )
    })
}

/// An upgrade as it was recorded (`behaviour.md` 9.2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpgradeRecord {
    /// The semantic version of the target.
    pub target: String,
    /// A script was started on any node since the record was set.
    pub script_started: bool,
}

/// Why the recorded upgrade counts as unfinished; nothing when there is no record, or a stale one.
///
/// Unfinished: a script was started, or a managed node's recorded or reported version is not the cluster's
/// own. *Managed* are the members that are neither etcd machines nor upgraded by hand.
#[must_use]
pub fn unfinished_upgrade(
    record: Option<&UpgradeRecord>,
    cluster_version: Option<&str>,
    members: &[Member],
    resolved: &[Resolved],
    nodes: &[KubeNode],
) -> Option<String> {
    let record = record?;
    let own = plain(cluster_version?);
    let managed = members
        .iter()
        .filter(|member| member.role != Role::Etcd && !member.manual_upgrade);
    let other = managed.clone().find(|member| {
        let recorded = member
            .node_version
            .as_deref()
            .is_some_and(|version| plain(version) != own);
        let reported = resolved
            .iter()
            .find(|one| one.vm_id == member.vm_id)
            .and_then(|one| one.node.name())
            .and_then(|name| nodes.iter().find(|node| node.name == name))
            .is_some_and(|node| plain(&node.kubelet_version) != own);
        recorded || reported
    });
    let because = match other {
        Some(member) => format!("node {} is not at the cluster's version {own}", member.vm_name),
        None if record.script_started => "an upgrade script was started".to_owned(),
        None => return None,
    };
    Some(format!(
        "the upgrade to {} is unfinished: {because}",
        record.target
    ))
}

/// A version without a leading `v`, quotes, space and build metadata.
fn plain(version: &str) -> &str {
    let version = version.trim().trim_matches('"').trim_start_matches('v');
    version.split('+').next().unwrap_or_default()
}

#[cfg(test)]
mod tests;
