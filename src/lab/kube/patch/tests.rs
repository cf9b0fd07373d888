//! What each kind of patch does to an object.

use serde_json::{Value, json};

use super::*;

fn strategic(object: &Value, patch: Value) -> Value {
    Patch::Strategic(patch).apply(object).unwrap()
}

#[test]
fn a_merge_patch_sets_replaces_and_removes() {
    let object = json!({"a": 1, "b": {"c": 2, "d": 3}, "list": [1, 2]});
    let patch = Patch::Merge(json!({"a": null, "b": {"c": 5}, "list": [3], "new": {"x": null, "y": 1}}));
    assert_eq!(
        patch.apply(&object).unwrap(),
        json!({"b": {"c": 5, "d": 3}, "list": [3], "new": {"y": 1}})
    );
}

#[test]
fn a_cordon_and_an_uncordon_are_strategic_merges() {
    let node = json!({"spec": {"podCIDR": "10.0.0.0/24"}});
    let cordoned = strategic(&node, json!({"spec": {"unschedulable": true}}));
    assert_eq!(
        cordoned,
        json!({"spec": {"podCIDR": "10.0.0.0/24", "unschedulable": true}})
    );
    assert_eq!(
        strategic(&cordoned, json!({"spec": {"unschedulable": null}})),
        node
    );
}

#[test]
fn keyed_lists_are_merged_by_their_key() {
    let object = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Disk", "status": "False"}]}});
    let patch = json!({"status": {"$setElementOrder/conditions": [{"type": "Disk"}, {"type": "Ready"}],
        "conditions": [{"type": "Ready", "status": "False", "reason": "x"}]}});
    assert_eq!(
        strategic(&object, patch),
        json!({"status": {"conditions": [{"type": "Disk", "status": "False"},
            {"type": "Ready", "status": "False", "reason": "x"}]}})
    );
}

#[test]
fn containers_are_merged_deleted_and_added() {
    let object = json!({"containers": [{"name": "a", "image": "one", "env": [{"name": "X", "value": "1"}]}, {"name": "b"}]});
    let patch = json!({"containers": [{"name": "a", "image": "two"}, {"name": "b", "$patch": "delete"}, {"name": "c"}]});
    assert_eq!(
        strategic(&object, patch),
        json!({"containers": [{"name": "a", "image": "two", "env": [{"name": "X", "value": "1"}]}, {"name": "c"}]})
    );
}

#[test]
fn taints_are_replaced_as_a_whole() {
    let object = json!({"taints": [{"key": "a", "effect": "NoSchedule"}]});
    assert_eq!(
        strategic(&object, json!({"taints": [{"key": "b", "effect": "NoExecute"}]})),
        json!({"taints": [{"key": "b", "effect": "NoExecute"}]})
    );
}

#[test]
fn directives_replace_delete_and_retain() {
    let object = json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": {}}, "gone": {"x": 1}, "finalizers": ["a", "b"]});
    let patch = json!({"strategy": {"$retainKeys": ["type"], "type": "Recreate"}, "gone": {"$patch": "delete"},
        "$deleteFromPrimitiveList/finalizers": ["a"]});
    assert_eq!(
        strategic(&object, patch),
        json!({"strategy": {"type": "Recreate"}, "finalizers": ["b"]})
    );
    let replaced = strategic(&object, json!({"gone": {"$patch": "replace", "y": 2}}));
    assert_eq!(replaced["gone"], json!({"y": 2}));
}

#[test]
fn json_patch_operations_are_applied_in_order() {
    let object = json!({"metadata": {"finalizers": ["a", "b"]}, "spec": {"replicas": 1}});
    let patch = Patch::Operations(json!([
        {"op": "test", "path": "/spec/replicas", "value": 1},
        {"op": "replace", "path": "/spec/replicas", "value": 3},
        {"op": "remove", "path": "/metadata/finalizers/0"},
        {"op": "add", "path": "/metadata/labels", "value": {}},
        {"op": "add", "path": "/metadata/labels/example.org~1x", "value": "y"}
    ]));
    assert_eq!(
        patch.apply(&object).unwrap(),
        json!({"metadata": {"finalizers": ["b"], "labels": {"example.org/x": "y"}}, "spec": {"replicas": 3}})
    );
}

#[test]
fn a_json_patch_that_does_not_fit_is_refused() {
    for operation in [
        json!({"op": "test", "path": "/a", "value": 2}),
        json!({"op": "remove", "path": "/missing"}),
        json!({"op": "replace", "path": "/missing", "value": 1}),
        json!({"op": "jump", "path": "/a"}),
    ] {
        let error = Patch::Operations(json!([operation]))
            .apply(&json!({"a": 1}))
            .unwrap_err();
        assert_eq!(error.code, 422);
    }
}

#[test]
fn an_unknown_content_type_is_a_415() {
    assert_eq!(Patch::parse("text/plain", b"{}").unwrap_err().code, 415);
    assert!(Patch::parse("application/strategic-merge-patch+json; charset=utf-8", b"{}").is_ok());
    assert_eq!(
        Patch::parse("application/merge-patch+json", b"{")
            .unwrap_err()
            .code,
        400
    );
}
