//! What kubectl says when it fails, and the classes of that.

use rstest::rstest;

use crate::adapters::kube::{kind_of, tail};
use crate::ports::kube::KubeErrorKind;

#[rstest]
#[case(
    "The connection to the server 127.0.0.1:9 was refused - did you specify the right host or port?\n",
    KubeErrorKind::ApiAway
)]
#[case(
    "Unable to connect to the server: context deadline exceeded\n",
    KubeErrorKind::ApiAway
)]
#[case(
    "Unable to connect to the server: net/http: TLS handshake timeout\n",
    KubeErrorKind::ApiAway
)]
#[case(
    "Unable to connect to the server: net/http: request canceled while waiting for connection (Client.Timeout exceeded while awaiting headers)\n",
    KubeErrorKind::ApiAway
)]
#[case(
    "Unable to connect to the server: dial tcp 10.1.1.1:6443: connect: no route to host\n",
    KubeErrorKind::ApiAway
)]
#[case(
    "Error from server (ServiceUnavailable): the server is currently unable to handle the request\n",
    KubeErrorKind::ApiAway
)]
#[case(
    "Error from server (InternalError): an error on the server\n",
    KubeErrorKind::ApiAway
)]
#[case("Error from server: etcdserver: request timed out\n", KubeErrorKind::ApiAway)]
#[case(
    "error: You must be logged in to the server (Unauthorized)\n",
    KubeErrorKind::Refused
)]
#[case(
    "Error from server (Forbidden): nodes is forbidden: User \"x\" cannot list resource\n",
    KubeErrorKind::Refused
)]
#[case(
    "Unable to connect to the server: tls: failed to verify certificate: x509: certificate signed by unknown authority\n",
    KubeErrorKind::Refused
)]
#[case("sudo: a password is required\n", KubeErrorKind::Refused)]
#[case(
    "Error from server (NotFound): nodes \"nope\" not found\n",
    KubeErrorKind::NotFound
)]
#[case("error: unknown flag: --delete-emptydir-data\n", KubeErrorKind::Failed)]
#[case("sudo: /opt/bin/kubectl: command not found\n", KubeErrorKind::Failed)]
#[case(
    "error: unable to drain node \"n\" due to error: cannot delete cannot delete Pods that declare no controller (use --force to override): misc/bare, continuing command...\n",
    KubeErrorKind::Failed
)]
#[case("", KubeErrorKind::Failed)]
fn texts_have_a_class(#[case] stderr: &str, #[case] kind: KubeErrorKind) {
    assert_eq!(kind_of(stderr), kind);
}

#[test]
fn log_lines_and_warnings_do_not_decide() {
    let refused = "E1130 17:42:51.364237   24921 memcache.go:265] \"Unhandled Error\" err=\"couldn't get current server API group list: Get \\\"https://127.0.0.1:9/api?timeout=32s\\\": dial tcp 127.0.0.1:9: connect: connection refused\"\n";
    assert_eq!(
        kind_of(refused),
        KubeErrorKind::Failed,
        "the last line is missing"
    );
    let both = format!("{refused}Error from server (NotFound): nodes \"n\" not found\n");
    assert_eq!(kind_of(&both), KubeErrorKind::NotFound);
    let warned = "Warning: connection refused once\nError from server (Forbidden): no\n";
    assert_eq!(kind_of(warned), KubeErrorKind::Refused);
}

#[test]
fn a_tail_begins_at_a_line_and_is_short() {
    assert_eq!(tail("  a\nb\n\n"), "a\nb");
    let lines: Vec<String> = (0..500).map(|n| format!("line {n} é")).collect();
    let long = lines.join("\n");
    let end = tail(&long);
    assert!(
        end.chars().count() <= 2000 && end.chars().count() > 1900,
        "{}",
        end.chars().count()
    );
    assert!(end.starts_with("line ") && end.ends_with("line 499 é"));
    assert_eq!(
        tail(&"x".repeat(5000)).len(),
        2000,
        "one endless line is cut inside"
    );
}
