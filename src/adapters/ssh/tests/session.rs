//! The port against a node: proof, short and long commands, the fence, the pool.

use std::time::Duration;

use super::bench::{Bench, VM, fence, wait_for};
use crate::adapters::ssh::SshShell;
use crate::domain::id::VmId;
use crate::ports::fault::{Effect, Retry};
use crate::ports::shell::{Access, Command, Exit, NodeShell, RunKey, RunState, ShellErrorKind};

const LIMIT: Duration = Duration::from_secs(20);

fn sh(script: &str) -> Command {
    Command::new(["sh", "-c", script])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_short_command_runs_as_it_is_given_and_the_journal_shows_it() {
    let bench = Bench::new().await;
    let shell = SshShell::new();
    let cordon = Command::new(["sudo", "/opt/bin/kubectl", "cordon", "seed-node-2"]);
    let output = shell
        .exec(&bench.target, fence(1, 1), Access::Changes, &cordon, LIMIT)
        .await
        .unwrap();
    assert_eq!(
        (output.ok(), output.stdout.as_str()),
        (true, "kubectl cordon seed-node-2\n")
    );
    assert_eq!(bench.sudo(), ["/opt/bin/kubectl cordon seed-node-2"]);
    let odd = Command::new(["printf", "%s|%s", "it's $HOME", ""]);
    let output = shell
        .exec(&bench.target, fence(1, 1), Access::Reads, &odd, LIMIT)
        .await
        .unwrap();
    assert_eq!(output.stdout, "it's $HOME|");
    let output = shell
        .exec(
            &bench.target,
            fence(1, 1),
            Access::Reads,
            &sh("echo a; echo b >&2; exit 4"),
            LIMIT,
        )
        .await
        .unwrap();
    assert_eq!(
        (output.exit, output.stdout, output.stderr),
        (Exit::Exited(4), "a\n".into(), "b\n".into())
    );
    let output = shell
        .exec(
            &bench.target,
            fence(1, 1),
            Access::Reads,
            &sh("kill -TERM $$"),
            LIMIT,
        )
        .await
        .unwrap();
    assert_eq!(output.exit, Exit::Signaled("TERM".into()));
    let fed = Command::new(["cat"]).with_stdin("what it reads");
    let output = shell
        .exec(&bench.target, fence(1, 1), Access::Reads, &fed, LIMIT)
        .await
        .unwrap();
    assert_eq!(output.stdout, "what it reads");
    assert_eq!(bench.connections(), 1, "one login for all");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_commands_at_once_share_one_connection() {
    let bench = Bench::new().await;
    let shell = SshShell::new();
    let calls = (0..12).map(|n| {
        let (shell, target) = (&shell, &bench.target);
        async move {
            let command = Command::new(["echo".to_owned(), n.to_string()]);
            shell
                .exec(target, fence(1, 1), Access::Reads, &command, LIMIT)
                .await
                .unwrap()
                .stdout
        }
    });
    let said = futures_util::future::join_all(calls).await;
    let expected: Vec<String> = (0..12).map(|n| format!("{n}\n")).collect();
    assert_eq!(said, expected);
    assert_eq!(bench.connections(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_fence_of_the_node_refuses_with_certainty() {
    let bench = Bench::new().await;
    let shell = SshShell::new();
    assert_eq!(shell.fence(&bench.target).await.unwrap(), None);
    let touch = Command::new(["touch", "ran"]);
    shell
        .exec(
            &bench.target,
            fence(1, 7),
            Access::Changes,
            &Command::new(["true"]),
            LIMIT,
        )
        .await
        .unwrap();
    assert_eq!(shell.fence(&bench.target).await.unwrap(), Some(fence(1, 7)));
    for (who, access) in [
        (fence(1, 6), Access::Changes),
        (fence(2, 9), Access::Changes),
        (fence(2, 9), Access::Reads),
    ] {
        let error = shell
            .exec(&bench.target, who, access, &touch, LIMIT)
            .await
            .unwrap_err();
        assert_eq!(
            (error.kind, error.effect, error.retry),
            (ShellErrorKind::Fence, Effect::DidNotHappen, Retry::Never)
        );
        assert!(error.text.contains("seed-node-1"), "{error}");
    }
    let key = RunKey("late".into());
    let error = shell
        .run(&bench.target, fence(1, 6), &key, &touch)
        .await
        .unwrap_err();
    assert_eq!(error.kind, ShellErrorKind::Fence);
    assert!(!bench.has("ran"));
    shell.take_over(&bench.target, fence(2, 1)).await.unwrap();
    assert_eq!(shell.fence(&bench.target).await.unwrap(), Some(fence(2, 1)));
    let error = shell.ask(&bench.target, fence(1, 99), &key).await.unwrap_err();
    assert_eq!(error.kind, ShellErrorKind::Fence);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_command_is_run_followed_and_found_again() {
    let bench = Bench::new().await;
    let shell = SshShell::new();
    let key = RunKey("drain of seed-node-2, attempt 1".into());
    let mine = fence(1, 1);
    assert_eq!(
        shell.ask(&bench.target, mine, &key).await.unwrap(),
        RunState::NotStarted
    );
    let long = sh("echo evicting; while [ ! -e go ]; do sleep 0.1; done; echo 'error: blocked' >&2; exit 1");
    let state = shell.run(&bench.target, mine, &key, &long).await.unwrap();
    assert!(matches!(state, RunState::Running { .. }), "{state:?}");
    // The connection goes, the command does not.
    bench.cut();
    let other = SshShell::new();
    let state = other
        .follow(&bench.target, mine, &key, Duration::from_secs(1))
        .await
        .unwrap();
    assert!(matches!(state, RunState::Running { .. }), "{state:?}");
    std::fs::write(bench.home().join("go"), "").unwrap();
    let state = other.follow(&bench.target, mine, &key, LIMIT).await.unwrap();
    let RunState::Ended { since, at, output } = state else {
        panic!("{state:?}")
    };
    assert!(since <= at);
    assert_eq!(
        (output.exit, output.stdout, output.stderr),
        (Exit::Exited(1), "evicting\n".into(), "error: blocked\n".into())
    );
    let again = shell
        .run(&bench.target, mine, &key, &Command::new(["touch", "again"]))
        .await
        .unwrap();
    assert!(matches!(again, RunState::Ended { .. }), "{again:?}");
    assert!(!bench.has("again"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_ends_a_long_command_also_below_sudo() {
    let bench = Bench::new().await;
    let shell = SshShell::new();
    let (mine, key) = (fence(1, 1), RunKey("k".into()));
    let long = Command::new(["sudo", "sh", "-c", "echo x >begun; while :; do sleep 0.2; done"]);
    shell.run(&bench.target, mine, &key, &long).await.unwrap();
    wait_for("the command", || bench.has("begun")).await;
    let state = shell.stop(&bench.target, mine, &key).await.unwrap();
    let RunState::Ended { output, .. } = state else {
        panic!("{state:?}")
    };
    assert_eq!(output.exit, Exit::Signaled("TERM".into()));
    let never = RunKey("never".into());
    assert_eq!(
        shell.stop(&bench.target, mine, &never).await.unwrap(),
        RunState::NotStarted
    );
    let late = shell
        .run(&bench.target, mine, &never, &Command::new(["touch", "ran"]))
        .await
        .unwrap();
    assert_eq!(late, RunState::NotStarted);
    assert!(!bench.has("ran"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_runs_on_a_machine_that_is_another() {
    let bench = Bench::new().await;
    let shell = SshShell::new();
    let mut target = bench.target.clone();
    target.vm_id = VmId(uuid::Uuid::from_u128(VM.as_u128() + 1));
    target.vm_name = "seed-node-9".into();
    let error = shell
        .exec(
            &target,
            fence(1, 1),
            Access::Changes,
            &Command::new(["touch", "ran"]),
            LIMIT,
        )
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind, error.effect),
        (ShellErrorKind::Identity, Effect::DidNotHappen)
    );
    assert!(
        error.text.contains("seed-node-1") && error.text.contains(&VM.to_string()),
        "{error}"
    );
    assert!(!bench.has("ran") && !bench.has(".cksd"));
    // The name and an address are proof as well.
    target.vm_name = "seed-node-1".into();
    shell.prove(&target).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrapper_that_was_removed_is_pushed_again() {
    let bench = Bench::new().await;
    let shell = SshShell::new();
    let hello = Command::new(["echo", "hi"]);
    shell
        .exec(&bench.target, fence(1, 1), Access::Reads, &hello, LIMIT)
        .await
        .unwrap();
    std::fs::remove_dir_all(bench.home().join(".cksd")).unwrap();
    let output = shell
        .exec(&bench.target, fence(1, 1), Access::Reads, &hello, LIMIT)
        .await
        .unwrap();
    assert_eq!(output.stdout, "hi\n");
}
