//! Logins, commands, sudo and the journal.

use std::sync::Arc;

use super::{Bench, Given, finish, new_key};
use crate::lab::node::JournalKind;

#[tokio::test]
async fn only_the_login_user_with_its_key_gets_in() {
    let bench = Bench::new().await;
    assert!(bench.connect_with("cloud", Arc::new(new_key())).await.is_none());
    assert!(bench.connect_with("root", Arc::clone(&bench.key)).await.is_none());
    let ssh = bench.connect().await;
    assert_eq!(ssh.host_key, bench.node.host_key_public());
    let logins = bench.entries(JournalKind::Login);
    assert_eq!(logins.len(), 1, "{logins:?}");
    assert!(
        logins[0].user == "cloud" && logins[0].text.contains("SHA256:"),
        "{logins:?}"
    );
    bench.node.shutdown().await;
}

#[tokio::test]
async fn streams_and_codes_are_kept_apart() {
    let bench = Bench::new().await;
    let ssh = bench.connect().await;
    let given = ssh.run("echo out; echo err >&2; exit 7").await;
    assert_eq!(
        given,
        Given {
            out: "out\n".to_owned(),
            err: "err\n".to_owned(),
            code: Some(7),
            signal: None
        }
    );
    let given = ssh.run("kill -9 $$").await;
    assert_eq!((given.code, given.signal.as_deref()), (None, Some("KILL")));
    let commands = bench.entries(JournalKind::Command);
    let seen: Vec<_> = commands
        .iter()
        .map(|entry| (entry.text.as_str(), entry.exit))
        .collect();
    assert_eq!(
        seen,
        [
            ("echo out; echo err >&2; exit 7", Some(7)),
            ("kill -9 $$", Some(137))
        ]
    );
    bench.node.shutdown().await;
}

#[tokio::test]
async fn a_node_shows_its_own_identity() {
    let bench = Bench::new().await;
    let ssh = bench.connect().await;
    let id = format!("{}\n", bench.spec.vm_id);
    assert_eq!(ssh.out("cat /sys/class/dmi/id/product_uuid").await, id);
    assert_eq!(ssh.out("sudo cat /sys/class/dmi/id/product_uuid").await, id);
    assert_eq!(
        ssh.out("hostname; uname -n; cat /etc/hostname").await,
        "seed-node-1\n".repeat(3)
    );
    assert_eq!(ssh.out("hostname -I").await, "10.1.1.17 fd00::17\n");
    assert_eq!(
        ssh.out("ip -o -4 addr show").await,
        "2: eth0    inet 10.1.1.17/24 scope global eth0\n"
    );
    assert_eq!(
        ssh.out("id -u; sudo id -u; whoami; sudo -n whoami").await,
        "1000\n0\ncloud\nroot\n"
    );
    bench.node.shutdown().await;
}

#[tokio::test]
async fn files_are_uploaded_into_the_root_folder() {
    let bench = Bench::new().await;
    let ssh = bench.connect().await;
    let big = "0123456789abcdef\n".repeat(60_000);
    let given = ssh
        .run_with(
            "mkdir -p ~/.cksd && cat > ~/.cksd/x.part && mv ~/.cksd/x.part ~/.cksd/x",
            big.as_bytes(),
        )
        .await;
    assert_eq!(given.code, Some(0), "{}", given.err);
    assert!(bench.node.read_file("/home/cloud/.cksd/x").unwrap() == big);
    assert!(ssh.out("cat /home/cloud/.cksd/x").await == big);
    let given = ssh
        .run_with("sudo tee /opt/one /etc/kubernetes/two >/dev/null", b"text")
        .await;
    assert_eq!(given.code, Some(0), "{}", given.err);
    assert_eq!(bench.node.read_file("/opt/one").unwrap(), "text");
    assert_eq!(bench.node.read_file("/etc/kubernetes/two").unwrap(), "text");
    bench.node.shutdown().await;
}

