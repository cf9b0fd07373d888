//! Why a scale is refused, in the words that the caller reads.

use super::{OfferingFacts, OpenJob, TemplateFacts, VersionNeeds};
use crate::domain::cluster::{Cluster, Role, State};
use crate::domain::id::{JobId, OfferingId, VmId};

/// A request that is wrong whatever the cluster is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MalformedRequest {
    /// No change was asked for.
    #[error("nothing to change: give size, nodeids, serviceofferingid or nodeofferings")]
    NothingToChange,
    /// A size of zero or less.
    #[error("size must be at least 1, not {size}")]
    SizeBelowOne {
        /// What was asked for.
        size: i64,
    },
    /// Two ways to say how many.
    #[error(
        "size and nodeids cannot be given together: nodeids names the nodes to remove, size leaves the choice to the service"
    )]
    SizeWithNodes,
    /// A list without an id.
    #[error("nodeids is empty: name the virtual machines of the nodes to remove, or leave it out")]
    NoNodes,
    /// A field of the autoscaler.
    #[error("{field} is not supported yet: autoscaling cannot be changed by this service")]
    Autoscaling {
        /// Its name on the wire.
        field: &'static str,
    },
    /// A role that has no offering of its own.
    #[error("nodeofferings names the role {role}: worker, control and etcd have offerings")]
    UnknownRole {
        /// What was given.
        role: String,
    },
    /// A record of nodeofferings without role or offering.
    #[error(
        "nodeofferings needs both fields in each record: nodeofferings[i].node and nodeofferings[i].offering"
    )]
    IncompleteRecord,
    /// Two records for one role.
    #[error("nodeofferings names the role {role} twice")]
    RoleTwice {
        /// The role.
        role: String,
    },
}

/// How texts name a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label(String);

impl Label {
    fn of(cluster: &Cluster) -> Self {
        Self(format!("cluster {} ({})", cluster.name, cluster.id))
    }
}

impl std::fmt::Display for Label {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// A request that this cluster cannot take now. Nothing is changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScaleRefusal {
    /// Somebody else runs its machines.
    #[error("{cluster} is ExternalManaged: only clusters that this service runs can be scaled")]
    External {
        /// The cluster.
        cluster: Label,
    },
    /// No version is stored.
    #[error("{cluster} has no Kubernetes version, so what its nodes need is not known")]
    NoVersion {
        /// The cluster.
        cluster: Label,
    },
    /// Another operation owns it.
    #[error("{cluster} is {state}: job {job} ({command}) is in the way, wait for it to end")]
    Busy {
        /// The cluster.
        cluster: Label,
        /// Its state.
        state: State,
        /// The job in the way.
        job: JobId,
        /// The command of that job.
        command: String,
    },
    /// Its state takes no scale.
    #[error("{cluster} is {state}: scaling needs a cluster that is Running, Stopped or in Alert")]
    WrongState {
        /// The cluster.
        cluster: Label,
        /// Its state.
        state: State,
    },
    /// Only the offering of a stopped cluster can change.
    #[error("{cluster} is Stopped: only its offering can change now, start it to change its size")]
    Stopped {
        /// The cluster.
        cluster: Label,
    },
    /// An upgrade was begun and not finished.
    #[error(
        "{cluster} has an unfinished upgrade to {target}: finish the upgrade first, nodes can be added after that"
    )]
    UnfinishedUpgrade {
        /// The cluster.
        cluster: Label,
        /// The version of that upgrade.
        target: String,
    },
    /// More nodes than allowed.
    #[error(
        "{cluster} cannot have {size} workers: with its {control} control nodes that is more than the {max} nodes that cloud.kubernetes.cluster.max.size allows"
    )]
    TooLarge {
        /// The cluster.
        cluster: Label,
        /// Workers asked for.
        size: i64,
        /// Control nodes there.
        control: i64,
        /// The limit.
        max: i64,
    },
    /// A machine that is no node of it.
    #[error("virtual machine {vm} is no node of {cluster}")]
    NotMember {
        /// The cluster.
        cluster: Label,
        /// The machine.
        vm: VmId,
    },
    /// Nodes that are control or etcd nodes.
    #[error(
        "{nodes} of {cluster} cannot be removed: etcd membership is not managed, so only workers can be named"
    )]
    NotWorkers {
        /// The cluster.
        cluster: Label,
        /// Names of the machines.
        nodes: String,
    },
    /// No worker would be left.
    #[error("nodeids names all workers of {cluster}: one must be left")]
    AllWorkers {
        /// The cluster.
        cluster: Label,
    },
    /// Nodes to remove and an offering for the rest at once.
    #[error(
        "nodeids cannot be given together with an offering for workers: remove the nodes first, then change the offering"
    )]
    NodesWithOffering,
    /// The offering leaves its size to the user.
    #[error(
        "service offering {name} ({id}) leaves its size to the user, so it cannot be used for Kubernetes nodes"
    )]
    CustomOffering {
        /// The offering.
        id: OfferingId,
        /// Its name.
        name: String,
    },
    /// The offering is too small for any node, or for this version.
    #[error(
        "service offering {name} ({id}) has {cpu} CPU cores and {memory_mb} MB of memory: the {role} nodes need at least {min_cpu} cores and {min_memory_mb} MB"
    )]
    SmallOffering {
        /// The offering.
        id: OfferingId,
        /// Its name.
        name: String,
        /// The role.
        role: &'static str,
        /// Its cores.
        cpu: i64,
        /// Its memory.
        memory_mb: i64,
        /// Least cores.
        min_cpu: i64,
        /// Least memory.
        min_memory_mb: i64,
    },
    /// The offering is smaller than the present one of a cluster that is up.
    #[error(
        "service offering {name} ({id}) has less {what} than {present}, which the {role} nodes of {cluster} have: a cluster can change to a smaller offering only while it is Stopped"
    )]
    ShrinksOffering {
        /// The cluster.
        cluster: Label,
        /// The offering.
        id: OfferingId,
        /// Its name.
        name: String,
        /// The name of the present one.
        present: String,
        /// The role.
        role: &'static str,
        /// `memory` or `CPU`.
        what: &'static str,
    },
    /// New workers cannot be made from the template.
    #[error("{cluster} cannot grow: {why}")]
    Template {
        /// The cluster.
        cluster: Label,
        /// What is wrong with the template.
        why: String,
    },
    /// The cloud did not answer a question that must be answered first.
    #[error("{cluster} cannot be scaled now, as the cloud does not answer: {text}")]
    CloudAway {
        /// The cluster.
        cluster: Label,
        /// The cloud's or the network's words.
        text: String,
    },
}

