//! Nodes whose kubelet gives no sign any more.

use serde_json::json;

use crate::world::{World, condition, daemon, fold, sorted};

const DRAIN: &str = "--ignore-daemonsets --delete-emptydir-data --timeout=4s";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_node_is_not_ready_and_its_pods_never_end() {
    let world = World::start(2).await;
    world.apply(&daemon()).await;
    world.ready_pods("kube-system", 3).await;
    world.web("shop", 4).await;
    world.budget("shop", "web", json!(2)).await;
    let (_, lost) = world
        .kubelets
        .iter()
        .find(|(name, _)| name == "lab-node-2")
        .unwrap();
    lost.set_frozen(true);
    world
        .wait_for("the node is lost", |world| {
            condition(&world.node("lab-node-2"), "Ready") == "Unknown"
        })
        .await;
    shown_as_lost(&world).await;
    let drained = world.kubectl(&format!("drain lab-node-2 {DRAIN}")).await;
    assert_eq!(drained.code, 1);
    assert_eq!(
        sorted(&drained.out),
        [
            "evicting pod shop/web-POD",
            "evicting pod shop/web-POD",
            "node/lab-node-2 cordoned"
        ]
    );
    assert!(fold(&drained.err).contains(
        "error when waiting for pod \"web-POD\" in namespace \"shop\" to terminate: context deadline exceeded"
    ));
    let stuck = world
        .kubectl("get pods -n shop -o wide --field-selector spec.nodeName=lab-node-2")
        .await;
    assert_eq!(
        fold(&stuck.out),
        "NAME READY STATUS RESTARTS AGE IP NODE NOMINATED NODE READINESS GATES\n\
         web-POD 1/1 Terminating 0 AGE POD-IP lab-node-2 <none> <none>\n\
         web-POD 1/1 Terminating 0 AGE POD-IP lab-node-2 <none> <none>\n"
    );
    given_up(&world).await;
    lost.set_frozen(false);
    world
        .wait_for("the node is ready again", |world| {
            let node = world.node("lab-node-2");
            condition(&node, "Ready") == "True"
                && node["spec"]["taints"].as_array().is_some_and(|taints| {
                    taints.len() == 1 && taints[0]["key"] == "node.kubernetes.io/unschedulable"
                })
        })
        .await;
    world.stop().await;
}

/// What kubectl and the API say of the lost node.
async fn shown_as_lost(world: &World) {
    let listed = world.kubectl("get nodes").await;
    assert_eq!(
        fold(&listed.out),
        "NAME STATUS ROLES AGE VERSION\n\
         lab-control-1 Ready control-plane AGE v1.32.5\n\
         lab-node-1 Ready <none> AGE v1.32.5\n\
         lab-node-2 NotReady <none> AGE v1.32.5\n"
    );
    let node = world.node("lab-node-2");
    for kind in ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"] {
        let all = node["status"]["conditions"].as_array().unwrap();
        let found = all.iter().find(|one| one["type"] == kind).unwrap();
        assert_eq!(found["status"], "Unknown", "{kind}");
        assert_eq!(found["reason"], "NodeStatusUnknown", "{kind}");
        assert_eq!(found["message"], "Kubelet stopped posting node status.", "{kind}");
    }
    world
        .wait_for("the node is tainted", |world| {
            world.node("lab-node-2")["spec"]["taints"][0]["key"] == "node.kubernetes.io/unreachable"
        })
        .await;
}

/// The two ways to get over pods that never end.
async fn given_up(world: &World) {
    let again = world
        .kubectl(&format!(
            "drain lab-node-2 {DRAIN} --skip-wait-for-delete-timeout=1"
        ))
        .await;
    assert_eq!(
        (again.code, again.out.as_str()),
        (0, "node/lab-node-2 already cordoned\nnode/lab-node-2 drained\n")
    );
    let forced = world
        .kubectl(&format!(
            "drain lab-node-2 {DRAIN} --force --grace-period=0 --disable-eviction"
        ))
        .await;
    assert_eq!(forced.code, 0, "{forced:?}");
    assert_eq!(
        sorted(&forced.out),
        [
            "node/lab-node-2 already cordoned",
            "node/lab-node-2 drained",
            "pod/web-POD deleted",
            "pod/web-POD deleted"
        ]
    );
    assert_eq!(
        fold(&forced.err),
        "Warning: ignoring DaemonSet-managed Pods: kube-system/kube-proxy-POD\n"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_of_a_deleted_node_are_collected_after_a_time() {
    let mut world = World::start(2).await;
    world.web("shop", 2).await;
    world.take_kubelet("lab-node-2").stop().await;
    assert_eq!(
        world.kubectl("delete node lab-node-2").await.out,
        "node \"lab-node-2\" deleted\n"
    );
    world
        .wait_for("its pods run elsewhere", |world| {
            world.pods_on("shop", "lab-node-2").is_empty() && world.pods_on("shop", "lab-node-1").len() == 2
        })
        .await;
    world.stop().await;
}
