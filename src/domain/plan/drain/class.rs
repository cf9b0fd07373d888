//! What stands in the way of a drain.

use serde::{Deserialize, Serialize};

use crate::domain::observed::{Budget, Pod};
use crate::domain::plan::resolve::MachineWitness;
use crate::domain::plan::selector::selects;

/// A pod that a budget holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blocked {
    /// The pod, `namespace/name`.
    pub pod: String,
    /// The budgets on it, each with what it needs and has.
    pub budgets: Vec<Holding>,
}

/// A budget that holds a pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holding {
    /// The budget, `namespace/name`.
    pub name: String,
    /// Healthy pods that it needs.
    pub needs: i64,
    /// Healthy pods that there are.
    pub has: i64,
}

/// Why a drain failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Class {
    /// A budget allows nothing now, or more than one budget is on a pod.
    Blocked(Vec<Blocked>),
    /// kubectl speaks of a budget, but state could not be read or has changed since.
    BlockedByText,
    /// The API, the control node or its connection was away, or the server failed otherwise.
    Transient,
    /// Waiting cannot help.
    Permanent(String),
    /// Evicted pods do not end.
    Slow(String),
}

impl Class {
    /// Whether further attempts are pointless.
    #[must_use]
    pub fn is_permanent(&self) -> bool {
        matches!(self, Self::Permanent(_))
    }

    /// The cause in words.
    #[must_use]
    pub fn words(&self) -> String {
        match self {
            Self::Blocked(pods) => pods.iter().map(Blocked::words).collect::<Vec<_>>().join("; "),
            Self::BlockedByText => "a disruption budget did not allow an eviction".to_owned(),
            Self::Transient => "kubectl, its control node or the Kubernetes API failed".to_owned(),
            Self::Permanent(cause) | Self::Slow(cause) => cause.clone(),
        }
    }

    /// What the caller can do about it.
    #[must_use]
    pub fn advice(&self) -> &'static str {
        match self {
            Self::Blocked(pods) if pods.iter().any(|pod| pod.budgets.len() > 1) => {
                "leave only one disruption budget on each pod, then repeat the request"
            }
            Self::Blocked(_) | Self::BlockedByText => {
                "let the budget allow an eviction (more replicas, or a lower minimum), then repeat the request"
            }
            Self::Transient => "repeat the request when the control plane answers",
            Self::Permanent(_) => "remove the obstacle, then repeat the request",
            Self::Slow(_) => {
                "wait until these pods have ended, or remove what holds them, then repeat the request"
            }
        }
    }
}

impl Blocked {
    fn words(&self) -> String {
        let several = self.budgets.len() > 1;
        let budgets: Vec<String> = self
            .budgets
            .iter()
            .map(|budget| format!("{} (needs {}, has {})", budget.name, budget.needs, budget.has))
            .collect();
        if several {
            format!(
                "pod {} is covered by more than one disruption budget, which eviction does not support: {}",
                self.pod,
                budgets.join(", ")
            )
        } else {
            format!(
                "pod {} is held by disruption budget {}",
                self.pod,
                budgets.join(", ")
            )
        }
    }
}

/// What is known after a failed attempt. What could not be read is `None`.
#[derive(Debug, Clone, Copy)]
pub struct Judged<'a> {
    /// The pods of the node.
    pub pods: Option<&'a [Pod]>,
    /// All budgets.
    pub budgets: Option<&'a [Budget]>,
    /// What the cloud says of the machine.
    pub machine: &'a MachineWitness,
    /// The node was NotReady before the attempt began and is so now, and since before it began.
    pub not_ready_throughout: bool,
    /// The end of what kubectl printed.
    pub text: &'a str,
}

/// Whether a drain would move this pod: not DaemonSets', not mirrors of static pods, not finished ones.
#[must_use]
pub fn would_move(pod: &Pod) -> bool {
    !pod.mirror && pod.controller.as_deref() != Some("DaemonSet") && !finished(pod)
}

fn finished(pod: &Pod) -> bool {
    matches!(pod.phase.as_str(), "Succeeded" | "Failed")
}

/// The class of a failed attempt.
#[must_use]
pub fn judge(seen: Judged<'_>) -> Class {
    if seen.machine.off() {
        return Class::Permanent(format!(
            "its VM is {} in the cloud; repeat the request, a node whose VM is off and that is NotReady is removed \
             without a drain",
            seen.machine.words()
        ));
    }
    if seen.not_ready_throughout {
        return Class::Permanent(
            "the node was NotReady for a whole attempt, so its pods cannot end: stop the VM and request again, a \
             stopped VM is removed without a drain"
                .to_owned(),
        );
    }
    let pods: Vec<&Pod> = seen
        .pods
        .unwrap_or_default()
        .iter()
        .filter(|pod| would_move(pod))
        .collect();
    let bare: Vec<String> = pods
        .iter()
        .filter(|pod| pod.controller.is_none())
        .map(|pod| name(pod))
        .collect();
    if !bare.is_empty() {
        return Class::Permanent(format!(
            "running pods without a controller would be lost and need force: {}",
            bare.join(", ")
        ));
    }
    let held: Vec<Blocked> = pods
        .iter()
        .filter(|pod| pod.deleting_since.is_none())
        .filter_map(|pod| held_by(pod, seen.budgets.unwrap_or_default()))
        .collect();
    if !held.is_empty() {
        return Class::Blocked(held);
    }
    let ending: Vec<String> = pods
        .iter()
        .filter(|pod| pod.deleting_since.is_some())
        .map(|pod| ending(pod))
        .collect();
    if !ending.is_empty() {
        return Class::Slow(format!("evicted pods do not end: {}", ending.join(", ")));
    }
    by_text(seen.text)
}

fn held_by(pod: &Pod, budgets: &[Budget]) -> Option<Blocked> {
    let on_it: Vec<&Budget> = budgets
        .iter()
        .filter(|budget| budget.namespace == pod.namespace && selects(&budget.selector, &pod.labels))
        .collect();
    let holds = match on_it.as_slice() {
        [] => false,
        [one] => one.disruptions_allowed <= 0,
        _ => true,
    };
    holds.then(|| Blocked {
        pod: name(pod),
        budgets: on_it
            .iter()
            .map(|budget| Holding {
                name: format!("{}/{}", budget.namespace, budget.name),
                needs: budget.desired_healthy,
                has: budget.current_healthy,
            })
            .collect(),
    })
}

fn name(pod: &Pod) -> String {
    format!("{}/{}", pod.namespace, pod.name)
}

fn ending(pod: &Pod) -> String {
    let name = name(pod);
    match (pod.deleting_since, pod.finalizers.as_slice()) {
        (None, _) => name,
        (Some(since), []) => format!("{name} (since {since})"),
        (Some(since), held) => format!("{name} (since {since}, held by finalizer {})", held.join(", ")),
    }
}

/// Only when the state says nothing.
fn by_text(text: &str) -> Class {
    if text.contains("use --force to override") {
        Class::Permanent("running pods need force".to_owned())
    } else if text.contains("unknown flag") {
        Class::Permanent("kubectl on the control node does not know a flag of the drain".to_owned())
    } else if text.contains("disruption budget") || text.contains("more than one PodDisruptionBudget") {
        Class::BlockedByText
    } else if text.contains("to terminate: context deadline exceeded") {
        Class::Slow("evicted pods did not end in time".to_owned())
    } else {
        Class::Transient
    }
}
