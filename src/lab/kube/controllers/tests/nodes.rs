//! Nodes that come and go, namespaces, finalizers, placement.

use serde_json::{Value, json};

use super::*;
use crate::lab::kube::resources::{BUDGET, DEPLOYMENT, NAMESPACE, NODE, POD};

#[test]
fn a_node_without_a_sign_becomes_unknown_and_is_tainted() {
    let timings = KubeTimings {
        node_grace: Duration::ZERO,
        no_execute_delay: Duration::from_mins(1),
        ..KubeTimings::default()
    };
    let mut world = World::with(&["a"], timings);
    world.settle();
    let node = world.get(&NODE, "a");
    let ready = js::condition(&node, "Ready").unwrap();
    assert_eq!(
        (&ready["status"], &ready["reason"]),
        (&json!("Unknown"), &json!("NodeStatusUnknown"))
    );
    let taints = node["spec"]["taints"].as_array().unwrap();
    assert_eq!(taints.len(), 1);
    assert_eq!(taints[0]["key"], "node.kubernetes.io/unreachable");
    assert_eq!(taints[0]["effect"], "NoSchedule");
}

#[test]
fn pods_without_toleration_leave_a_node_with_a_no_execute_taint() {
    let mut world = World::new(&["a"]);
    world.make(&DEPLOYMENT, "shop", deployment(1));
    world.run();
    world.merge(
        &NODE,
        "a",
        json!({"spec": {"taints": [{"key": "out", "effect": "NoExecute"}]}}),
    );
    world.settle();
    assert!(world.list(&POD).iter().any(js::deleting));
}

#[test]
fn pods_of_a_deleted_node_are_collected() {
    let timings = KubeTimings {
        pod_gc_delay: Duration::ZERO,
        ..KubeTimings::default()
    };
    let mut world = World::with(&["a"], timings);
    world.make(&DEPLOYMENT, "shop", deployment(2));
    world.run();
    world
        .store
        .with(|state| delete::delete(state, &NODE, "", "a", &DeleteOptions::default()))
        .unwrap();
    world.settle();
    assert_eq!(nodes_of(&world.list(&POD)), ["", ""]);
    let why = js::condition(&world.list(&POD)[0], "PodScheduled").unwrap()["message"].clone();
    assert_eq!(why, "no nodes available to schedule pods");
}

#[test]
fn a_namespace_goes_when_it_is_empty_and_takes_nothing_new_before() {
    let mut world = World::new(&["a"]);
    world.make(&DEPLOYMENT, "shop", deployment(1));
    world.run();
    let pod = js::name(&world.list(&POD)[0]).to_owned();
    world
        .store
        .with(|state| delete::delete(state, &NAMESPACE, "", "shop", &DeleteOptions::default()))
        .unwrap();
    world.settle();
    let refused = world.evict(&pod).unwrap_err();
    assert_eq!(refused.code, 403);
    assert!(
        refused
            .message
            .ends_with("unable to create new content in namespace shop because it is being terminated")
    );
    assert_eq!(refused.details["causes"][0]["reason"], "NamespaceTerminating");
    world.finish(&pod);
    world.settle();
    assert_eq!(world.get(&NAMESPACE, "shop"), Value::Null);
}

#[test]
fn a_finalizer_holds_a_pod_until_it_is_taken_off() {
    let mut world = World::new(&["a"]);
    let pod = json!({"metadata": {"name": "fin", "finalizers": ["example.org/hold"]},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    world.make(&POD, "shop", pod);
    world.run();
    let options = DeleteOptions::now();
    let done = world
        .store
        .with(|state| delete::delete(state, &POD, "shop", "fin", &options))
        .unwrap();
    assert!(!done.gone);
    world.merge(&POD, "fin", json!({"metadata": {"finalizers": null}}));
    assert_eq!(world.get(&POD, "fin"), Value::Null);
}

#[test]
fn required_anti_affinity_leaves_a_pod_pending_when_no_node_is_left() {
    let mut world = World::new(&["a", "b"]);
    let mut spread = deployment(3);
    js::put(
        &mut spread,
        "/spec/template/spec/affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution",
        json!([{"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}]),
    );
    world.make(&DEPLOYMENT, "shop", spread);
    world.run();
    assert_eq!(nodes_of(&world.list(&POD)), ["", "a", "b"]);
}

#[test]
fn an_idle_cluster_settles_without_writing() {
    let mut world = World::new(&["a"]);
    world.make(&DEPLOYMENT, "shop", deployment(2));
    world.make(&BUDGET, "shop", pdb("web", json!({"minAvailable": 1})));
    world.run();
    let before = world.store.with(|state| state.version());
    world.settle();
    assert_eq!(world.store.with(|state| state.version()), before);
}