pub(super) fn role_word(role: Role) -> &'static str {
    match role {
        Role::Control => "control",
        Role::Worker => "worker",
        Role::Etcd => "etcd",
    }
}

impl ScaleRefusal {
    pub(super) fn external(cluster: &Cluster) -> Self {
        Self::External {
            cluster: Label::of(cluster),
        }
    }

    pub(super) fn no_version(cluster: &Cluster) -> Self {
        Self::NoVersion {
            cluster: Label::of(cluster),
        }
    }

    /// Another job owns the cluster.
    #[must_use]
    pub fn busy(cluster: &Cluster, job: &OpenJob) -> Self {
        Self::Busy {
            cluster: Label::of(cluster),
            state: cluster.state,
            job: job.id,
            command: job.command.clone(),
        }
    }

    /// The cluster's state takes no scale.
    #[must_use]
    pub fn state(cluster: &Cluster) -> Self {
        Self::WrongState {
            cluster: Label::of(cluster),
            state: cluster.state,
        }
    }

    /// Whether it rests on what the cloud said, so that it must be asked anew before a cached answer refuses.
    #[must_use]
    pub fn rests_on_the_cloud(&self) -> bool {
        matches!(
            self,
            Self::CustomOffering { .. }
                | Self::SmallOffering { .. }
                | Self::ShrinksOffering { .. }
                | Self::Template { .. }
        )
    }

    /// The cloud did not answer.
    #[must_use]
    pub fn cloud_away(cluster: &Cluster, text: &str) -> Self {
        Self::CloudAway {
            cluster: Label::of(cluster),
            text: text.to_owned(),
        }
    }

    pub(super) fn stopped(cluster: &Cluster) -> Self {
        Self::Stopped {
            cluster: Label::of(cluster),
        }
    }

    pub(super) fn unfinished_upgrade(cluster: &Cluster, target: &str) -> Self {
        Self::UnfinishedUpgrade {
            cluster: Label::of(cluster),
            target: target.to_owned(),
        }
    }

    pub(super) fn too_large(cluster: &Cluster, size: i64, max: i64) -> Self {
        Self::TooLarge {
            cluster: Label::of(cluster),
            size,
            control: cluster.control_count,
            max,
        }
    }

    pub(super) fn not_member(cluster: &Cluster, vm: VmId) -> Self {
        Self::NotMember {
            cluster: Label::of(cluster),
            vm,
        }
    }

    pub(super) fn not_workers(cluster: &Cluster, nodes: &[&str]) -> Self {
        Self::NotWorkers {
            cluster: Label::of(cluster),
            nodes: nodes.join(", "),
        }
    }

    pub(super) fn all_workers(cluster: &Cluster) -> Self {
        Self::AllWorkers {
            cluster: Label::of(cluster),
        }
    }

    pub(super) fn small(offering: &OfferingFacts, role: Role, needs: VersionNeeds) -> Self {
        Self::SmallOffering {
            id: offering.id,
            name: offering.name.clone(),
            role: role_word(role),
            cpu: offering.cpu_number.unwrap_or_default(),
            memory_mb: offering.memory_mb.unwrap_or_default(),
            min_cpu: needs.min_cpu,
            min_memory_mb: needs.min_memory_mb,
        }
    }

    pub(super) fn shrinks(
        cluster: &Cluster,
        role: Role,
        offering: &OfferingFacts,
        present: &OfferingFacts,
        what: &'static str,
    ) -> Self {
        Self::ShrinksOffering {
            cluster: Label::of(cluster),
            id: offering.id,
            name: offering.name.clone(),
            present: present.name.clone(),
            role: role_word(role),
            what,
        }
    }

    pub(super) fn template(cluster: &Cluster, template: Option<&TemplateFacts>) -> Self {
        Self::Template {
            cluster: Label::of(cluster),
            why: match template {
                Some(template) => {
                    format!("template {} is not ready in its zone", template.name)
                }
                None => "it has no template that the cloud knows".to_owned(),
            },
        }
    }
}
