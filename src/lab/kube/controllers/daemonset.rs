//! DaemonSets: one pod on each node that can have it.

use std::sync::Arc;

use serde_json::{Value, json};

use super::super::delete::{self, DeleteOptions};
use super::super::json::{self as js, put};
use super::super::objects::{self, Write};
use super::super::resources::{DAEMON_SET, NODE, POD};
use super::super::store::State;
use super::events::{self, Source};
use super::{placement, workload};

const HASH: &str = "controller-revision-hash";

/// What a daemon puts up with beyond what its template says.
const TOLERATED: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];

pub(super) fn run(state: &mut State) {
    let nodes = state.list(&NODE, None);
    for set in state.list(&DAEMON_SET, None) {
        let letters = workload::template_letters(js::at(&set, "/spec/template"));
        let sample = pod_for(&set, "", &letters);
        let able: Vec<&Arc<Value>> = nodes
            .iter()
            .filter(|node| placement::tolerated(&sample, node) && placement::selected(&sample, node))
            .collect();
        if !js::deleting(&set) {
            place(state, &set, &able, &letters);
            replace_outdated(state, &set, &letters);
        }
        report(state, &set, &able, &letters);
    }
}

/// On which node a daemon's pod is or shall be.
fn home(pod: &Value) -> &str {
    match js::text(pod, "/spec/nodeName") {
        "" => js::text(
            pod,
            "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0/\
             matchFields/0/values/0",
        ),
        node => node,
    }
}

fn pod_for(set: &Value, node: &str, letters: &str) -> Value {
    let mut pod = workload::from_template(set);
    put(&mut pod, &format!("/metadata/labels/{HASH}"), json!(letters));
    let mut tolerations = js::items(&pod, "/spec/tolerations").to_vec();
    tolerations.extend(
        TOLERATED
            .iter()
            .map(|(key, effect)| json!({"key": key, "operator": "Exists", "effect": effect})),
    );
    put(&mut pod, "/spec/tolerations", Value::Array(tolerations));
    if !node.is_empty() {
        let fields = json!([{"key": "metadata.name", "operator": "In", "values": [node]}]);
        put(
            &mut pod,
            "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution",
            json!({"nodeSelectorTerms": [{"matchFields": fields}]}),
        );
    }
    pod
}

fn place(state: &mut State, set: &Arc<Value>, able: &[&Arc<Value>], letters: &str) {
    let pods = workload::pods_of(state, set);
    for node in able.iter().filter(|node| !js::deleting(node)) {
        // One that is going away still holds the place: the next comes after it.
        if pods.iter().any(|pod| home(pod) == js::name(node)) {
            continue;
        }
        let pod = pod_for(set, js::name(node), letters);
        if let Ok(pod) = objects::create(state, &POD, js::namespace(set), pod, Write::Keep) {
            let message = format!("Created pod: {}", js::name(&pod));
            events::tell(
                state,
                set,
                Source::DaemonSets,
                "Normal",
                "SuccessfulCreate",
                &message,
            );
        }
    }
    let known = state.list(&NODE, None);
    for pod in pods.iter().filter(|pod| !js::deleting(pod)) {
        let ended = !workload::active(pod);
        let here = able.iter().any(|node| js::name(node) == home(pod));
        let node_exists = known.iter().any(|node| js::name(node) == home(pod));
        // Pods of a node that is gone are left to the collector.
        if ended || (!here && node_exists && !able_to_stay(pod, &known)) {
            drop(delete::delete(
                state,
                &POD,
                js::namespace(pod),
                js::name(pod),
                &DeleteOptions::default(),
            ));
        }
    }
}

/// A taint that only keeps new pods away does not remove a daemon that is there.
fn able_to_stay(pod: &Value, nodes: &[Arc<Value>]) -> bool {
    nodes
        .iter()
        .any(|node| js::name(node) == home(pod) && placement::selected(pod, node))
}

/// A new template comes to one node at a time.
fn replace_outdated(state: &mut State, set: &Arc<Value>, letters: &str) {
    if js::text(set, "/spec/updateStrategy/type") == "OnDelete" {
        return;
    }
    let pods = workload::pods_of(state, set);
    let current = |pod: &Value| js::text(pod, &format!("/metadata/labels/{HASH}")) == letters;
    if pods.iter().any(|pod| !workload::ready(pod) || js::deleting(pod)) {
        return;
    }
    if let Some(pod) = pods.iter().find(|pod| !current(pod)) {
        drop(delete::delete(
            state,
            &POD,
            js::namespace(pod),
            js::name(pod),
            &DeleteOptions::default(),
        ));
    }
}

fn report(state: &mut State, set: &Arc<Value>, able: &[&Arc<Value>], letters: &str) {
    let mut pods = workload::pods_of(state, set);
    pods.retain(|pod| workload::active(pod));
    let wanted = workload::count_of(able);
    let here: Vec<_> = pods
        .iter()
        .filter(|pod| able.iter().any(|node| js::name(node) == home(pod)))
        .collect();
    let number = |test: &dyn Fn(&Value) -> bool| {
        i64::try_from(here.iter().filter(|pod| test(pod)).count()).unwrap_or(0)
    };
    let ready = number(&|pod| workload::ready(pod));
    let updated = number(&|pod| js::text(pod, &format!("/metadata/labels/{HASH}")) == letters);
    workload::observed(state, &DAEMON_SET, set, |object| {
        workload::numbers(
            object,
            &[
                ("desiredNumberScheduled", wanted),
                ("currentNumberScheduled", number(&|_| true)),
                (
                    "numberMisscheduled",
                    workload::count_of(&pods) - workload::count_of(&here),
                ),
                ("numberReady", ready),
            ],
            &[
                ("numberAvailable", ready),
                ("numberUnavailable", wanted - ready),
                ("updatedNumberScheduled", updated),
            ],
        );
    });
}
