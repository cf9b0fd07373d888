//! Whether a request to scale a cluster may become a job (`behaviour.md` 2, `cks-facts.md` 3.5).
//!
//! [`ScaleRequest::check`] needs nothing but the request and is answered at once; [`decide`] needs the stored
//! rows and what the cloud says, and its refusals become jobs that are born failed.
//! What this must not know: where facts come from, error codes, the wire.

mod offering;
mod refusal;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

pub use offering::OfferingFacts;
pub use refusal::{MalformedRequest, ScaleRefusal};

use crate::domain::cluster::{Cluster, ClusterType, Event, Member, Role, State};
use crate::domain::id::{JobId, OfferingId, TemplateId, VmId};

/// What a caller asks of a scale. Stored with the job as its request.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ScaleRequest {
    /// The wanted number of workers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<i64>,
    /// The machines whose nodes shall go, each once. Empty when all of them have gone already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_ids: Option<Vec<VmId>>,
    /// The offering wanted for every role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offering: Option<OfferingId>,
    /// The offering wanted for single roles; wins over `offering`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub role_offerings: BTreeMap<Role, OfferingId>,
}

impl ScaleRequest {
    /// Checks what the request alone tells.
    ///
    /// # Errors
    /// [`MalformedRequest`].
    pub fn check(&self) -> Result<(), MalformedRequest> {
        if self.size.is_none() && self.node_ids.is_none() && !self.changes_offering() {
            return Err(MalformedRequest::NothingToChange);
        }
        if let Some(size) = self.size.filter(|size| *size < 1) {
            return Err(MalformedRequest::SizeBelowOne { size });
        }
        match &self.node_ids {
            Some(_) if self.size.is_some() => Err(MalformedRequest::SizeWithNodes),
            Some(nodes) if nodes.is_empty() => Err(MalformedRequest::NoNodes),
            _ => Ok(()),
        }
    }

    fn changes_offering(&self) -> bool {
        self.offering.is_some() || !self.role_offerings.is_empty()
    }

    /// The offering wanted for a role.
    #[must_use]
    pub fn wanted_offering(&self, role: Role) -> Option<OfferingId> {
        self.role_offerings.get(&role).copied().or(self.offering)
    }

    /// The offerings whose facts [`decide`] needs.
    #[must_use]
    pub fn offerings_needed(&self, cluster: &Cluster) -> BTreeSet<OfferingId> {
        let roles = [Role::Control, Role::Worker, Role::Etcd];
        let changing = roles
            .into_iter()
            .filter(|role| counts(cluster, *role) > 0 && self.wanted_offering(*role).is_some());
        changing
            .flat_map(|role| [self.wanted_offering(role), present_offering(cluster, role)])
            .flatten()
            .collect()
    }

    /// The template from which new workers would be made, if the cluster grows.
    #[must_use]
    pub fn template_needed(&self, cluster: &Cluster) -> Option<TemplateId> {
        let grows = self.size.is_some_and(|size| size > cluster.node_count);
        grows
            .then(|| cluster.worker_template_id.or(cluster.template_id))
            .flatten()
    }
}

/// The offering that a role has: its own, else the cluster's.
#[must_use]
pub fn present_offering(cluster: &Cluster, role: Role) -> Option<OfferingId> {
    let own = match role {
        Role::Control => cluster.control_offering_id,
        Role::Worker => cluster.worker_offering_id,
        Role::Etcd => cluster.etcd_offering_id,
    };
    own.or(cluster.service_offering_id)
}

fn counts(cluster: &Cluster, role: Role) -> i64 {
    match role {
        Role::Control => cluster.control_count,
        Role::Worker => cluster.node_count,
        Role::Etcd => cluster.etcd_count,
    }
}

/// A job that owns the cluster now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenJob {
    /// The job.
    pub id: JobId,
    /// Its command.
    pub command: String,
}

/// What the version asks of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VersionNeeds {
    /// Least CPU cores.
    pub min_cpu: i64,
    /// Least memory in MB.
    pub min_memory_mb: i64,
}

/// A template as the cloud shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateFacts {
    /// Its name.
    pub name: String,
    /// Whether machines can be made from it.
    pub ready: bool,
}

/// Everything that [`decide`] looks at.
#[derive(Debug, Clone, Copy)]
pub struct ScaleFacts<'a> {
    /// The cluster.
    pub cluster: &'a Cluster,
    /// Its members.
    pub members: &'a [Member],
    /// Machines that were members once and were removed by an earlier request.
    pub gone: &'a BTreeSet<VmId>,
    /// The job in the way, if any.
    pub open_job: Option<&'a OpenJob>,
    /// The version of an upgrade that was begun and not finished (`behaviour.md` 3).
    pub unfinished_upgrade: Option<&'a str>,
    /// What the cluster's version needs; absent when the cluster has no version.
    pub version: Option<VersionNeeds>,
    /// Most control nodes and workers together.
    pub max_size: i64,
    /// Offerings as the cloud shows them; one that is not there cannot be compared.
    pub offerings: &'a BTreeMap<OfferingId, OfferingFacts>,
    /// The template for new workers as the cloud shows it.
    pub template: Option<&'a TemplateFacts>,
}

