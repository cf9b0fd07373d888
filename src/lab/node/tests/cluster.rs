//! The stand-ins that the lab answers: kubeadm, systemctl and the power switches.

use std::sync::atomic::Ordering;

use super::{Bench, finish};

#[tokio::test]
async fn a_control_node_prints_a_join_command() {
    let bench = Bench::new().await;
    let ssh = bench.connect().await;
    let line = ssh
        .out("sudo kubeadm token create --ttl 2h --print-join-command")
        .await;
    assert_eq!(
        line,
        "kubeadm join 10.1.1.1:6443 --token abcdef.0123456789abcdef --discovery-token-ca-cert-hash sha256:12 \n"
    );
    assert_eq!(
        ssh.out("sudo kubeadm token create --ttl=1h30m").await,
        "abcdef.0123456789abcdef\n"
    );
    assert_eq!(bench.world.told(), ["token for 7200 s", "token for 5400 s"]);
    let given = ssh.run("kubeadm token create").await;
    assert_eq!(given.code, Some(1));
    assert!(given.err.contains("permission denied"), "{given:?}");
    let given = ssh.run("sudo kubeadm token create --ttl soon").await;
    assert_eq!(given.code, Some(1), "{given:?}");
    assert_eq!(
        bench.sudo()[0],
        (
            "/usr/bin/kubeadm token create --ttl 2h --print-join-command".to_owned(),
            Some(0)
        )
    );
    bench.node.shutdown().await;
}

#[tokio::test]
async fn a_node_joins_only_with_a_valid_token_and_only_once() {
    let bench = Bench::new().await;
    let ssh = bench.connect().await;
    let given = ssh
        .run("kubeadm join 10.1.1.1:6443 --token abcdef.0123456789abcdef")
        .await;
    assert!(given.err.contains("not running as root"), "{given:?}");
    let given = ssh.run("sudo kubeadm join 10.1.1.1:6443 --token wrong1.x").await;
    assert_eq!(given.code, Some(1));
    assert!(given.err.contains("token id \"wrong1\" is invalid"), "{given:?}");
    assert!(bench.node.read_file("/etc/kubernetes/kubelet.conf").is_none());
    let join = "sudo kubeadm join 10.1.1.1:6443 --token abcdef.0123456789abcdef";
    assert!(ssh.out(join).await.contains("This node has joined the cluster"));
    assert_eq!(
        bench.node.read_file("/etc/kubernetes/kubelet.conf").unwrap(),
        "kubelet's kubeconfig\n"
    );
    let given = ssh.run(join).await;
    assert_eq!(given.code, Some(1));
    assert!(given.err.contains("kubelet.conf already exists"), "{given:?}");
    let given = ssh.run("sudo kubeadm upgrade plan").await;
    assert!(
        given.code == Some(1) && given.err.contains("`upgrade plan`"),
        "{given:?}"
    );
    bench.node.shutdown().await;
}

#[tokio::test]
async fn the_kubelet_is_started_and_stopped() {
    let bench = Bench::new().await;
    let ssh = bench.connect().await;
    assert_eq!(ssh.run("systemctl stop kubelet").await.code, Some(1));
    ssh.out("sudo systemctl stop kubelet.service").await;
    let given = ssh.run("systemctl is-active kubelet").await;
    assert_eq!((given.code, given.out.as_str()), (Some(3), "inactive\n"));
    ssh.out("sudo systemctl daemon-reload && sudo systemctl restart kubelet")
        .await;
    assert_eq!(ssh.out("systemctl is-active kubelet").await, "active\n");
    assert_eq!(ssh.run("sudo systemctl start nginx").await.code, Some(5));
    assert_eq!(bench.world.told(), ["kubelet false", "kubelet true"]);
    ssh.out("sudo systemctl disable kubelet").await;
    assert_eq!(ssh.out("systemctl is-active kubelet").await, "active\n");
    bench.node.shutdown().await;
    let again = bench.again().await;
    assert_eq!(
        bench.world.told(),
        ["kubelet false", "kubelet true", "kubelet false"]
    );
    again.node.shutdown().await;
}

#[tokio::test]
async fn a_power_switch_that_is_not_there_says_so() {
    let bench = Bench::new().await;
    let ssh = bench.connect().await;
    let given = ssh.run("sudo shutdown -h now").await;
    assert!(
        given.code == Some(1) && given.err.contains("no power switch"),
        "{given:?}"
    );
    bench.node.shutdown().await;
}

#[tokio::test]
async fn what_was_asked_of_a_lab_that_died_is_answered_by_the_next() {
    let first = Bench::new().await;
    first.world.owes.store(1, Ordering::Relaxed);
    let ssh = first.connect().await;
    let channel = ssh.start("sudo kubeadm token create").await;
    first
        .wait_for("the question", |bench| bench.world.told().len() == 1)
        .await;
    let second = first.again().await;
    assert_eq!(finish(channel).await.out, "abcdef.0123456789abcdef\n");
    assert_eq!(first.world.told().len(), 2);
    let left = std::fs::read_dir(first.place("/.lab/requests")).unwrap().count();
    assert_eq!(left, 0, "an answered question was left in the spool");
    second.node.shutdown().await;
    first.node.shutdown().await;
}
