//! Strategic merge patch: a merge patch that knows which lists are keyed.
//!
//! A real server takes the keys from its types; here they are told by the name of the list, which is enough for the
//! resources served. A list that is not named here is replaced as a whole (`taints`, `tolerations`, `args`, ...).

use serde_json::{Map, Value};

/// By what the elements of a list are told apart.
enum Keyed {
    By(&'static str),
    /// A set of plain values.
    Plain,
    Atomic,
}

fn keyed(list: &str, elements: &[Value]) -> Keyed {
    match list {
        "containers"
        | "initContainers"
        | "ephemeralContainers"
        | "volumes"
        | "env"
        | "imagePullSecrets"
        | "resourceClaims"
        | "secrets" => Keyed::By("name"),
        "conditions" | "addresses" => Keyed::By("type"),
        "volumeMounts" => Keyed::By("mountPath"),
        "volumeDevices" => Keyed::By("devicePath"),
        "hostAliases" | "podIPs" | "hostIPs" => Keyed::By("ip"),
        "ownerReferences" => Keyed::By("uid"),
        "topologySpreadConstraints" => Keyed::By("topologyKey"),
        "ports" if elements.iter().any(|item| item.get("containerPort").is_some()) => {
            Keyed::By("containerPort")
        }
        "ports" => Keyed::By("port"),
        "finalizers" | "podCIDRs" => Keyed::Plain,
        _ => Keyed::Atomic,
    }
}

/// Merges a strategic patch into an object.
pub(super) fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    match patch.get("$patch").and_then(Value::as_str) {
        Some("replace") => {
            *target = without_directives(patch);
            return;
        }
        Some("delete") => {
            *target = Value::Null;
            return;
        }
        _ => {}
    }
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(target) = target else { return };
    retain_keys(target, patch);
    for (key, value) in patch.iter().filter(|(key, _)| !key.starts_with('$')) {
        match value {
            Value::Null => {
                target.shift_remove(key);
            }
            Value::Array(elements) => {
                let list = target
                    .entry(key.clone())
                    .or_insert_with(|| Value::Array(Vec::new()));
                merge_list(key, list, elements);
            }
            other => {
                merge(target.entry(key.clone()).or_insert(Value::Null), other);
                if target.get(key).is_some_and(Value::is_null) {
                    target.shift_remove(key);
                }
            }
        }
    }
    for (directive, values) in patch {
        let Some(values) = values.as_array() else { continue };
        if let Some(list) = directive.strip_prefix("$deleteFromPrimitiveList/") {
            if let Some(Value::Array(elements)) = target.get_mut(list) {
                elements.retain(|element| !values.contains(element));
            }
        } else if let Some(list) = directive.strip_prefix("$setElementOrder/")
            && let Some(Value::Array(elements)) = target.get_mut(list)
        {
            order(list, elements, values);
        }
    }
}

/// `$retainKeys`: everything else of the object goes.
fn retain_keys(target: &mut Map<String, Value>, patch: &Map<String, Value>) {
    if let Some(Value::Array(keys)) = patch.get("$retainKeys") {
        target.retain(|key, _| keys.iter().any(|kept| kept.as_str() == Some(key)));
    }
}

fn without_directives(patch: &Map<String, Value>) -> Value {
    Value::Object(
        patch
            .iter()
            .filter(|(key, _)| !key.starts_with('$'))
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect(),
    )
}

fn merge_list(name: &str, target: &mut Value, patch: &[Value]) {
    let is_directive = |item: &Value, what: &str| item.get("$patch").and_then(Value::as_str) == Some(what);
    let Value::Array(old) = target else {
        *target = Value::Array(patch.to_vec());
        return;
    };
    if patch.iter().any(|item| is_directive(item, "replace")) {
        *old = patch
            .iter()
            .filter(|item| !is_directive(item, "replace"))
            .cloned()
            .collect();
        return;
    }
    let sample: Vec<Value> = old.iter().chain(patch).cloned().collect();
    match keyed(name, &sample) {
        Keyed::Atomic => *old = patch.to_vec(),
        Keyed::Plain => {
            for item in patch {
                if !old.contains(item) {
                    old.push(item.clone());
                }
            }
        }
        Keyed::By(key) => {
            for item in patch {
                let place = old
                    .iter()
                    .position(|one| one.get(key).is_some() && one.get(key) == item.get(key));
                match (place, is_directive(item, "delete")) {
                    (Some(place), true) => {
                        old.remove(place);
                    }
                    (None, true) => {}
                    (Some(place), false) => {
                        if let Some(one) = old.get_mut(place) {
                            merge(one, item);
                        }
                    }
                    (None, false) => {
                        let mut new = Value::Null;
                        merge(&mut new, item);
                        old.push(new);
                    }
                }
            }
        }
    }
}

/// `$setElementOrder`: the named elements in that order, those not named after them.
fn order(name: &str, elements: &mut [Value], wanted: &[Value]) {
    let place = |element: &Value| {
        let same = |one: &Value| match keyed(name, std::slice::from_ref(element)) {
            Keyed::By(key) => one.get(key).is_some() && one.get(key) == element.get(key),
            _ => one == element,
        };
        wanted.iter().position(same).unwrap_or(usize::MAX)
    };
    elements.sort_by_key(place);
}
