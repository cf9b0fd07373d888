//! Which command lines are sent, and what becomes of their answers.

use secrecy::ExposeSecret as _;

use super::{Scripted, broken, exited, kube, via};
use crate::ports::fault::{Effect, Retry};
use crate::ports::kube::{Eviction, Kube, KubeErrorKind};
use crate::ports::shell::{Access, RunKey, ShellErrorKind};

const BLOCKED: &str = "Error from server (TooManyRequests): Cannot evict pod as it would violate the pod's disruption budget.\n";

#[tokio::test]
async fn the_changing_commands_are_the_plain_ones() {
    let shell = Scripted::answering(vec![
        exited(0, "node/n-1 cordoned\n", ""),
        exited(0, "node/n-1 already cordoned\n", ""),
        exited(0, "node/n-1 already uncordoned\n", ""),
        exited(0, "", "Warning: deleting something\n"),
    ]);
    let kube = kube(&shell);
    kube.cordon(&via(), "n-1").await.unwrap();
    kube.cordon(&via(), "n-1").await.unwrap();
    kube.uncordon(&via(), "n-1").await.unwrap();
    kube.delete_node(&via(), "n-1").await.unwrap();
    kube.start_drain(&via(), &RunKey("k".into()), "n-1", 60)
        .await
        .unwrap();
    assert_eq!(
        shell.lines(),
        [
            "sudo /opt/bin/kubectl cordon n-1",
            "sudo /opt/bin/kubectl cordon n-1",
            "sudo /opt/bin/kubectl uncordon n-1",
            "sudo /opt/bin/kubectl delete node n-1 --ignore-not-found",
            "sudo /opt/bin/kubectl drain n-1 --ignore-daemonsets --delete-emptydir-data --timeout=60s",
        ]
    );
    assert!(shell.asked().iter().all(|(access, _)| *access == Access::Changes));
}

#[tokio::test]
async fn names_that_are_none_are_refused_before_anything_is_sent() {
    let shell = Scripted::answering(Vec::new());
    let kube = kube(&shell);
    for name in [
        "",
        "-n",
        "--all",
        "N-1",
        "a b",
        "n-1;reboot",
        "a..b",
        "n_1",
        "n-",
        ".n",
        &"a".repeat(64),
    ] {
        for error in [
            kube.cordon(&via(), name).await.unwrap_err(),
            kube.uncordon(&via(), name).await.unwrap_err(),
            kube.delete_node(&via(), name).await.unwrap_err(),
            kube.pods_on(&via(), name).await.unwrap_err(),
            kube.start_drain(&via(), &RunKey("k".into()), name, 1)
                .await
                .unwrap_err(),
            kube.evict(&via(), name, "pod").await.unwrap_err(),
            kube.evict(&via(), "ns", name).await.unwrap_err(),
        ] {
            assert_eq!(
                (error.kind, error.effect, error.retry),
                (KubeErrorKind::Refused, Effect::DidNotHappen, Retry::Never)
            );
        }
    }
    assert!(shell.lines().is_empty());
    let shell = Scripted::answering(vec![exited(0, "", "")]);
    super::kube(&shell)
        .cordon(&via(), "seed-node-17a2b.lab.internal")
        .await
        .unwrap();
}

#[tokio::test]
async fn an_eviction_posts_what_the_api_wants() {
    let shell = Scripted::answering(vec![
        exited(0, "{}", ""),
        exited(1, "", BLOCKED),
        exited(1, "", "Error from server (NotFound): pods \"web-1\" not found\n"),
        exited(
            1,
            "",
            "Error from server (InternalError): This pod has more than one PodDisruptionBudget\n",
        ),
    ]);
    let kube = kube(&shell);
    assert_eq!(
        kube.evict(&via(), "shop", "web-1").await.unwrap(),
        Eviction::Accepted
    );
    let blocked = kube.evict(&via(), "shop", "web-1").await.unwrap();
    let Eviction::Blocked(message) = blocked else {
        panic!("{blocked:?}")
    };
    assert_eq!(
        message,
        "Cannot evict pod as it would violate the pod's disruption budget."
    );
    assert_eq!(
        kube.evict(&via(), "shop", "web-1").await.unwrap(),
        Eviction::Accepted,
        "it was gone"
    );
    let error = kube.evict(&via(), "shop", "web-1").await.unwrap_err();
    assert_eq!(error.kind, KubeErrorKind::ApiAway, "a 5xx may pass: {error}");
    let (access, command) = shell.asked().remove(0);
    assert_eq!(access, Access::Changes);
    assert!(
        command.words.join(" ").starts_with(
            "sudo /opt/bin/kubectl create --raw /api/v1/namespaces/shop/pods/web-1/eviction -f -"
        )
    );
    let body: serde_json::Value = serde_json::from_slice(&command.stdin.unwrap()).unwrap();
    assert_eq!(
        body,
        serde_json::json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "web-1", "namespace": "shop"}})
    );
}

