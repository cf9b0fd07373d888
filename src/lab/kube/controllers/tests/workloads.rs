//! Deployments, daemons, stateful sets.

use serde_json::json;

use super::*;
use crate::lab::kube::resources::{DAEMON_SET, DEPLOYMENT, NODE, POD, REPLICA_SET, STATEFUL_SET};

#[test]
fn a_deployment_gets_its_pods_spread_over_the_nodes_that_take_pods() {
    let mut world = World::new(&["a", "b", "c"]);
    world.merge(&NODE, "b", json!({"spec": {"unschedulable": true}}));
    world.make(&DEPLOYMENT, "shop", deployment(4));
    world.run();
    assert_eq!(nodes_of(&world.list(&POD)), ["a", "a", "c", "c"]);
    let status = world.get(&DEPLOYMENT, "web")["status"].clone();
    assert_eq!(
        (&status["availableReplicas"], &status["observedGeneration"]),
        (&json!(4), &json!(1))
    );
    assert_eq!(
        world.get(&NODE, "b")["spec"]["taints"][0]["key"],
        "node.kubernetes.io/unschedulable"
    );
    world.merge(&NODE, "b", json!({"spec": {"unschedulable": null}}));
    world.settle();
    assert_eq!(world.get(&NODE, "b")["spec"].get("taints"), None);
}

#[test]
fn scaling_down_keeps_the_oldest_and_up_makes_more() {
    let mut world = World::new(&["a"]);
    world.make(&DEPLOYMENT, "shop", deployment(3));
    world.run();
    world.merge(&DEPLOYMENT, "web", json!({"spec": {"replicas": 1}}));
    world.run();
    let going = world.list(&POD).iter().filter(|pod| js::deleting(pod)).count();
    assert_eq!(going, 2);
    world.merge(&DEPLOYMENT, "web", json!({"spec": {"replicas": 2}}));
    world.run();
    assert_eq!(world.get(&DEPLOYMENT, "web")["status"]["readyReplicas"], 2);
}

#[test]
fn a_new_template_rolls_without_dropping_below_what_must_serve() {
    let mut world = World::new(&["a", "b"]);
    world.make(&DEPLOYMENT, "shop", deployment(4));
    world.run();
    world.merge(&DEPLOYMENT, "web", json!({"spec": {"template": template("two")}}));
    world.settle();
    let serving = world
        .list(&POD)
        .iter()
        .filter(|pod| !js::deleting(pod) && js::condition_true(pod, "Ready"))
        .count();
    assert!(serving >= 3, "{serving} serve");
    world.run();
    let sets = world.list(&REPLICA_SET);
    assert_eq!(sets.len(), 2);
    let images: Vec<_> = world
        .list(&POD)
        .iter()
        .filter(|pod| !js::deleting(pod))
        .map(|pod| js::text(pod, "/spec/containers/0/image").to_owned())
        .collect();
    assert_eq!(images, ["two"; 4]);
    assert_eq!(
        js::annotation(
            &world.get(&DEPLOYMENT, "web"),
            "deployment.kubernetes.io/revision"
        ),
        "2"
    );
}

#[test]
fn deleting_a_deployment_deletes_what_it_owns() {
    let mut world = World::new(&["a"]);
    world.make(&DEPLOYMENT, "shop", deployment(2));
    world.run();
    let options = DeleteOptions::default();
    world
        .store
        .with(|state| delete::delete(state, &DEPLOYMENT, "shop", "web", &options))
        .unwrap();
    world.settle();
    assert!(world.list(&REPLICA_SET).is_empty());
    assert!(world.list(&POD).iter().all(js::deleting));
}

#[test]
fn a_daemon_runs_on_every_node_even_a_cordoned_one() {
    let mut world = World::new(&["a", "b"]);
    world.merge(&NODE, "b", json!({"spec": {"unschedulable": true}}));
    world.make(
        &DAEMON_SET,
        "shop",
        json!({"metadata": {"name": "proxy"}, "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template("one")}}),
    );
    world.run();
    assert_eq!(nodes_of(&world.list(&POD)), ["a", "b"]);
    let status = world.get(&DAEMON_SET, "proxy")["status"].clone();
    assert_eq!(
        (&status["desiredNumberScheduled"], &status["numberReady"]),
        (&json!(2), &json!(2))
    );
}

#[test]
fn a_stateful_set_makes_its_pods_in_order() {
    let mut world = World::new(&["a"]);
    world.make(
        &STATEFUL_SET,
        "shop",
        json!({"metadata": {"name": "db"}, "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template("one")}}),
    );
    world.settle();
    assert_eq!(world.list(&POD).len(), 1);
    world.run();
    let names: Vec<String> = world
        .list(&POD)
        .iter()
        .map(|pod| js::name(pod).to_owned())
        .collect();
    assert_eq!(names, ["db-0", "db-1", "db-2"]);
}
