//! The rules of the cloud that come and go with a node (`behaviour.md` 6.7 and 6.9).
//!
//! What this must not know: how rules are made. Rules are ours only when they stand in `cluster_rule`; a
//! user's rule, or a range that covers ours by chance, is never touched.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::resolve::{FIRST_SSH_PORT, SSH_PORT};
use crate::domain::id::{PublicIpId, RuleId, VmId};
use crate::domain::observed::{FirewallRule, ForwardingRule};

/// What a rule of ours is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RuleKind {
    /// Sends a public port to a machine.
    Forwarding,
    /// Lets a range of public ports in.
    Firewall,
}

/// A row of `cluster_rule`: a rule that is ours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnRule {
    /// Its id in the cloud.
    pub id: RuleId,
    /// What it is.
    pub kind: RuleKind,
    /// The machine that it is for; none for one that serves several.
    pub vm_id: Option<VmId>,
    /// Made for SSH, not for the Kubernetes API.
    pub ssh: bool,
    /// The public address it stands on.
    pub ip_id: PublicIpId,
    /// That address.
    pub address: IpAddr,
    /// First public port.
    pub public_port: u16,
    /// Last public port.
    pub public_end_port: u16,
}

/// No public port is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no public port from {FIRST_SSH_PORT} up is free on {0}")]
pub struct NoFreePort(pub IpAddr);

/// The lowest free public port for a new node's SSH. A port is taken by any rule of the address, also by one
/// that is being removed, and by those that this plan gave already.
pub fn free_port(
    address: IpAddr,
    rules: &[ForwardingRule],
    given: &BTreeSet<u16>,
) -> Result<u16, NoFreePort> {
    (FIRST_SSH_PORT..=u16::MAX)
        .find(|port| {
            let taken = rules.iter().any(|rule| {
                rule.address == address && (rule.public_port..=rule.public_end_port).contains(port)
            });
            !taken && !given.contains(port)
        })
        .ok_or(NoFreePort(address))
}

/// Whether an existing firewall rule already lets `port` in.
#[must_use]
pub fn is_open(rules: &[FirewallRule], port: u16) -> bool {
    rules.iter().filter(|rule| !rule.revoked).any(|rule| {
        let tcp = rule.protocol.eq_ignore_ascii_case("tcp") || rule.protocol.eq_ignore_ascii_case("all");
        let first = rule.start_port.unwrap_or(0);
        let last = rule.end_port.or(rule.start_port).unwrap_or(u16::MAX);
        tcp && (first..=last).contains(&port)
    })
}

/// The forwarding rule of a machine's SSH on an address, if one stands.
#[must_use]
pub fn ssh_rule(rules: &[ForwardingRule], vm_id: VmId) -> Option<&ForwardingRule> {
    rules.iter().find(|rule| {
        !rule.revoked
            && rule.vm_id == Some(vm_id)
            && rule.private_port == SSH_PORT
            && rule.protocol.eq_ignore_ascii_case("tcp")
    })
}

/// Which of our rules go with a machine that left: its own, except the one through which the cluster is
/// reached (`reached_at`), which those that stay still need.
#[must_use]
pub fn leaving_with(own: &[OwnRule], vm_id: VmId, reached_at: Option<u16>) -> Vec<OwnRule> {
    own.iter()
        .filter(|rule| rule.vm_id == Some(vm_id))
        .filter(|rule| {
            !reached_at.is_some_and(|port| (rule.public_port..=rule.public_end_port).contains(&port))
        })
        .cloned()
        .collect()
}

/// What must change so that our rules fit the members.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Reconciliation {
    /// Our rules of machines that are no members.
    pub drop: Vec<OwnRule>,
    /// Members without an SSH forwarding rule.
    pub missing: Vec<VmId>,
}

/// Compares our rules with the members (machines that need an SSH rule).
#[must_use]
pub fn reconcile(own: &[OwnRule], present: &[ForwardingRule], members: &[VmId]) -> Reconciliation {
    Reconciliation {
        drop: own
            .iter()
            .filter(|rule| rule.vm_id.is_some_and(|vm_id| !members.contains(&vm_id)))
            .cloned()
            .collect(),
        missing: members
            .iter()
            .copied()
            .filter(|vm_id| ssh_rule(present, *vm_id).is_none())
            .collect(),
    }
}

#[cfg(test)]
mod tests;
