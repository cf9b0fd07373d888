//! The life of nodes: NotReady when a kubelet gives no sign, the taints that say so, and what they do to pods.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::super::delete::{self, DeleteOptions};
use super::super::json::{self as js, put};
use super::super::objects;
use super::super::resources::{LEASE, NODE, POD};
use super::super::store::State;
use super::super::time;
use super::events::{self, Source};
use super::{Context, placement};

const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

pub(super) fn run(state: &mut State, context: &mut Context) {
    let nodes = state.list(&NODE, None);
    context
        .heartbeats
        .retain(|name, _| nodes.iter().any(|node| js::name(node) == name));
    for node in nodes {
        watch_over(state, context, &node);
    }
    for node in state.list(&NODE, None) {
        taint(state, context, &node);
    }
    for node in state.list(&NODE, None) {
        evict(state, context, &node);
    }
}

/// When the kubelet of a node last gave a sign.
fn last_sign(state: &State, context: &mut Context, node: &Value) -> Instant {
    let name = js::name(node);
    let beat = js::condition(node, "Ready")
        .map_or("", |ready| js::text(ready, "/lastHeartbeatTime"))
        .to_owned();
    let seen = context
        .heartbeats
        .entry(name.to_owned())
        .or_insert_with(|| (beat.clone(), Instant::now()));
    if seen.0 != beat {
        *seen = (beat, Instant::now());
    }
    let seen = seen.1;
    state
        .touched(&LEASE, "kube-node-lease", name)
        .map_or(seen, |lease| lease.max(seen))
}

/// A node without a sign for too long becomes Unknown.
fn watch_over(state: &mut State, context: &mut Context, node: &Arc<Value>) {
    let quiet = last_sign(state, context, node).elapsed();
    let ready = js::condition(node, "Ready");
    let lost = ready.is_some_and(|ready| js::text(ready, "/status") == "Unknown");
    if lost {
        return;
    }
    let grace = context.timings.node_grace;
    if quiet < grace {
        context.wake_in(grace.saturating_sub(quiet) + Duration::from_millis(5));
        return;
    }
    let never = ready.is_none();
    let (reason, message) = if never {
        ("NodeStatusNeverUpdated", "Kubelet never posted node status.")
    } else {
        ("NodeStatusUnknown", "Kubelet stopped posting node status.")
    };
    let now = time::stamp();
    objects::touch(state, &NODE, "", js::name(node), |node| {
        for kind in ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"] {
            let beat = js::condition(node, kind).map_or_else(
                || js::at(node, "/metadata/creationTimestamp").clone(),
                |old| js::at(old, "/lastHeartbeatTime").clone(),
            );
            js::set_condition(
                node,
                json!({"lastHeartbeatTime": beat, "lastTransitionTime": now, "message": message, "reason": reason,
                    "status": "Unknown", "type": kind}),
            );
        }
    });
    let message = format!("Node {} status is now: NodeNotReady", js::name(node));
    events::tell(state, node, Source::Nodes, "Normal", "NodeNotReady", &message);
    for pod in state
        .list(&POD, None)
        .iter()
        .filter(|pod| js::text(pod, "/spec/nodeName") == js::name(node))
    {
        objects::touch(state, &POD, js::namespace(pod), js::name(pod), not_ready);
    }
}

/// A pod on a lost node serves nobody, whatever its last word was.
fn not_ready(pod: &mut Value) {
    let Some(ready) = js::condition(pod, "Ready").filter(|ready| js::text(ready, "/status") == "True") else {
        return;
    };
    let mut ready = ready.clone();
    put(&mut ready, "/status", json!("False"));
    put(&mut ready, "/lastTransitionTime", json!(time::stamp()));
    js::set_condition(pod, ready);
}

/// Which taints the state of a node asks for.
fn wanted_taints(node: &Value, old: bool) -> Vec<(&'static str, &'static str)> {
    let mut wanted = Vec::new();
    if js::flag(node, "/spec/unschedulable") {
        wanted.push((UNSCHEDULABLE, "NoSchedule"));
    }
    let key = match js::condition(node, "Ready").map(|ready| js::text(ready, "/status")) {
        Some("True") => return wanted,
        Some("Unknown") => UNREACHABLE,
        _ => NOT_READY,
    };
    wanted.push((key, "NoSchedule"));
    if old {
        wanted.push((key, "NoExecute"));
    }
    wanted
}

