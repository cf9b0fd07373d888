//! The scheduler: a node for each pod that has none.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::super::handlers;
use super::super::json as js;
use super::super::objects;
use super::super::resources::{NODE, POD};
use super::super::store::State;
use super::super::time;
use super::events::{self, Source};
use super::placement::{self, Field};
use super::workload;

pub(super) fn run(state: &mut State) {
    let waiting: Vec<Arc<Value>> = state
        .list(&POD, None)
        .into_iter()
        .filter(|pod| js::text(pod, "/spec/nodeName").is_empty() && workload::active(pod))
        .collect();
    if waiting.is_empty() {
        return;
    }
    let nodes = state.list(&NODE, None);
    for pod in waiting {
        let placed: Vec<Arc<Value>> = state
            .list(&POD, None)
            .into_iter()
            .filter(|one| {
                !js::text(one, "/spec/nodeName").is_empty()
                    && !matches!(js::text(one, "/status/phase"), "Succeeded" | "Failed")
            })
            .collect();
        let field = Field {
            nodes: &nodes,
            placed: &placed,
        };
        match choose(&pod, &field) {
            Ok(node) => {
                if handlers::bind(state, js::namespace(&pod), js::name(&pod), &node).is_ok() {
                    let message = format!(
                        "Successfully assigned {}/{} to {node}",
                        js::namespace(&pod),
                        js::name(&pod)
                    );
                    events::tell(state, &pod, Source::Scheduler, "Normal", "Scheduled", &message);
                }
            }
            Err(why) => refuse(state, &pod, &why),
        }
    }
}

/// The node with the fewest pods of the same owner, then the fewest pods; or why there is none.
fn choose(pod: &Value, field: &Field<'_>) -> Result<String, String> {
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    let mut best: Option<((usize, usize), &str)> = None;
    for node in field.nodes.iter().filter(|node| !js::deleting(node)) {
        let here: Vec<&Arc<Value>> = field
            .placed
            .iter()
            .filter(|one| js::text(one, "/spec/nodeName") == js::name(node))
            .collect();
        if let Some(reason) = refusal(pod, node, field, &here) {
            *reasons.entry(reason).or_default() += 1;
            continue;
        }
        let candidate = (field.load(pod, node), js::name(node));
        if best.is_none_or(|known| candidate < known) {
            best = Some(candidate);
        }
    }
    if let Some((_, name)) = best {
        return Ok(name.to_owned());
    }
    let total = field.nodes.len();
    let listed: Vec<String> = reasons
        .iter()
        .map(|(reason, count)| format!("{count} {reason}"))
        .collect();
    if total == 0 {
        return Err("no nodes available to schedule pods".to_owned());
    }
    Err(format!(
        "0/{total} nodes are available: {}. preemption: 0/{total} nodes are available: {total} Preemption is not \
         helpful for scheduling.",
        listed.join(", ")
    ))
}

fn refusal(pod: &Value, node: &Value, field: &Field<'_>, here: &[&Arc<Value>]) -> Option<String> {
    if !placement::tolerated(pod, node) {
        return Some(match placement::hindering(pod, node) {
            Some(taint) if js::text(taint, "/key") != "node.kubernetes.io/unschedulable" => {
                format!(
                    "node(s) had untolerated taint {{{}: {}}}",
                    js::text(taint, "/key"),
                    js::text(taint, "/value")
                )
            }
            _ => "node(s) were unschedulable".to_owned(),
        });
    }
    if !placement::selected(pod, node) {
        return Some("node(s) didn't match Pod's node affinity/selector".to_owned());
    }
    if let Some(lack) = placement::lacking(pod, node, here) {
        return Some(lack.to_owned());
    }
    field
        .too_close(pod, node)
        .then(|| "node(s) didn't match pod anti-affinity rules".to_owned())
}

fn refuse(state: &mut State, pod: &Value, why: &str) {
    let known =
        js::condition(pod, "PodScheduled").is_some_and(|condition| js::text(condition, "/message") == why);
    if known {
        return;
    }
    objects::touch(state, &POD, js::namespace(pod), js::name(pod), |pod| {
        js::set_condition(
            pod,
            json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": why,
                "lastProbeTime": null, "lastTransitionTime": time::stamp()}),
        );
    });
    events::tell(state, pod, Source::Scheduler, "Warning", "FailedScheduling", why);
}
