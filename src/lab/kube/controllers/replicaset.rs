//! ReplicaSets: as many pods as asked for.

use std::sync::Arc;

use serde_json::Value;

use super::super::delete::{self, DeleteOptions};
use super::super::json as js;
use super::super::objects::{self, Write};
use super::super::resources::{POD, REPLICA_SET};
use super::super::store::State;
use super::events::{self, Source};
use super::workload;

pub(super) fn run(state: &mut State) {
    for set in state.list(&REPLICA_SET, None) {
        if !js::deleting(&set) {
            resize(state, &set);
        }
        report(state, &set);
    }
}

fn resize(state: &mut State, set: &Arc<Value>) {
    let mut pods = workload::pods_of(state, set);
    pods.retain(|pod| workload::active(pod));
    let wanted = usize::try_from(js::count(set, "/spec/replicas")).unwrap_or(0);
    for _ in pods.len()..wanted {
        let pod = workload::from_template(set);
        match objects::create(state, &POD, js::namespace(set), pod, Write::Keep) {
            Ok(pod) => {
                let message = format!("Created pod: {}", js::name(&pod));
                events::tell(
                    state,
                    set,
                    Source::ReplicaSets,
                    "Normal",
                    "SuccessfulCreate",
                    &message,
                );
            }
            Err(_) => return,
        }
    }
    if pods.len() > wanted {
        pods.sort_by_key(|pod| keep_order(pod));
        for pod in pods.iter().skip(wanted) {
            let options = DeleteOptions::default();
            if delete::delete(state, &POD, js::namespace(pod), js::name(pod), &options).is_ok() {
                let message = format!("Deleted pod: {}", js::name(pod));
                events::tell(
                    state,
                    set,
                    Source::ReplicaSets,
                    "Normal",
                    "SuccessfulDelete",
                    &message,
                );
            }
        }
    }
}

/// Which pods stay when some must go: those that are placed, that run, that are ready, that are oldest.
fn keep_order(pod: &Value) -> (bool, bool, bool, String, String) {
    (
        js::text(pod, "/spec/nodeName").is_empty(),
        js::text(pod, "/status/phase") != "Running",
        !workload::ready(pod),
        js::text(pod, "/metadata/creationTimestamp").to_owned(),
        js::name(pod).to_owned(),
    )
}

fn report(state: &mut State, set: &Arc<Value>) {
    let mut pods = workload::pods_of(state, set);
    pods.retain(|pod| workload::active(pod));
    let all = workload::count_of(&pods);
    let ready = pods.iter().filter(|pod| workload::ready(pod)).count();
    let ready = i64::try_from(ready).unwrap_or(0);
    workload::observed(state, &REPLICA_SET, set, |set| {
        workload::numbers(
            set,
            &[("replicas", all)],
            &[
                ("fullyLabeledReplicas", all),
                ("readyReplicas", ready),
                ("availableReplicas", ready),
            ],
        );
    });
}
