//! The stored plan of a scale: made once from facts, then carried out as it stands.
//!
//! What this must not know: how a plan is carried out. **Invariant:** a plan is stored data. It grows only by
//! optional fields, so that a job admitted by the previous binary goes on under the next.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::choice::Reason;
use super::offering::{First, OfferingPlan};
use super::resolve::{Reach, Resolved};
use super::settle::Counts;
use crate::domain::cluster::Member;
use crate::domain::id::{
    DomainId, IsoId, NetworkId, OfferingId, ProjectId, PublicIpId, TemplateId, VmId, ZoneId,
};

/// What one scale will do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScalePlan {
    /// The cluster's name, for texts.
    pub cluster_name: String,
    /// How nodes are reached.
    pub reach: Reach,
    /// The public address on which rules stand; none on shared and routed networks.
    #[serde(default)]
    pub ip_id: Option<PublicIpId>,
    /// All members, resolved.
    pub members: Vec<Resolved>,
    /// Control nodes in the order in which they are tried.
    pub control: Vec<VmId>,
    /// Workers that leave, in the order of leaving.
    #[serde(default)]
    pub remove: Vec<Removal>,
    /// Workers that come.
    #[serde(default)]
    pub add: Vec<Addition>,
    /// What all of them are made of; none when none come.
    #[serde(default)]
    pub mould: Option<Mould>,
    /// Changes of offerings.
    #[serde(default)]
    pub offering: OfferingPlan,
    /// What is done first.
    #[serde(default)]
    pub first: First,
    /// The size of machines with each offering that the plan names, cores and MB.
    #[serde(default)]
    pub sizes: BTreeMap<OfferingId, (i64, i64)>,
    /// Workers that were passed over, in words.
    #[serde(default)]
    pub passed_over: Vec<String>,
    /// Matches that were made for the first time and must be stored with the map.
    #[serde(default)]
    pub first_matched: BTreeSet<VmId>,
}

/// How a worker leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Leave {
    /// Cordoned and drained first.
    Drained,
    /// Its node is gone already: it counts as drained.
    NodeGone,
    /// Its machine is off and its node NotReady or absent: neither cordoned nor drained.
    Down,
}

/// A worker that leaves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Removal {
    /// The machine.
    pub vm_id: VmId,
    /// Its name.
    pub vm_name: String,
    /// Its node's name.
    pub node: String,
    /// Why it was chosen, or what it is like.
    pub reason: Reason,
    /// How it leaves.
    pub leave: Leave,
}

impl Removal {
    /// The machine in texts: name and id.
    #[must_use]
    pub fn vm(&self) -> String {
        format!("{} ({})", self.vm_name, self.vm_id)
    }
}

/// A worker that comes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Addition {
    /// The name of its machine, which is its host name.
    pub name: String,
    /// Stands for the machine until it has an id.
    pub slot: Uuid,
    /// The public port of its SSH; none where nodes are reached directly.
    #[serde(default)]
    pub public_port: Option<u16>,
    /// Whether no firewall rule covers that port yet.
    #[serde(default)]
    pub firewall: bool,
}

/// What new workers are made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mould {
    /// Zone.
    pub zone_id: ZoneId,
    /// Offering.
    pub offering_id: OfferingId,
    /// Template.
    pub template_id: TemplateId,
    /// Network.
    pub network_id: NetworkId,
    /// Key pair.
    #[serde(default)]
    pub key_pair: Option<String>,
    /// Owning account and domain, when no project owns the cluster.
    #[serde(default)]
    pub account: Option<(String, DomainId)>,
    /// Owning project.
    #[serde(default)]
    pub project_id: Option<ProjectId>,
    /// The ISO with the binaries of the cluster's version.
    #[serde(default)]
    pub iso_id: Option<IsoId>,
    /// The login user of the nodes.
    pub login_user: String,
    /// The version that new nodes will have, bare semver.
    #[serde(default)]
    pub version: Option<String>,
}

impl ScalePlan {
    /// Whether nothing is to be done but to look after our rules.
    #[must_use]
    pub fn is_done_already(&self) -> bool {
        self.remove.is_empty() && self.add.is_empty() && self.offering.is_empty()
    }

    /// A member.
    #[must_use]
    pub fn member(&self, vm_id: VmId) -> Option<&Resolved> {
        self.members.iter().find(|member| member.vm_id == vm_id)
    }

    /// The counts of the map as it is now. Machines made by this plan have the size of the mould; a resized
    /// one has the size of its new offering once it is among `resized`.
    #[must_use]
    pub fn counts(&self, map: &[Member], resized: &BTreeSet<VmId>) -> Counts {
        Counts::of(
            map.iter()
                .map(|member| (member, self.size_of(member.vm_id, resized))),
        )
    }

