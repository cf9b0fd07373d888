//! Deployments: a ReplicaSet for each template, and the steps from an old one to a new one.

use std::sync::Arc;

use serde_json::{Value, json};

use super::super::delete::{self, DeleteOptions};
use super::super::json::{self as js, put};
use super::super::objects::{self, Write};
use super::super::resources::{DEPLOYMENT, REPLICA_SET};
use super::super::store::State;
use super::super::time;
use super::events::{self, Source};
use super::workload::{self, scaled};

const HASH: &str = "pod-template-hash";
const REVISION: &str = "deployment.kubernetes.io/revision";

pub(super) fn run(state: &mut State) {
    for deployment in state.list(&DEPLOYMENT, None) {
        if !js::deleting(&deployment) {
            roll(state, &deployment);
        }
        report(state, &deployment);
    }
}

fn sets_of(state: &State, deployment: &Value) -> Vec<Arc<Value>> {
    let mut sets = state.list(&REPLICA_SET, Some(js::namespace(deployment)));
    sets.retain(|set| js::controlled_by(set, js::uid(deployment)));
    sets
}

fn split(state: &State, deployment: &Value) -> (Option<Arc<Value>>, Vec<Arc<Value>>) {
    let letters = workload::template_letters(js::at(deployment, "/spec/template"));
    let (mut new, old): (Vec<_>, Vec<_>) = sets_of(state, deployment).into_iter().partition(|set| {
        js::object(set, "/metadata/labels")
            .and_then(|labels| labels.get(HASH))
            .and_then(Value::as_str)
            == Some(&letters)
    });
    (new.pop(), old)
}

fn revision(object: &Value) -> i64 {
    js::annotation(object, REVISION).parse().unwrap_or(0)
}

fn roll(state: &mut State, deployment: &Arc<Value>) {
    let (new, old) = split(state, deployment);
    let desired = js::count(deployment, "/spec/replicas");
    let new = match new {
        Some(new) => new,
        None if js::flag(deployment, "/spec/paused") => return,
        None => match make_set(state, deployment, &old) {
            Some(new) => new,
            None => return,
        },
    };
    mark_revision(state, deployment, &new, &old);
    if js::text(deployment, "/spec/strategy/type") == "Recreate" {
        for set in &old {
            rescale(state, deployment, set, 0);
        }
        if old.iter().all(|set| workload::pods_of(state, set).is_empty()) {
            rescale(state, deployment, &new, desired);
        }
    } else {
        rolling(state, deployment, &new, &old, desired);
    }
    forget_old(state, deployment, &old);
}

/// Makes the ReplicaSet of the present template, with no pods yet.
fn make_set(state: &mut State, deployment: &Value, old: &[Arc<Value>]) -> Option<Arc<Value>> {
    let letters = workload::template_letters(js::at(deployment, "/spec/template"));
    let number = old.iter().map(|set| revision(set)).max().unwrap_or(0) + 1;
    let mut set = json!({
        "metadata": {
            "name": format!("{}-{letters}", js::name(deployment)),
            "labels": js::at(deployment, "/spec/template/metadata/labels"),
            "annotations": {REVISION: number.to_string()},
            "ownerReferences": [workload::owner_reference(deployment)],
        },
        "spec": {"replicas": 0, "selector": js::at(deployment, "/spec/selector"),
            "template": js::at(deployment, "/spec/template")},
    });
    for pointer in [
        "/metadata/labels",
        "/spec/selector/matchLabels",
        "/spec/template/metadata/labels",
    ] {
        put(&mut set, &format!("{pointer}/{HASH}"), json!(letters));
    }
    objects::create(state, &REPLICA_SET, js::namespace(deployment), set, Write::Keep).ok()
}

/// The newest template has the highest revision, also after a way back to an earlier one.
fn mark_revision(state: &mut State, deployment: &Value, new: &Value, old: &[Arc<Value>]) {
    let highest = old.iter().map(|set| revision(set)).max().unwrap_or(0);
    let number = if revision(new) > highest {
        revision(new)
    } else {
        highest + 1
    };
    let pointer = format!("/metadata/annotations/{}", REVISION.replace('/', "~1"));
    for (resource, object) in [(&REPLICA_SET, new), (&DEPLOYMENT, deployment)] {
        objects::touch(
            state,
            resource,
            js::namespace(object),
            js::name(object),
            |object| {
                put(object, &pointer, json!(number.to_string()));
            },
        );
    }
}

fn rescale(state: &mut State, deployment: &Value, set: &Value, wanted: i64) {
    let present = js::count(set, "/spec/replicas");
    if present == wanted {
        return;
    }
    objects::touch(state, &REPLICA_SET, js::namespace(set), js::name(set), |set| {
        put(set, "/spec/replicas", json!(wanted));
        put(
            set,
            "/metadata/generation",
            json!(js::count(set, "/metadata/generation") + 1),
        );
    });
    let way = if wanted > present { "up" } else { "down" };
    let message = format!(
        "Scaled {way} replica set {} from {present} to {wanted}",
        js::name(set)
    );
    events::tell(
        state,
        deployment,
        Source::Deployments,
        "Normal",
        "ScalingReplicaSet",
        &message,
    );
}

