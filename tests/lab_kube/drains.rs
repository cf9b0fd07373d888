//! Drains: what blocks them, what they say, and what they leave.
//!
//! The captures had `--timeout=20s`; a blocked drain tries every 5 s, so here `--timeout=4s` shows one refusal.

use serde_json::json;

use crate::world::{World, bare, daemon, fold, sorted};

const DRAIN: &str = "--ignore-daemonsets --delete-emptydir-data --timeout=4s";
const PATIENT: &str = "--ignore-daemonsets --delete-emptydir-data --timeout=20s";
const DAEMON_WARNING: &str = "Warning: ignoring DaemonSet-managed Pods: kube-system/kube-proxy-POD\n";

async fn with_daemon(workers: usize) -> World {
    let world = World::start(workers).await;
    world.apply(&daemon()).await;
    world.ready_pods("kube-system", workers + 1).await;
    world
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_budget_blocks_a_drain_until_it_is_relaxed() {
    let world = with_daemon(4).await;
    world.web("shop", 4).await;
    world.budget("shop", "web", json!(4)).await;
    assert_eq!(
        world.pods_on("shop", "lab-node-4").len(),
        1,
        "the pods are spread"
    );
    let blocked = world.kubectl(&format!("drain lab-node-4 {DRAIN}")).await;
    assert_eq!(blocked.code, 1);
    assert_eq!(
        fold(&blocked.out),
        "node/lab-node-4 cordoned\nevicting pod shop/web-POD\nevicting pod shop/web-POD\n"
    );
    assert_eq!(
        fold(&blocked.err),
        format!(
            "{DAEMON_WARNING}\
             error when evicting pods/\"web-POD\" -n \"shop\" (will retry after 5s): Cannot evict pod as it would \
             violate the pod's disruption budget.\n\
             There are pending pods in node \"lab-node-4\" when an error occurred: error when evicting \
             pods/\"web-POD\" -n \"shop\": global timeout reached: 4s\n\
             pod/web-POD\n\
             error: unable to drain node \"lab-node-4\" due to error: error when evicting pods/\"web-POD\" -n \
             \"shop\": global timeout reached: 4s, continuing command...\n\
             There are pending nodes to be drained:\nlab-node-4\n\
             error when evicting pods/\"web-POD\" -n \"shop\": global timeout reached: 4s\n"
        )
    );
    let again = world
        .kubectl(&format!("drain lab-node-4 {DRAIN} --dry-run=server"))
        .await;
    assert_eq!(again.code, 1);
    assert!(fold(&again.out).starts_with(
        "node/lab-node-4 already cordoned (server dry run)\nevicting pod shop/web-POD (server dry run)\n"
    ));
    world.budget("shop", "web", json!(2)).await;
    let done = world.kubectl(&format!("drain lab-node-4 {PATIENT}")).await;
    assert_eq!((done.code, fold(&done.err).as_str()), (0, DAEMON_WARNING));
    assert_eq!(
        fold(&done.out),
        "node/lab-node-4 already cordoned\nevicting pod shop/web-POD\npod/web-POD evicted\nnode/lab-node-4 drained\n"
    );
    let empty = world.kubectl(&format!("drain lab-node-4 {PATIENT}")).await;
    assert_eq!((empty.code, fold(&empty.err).as_str()), (0, DAEMON_WARNING));
    assert_eq!(
        fold(&empty.out),
        "node/lab-node-4 already cordoned\nnode/lab-node-4 drained\n"
    );
    assert!(world.pods_on("shop", "lab-node-4").is_empty());
    let fresh = world.kubectl(&format!("drain lab-node-1 {PATIENT}")).await;
    assert_eq!(fresh.code, 0);
    assert!(fold(&fresh.out).starts_with("node/lab-node-1 cordoned\nevicting pod shop/web-POD\n"));
    assert!(fresh.out.ends_with("node/lab-node-1 drained\n"));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bare_pods_daemons_and_local_data_are_not_taken_without_being_asked() {
    let world = with_daemon(2).await;
    world.web("shop", 2).await;
    world
        .apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "misc"}}))
        .await;
    world.apply(&bare("bare", "lab-node-2")).await;
    world.ready_pods("misc", 1).await;
    let refused = world.kubectl(&format!("drain lab-node-2 {DRAIN}")).await;
    assert_eq!(
        (refused.code, refused.out.as_str()),
        (1, "node/lab-node-2 cordoned\n")
    );
    let why =
        "cannot delete cannot delete Pods that declare no controller (use --force to override): misc/bare";
    assert_eq!(
        refused.err,
        format!(
            "error: unable to drain node \"lab-node-2\" due to error: {why}, continuing command...\nThere are \
             pending nodes to be drained:\n lab-node-2\n{why}\n"
        )
    );
    let nothing_allowed = world.kubectl("drain lab-node-2 --timeout=4s").await;
    assert_eq!(
        (nothing_allowed.code, nothing_allowed.out.as_str()),
        (1, "node/lab-node-2 already cordoned\n")
    );
    for line in [
        "cannot delete Pods with local storage (use --delete-emptydir-data to override): shop/web-POD",
        "cannot delete DaemonSet-managed Pods (use --ignore-daemonsets to ignore): kube-system/kube-proxy-POD",
        why,
    ] {
        assert!(
            fold(&nothing_allowed.err).lines().any(|one| one == line),
            "{line}\n{}",
            nothing_allowed.err
        );
    }
    let forced = world
        .kubectl(&format!("drain lab-node-2 {PATIENT} --force"))
        .await;
    assert_eq!(forced.code, 0, "{forced:?}");
    // In which order the two are named is left to chance.
    let warning = fold(&forced.err);
    let mut warnings: Vec<&str> = warning
        .trim_end()
        .trim_start_matches("Warning: ")
        .split("; ")
        .collect();
    warnings.sort_unstable();
    assert_eq!(
        warnings,
        [
            "deleting Pods that declare no controller: misc/bare",
            "ignoring DaemonSet-managed Pods: kube-system/kube-proxy-POD"
        ]
    );
    assert_eq!(
        sorted(&forced.out),
        [
            "evicting pod misc/bare",
            "evicting pod shop/web-POD",
            "node/lab-node-2 already cordoned",
            "node/lab-node-2 drained",
            "pod/bare evicted",
            "pod/web-POD evicted",
        ]
    );
    let nope = world.kubectl(&format!("drain nope {DRAIN}")).await;
    assert_eq!(
        (nope.code, nope.out.as_str(), nope.err.as_str()),
        (1, "", "Error from server (NotFound): nodes \"nope\" not found\n")
    );
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_budgets_on_one_pod_end_a_drain_at_once() {
    let world = with_daemon(1).await;
    world.web("twin", 1).await;
    world.budget("twin", "one", json!(0)).await;
    world.budget("twin", "two", json!(0)).await;
    let answer = world.kubectl(&format!("drain lab-node-1 {PATIENT}")).await;
    assert_eq!(
        (answer.code, fold(&answer.out).as_str()),
        (1, "node/lab-node-1 cordoned\nevicting pod twin/web-POD\n")
    );
    let why = "error when evicting pods/\"web-POD\" -n \"twin\": This pod has more than one PodDisruptionBudget, \
               which the eviction subresource does not support.";
    assert_eq!(
        fold(&answer.err),
        format!(
            "{DAEMON_WARNING}There are pending pods in node \"lab-node-1\" when an error occurred: {why}\n\
             pod/web-POD\nerror: unable to drain node \"lab-node-1\" due to error: {why}, continuing command...\n\
             There are pending nodes to be drained:\nlab-node-1\n{why}\n"
        )
    );
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_waits_for_slow_pods_and_gives_up_on_held_ones() {
    let world = with_daemon(1).await;
    world
        .apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "misc"}}))
        .await;
    let mut slow = bare("slow", "lab-node-1");
    slow["spec"]["terminationGracePeriodSeconds"] = json!(3);
    world.apply(&slow).await;
    world.ready_pods("misc", 1).await;
    let before = std::time::Instant::now();
    let answer = world
        .kubectl(&format!("drain lab-node-1 {PATIENT} --force"))
        .await;
    assert_eq!(answer.code, 0, "{answer:?}");
    assert!(before.elapsed().as_secs() >= 3, "the grace period is kept");
    assert!(
        answer
            .out
            .ends_with("pod/slow evicted\nnode/lab-node-1 drained\n"),
        "{}",
        answer.out
    );
    let mut held = bare("fin", "lab-node-1");
    held["metadata"]["finalizers"] = json!(["example.org/hold"]);
    world.apply(&held).await;
    world.ready_pods("misc", 1).await;
    let answer = world.kubectl(&format!("drain lab-node-1 {DRAIN} --force")).await;
    assert_eq!(
        (answer.code, answer.out.as_str()),
        (1, "node/lab-node-1 already cordoned\nevicting pod misc/fin\n")
    );
    let why =
        "error when waiting for pod \"fin\" in namespace \"misc\" to terminate: context deadline exceeded";
    assert!(
        answer.err.contains(&format!(
            "There are pending pods in node \"lab-node-1\" when an error occurred: {why}\npod/fin\nerror: unable to \
             drain node \"lab-node-1\" due to error: {why}, continuing command...\nThere are pending nodes to be \
             drained:\n lab-node-1\n{why}\n"
        )),
        "{}",
        answer.err
    );
    let freed = world
        .kubectl("patch pod fin -n misc --type=merge -p {\"metadata\":{\"finalizers\":null}}")
        .await;
    assert_eq!((freed.code, freed.out.as_str()), (0, "pod/fin patched\n"));
    world
        .wait_for("the held pod is gone", |world| {
            world.server.get("pods", "misc", "fin").is_err()
        })
        .await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unready_pods_are_protected_unless_the_budget_says_always() {
    let world = with_daemon(1).await;
    world
        .server
        .create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "sick"}}))
        .unwrap();
    let mut sick = crate::world::web("sick", 1);
    sick["spec"]["template"]["metadata"]["annotations"] = json!({"lab.cksd/ready": "false"});
    world.apply(&sick).await;
    world.budget("sick", "web", json!(1)).await;
    world
        .wait_for("the pod runs but is not ready", |world| {
            let pods = world.server.list("pods", Some("sick")).unwrap();
            pods.len() == 1 && pods[0]["status"]["phase"] == "Running"
        })
        .await;
    let shown = world.kubectl("get pods -n sick").await;
    assert_eq!(
        fold(&shown.out),
        "NAME READY STATUS RESTARTS AGE\nweb-POD 0/1 Running 0 AGE\n"
    );
    let blocked = world.kubectl(&format!("drain lab-node-1 {DRAIN}")).await;
    assert_eq!(blocked.code, 1);
    assert!(
        blocked
            .err
            .contains("Cannot evict pod as it would violate the pod's disruption budget.")
    );
    let relaxed =
        r#"patch pdb web -n sick --type=merge -p {"spec":{"unhealthyPodEvictionPolicy":"AlwaysAllow"}}"#;
    assert_eq!(
        world.kubectl(relaxed).await.out,
        "poddisruptionbudget.policy/web patched\n"
    );
    let done = world.kubectl(&format!("drain lab-node-1 {PATIENT}")).await;
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.out.ends_with("node/lab-node-1 drained\n"));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_in_a_dying_namespace_is_waited_for() {
    let world = with_daemon(1).await;
    world.web("twin", 1).await;
    let pod = world.pods_on("twin", "lab-node-1").remove(0);
    world
        .server
        .patch(
            "pods",
            "twin",
            &pod,
            json!({"metadata": {"finalizers": ["example.org/hold"]}}),
        )
        .unwrap();
    world.server.delete("namespaces", "", "twin").unwrap();
    let answer = world.kubectl(&format!("drain lab-node-1 {DRAIN}")).await;
    assert_eq!(answer.code, 1);
    assert!(
        fold(&answer.err).contains(
            "error when waiting for pod \"web-POD\" in namespace \"twin\" to terminate: context deadline exceeded\n"
        ),
        "{}",
        answer.err
    );
    world
        .server
        .patch("pods", "twin", &pod, json!({"metadata": {"finalizers": null}}))
        .unwrap();
    world
        .wait_for("the namespace is gone", |world| {
            world.server.get("namespaces", "", "twin").is_err()
        })
        .await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_second_of_two_drains_is_blocked_while_the_replacement_has_no_place() {
    let world = with_daemon(2).await;
    world
        .server
        .create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "tight"}}))
        .unwrap();
    let mut tight = crate::world::web("tight", 2);
    tight["spec"]["template"]["spec"]["affinity"] = json!({"podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}]}});
    world.apply(&tight).await;
    world.budget("tight", "web", json!(1)).await;
    world.ready_pods("tight", 2).await;
    assert_eq!(
        world.kubectl(&format!("drain lab-node-1 {PATIENT}")).await.code,
        0
    );
    let second = world.kubectl(&format!("drain lab-node-2 {DRAIN}")).await;
    assert_eq!(second.code, 1);
    assert!(
        second
            .err
            .contains("Cannot evict pod as it would violate the pod's disruption budget.")
    );
    let pods = world.kubectl("-n tight get pods -o wide").await;
    let lines = sorted(&pods.out);
    assert!(
        lines.contains(&"web-POD 0/1 Pending 0 AGE <none> <none> <none> <none>".to_owned()),
        "{lines:?}"
    );
    assert!(
        lines.contains(&"web-POD 1/1 Running 0 AGE POD-IP lab-node-2 <none> <none>".to_owned()),
        "{lines:?}"
    );
    world.stop().await;
}
