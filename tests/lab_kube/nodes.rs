//! Nodes as kubectl shows and changes them.

use serde_json::{Value, json};

use crate::world::{World, daemon, fold};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_are_listed_cordoned_and_uncordoned() {
    let world = World::start(2).await;
    let answer = world.kubectl("get nodes").await;
    assert_eq!((answer.code, answer.err.as_str()), (0, ""));
    assert_eq!(
        fold(&answer.out),
        "NAME STATUS ROLES AGE VERSION\n\
         lab-control-1 Ready control-plane AGE v1.32.5\n\
         lab-node-1 Ready <none> AGE v1.32.5\n\
         lab-node-2 Ready <none> AGE v1.32.5\n"
    );
    let wide = world.kubectl("get nodes -o wide").await;
    assert_eq!(
        fold(&wide.out),
        "NAME STATUS ROLES AGE VERSION INTERNAL-IP EXTERNAL-IP OS-IMAGE KERNEL-VERSION CONTAINER-RUNTIME\n\
         lab-control-1 Ready control-plane AGE v1.32.5 127.0.10.11 <none> Debian GNU/Linux 12 (bookworm) \
         6.1.0-35-amd64 containerd://1.7.27\n\
         lab-node-1 Ready <none> AGE v1.32.5 127.0.10.12 <none> Debian GNU/Linux 12 (bookworm) \
         6.1.0-35-amd64 containerd://1.7.27\n\
         lab-node-2 Ready <none> AGE v1.32.5 127.0.10.13 <none> Debian GNU/Linux 12 (bookworm) \
         6.1.0-35-amd64 containerd://1.7.27\n"
    );
    for (command, out) in [
        ("cordon lab-node-2", "node/lab-node-2 cordoned\n"),
        ("cordon lab-node-2", "node/lab-node-2 already cordoned\n"),
    ] {
        let answer = world.kubectl(command).await;
        assert_eq!(
            (answer.code, answer.out.as_str(), answer.err.as_str()),
            (0, out, ""),
            "{command}"
        );
    }
    let cordoned = world.kubectl("get node lab-node-2").await;
    assert_eq!(
        fold(&cordoned.out),
        "NAME STATUS ROLES AGE VERSION\nlab-node-2 Ready,SchedulingDisabled <none> AGE v1.32.5\n"
    );
    world
        .wait_for("the cordon is a taint", |world| {
            world.node("lab-node-2")["spec"]["taints"][0]["key"] == "node.kubernetes.io/unschedulable"
        })
        .await;
    for (command, out) in [
        ("uncordon lab-node-2", "node/lab-node-2 uncordoned\n"),
        ("uncordon lab-node-2", "node/lab-node-2 already uncordoned\n"),
    ] {
        let answer = world.kubectl(command).await;
        assert_eq!(
            (answer.code, answer.out.as_str(), answer.err.as_str()),
            (0, out, ""),
            "{command}"
        );
    }
    let nope = world.kubectl("cordon nope").await;
    assert_eq!(
        (nope.code, nope.out.as_str(), nope.err.as_str()),
        (1, "", "Error from server (NotFound): nodes \"nope\" not found\n")
    );
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_has_the_fields_that_people_read() {
    let world = World::start(1).await;
    let answer = world.kubectl("get nodes -o json").await;
    let list: Value = serde_json::from_str(&answer.out).unwrap();
    assert_eq!((answer.code, list["items"].as_array().unwrap().len()), (0, 2));
    let control = &list["items"][0];
    assert_eq!(
        control["spec"]["taints"],
        json!([{"effect": "NoSchedule", "key": "node-role.kubernetes.io/control-plane"}])
    );
    assert_eq!(
        control["metadata"]["labels"]["node-role.kubernetes.io/control-plane"],
        ""
    );
    let worker = &list["items"][1];
    assert_eq!(worker["status"]["nodeInfo"]["kubeletVersion"], "v1.32.5");
    assert_eq!(
        worker["status"]["addresses"],
        json!([{"address": "127.0.10.12", "type": "InternalIP"},
        {"address": "lab-node-1", "type": "Hostname"}])
    );
    assert_eq!(
        worker["status"]["capacity"],
        json!({"cpu": "4", "ephemeral-storage": "40Gi", "memory": "8Gi", "pods": "110"})
    );
    let reasons: Vec<&str> = worker["status"]["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|condition| condition["reason"].as_str().unwrap())
        .collect();
    assert_eq!(
        reasons,
        [
            "KubeletHasSufficientMemory",
            "KubeletHasNoDiskPressure",
            "KubeletHasSufficientPID",
            "KubeletReady"
        ]
    );
    assert!(worker["spec"]["podCIDR"].as_str().unwrap().starts_with("10.244."));
    let path =
        "get node lab-node-1 -o jsonpath={.status.nodeInfo.kubeletVersion}{\"/\"}{.spec.unschedulable}";
    assert_eq!(world.kubectl(path).await.out, "v1.32.5/");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn describe_label_annotate_and_patch_work_on_a_node() {
    let world = World::start(1).await;
    world.apply(&daemon()).await;
    world.ready_pods("kube-system", 2).await;
    for (command, out) in [
        ("label node lab-node-1 tier=edge", "node/lab-node-1 labeled\n"),
        ("annotate node lab-node-1 owner=me", "node/lab-node-1 annotated\n"),
        ("label node lab-node-1 tier-", "node/lab-node-1 unlabeled\n"),
        (
            r#"patch node lab-node-1 -p {"spec":{"unschedulable":true}}"#,
            "node/lab-node-1 patched\n",
        ),
        (
            r#"patch node lab-node-1 -p {"spec":{"unschedulable":true}}"#,
            "node/lab-node-1 patched (no change)\n",
        ),
        (
            r#"patch node lab-node-1 --type=json -p [{"op":"remove","path":"/spec/unschedulable"}]"#,
            "node/lab-node-1 patched\n",
        ),
        (
            r#"patch node lab-node-1 --type=merge -p {"metadata":{"labels":{"a":"b"}}}"#,
            "node/lab-node-1 patched\n",
        ),
    ] {
        let answer = world.kubectl(command).await;
        assert_eq!(
            (answer.code, answer.out.as_str(), answer.err.as_str()),
            (0, out, ""),
            "{command}"
        );
    }
    let node = world.node("lab-node-1");
    assert_eq!(node["metadata"]["annotations"]["owner"], "me");
    assert_eq!(node["metadata"]["labels"]["a"], "b");
    assert_eq!(node["metadata"]["labels"].get("tier"), None);
    assert_eq!(node["spec"].get("unschedulable"), None);
    let conflict = world.kubectl("label node lab-node-1 a=c").await;
    assert_eq!(
        (conflict.code, conflict.err.as_str()),
        (
            1,
            "error: 'a' already has a value (b), and --overwrite is false\n"
        )
    );
    let described = world.kubectl("describe node lab-node-1").await;
    assert_eq!((described.code, described.err.as_str()), (0, ""));
    for line in [
        "Name: lab-node-1",
        "Unschedulable: false",
        "HolderIdentity: lab-node-1",
        "Kubelet Version: v1.32.5",
        "Ready True",
        "Non-terminated Pods: (1 in total)",
        "kube-system kube-proxy-POD",
    ] {
        assert!(
            fold(&described.out).contains(line),
            "{line} is missing in\n{}",
            fold(&described.out)
        );
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_is_deleted_once_and_comes_back_with_a_restart_only() {
    let mut world = World::start(1).await;
    for (command, code, out, err) in [
        (
            "delete node lab-node-1 --ignore-not-found",
            0,
            "node \"lab-node-1\" deleted\n",
            "",
        ),
        ("delete node lab-node-1 --ignore-not-found", 0, "", ""),
        (
            "delete node lab-node-1",
            1,
            "",
            "Error from server (NotFound): nodes \"lab-node-1\" not found\n",
        ),
    ] {
        let answer = world.kubectl(command).await;
        assert_eq!(
            (answer.code, answer.out.as_str(), answer.err.as_str()),
            (code, out, err),
            "{command}"
        );
    }
    // The other kubelet gives three more signs, and this one in the same time none.
    let beat = |world: &World| {
        world
            .server
            .get("leases", "kube-node-lease", "lab-control-1")
            .unwrap()["spec"]
            .clone()
    };
    for _ in 0..3 {
        let before = beat(&world);
        world
            .wait_for("the other lease is renewed", |world| beat(world) != before)
            .await;
    }
    let listed = world.kubectl("get nodes").await;
    assert_eq!(
        fold(&listed.out),
        "NAME STATUS ROLES AGE VERSION\nlab-control-1 Ready control-plane AGE v1.32.5\n"
    );
    world.take_kubelet("lab-node-1").stop().await;
    world.start_kubelet("lab-node-1", 12, "v1.33.1");
    world
        .wait_for("the node is back", |world| {
            world.server.get("nodes", "", "lab-node-1").is_ok()
        })
        .await;
    let listed = world.kubectl("get node lab-node-1").await;
    assert_eq!(
        fold(&listed.out),
        "NAME STATUS ROLES AGE VERSION\nlab-node-1 Ready <none> AGE v1.33.1\n"
    );
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kubelet_of_another_version_changes_what_its_node_says() {
    let mut world = World::start(1).await;
    let uid = world.node("lab-node-1")["metadata"]["uid"].clone();
    world.take_kubelet("lab-node-1").stop().await;
    world.start_kubelet("lab-node-1", 12, "v1.33.1");
    world
        .wait_for("the node has the new version", |world| {
            world.node("lab-node-1")["status"]["nodeInfo"]["kubeletVersion"] == "v1.33.1"
        })
        .await;
    assert_eq!(world.node("lab-node-1")["metadata"]["uid"], uid);
    world.stop().await;
}