#[tokio::test]
async fn sudo_runs_kubectl_as_root_and_keeps_a_journal() {
    let bench = Bench::new().await;
    let ssh = bench.connect().await;
    let root = bench.root();
    let given = ssh.run("sudo /opt/bin/kubectl cordon n-1").await;
    assert_eq!(given.out, "kubectl cordon n-1\n");
    assert_eq!(given.err, format!("home={root}/root config=none\n"));
    bench.node.write_file("/etc/kubernetes/admin.conf", "admin");
    let given = ssh
        .run("sudo -n -- /opt/bin/kubectl drain n-1 --timeout=5s")
        .await;
    assert_eq!(given.code, Some(1));
    assert_eq!(
        given.err,
        format!("home={root}/root config={root}/etc/kubernetes/admin.conf\n")
    );
    bench.node.write_file("/root/.kube/config", "root's");
    let given = ssh.run("'sudo' '/opt/bin/kubectl' 'get' 'nodes'").await;
    assert_eq!(
        given.err,
        format!("home={root}/root config=none\n"),
        "its own is preferred"
    );
    // Without sudo it is the login user's, who has none.
    let given = ssh.run("/opt/bin/kubectl get nodes").await;
    assert_eq!(given.err, format!("home={root}/home/cloud config=none\n"));
    let sudo = |line: &str, code| (format!("/opt/bin/kubectl {line}"), Some(code));
    assert_eq!(
        bench.sudo(),
        [
            sudo("cordon n-1", 0),
            sudo("drain n-1 --timeout=5s", 1),
            sudo("get nodes", 0)
        ]
    );
    let entries = bench.entries(JournalKind::Sudo);
    assert_eq!(entries[0].text, "COMMAND=/opt/bin/kubectl cordon n-1");
    assert!(entries[0].at <= entries[1].at && entries[0].user == "cloud");
    bench.node.shutdown().await;
}

#[tokio::test]
async fn sudo_takes_what_sudo_takes() {
    let bench = Bench::new().await;
    let ssh = bench.connect().await;
    bench.node.write_file("/etc/kubernetes/admin.conf", "secret\n");
    assert_eq!(ssh.out("sudo cat /etc/kubernetes/admin.conf").await, "secret\n");
    assert_eq!(
        ssh.out("sudo sh -c 'cat /etc/kubernetes/user.conf 2>/dev/null || cat /etc/kubernetes/admin.conf'")
            .await,
        "secret\n"
    );
    assert_eq!(
        ssh.out("sudo -u cloud sh -c 'echo $USER $SUDO_USER'").await,
        "cloud cloud\n"
    );
    assert_eq!(ssh.out("sudo X=1 sh -c 'echo $X'").await, "1\n");
    assert_eq!(ssh.run_with("sudo cat", b"input").await.out, "input");
    assert_eq!(ssh.run("sudo sh -c 'exit 9'").await.code, Some(9));
    let given = ssh.run("sudo -u nobody-here true").await;
    assert_eq!(
        (given.code, given.err.as_str()),
        (Some(1), "sudo: unknown user nobody-here\n")
    );
    let given = ssh.run("sudo /opt/bin/none").await;
    assert_eq!(
        (given.code, given.err.as_str()),
        (Some(1), "sudo: /opt/bin/none: command not found\n")
    );
    let shown: Vec<_> = bench.sudo().into_iter().map(|(text, _)| text).collect();
    assert!(
        shown[0].ends_with("bin/cat /etc/kubernetes/admin.conf"),
        "{shown:?}"
    );
    assert!(
        shown[1].ends_with(
            "bin/sh -c cat /etc/kubernetes/user.conf 2>/dev/null || cat /etc/kubernetes/admin.conf"
        ),
        "{shown:?}"
    );
    bench.node.shutdown().await;
}

#[tokio::test]
async fn scripts_of_the_node_run_with_mapped_paths() {
    let bench = Bench::new().await;
    let ssh = bench.connect().await;
    let script = "#!/bin/sh\n# a wrapper\nid=$(cat /sys/class/dmi/id/product_uuid) || exit 3\n\
                  echo \"$id $0 $# $2\"\nsudo /opt/bin/kubectl get \"$2\"\n";
    let given = ssh
        .run_with("cat >~/w.sh && chmod +x ~/w.sh", script.as_bytes())
        .await;
    assert_eq!(given.code, Some(0));
    let id = bench.spec.vm_id;
    let home = format!("{}/home/cloud", bench.root());
    let out = ssh.out("sh ~/w.sh exec 'two words'").await;
    assert_eq!(
        out,
        format!("{id} {home}/w.sh 2 two words\nkubectl get two words\n")
    );
    let out = ssh.out("cd && sudo ./w.sh a b").await;
    assert_eq!(out, format!("{id} ./w.sh 2 b\nkubectl get b\n"));
    let out = ssh
        .out("sudo mv ~/w.sh /opt/bin//w && sudo /opt/bin//w a b")
        .await;
    assert!(out.starts_with(&format!("{id} ")), "{out}");
    let shown: Vec<_> = bench.sudo().into_iter().map(|(text, _)| text).collect();
    assert_eq!(shown[1], "./w.sh a b");
    assert!(shown.contains(&"/opt/bin//w a b".to_owned()), "{shown:?}");
    bench.node.shutdown().await;
}