fn rolling(state: &mut State, deployment: &Value, new: &Value, old: &[Arc<Value>], desired: i64) {
    let replicas = |set: &Value| js::count(set, "/spec/replicas");
    let available = |set: &Value| js::count(set, "/status/availableReplicas");
    let old_total: i64 = old.iter().map(|set| replicas(set)).sum();
    if old_total == 0 {
        rescale(state, deployment, new, desired);
        return;
    }
    let limit = |field: &str, up| {
        scaled(
            js::at(deployment, &format!("/spec/strategy/rollingUpdate/{field}")),
            desired,
            up,
        )
    };
    let (surge, mut missing) = (limit("maxSurge", true), limit("maxUnavailable", false));
    if surge == 0 && missing == 0 {
        missing = 1;
    }
    if replicas(new) < desired {
        let room = (desired + surge - old_total - replicas(new)).max(0);
        let wanted = (replicas(new) + room).min(desired);
        if wanted != replicas(new) {
            rescale(state, deployment, new, wanted);
            return;
        }
    } else if replicas(new) > desired {
        rescale(state, deployment, new, desired);
        return;
    }
    // Old pods that serve nobody go first, then as many as the others can stand in for.
    let minimum = desired - missing;
    let spare_new = replicas(new) - available(new);
    let mut budget = (old_total + replicas(new) - minimum - spare_new).max(0);
    let mut serving = old.iter().map(|set| available(set)).sum::<i64>() + available(new) - minimum;
    for set in old.iter().filter(|set| replicas(set) > 0) {
        let broken = (replicas(set) - available(set)).clamp(0, budget);
        budget -= broken;
        let healthy = (replicas(set) - broken).min(serving.max(0)).min(budget);
        budget -= healthy;
        serving -= healthy;
        rescale(state, deployment, set, replicas(set) - broken - healthy);
    }
}

/// Old ReplicaSets are kept for a way back, but not all of them.
fn forget_old(state: &mut State, deployment: &Value, old: &[Arc<Value>]) {
    let limit = usize::try_from(js::count(deployment, "/spec/revisionHistoryLimit")).unwrap_or(10);
    let mut empty: Vec<_> = old
        .iter()
        .filter(|set| js::count(set, "/spec/replicas") == 0 && js::count(set, "/status/replicas") == 0)
        .collect();
    empty.sort_by_key(|set| revision(set));
    for set in empty.iter().take(empty.len().saturating_sub(limit)) {
        drop(delete::delete(
            state,
            &REPLICA_SET,
            js::namespace(set),
            js::name(set),
            &DeleteOptions::default(),
        ));
    }
}

fn report(state: &mut State, deployment: &Arc<Value>) {
    let (new, old) = split(state, deployment);
    let sum = |field: &str| -> i64 {
        old.iter()
            .chain(new.iter())
            .map(|set| js::count(set, &format!("/status/{field}")))
            .sum()
    };
    let desired = js::count(deployment, "/spec/replicas");
    let missing = scaled(
        js::at(deployment, "/spec/strategy/rollingUpdate/maxUnavailable"),
        desired,
        false,
    );
    let (all, ready, available) = (sum("replicas"), sum("readyReplicas"), sum("availableReplicas"));
    let updated = new.as_ref().map_or(0, |set| js::count(set, "/status/replicas"));
    let complete = updated == desired && all == desired && available == desired;
    let set_name = new.as_ref().map_or("", |set| js::name(set));
    workload::observed(state, &DEPLOYMENT, deployment, |object| {
        workload::numbers(
            object,
            &[],
            &[
                ("replicas", all),
                ("updatedReplicas", updated),
                ("readyReplicas", ready),
                ("availableReplicas", available),
                ("unavailableReplicas", (desired.max(all) - available).max(0)),
            ],
        );
        if available >= desired - missing {
            condition(
                object,
                "Available",
                true,
                "MinimumReplicasAvailable",
                "Deployment has minimum availability.",
            );
        } else {
            let message = "Deployment does not have minimum availability.";
            condition(object, "Available", false, "MinimumReplicasUnavailable", message);
        }
        if complete {
            let message = format!("ReplicaSet \"{set_name}\" has successfully progressed.");
            condition(object, "Progressing", true, "NewReplicaSetAvailable", &message);
        } else {
            let message = format!("ReplicaSet \"{set_name}\" is progressing.");
            condition(object, "Progressing", true, "ReplicaSetUpdated", &message);
        }
    });
}

fn condition(object: &mut Value, kind: &str, holds: bool, reason: &str, message: &str) {
    let status = if holds { "True" } else { "False" };
    let old = js::condition(object, kind);
    if old.is_some_and(|old| js::text(old, "/status") == status && js::text(old, "/reason") == reason) {
        return;
    }
    let now = time::stamp();
    let since = old.filter(|old| js::text(old, "/status") == status).map_or_else(
        || now.clone(),
        |old| js::text(old, "/lastTransitionTime").to_owned(),
    );
    js::set_condition(
        object,
        json!({"type": kind, "status": status, "reason": reason, "message": message,
            "lastUpdateTime": now, "lastTransitionTime": since}),
    );
}