#[tokio::test]
async fn lists_are_read_from_standard_output_alone() {
    let noise = "W1130 17:42:51.364237   24921 warn.go:70] something is deprecated\n";
    let shell = Scripted::answering(vec![
        exited(0, r#"{"items": []}"#, noise),
        exited(0, " \n", noise),
        exited(0, "Warning: x", ""),
        exited(
            1,
            r#"{"items": []}"#,
            "error: You must be logged in to the server (Unauthorized)\n",
        ),
    ]);
    let kube = kube(&shell);
    assert_eq!(kube.nodes(&via()).await.unwrap(), []);
    assert_eq!(
        kube.nodes(&via()).await.unwrap_err().kind,
        KubeErrorKind::Unreadable,
        "empty"
    );
    assert_eq!(
        kube.nodes(&via()).await.unwrap_err().kind,
        KubeErrorKind::Unreadable,
        "no JSON"
    );
    let error = kube.nodes(&via()).await.unwrap_err();
    assert_eq!(
        error.kind,
        KubeErrorKind::Refused,
        "an empty list that comes with an error is none"
    );
    assert!(
        error.text.starts_with("kubectl get nodes -o json: exit code 1: "),
        "{error}"
    );
    let (access, command) = shell.asked().remove(0);
    assert_eq!(access, Access::Reads);
    assert_eq!(
        command.words.join(" "),
        "sudo /opt/bin/kubectl get nodes -o json --request-timeout=20s"
    );
}

#[tokio::test]
async fn pods_are_asked_for_by_node() {
    let shell = Scripted::answering(vec![
        exited(0, r#"{"items": []}"#, ""),
        exited(0, r#"{"items": []}"#, ""),
    ]);
    let kube = kube(&shell);
    kube.pods_on(&via(), "n-1").await.unwrap();
    kube.budgets(&via()).await.unwrap();
    assert_eq!(
        shell.lines(),
        [
            "sudo /opt/bin/kubectl get pods --all-namespaces --field-selector spec.nodeName=n-1 -o json --request-timeout=20s",
            "sudo /opt/bin/kubectl get pdb --all-namespaces -o json --request-timeout=20s",
        ]
    );
}

#[tokio::test]
async fn the_failures_of_the_shell_keep_their_effect() {
    use Effect::{DidNotHappen, MayHaveHappened};
    let cases = [
        (ShellErrorKind::Away, DidNotHappen, KubeErrorKind::ControlNode),
        (ShellErrorKind::Login, DidNotHappen, KubeErrorKind::ControlNode),
        (ShellErrorKind::HostKey, DidNotHappen, KubeErrorKind::ControlNode),
        (ShellErrorKind::Identity, DidNotHappen, KubeErrorKind::ControlNode),
        (ShellErrorKind::Lost, MayHaveHappened, KubeErrorKind::ControlNode),
        (ShellErrorKind::Fence, DidNotHappen, KubeErrorKind::Fence),
        (ShellErrorKind::TimedOut, MayHaveHappened, KubeErrorKind::ApiAway),
        (
            ShellErrorKind::Unreadable,
            DidNotHappen,
            KubeErrorKind::Unreadable,
        ),
    ];
    for (given, effect, expected) in cases {
        let shell = Scripted::answering(vec![broken(given, effect)]);
        let error = kube(&shell).cordon(&via(), "n-1").await.unwrap_err();
        assert_eq!((error.kind, error.effect), (expected, effect));
        assert!(
            error.text.contains("kubectl cordon n-1: node control-1"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn what_a_failed_change_may_have_done() {
    let cases = [
        (
            "Error from server (NotFound): nodes \"n-1\" not found\n",
            KubeErrorKind::NotFound,
            Effect::DidNotHappen,
        ),
        (
            "error: You must be logged in to the server (Unauthorized)\n",
            KubeErrorKind::Refused,
            Effect::DidNotHappen,
        ),
        (
            "Unable to connect to the server: context deadline exceeded\n",
            KubeErrorKind::ApiAway,
            Effect::MayHaveHappened,
        ),
        ("something else\n", KubeErrorKind::Failed, Effect::MayHaveHappened),
    ];
    for (stderr, kind, effect) in cases {
        let shell = Scripted::answering(vec![exited(1, "", stderr)]);
        let error = kube(&shell).cordon(&via(), "n-1").await.unwrap_err();
        assert_eq!((error.kind, error.effect), (kind, effect), "{stderr}");
    }
}

#[tokio::test]
async fn the_join_command_is_found_among_warnings_and_never_shown() {
    let line =
        "kubeadm join 10.1.1.1:6443 --token abcdef.0123456789abcdef --discovery-token-ca-cert-hash sha256:12";
    let shell = Scripted::answering(vec![
        exited(
            0,
            &format!("W1130 a warning of kubeadm join\n{line} \n\n"),
            "W1130 another\n",
        ),
        exited(0, "token abcdef.0123456789abcdef\n", ""),
    ]);
    let kube = kube(&shell);
    let join = kube.join_command(&via()).await.unwrap();
    assert_eq!(join.expose_secret(), line);
    assert!(!format!("{join:?}").contains("abcdef"));
    let error = kube.join_command(&via()).await.unwrap_err();
    assert!(
        error.kind == KubeErrorKind::Unreadable && !error.text.contains("abcdef"),
        "{error}"
    );
    assert_eq!(
        shell.lines()[0],
        "sudo kubeadm token create --ttl 2h --print-join-command"
    );
}

#[tokio::test]
async fn the_kubeconfig_is_the_users_or_the_administrators() {
    let shell = Scripted::answering(vec![
        exited(
            1,
            "",
            "cat: /etc/kubernetes/user.conf: No such file or directory\n",
        ),
        exited(0, "apiVersion: v1\n", ""),
        exited(1, "", "cat: no\n"),
        exited(0, "", ""),
    ]);
    let kube = kube(&shell);
    assert_eq!(
        kube.kubeconfig(&via()).await.unwrap().expose_secret(),
        "apiVersion: v1\n"
    );
    let error = kube.kubeconfig(&via()).await.unwrap_err();
    assert!(
        error.text.contains("admin.conf") && error.text.contains("it is empty"),
        "{error}"
    );
    assert_eq!(
        shell.lines()[..2],
        [
            "sudo cat /etc/kubernetes/user.conf",
            "sudo cat /etc/kubernetes/admin.conf"
        ]
    );
}

#[tokio::test]
async fn attachments_name_the_claims_of_their_volumes() {
    let attachments = r#"{"items": [
        {"metadata": {"name": "csi-1"}, "spec": {"attacher": "csi.cloudstack.apache.org", "nodeName": "n-1", "source": {"persistentVolumeName": "pv-1"}}, "status": {"attached": true}},
        {"metadata": {"name": "csi-2"}, "spec": {"attacher": "x", "nodeName": "n-2", "source": {"persistentVolumeName": "pv-2"}}},
        {"metadata": {"name": "csi-3"}, "spec": {"attacher": "x", "nodeName": "n-2", "source": {"inlineVolumeSpec": {}}}, "status": {"attached": false}}]}"#;
    let volumes = r#"{"items": [
        {"metadata": {"name": "pv-1"}, "spec": {"claimRef": {"namespace": "shop", "name": "data-0"}}},
        {"metadata": {"name": "pv-2"}, "spec": {}}]}"#;
    let shell = Scripted::answering(vec![
        exited(0, attachments, ""),
        exited(0, volumes, ""),
        exited(0, r#"{"items": []}"#, ""),
    ]);
    let kube = kube(&shell);
    let found = kube.volume_attachments(&via()).await.unwrap();
    let told: Vec<_> = found
        .iter()
        .map(|a| (a.name.as_str(), a.node.as_str(), a.attached, a.claim.clone()))
        .collect();
    let claim = Some(("shop".to_owned(), "data-0".to_owned()));
    assert_eq!(
        told,
        [
            ("csi-1", "n-1", true, claim),
            ("csi-2", "n-2", false, None),
            ("csi-3", "n-2", false, None)
        ]
    );
    assert_eq!(
        kube.volume_attachments(&via()).await.unwrap(),
        [],
        "and no question about volumes then"
    );
    assert_eq!(shell.lines().len(), 3);
}