#[tokio::test]
async fn a_closed_channel_ends_nothing() {
    let bench = Bench::new().await;
    let ssh = bench.connect().await;
    // It prints after its client has gone, which must not end it either.
    let channel = ssh
        .start(
            "touch ~/begun; until [ -e ~/go ]; do sleep 0.05; done; for i in 1 2 3; do echo on; echo on >&2; \
                sleep 0.1; done; touch ~/finished",
        )
        .await;
    let begun = bench.place("/home/cloud/begun");
    bench.wait_for("the command to begin", |_| begun.exists()).await;
    channel.close().await.unwrap();
    drop(channel);
    let other = ssh
        .start("touch ~/begun2; until [ -e ~/go ]; do sleep 0.05; done; for i in 1 2 3; do echo on; sleep 0.1; done; \
                touch ~/finished2")
        .await;
    let begun = bench.place("/home/cloud/begun2");
    bench.wait_for("the second to begin", |_| begun.exists()).await;
    drop(other);
    drop(ssh);
    bench.node.write_file("/home/cloud/go", "");
    let finished = ["/home/cloud/finished", "/home/cloud/finished2"].map(|path| bench.place(path));
    bench
        .wait_for("both to finish", |_| finished.iter().all(|path| path.exists()))
        .await;
    bench
        .wait_for("the journal to say so", |bench| {
            bench
                .entries(JournalKind::Command)
                .iter()
                .all(|entry| entry.exit == Some(0))
        })
        .await;
    bench.node.shutdown().await;
}

#[tokio::test]
async fn what_is_left_behind_does_not_hold_back_the_exit_code() {
    let bench = Bench::new().await;
    let ssh = bench.connect().await;
    let mut channel = ssh
        .start("(until [ -e ~/go ]; do sleep 0.05; done; echo late) & echo soon; exit 4")
        .await;
    let mut code = None;
    while let Some(message) = channel.wait().await {
        if let russh::ChannelMsg::ExitStatus { exit_status } = message {
            code = Some(exit_status);
            break;
        }
    }
    assert_eq!(code, Some(4));
    bench.node.write_file("/home/cloud/go", "");
    assert_eq!(finish(channel).await.out, "late\n");
    bench.node.shutdown().await;
}

#[tokio::test]
async fn channels_run_side_by_side_up_to_a_limit() {
    let bench = Bench::new().await;
    let ssh = bench.connect().await;
    let mut waiting = Vec::new();
    for _ in 0..10 {
        waiting.push(
            ssh.start("until [ -e ~/go ]; do sleep 0.05; done; echo done")
                .await,
        );
    }
    assert!(
        ssh.handle.channel_open_session().await.is_err(),
        "an eleventh session was admitted"
    );
    bench.node.write_file("/home/cloud/go", "");
    for channel in waiting {
        assert_eq!(finish(channel).await.out, "done\n");
    }
    for _ in 0..12 {
        assert_eq!(ssh.out("echo again").await, "again\n");
    }
    bench.node.shutdown().await;
}

#[tokio::test]
async fn signals_reach_what_sudo_runs() {
    let bench = Bench::new().await;
    let ssh = bench.connect().await;
    let line = "sudo sh -c 'trap \"echo got it; exit 5\" TERM; touch ~/up; while :; do sleep 0.05; done' & \
                until [ -e /root/up ]; do sleep 0.05; done; kill -TERM $!; wait $!; echo $?";
    assert_eq!(ssh.out(line).await, "got it\n5\n");
    assert_eq!(bench.sudo()[0].1, Some(5));
    bench.node.shutdown().await;
}

#[tokio::test]
async fn a_person_can_type_commands() {
    let bench = Bench::new().await;
    let ssh = bench.connect().await;
    let channel = ssh.handle.channel_open_session().await.unwrap();
    channel.request_shell(true).await.unwrap();
    channel
        .data(&b"cat /sys/class/dmi/id/product_uuid\nexit 3\n"[..])
        .await
        .unwrap();
    let given = finish(channel).await;
    assert_eq!(given.code, Some(3));
    assert!(given.out.contains(&bench.spec.vm_id.to_string()), "{given:?}");
    bench.node.shutdown().await;
}
