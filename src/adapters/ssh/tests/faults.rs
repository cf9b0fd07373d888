//! The port against a node that is away, strange, slow or cut off.

use std::time::Duration;

use russh::keys::ssh_key::LineEnding;
use russh::keys::{Algorithm, PrivateKey};
use tokio::net::TcpListener;

use super::bench::{Bench, exists, fence, wait_for};
use crate::adapters::ssh::SshShell;
use crate::ports::fault::{Effect, Retry};
use crate::ports::shell::{Access, Command, NodeShell, RunKey, RunState, ShellErrorKind};

const LIMIT: Duration = Duration::from_secs(20);

fn sh(script: &str) -> Command {
    Command::new(["sh", "-c", script])
}

fn new_key() -> PrivateKey {
    PrivateKey::random(&mut rand::rng(), Algorithm::Ed25519).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_key_that_is_not_the_recorded_one_is_refused_before_the_login() {
    let bench = Bench::new().await;
    let shell = SshShell::new();
    let mut target = bench.target.clone();
    let recorded = new_key().public_key().clone();
    target.host_keys = vec![recorded.to_openssh().unwrap()];
    let error = shell.prove(&target).await.unwrap_err();
    assert_eq!(
        (error.kind, error.effect, error.retry),
        (ShellErrorKind::HostKey, Effect::DidNotHappen, Retry::Later)
    );
    let fingerprint =
        |key: &russh::keys::PublicKey| key.fingerprint(russh::keys::HashAlg::Sha256).to_string();
    assert!(error.text.contains(&fingerprint(&recorded)), "{error}");
    let shown = russh::keys::PublicKey::from_openssh(&bench.node.host_key_public()).unwrap();
    assert!(error.text.contains(&fingerprint(&shown)), "{error}");
    // Any of several recorded keys will do; none is not enough.
    target.host_keys.push(bench.node.host_key_public());
    shell.prove(&target).await.unwrap();
    target.host_keys.clear();
    assert_eq!(
        shell.prove(&target).await.unwrap_err().kind,
        ShellErrorKind::HostKey
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_may_not_log_in_and_one_that_cannot_be_read() {
    let bench = Bench::new().await;
    let shell = SshShell::new();
    let mut target = bench.target.clone();
    target.private_key = new_key().to_openssh(LineEnding::LF).unwrap().to_string().into();
    let error = shell.prove(&target).await.unwrap_err();
    assert_eq!(error.kind, ShellErrorKind::Login, "{error}");
    target.private_key = "no key".to_owned().into();
    let error = shell.prove(&target).await.unwrap_err();
    assert_eq!(error.kind, ShellErrorKind::Login, "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_nobody_answers_for_is_away() {
    let bench = Bench::new().await;
    let mut target = bench.target.clone();
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
    target.port = free.local_addr().unwrap().port();
    drop(free);
    let command = Command::new(["true"]);
    let error = SshShell::new()
        .exec(&target, fence(1, 1), Access::Changes, &command, LIMIT)
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind, error.effect, error.retry),
        (ShellErrorKind::Away, Effect::DidNotHappen, Retry::Soon)
    );
    let error = SshShell::new().scan("127.0.0.1", target.port).await.unwrap_err();
    assert_eq!(error.kind, ShellErrorKind::Away);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_breaks_while_a_command_runs_leaves_its_outcome_unknown() {
    let bench = Bench::new().await;
    let shell = SshShell::new();
    for (access, effect) in [
        (Access::Changes, Effect::MayHaveHappened),
        (Access::Reads, Effect::DidNotHappen),
    ] {
        let name = format!("begun-{access:?}");
        let command = sh(&format!("touch {name}; while [ ! -e go ]; do sleep 0.1; done"));
        let call = shell.exec(&bench.target, fence(1, 1), access, &command, LIMIT);
        let cut = async {
            wait_for("the command", || exists(&bench.home().join(&name))).await;
            bench.cut();
        };
        let (result, ()) = tokio::join!(call, cut);
        let error = result.unwrap_err();
        assert_eq!(
            (error.kind, error.effect),
            (ShellErrorKind::Lost, effect),
            "{error}"
        );
    }
    std::fs::write(bench.home().join("go"), "").unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooled_connection_that_died_is_renewed_without_a_word() {
    let bench = Bench::new().await;
    let shell = SshShell::new();
    let command = sh("echo x >>count");
    for round in 1..=3 {
        let output = shell
            .exec(&bench.target, fence(1, 1), Access::Changes, &command, LIMIT)
            .await
            .unwrap();
        assert!(output.ok());
        assert_eq!(bench.connections(), round);
        let count = std::fs::read_to_string(bench.home().join("count")).unwrap();
        assert_eq!(count.lines().count(), round, "each ran once");
        bench.cut();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_takes_too_long_is_given_up() {
    let bench = Bench::new().await;
    let shell = SshShell::new();
    let command = sh("while [ ! -e go ]; do sleep 0.1; done");
    let limit = Duration::from_millis(1500);
    let error = shell
        .exec(&bench.target, fence(1, 1), Access::Changes, &command, limit)
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind, error.effect),
        (ShellErrorKind::TimedOut, Effect::MayHaveHappened)
    );
    std::fs::write(bench.home().join("go"), "").unwrap();
    shell.prove(&bench.target).await.unwrap();
    assert_eq!(bench.connections(), 1, "the connection is still good");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_is_too_large_is_not_taken_for_a_whole_one() {
    let bench = Bench::new().await;
    let shell = SshShell::new();
    let large = Command::new(["head", "-c", "9000000", "/dev/zero"]);
    let error = shell
        .exec(&bench.target, fence(1, 1), Access::Reads, &large, LIMIT)
        .await
        .unwrap_err();
    assert_eq!(error.kind, ShellErrorKind::Unreadable);
    let fits = Command::new(["head", "-c", "3000000", "/dev/zero"]);
    let output = shell
        .exec(&bench.target, fence(1, 1), Access::Reads, &fits, LIMIT)
        .await
        .unwrap();
    assert_eq!(output.stdout.len(), 3_000_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scan_shows_the_host_key_without_a_login() {
    let bench = Bench::new().await;
    let scan = SshShell::new()
        .scan("127.0.0.1", bench.target.port)
        .await
        .unwrap();
    let key = |line: &str| line.split(' ').take(2).collect::<Vec<_>>().join(" ");
    assert_eq!(scan.host_keys, [key(&bench.node.host_key_public())]);
    assert!(
        scan.fingerprints.iter().all(|f| f.starts_with("SHA256:")),
        "{scan:?}"
    );
    assert!(
        !bench
            .node
            .journal()
            .iter()
            .any(|entry| entry.text.contains("Accepted"))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_are_given_up_free_their_sessions() {
    let bench = Bench::new().await;
    let shell = SshShell::new();
    let (mine, key) = (fence(1, 1), RunKey("k".into()));
    let long = sh("while [ ! -e go ]; do sleep 0.1; done");
    shell.run(&bench.target, mine, &key, &long).await.unwrap();
    // More than a connection has sessions.
    for _ in 0..12 {
        let follow = shell.follow(&bench.target, mine, &key, LIMIT);
        let given_up = tokio::time::timeout(Duration::from_millis(300), follow).await;
        assert!(given_up.is_err());
    }
    let state = shell.ask(&bench.target, mine, &key).await.unwrap();
    assert!(matches!(state, RunState::Running { .. }), "{state:?}");
    assert_eq!(bench.connections(), 1);
    std::fs::write(bench.home().join("go"), "").unwrap();
}
