//! What the controllers of workloads share: pods from a template, which pods count, and plain status numbers.

use std::sync::Arc;

use serde_json::{Value, json};

use super::super::json::{self as js, put};
use super::super::resources::{POD, Resource};
use super::super::store::State;
use super::super::{defaults, objects};

/// The pods that an object controls.
pub(crate) fn pods_of(state: &State, owner: &Value) -> Vec<Arc<Value>> {
    let mut pods = state.list(&POD, Some(js::namespace(owner)));
    pods.retain(|pod| js::controlled_by(pod, js::uid(owner)));
    pods
}

/// A pod that neither ended nor goes away.
pub(crate) fn active(pod: &Value) -> bool {
    !js::deleting(pod) && !matches!(js::text(pod, "/status/phase"), "Succeeded" | "Failed")
}

/// A pod that serves.
pub(crate) fn ready(pod: &Value) -> bool {
    js::text(pod, "/status/phase") == "Running" && js::condition_true(pod, "Ready")
}

/// An owner reference as a controller sets it.
pub(crate) fn owner_reference(owner: &Value) -> Value {
    json!({"apiVersion": js::text(owner, "/apiVersion"), "kind": js::text(owner, "/kind"), "name": js::name(owner),
        "uid": js::uid(owner), "controller": true, "blockOwnerDeletion": true})
}

/// A pod made from the template of its owner.
pub(crate) fn from_template(owner: &Value) -> Value {
    let template = js::at(owner, "/spec/template");
    let mut pod = json!({"metadata": js::at(template, "/metadata"), "spec": js::at(template, "/spec")});
    for field in ["name", "creationTimestamp", "uid", "resourceVersion"] {
        js::take(&mut pod, &format!("/metadata/{field}"));
    }
    put(&mut pod, "/metadata/namespace", json!(js::namespace(owner)));
    put(
        &mut pod,
        "/metadata/generateName",
        json!(format!("{}-", js::name(owner))),
    );
    put(
        &mut pod,
        "/metadata/ownerReferences",
        json!([owner_reference(owner)]),
    );
    pod
}

/// Sets numbers of a status: those that are zero are left out, as an API type does, unless they always show.
pub(crate) fn numbers(object: &mut Value, always: &[(&str, i64)], sometimes: &[(&str, i64)]) {
    for (field, number) in always {
        put(object, &format!("/status/{field}"), json!(number));
    }
    for (field, number) in sometimes {
        let pointer = format!("/status/{field}");
        if *number == 0 {
            js::take(object, &pointer);
        } else {
            put(object, &pointer, json!(number));
        }
    }
}

/// Writes into the status of an object that the controller has seen its present form.
pub(crate) fn observed(
    state: &mut State,
    resource: &'static Resource,
    object: &Value,
    change: impl FnOnce(&mut Value),
) {
    let generation = js::at(object, "/metadata/generation").clone();
    objects::touch(
        state,
        resource,
        js::namespace(object),
        js::name(object),
        |object| {
            put(object, "/status/observedGeneration", generation);
            change(object);
        },
    );
}

/// Letters that stand for a template: the same template, the same letters, whatever the order of its fields.
pub(crate) fn template_letters(template: &Value) -> String {
    let mut text = String::new();
    canonical(template, &mut text);
    defaults::letters_of(&text, 10)
}

fn canonical(value: &Value, text: &mut String) {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort();
            for key in keys {
                text.push_str(key);
                text.push(':');
                canonical(map.get(key).unwrap_or(&Value::Null), text);
                text.push(';');
            }
        }
        Value::Array(list) => {
            for item in list {
                canonical(item, text);
                text.push(',');
            }
        }
        plain => text.push_str(&plain.to_string()),
    }
}

/// A number that may be a percentage of another one.
pub(crate) fn scaled(value: &Value, of: i64, round_up: bool) -> i64 {
    match value {
        Value::Number(number) => number.as_i64().unwrap_or(0),
        Value::String(text) => {
            let percent: i64 = text.trim_end_matches('%').parse().unwrap_or(0);
            let up = if round_up { 99 } else { 0 };
            (percent * of + up) / 100
        }
        _ => 0,
    }
}

/// A count as the API writes it.
pub(crate) fn count_of<T>(list: &[T]) -> i64 {
    i64::try_from(list.len()).unwrap_or(i64::MAX)
}