/// A request that may become a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admitted {
    /// What happens to the cluster.
    pub event: Event,
    /// The request as the job carries it out: without nodes that have gone already.
    pub request: ScaleRequest,
}

/// Decides by the stored rows and the cloud's facts.
///
/// # Errors
/// The first [`ScaleRefusal`] in the order of `cks-facts.md` 3.5.
pub fn decide(request: &ScaleRequest, facts: &ScaleFacts<'_>) -> Result<Admitted, ScaleRefusal> {
    let cluster = facts.cluster;
    if cluster.cluster_type == ClusterType::ExternalManaged {
        return Err(ScaleRefusal::external(cluster));
    }
    if let Some(job) = facts.open_job {
        return Err(ScaleRefusal::busy(cluster, job));
    }
    if !matches!(cluster.state, State::Running | State::Stopped | State::Alert) {
        return Err(ScaleRefusal::state(cluster));
    }
    let version = facts.version.ok_or_else(|| ScaleRefusal::no_version(cluster))?;
    let nodes = check_nodes(request, facts)?;
    offering::check(request, facts, version)?;
    let size = check_size(request, facts)?;
    let grows = size.is_some_and(|size| size > cluster.node_count);
    let event = if grows || request.changes_offering() {
        Event::ScaleUpRequested
    } else {
        Event::ScaleDownRequested
    };
    let request = ScaleRequest {
        size,
        node_ids: nodes,
        ..request.clone()
    };
    Ok(Admitted { event, request })
}

fn check_nodes(request: &ScaleRequest, facts: &ScaleFacts<'_>) -> Result<Option<Vec<VmId>>, ScaleRefusal> {
    let Some(wanted) = &request.node_ids else {
        return Ok(None);
    };
    let cluster = facts.cluster;
    let touches_workers = request.offering.is_some() || request.role_offerings.contains_key(&Role::Worker);
    if touches_workers {
        return Err(ScaleRefusal::NodesWithOffering);
    }
    if cluster.state == State::Stopped {
        return Err(ScaleRefusal::stopped(cluster));
    }
    let mut chosen: BTreeMap<VmId, &Member> = BTreeMap::new();
    for vm in wanted {
        match facts.members.iter().find(|member| member.vm_id == *vm) {
            Some(member) => {
                chosen.insert(*vm, member);
            }
            None if facts.gone.contains(vm) => {}
            None => return Err(ScaleRefusal::not_member(cluster, *vm)),
        }
    }
    let fixed: Vec<&str> = chosen
        .values()
        .filter(|member| member.role != Role::Worker)
        .map(|member| member.vm_name.as_str())
        .collect();
    if !fixed.is_empty() {
        return Err(ScaleRefusal::not_workers(cluster, &fixed));
    }
    let workers = facts.members.iter().filter(|member| member.role == Role::Worker);
    if !chosen.is_empty() && chosen.len() >= workers.count() {
        return Err(ScaleRefusal::all_workers(cluster));
    }
    let mut left: Vec<VmId> = Vec::new();
    for vm in wanted {
        if chosen.contains_key(vm) && !left.contains(vm) {
            left.push(*vm);
        }
    }
    Ok(Some(left))
}

fn check_size(request: &ScaleRequest, facts: &ScaleFacts<'_>) -> Result<Option<i64>, ScaleRefusal> {
    let cluster = facts.cluster;
    let Some(size) = request.size else {
        return Ok(None);
    };
    if cluster.state == State::Stopped {
        // The present size beside an offering asks for nothing.
        return if size == cluster.node_count && request.changes_offering() {
            Ok(None)
        } else {
            Err(ScaleRefusal::stopped(cluster))
        };
    }
    if size.saturating_add(cluster.control_count) > facts.max_size && size > cluster.node_count {
        return Err(ScaleRefusal::too_large(cluster, size, facts.max_size));
    }
    if size > cluster.node_count {
        if let Some(target) = facts.unfinished_upgrade {
            return Err(ScaleRefusal::unfinished_upgrade(cluster, target));
        }
        match facts.template {
            Some(template) if template.ready => {}
            template => return Err(ScaleRefusal::template(cluster, template)),
        }
    }
    Ok(Some(size))
}

#[cfg(test)]
mod tests;