/// Keeps the taints that follow from a node's state; those of people are left alone.
fn taint(state: &mut State, context: &mut Context, node: &Arc<Value>) {
    let since = js::condition(node, "Ready")
        .filter(|ready| js::text(ready, "/status") != "True")
        .and_then(|ready| time::parse(js::text(ready, "/lastTransitionTime")));
    let mut old = false;
    if let Some(since) = since {
        let passed = Duration::try_from(time::now().duration_since(since)).unwrap_or_default();
        let left = context.timings.no_execute_delay.saturating_sub(passed);
        old = left.is_zero();
        if !old {
            context.wake_in(left + Duration::from_millis(5));
        }
    }
    let wanted = wanted_taints(node, old);
    let ours = |taint: &Value| [UNSCHEDULABLE, NOT_READY, UNREACHABLE].contains(&js::text(taint, "/key"));
    let matches = |taint: &Value, (key, effect): (&str, &str)| {
        js::text(taint, "/key") == key && js::text(taint, "/effect") == effect
    };
    let present = js::items(node, "/spec/taints");
    let now = time::stamp();
    let mut taints: Vec<Value> = present
        .iter()
        .filter(|taint| !ours(taint) || wanted.iter().any(|one| matches(taint, *one)))
        .cloned()
        .collect();
    for one in wanted {
        if !taints.iter().any(|taint| matches(taint, one)) {
            taints.push(json!({"effect": one.1, "key": one.0, "timeAdded": now}));
        }
    }
    for taint in taints
        .iter_mut()
        .filter(|taint| js::text(taint, "/effect") == "NoExecute")
    {
        js::put_default(taint, "/timeAdded", json!(now));
    }
    if taints == present {
        return;
    }
    objects::touch(state, &NODE, "", js::name(node), |node| {
        if taints.is_empty() {
            js::take(node, "/spec/taints");
        } else {
            put(node, "/spec/taints", Value::Array(taints));
        }
    });
}

/// Pods that do not put up with a NoExecute taint, or no longer, are deleted.
fn evict(state: &mut State, context: &mut Context, node: &Arc<Value>) {
    let taints: Vec<&Value> = js::items(node, "/spec/taints")
        .iter()
        .filter(|taint| js::text(taint, "/effect") == "NoExecute")
        .collect();
    if taints.is_empty() {
        return;
    }
    for pod in state.list(&POD, None) {
        if js::text(&pod, "/spec/nodeName") != js::name(node) || js::deleting(&pod) {
            continue;
        }
        match taints.iter().filter_map(|taint| left(&pod, taint)).min() {
            Some(left) if left.is_zero() => {
                let message = format!(
                    "Marking for deletion Pod {}/{}",
                    js::namespace(&pod),
                    js::name(&pod)
                );
                events::tell(
                    state,
                    &pod,
                    Source::Taints,
                    "Normal",
                    "TaintManagerEviction",
                    &message,
                );
                drop(delete::delete(
                    state,
                    &POD,
                    js::namespace(&pod),
                    js::name(&pod),
                    &DeleteOptions::default(),
                ));
            }
            Some(left) => context.wake_in(left + Duration::from_millis(5)),
            None => {}
        }
    }
}

/// How long a pod still puts up with a taint; `None`: for ever.
fn left(pod: &Value, taint: &Value) -> Option<Duration> {
    let covering: Vec<&Value> = js::items(pod, "/spec/tolerations")
        .iter()
        .filter(|toleration| placement::covers(toleration, taint))
        .collect();
    if covering.is_empty() {
        return Some(Duration::ZERO);
    }
    let seconds = covering
        .iter()
        .filter_map(|toleration| js::int(toleration, "/tolerationSeconds"))
        .min()?;
    let since = time::parse(js::text(taint, "/timeAdded"))?;
    let passed = Duration::try_from(time::now().duration_since(since)).unwrap_or_default();
    Some(Duration::from_secs(seconds.max(0).unsigned_abs()).saturating_sub(passed))
}
