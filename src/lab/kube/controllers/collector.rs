//! What is left over goes: things whose owner is gone, pods whose node is gone.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::super::delete::{self, DeleteOptions, FOREGROUND};
use super::super::json as js;
use super::super::objects;
use super::super::resources::{self, NODE, POD, Resource};
use super::super::store::State;
use super::Context;

pub(super) fn run(state: &mut State, context: &mut Context) {
    ownerless(state);
    foreground(state);
    homeless(state, context);
}

fn place(object: &Value) -> Option<&'static Resource> {
    resources::by_kind(js::text(object, "/apiVersion"), js::text(object, "/kind"))
}

/// Deletes objects none of whose owners is there any more.
fn ownerless(state: &mut State) {
    let present: HashSet<&str> = state.all().map(|object| js::uid(object)).collect();
    let lost: Vec<Arc<Value>> = state
        .all()
        .filter(|object| {
            let owners = js::items(object, "/metadata/ownerReferences");
            !owners.is_empty()
                && !js::deleting(object)
                && owners
                    .iter()
                    .all(|owner| !present.contains(js::text(owner, "/uid")))
        })
        .cloned()
        .collect();
    for object in lost {
        if let Some(resource) = place(&object) {
            let options = DeleteOptions::default();
            drop(delete::delete(
                state,
                resource,
                js::namespace(&object),
                js::name(&object),
                &options,
            ));
        }
    }
}

/// Objects deleted in the foreground go after what they own.
fn foreground(state: &mut State) {
    let waiting: Vec<Arc<Value>> = state
        .all()
        .filter(|object| {
            js::deleting(object)
                && js::items(object, "/metadata/finalizers")
                    .iter()
                    .any(|item| item == FOREGROUND)
        })
        .cloned()
        .collect();
    for object in waiting {
        let owned = delete::owned(state, js::uid(&object));
        if owned.is_empty() {
            if let Some(resource) = place(&object) {
                objects::touch(
                    state,
                    resource,
                    js::namespace(&object),
                    js::name(&object),
                    |object| {
                        if let Some(Value::Array(finalizers)) = object.pointer_mut("/metadata/finalizers") {
                            finalizers.retain(|item| item != FOREGROUND);
                        }
                    },
                );
            }
            continue;
        }
        for (resource, one) in owned.iter().filter(|(_, one)| !js::deleting(one)) {
            let options = DeleteOptions {
                propagation: delete::Propagation::Foreground,
                ..DeleteOptions::default()
            };
            drop(delete::delete(
                state,
                resource,
                js::namespace(one),
                js::name(one),
                &options,
            ));
        }
    }
}

/// Pods bound to a node that is not there are removed after a time, finished deletions at once.
fn homeless(state: &mut State, context: &mut Context) {
    let nodes: HashSet<String> = state
        .list(&NODE, None)
        .iter()
        .map(|node| js::name(node).to_owned())
        .collect();
    let mut still = HashMap::new();
    for pod in state.list(&POD, None) {
        let node = js::text(&pod, "/spec/nodeName");
        if node.is_empty() || nodes.contains(node) {
            continue;
        }
        let since = context
            .homeless
            .get(js::uid(&pod))
            .copied()
            .unwrap_or_else(Instant::now);
        let left = context.timings.pod_gc_delay.saturating_sub(since.elapsed());
        if left.is_zero() {
            drop(delete::delete(
                state,
                &POD,
                js::namespace(&pod),
                js::name(&pod),
                &DeleteOptions::now(),
            ));
        } else {
            context.wake_in(left + Duration::from_millis(5));
            still.insert(js::uid(&pod).to_owned(), since);
        }
    }
    context.homeless = still;
}