    fn size_of(&self, vm_id: VmId, resized: &BTreeSet<VmId>) -> (i64, i64) {
        let new_offering = self
            .offering
            .resize
            .iter()
            .find(|one| one.vm_id == vm_id && resized.contains(&vm_id))
            .map(|one| one.offering);
        let made = || self.mould.as_ref().map(|mould| mould.offering_id);
        match (new_offering, self.member(vm_id)) {
            (Some(offering), _) => self.sizes.get(&offering).copied().unwrap_or_default(),
            (None, Some(member)) => (member.cores, member.memory_mb),
            (None, None) => made()
                .and_then(|id| self.sizes.get(&id).copied())
                .unwrap_or_default(),
        }
    }

    /// The choice with its reasons and the control node, for the Started event.
    #[must_use]
    pub fn words(&self) -> String {
        let mut parts = Vec::new();
        if let Some(control) = self.control.first().and_then(|id| self.member(*id)) {
            parts.push(format!("through control node {}", control.node_name()));
        }
        if !self.remove.is_empty() {
            let who: Vec<String> = self
                .remove
                .iter()
                .map(|one| format!("{} ({})", one.node, one.reason.words()))
                .collect();
            parts.push(format!("removing {}", who.join(", ")));
        }
        if !self.add.is_empty() {
            let who: Vec<&str> = self.add.iter().map(|one| one.name.as_str()).collect();
            parts.push(format!("adding {}", who.join(", ")));
        }
        if !self.offering.resize.is_empty() {
            let who: Vec<&str> = self
                .offering
                .resize
                .iter()
                .map(|one| one.vm_name.as_str())
                .collect();
            parts.push(format!("changing the offering of {}", who.join(", ")));
        }
        if self.is_done_already() {
            parts.push("nothing to change".to_owned());
        }
        if !self.passed_over.is_empty() {
            parts.push(format!("passed over: {}", self.passed_over.join("; ")));
        }
        parts.join("; ")
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;
    use crate::domain::plan::fixtures::{machine, member, node, vm};
    use crate::domain::plan::resolve::{Facts, resolve};

    fn plan() -> ScalePlan {
        let reach = Reach::Forwarded {
            address: IpAddr::V4(Ipv4Addr::LOCALHOST),
        };
        let members = resolve(Facts {
            members: &[member(1, "cp-1"), member(2, "wk-1")],
            machines: &[machine(1, "cp-1"), machine(2, "wk-1")],
            nodes: &[node("cp-1", 1), node("wk-1", 2)],
            rules: &[],
            reach,
        })
        .unwrap();
        ScalePlan {
            cluster_name: "blue".into(),
            reach,
            ip_id: None,
            members,
            control: vec![vm(1)],
            remove: vec![Removal {
                vm_id: vm(2),
                vm_name: "wk-1".into(),
                node: "wk-1".into(),
                reason: Reason::Newest,
                leave: Leave::Drained,
            }],
            add: Vec::new(),
            mould: None,
            offering: OfferingPlan::default(),
            first: First::Size,
            sizes: BTreeMap::new(),
            passed_over: vec!["VM wk-9 is Stopped in the cloud but its node wk-9 is Ready".into()],
            first_matched: BTreeSet::new(),
        }
    }

    #[test]
    fn the_choice_and_its_reasons_are_in_words() {
        assert_eq!(
            plan().words(),
            "through control node cp-1; removing wk-1 (newest); passed over: VM wk-9 is Stopped in the cloud but \
             its node wk-9 is Ready"
        );
    }

    #[test]
    fn counts_follow_the_map() {
        let counts = plan().counts(&[member(1, "cp-1")], &BTreeSet::new());
        assert_eq!(
            counts,
            Counts {
                control: 1,
                workers: 0,
                etcd: 0,
                cores: 2,
                memory_mb: 4096
            }
        );
    }

    #[test]
    fn a_resized_machine_counts_with_its_new_size_once_it_has_it() {
        let mut plan = plan();
        let offering = OfferingId(Uuid::from_u128(8));
        plan.sizes.insert(offering, (4, 8192));
        plan.offering.resize.push(super::super::offering::Resize {
            vm_id: vm(2),
            vm_name: "wk-1".into(),
            role: crate::domain::cluster::Role::Worker,
            offering,
        });
        let map = [member(2, "wk-1")];
        assert_eq!(plan.counts(&map, &BTreeSet::new()).cores, 2);
        assert_eq!(plan.counts(&map, &BTreeSet::from([vm(2)])).cores, 4);
    }

    #[test]
    fn the_stored_form_is_reviewed_and_grows_only_by_optional_fields() {
        insta::assert_json_snapshot!("scale_plan", plan());
    }

    #[test]
    fn a_plan_of_an_older_binary_without_newer_fields_is_read() {
        let mut stored = serde_json::to_value(plan()).unwrap();
        let object = stored.as_object_mut().unwrap();
        object.retain(|key, _| ["cluster_name", "reach", "members", "control"].contains(&key.as_str()));
        assert!(
            serde_json::from_value::<ScalePlan>(stored)
                .unwrap()
                .is_done_already()
        );
    }
}
