//! Which machines change their offering, and in which order with the size (`behaviour.md` 8).
//!
//! What this must not know: how a machine is resized, and whether an offering may be chosen (admission).
//!
//! A role without change is skipped; each role compares with its own recorded offering, and each machine with
//! the offering that it has, so that a repeated request does only what is left.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::admission::ScaleRequest;
use crate::domain::cluster::{Member, Role};
use crate::domain::id::{OfferingId, VmId};
use crate::domain::observed::Machine;

/// A machine that gets another offering.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resize {
    /// The machine.
    pub vm_id: VmId,
    /// Its name.
    pub vm_name: String,
    /// Its role.
    pub role: Role,
    /// The new offering.
    pub offering: OfferingId,
}

/// What changes of offerings.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct OfferingPlan {
    /// Machines, control nodes first, then etcd machines, then workers.
    #[serde(default)]
    pub resize: Vec<Resize>,
    /// The offering to record as the cluster's default.
    #[serde(default)]
    pub default: Option<OfferingId>,
    /// The offering to record for each role.
    #[serde(default)]
    pub roles: BTreeMap<Role, OfferingId>,
}

impl OfferingPlan {
    /// Whether nothing changes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.resize.is_empty() && self.default.is_none() && self.roles.is_empty()
    }
}

/// What is done first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum First {
    /// Growing: the new machines join machines that have the new offering already.
    Offering,
    /// Shrinking: machines that leave are not resized.
    #[default]
    Size,
}

/// The order for a cluster that has `have` workers and shall have `want`.
#[must_use]
pub fn first(have: i64, want: i64) -> First {
    if want > have { First::Offering } else { First::Size }
}

/// Which machines change. `leaving` are those that the same request removes.
#[must_use]
pub fn plan(
    request: &ScaleRequest,
    members: &[Member],
    machines: &[Machine],
    leaving: &[VmId],
) -> OfferingPlan {
    let mut plan = OfferingPlan {
        resize: Vec::new(),
        default: request.offering,
        roles: BTreeMap::new(),
    };
    for role in [Role::Control, Role::Etcd, Role::Worker] {
        let Some(offering) = request.wanted_offering(role) else {
            continue;
        };
        let own = members
            .iter()
            .filter(|member| member.role == role && !member.external && !leaving.contains(&member.vm_id));
        let mut any = false;
        for member in own {
            any = true;
            let has = machines.iter().find(|machine| machine.id == member.vm_id);
            if has.and_then(|machine| machine.offering_id) != Some(offering) {
                plan.resize.push(Resize {
                    vm_id: member.vm_id,
                    vm_name: member.vm_name.clone(),
                    role,
                    offering,
                });
            }
        }
        if any || request.role_offerings.contains_key(&role) {
            plan.roles.insert(role, offering);
        }
    }
    plan
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::domain::plan::fixtures::{machine, member, vm};

    fn offering(number: u128) -> OfferingId {
        OfferingId(Uuid::from_u128(number))
    }

    fn world() -> (Vec<Member>, Vec<Machine>) {
        let names = ["cp-1", "wk-1", "wk-2"];
        let members = names
            .iter()
            .zip(1u8..)
            .map(|(name, number)| member(number, name))
            .collect();
        let machines = names
            .iter()
            .zip(1u8..)
            .map(|(name, number)| {
                let mut machine = machine(number, name);
                machine.offering_id = Some(offering(1));
                machine
            })
            .collect();
        (members, machines)
    }

    #[test]
    fn growing_changes_the_offering_first_and_shrinking_the_size() {
        assert_eq!(first(1, 3), First::Offering);
        assert_eq!(first(3, 1), First::Size);
        assert_eq!(first(2, 2), First::Size);
    }

    #[test]
    fn a_request_without_offering_resizes_nothing() {
        let (members, machines) = world();
        let request = ScaleRequest {
            size: Some(2),
            ..ScaleRequest::default()
        };
        assert!(plan(&request, &members, &machines, &[]).is_empty());
    }

    #[test]
    fn a_role_at_the_wanted_offering_is_skipped_and_the_others_are_not() {
        let (members, mut machines) = world();
        machines[0].offering_id = Some(offering(2));
        let request = ScaleRequest {
            offering: Some(offering(2)),
            ..ScaleRequest::default()
        };
        let plan = plan(&request, &members, &machines, &[]);
        let ids: Vec<VmId> = plan.resize.iter().map(|one| one.vm_id).collect();
        assert_eq!(ids, [vm(2), vm(3)]);
        assert_eq!(plan.default, Some(offering(2)));
    }

    #[test]
    fn a_roles_own_offering_wins_and_machines_that_leave_or_are_external_are_left_alone() {
        let (mut members, machines) = world();
        members[1].external = true;
        let request = ScaleRequest {
            role_offerings: [(Role::Worker, offering(3))].into(),
            ..ScaleRequest::default()
        };
        assert_eq!(plan(&request, &members, &machines, &[vm(3)]).resize, []);
        let plan = plan(&request, &members, &machines, &[]);
        assert_eq!(plan.resize.len(), 1);
        assert_eq!(plan.resize[0].vm_id, vm(3));
        assert_eq!(plan.roles, [(Role::Worker, offering(3))].into());
        assert_eq!(plan.default, None);
    }
}
