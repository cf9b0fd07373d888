//! The rules for offerings (`cks-facts.md` 3.5 item 12, with its known faults mended).

use super::refusal::ScaleRefusal;
use super::{ScaleFacts, ScaleRequest, VersionNeeds, counts, present_offering};
use crate::domain::cluster::{Role, State};
use crate::domain::id::OfferingId;

/// Least CPU cores of any Kubernetes node.
const MIN_CPU: i64 = 2;
/// Least memory in MB of any Kubernetes node.
const MIN_MEMORY_MB: i64 = 2048;

/// A service offering as the cloud shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfferingFacts {
    /// Its id.
    pub id: OfferingId,
    /// Its name.
    pub name: String,
    /// CPU cores.
    pub cpu_number: Option<i64>,
    /// MHz per core.
    pub cpu_speed: Option<i64>,
    /// Memory in MB.
    pub memory_mb: Option<i64>,
    /// Whether the user chooses the size.
    pub customized: bool,
}

impl OfferingFacts {
    fn cpu_power(&self) -> i64 {
        self.cpu_number
            .unwrap_or_default()
            .saturating_mul(self.cpu_speed.unwrap_or(1))
    }

    fn has_less_cpu_than(&self, other: &Self) -> bool {
        if self.cpu_speed.is_some() == other.cpu_speed.is_some() {
            self.cpu_power() < other.cpu_power()
        } else {
            self.cpu_number < other.cpu_number
        }
    }
}

/// Checks the offering wanted for each role that has nodes.
pub(super) fn check(
    request: &ScaleRequest,
    facts: &ScaleFacts<'_>,
    version: VersionNeeds,
) -> Result<(), ScaleRefusal> {
    let needs = VersionNeeds {
        min_cpu: version.min_cpu.max(MIN_CPU),
        min_memory_mb: version.min_memory_mb.max(MIN_MEMORY_MB),
    };
    for role in [Role::Worker, Role::Control, Role::Etcd] {
        let Some(wanted) = request.wanted_offering(role) else {
            continue;
        };
        if counts(facts.cluster, role) == 0 && request.offering == Some(wanted) {
            continue; // the offering for every role says nothing of a role without nodes
        }
        let Some(offering) = facts.offerings.get(&wanted) else {
            continue; // an unknown offering was refused before
        };
        if offering.customized {
            return Err(ScaleRefusal::CustomOffering {
                id: offering.id,
                name: offering.name.clone(),
            });
        }
        let small = offering.cpu_number.unwrap_or_default() < needs.min_cpu
            || offering.memory_mb.unwrap_or_default() < needs.min_memory_mb;
        if small {
            return Err(ScaleRefusal::small(offering, role, needs));
        }
        let present = present_offering(facts.cluster, role).and_then(|id| facts.offerings.get(&id));
        let up = facts.cluster.state != State::Stopped;
        if let (Some(present), true) = (present, up) {
            if offering.memory_mb < present.memory_mb {
                return Err(ScaleRefusal::shrinks(
                    facts.cluster,
                    role,
                    offering,
                    present,
                    "memory",
                ));
            }
            if offering.has_less_cpu_than(present) {
                return Err(ScaleRefusal::shrinks(
                    facts.cluster,
                    role,
                    offering,
                    present,
                    "CPU",
                ));
            }
        }
    }
    Ok(())
}
