//! Power, keys and user data.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use russh::keys::ssh_key::LineEnding;

use super::{Bench, finish, new_key};
use crate::lab::node::{JournalKind, keys};

#[tokio::test]
async fn a_power_off_cuts_connections_and_kills_everything() {
    let bench = Bench::new().await;
    let ssh = bench.connect().await;
    // One that leaves its process group as a service's long command does, and one in the foreground.
    ssh.out("setsid sh -c 'echo $$ >~/one; exec sleep 600' >/dev/null 2>&1 </dev/null &")
        .await;
    let channel = ssh.start("sudo sh -c 'echo $$ >/root/two; sleep 600'").await;
    let files = ["/home/cloud/one", "/root/two"].map(|path| bench.place(path));
    bench
        .wait_for("both to run", |_| {
            files
                .iter()
                .all(|path| std::fs::read_to_string(path).is_ok_and(|text| text.ends_with('\n')))
        })
        .await;
    let processes = files.map(|path| std::fs::read_to_string(path).unwrap().trim().to_owned());
    let lives = |process: &String| {
        std::fs::read(format!("/proc/{process}/cmdline")).is_ok_and(|command| !command.is_empty())
    };
    assert!(processes.iter().all(lives), "{processes:?}");
    bench.node.shutdown().await;
    assert!(!processes.iter().any(lives), "{processes:?}");
    let given = finish(channel).await;
    assert_eq!(
        (given.code, given.signal),
        (None, None),
        "a power off reports nothing"
    );
    // It answers nothing any more.
    let mut stream = tokio::net::TcpStream::connect(bench.address).await.unwrap();
    let mut buffer = Vec::new();
    let read = tokio::io::AsyncReadExt::read_to_end(&mut stream, &mut buffer).await;
    assert!(matches!(read, Ok(0) | Err(_)), "{buffer:?}");
    assert_eq!(bench.sudo()[0].1, None, "nothing ended it but the power");
    let boots: Vec<_> = bench
        .entries(JournalKind::Boot)
        .into_iter()
        .map(|entry| entry.text)
        .collect();
    assert_eq!(boots, ["power on", "power off"]);
}

#[tokio::test]
async fn a_root_folder_is_kept_over_restarts() {
    let first = Bench::new().await;
    first.connect().await.out("echo kept >~/file").await;
    first.node.shutdown().await;
    let second = first.again().await;
    assert_eq!(second.node.host_key_public(), first.node.host_key_public());
    let ssh = second.connect().await;
    assert_eq!(ssh.host_key, first.node.host_key_public());
    assert_eq!(ssh.out("cat ~/file").await, "kept\n");
    second.node.shutdown().await;
    assert_eq!(second.entries(JournalKind::Login).len(), 2);
}

#[tokio::test]
async fn a_lab_that_starts_again_finds_its_nodes_running() {
    let first = Bench::new().await;
    let ssh = first.connect().await;
    ssh.out(
        "setsid sh -c 'until [ -e ~/go ]; do sleep 0.05; done; touch ~/done' >/dev/null 2>&1 </dev/null &",
    )
    .await;
    // No power off: the process of the lab was killed.
    let second = first.again().await;
    second.node.write_file("/home/cloud/go", "");
    let done = second.place("/home/cloud/done");
    second.wait_for("the command to go on", |_| done.exists()).await;
    let boots = second.entries(JournalKind::Boot);
    assert_eq!(boots.last().unwrap().text, "found running");
    second.node.shutdown().await;
    first.node.shutdown().await;
}

#[tokio::test]
async fn a_given_host_key_is_shown() {
    let key = new_key();
    let bench = Bench::with(|spec| {
        spec.host_key = Some(key.to_openssh(LineEnding::LF).unwrap().to_string());
    })
    .await;
    assert_eq!(bench.node.host_key_public(), keys::public(&key));
    assert_eq!(bench.connect().await.host_key, keys::public(&key));
    bench.node.shutdown().await;
}

#[tokio::test]
async fn user_data_is_done_once() {
    let (host, other) = (new_key(), new_key());
    let private: String = host
        .to_openssh(LineEnding::LF)
        .unwrap()
        .lines()
        .fold(String::new(), |text, line| format!("{text}    {line}\n"));
    let script = "IyEvYmluL3NoCmVjaG8gInJhbiAkMSIgPj4vb3B0L2xvZwo="; // appends to /opt/log
    let config = format!(
        "#cloud-config\npackage_update: true\nssh_keys:\n  ed25519_private: |\n{private}  ed25519_public: x\n\
         users:\n  - name: cloud\n    ssh_authorized_keys: ['{}']\nwrite_files:\n\
         - path: /opt/bin/setup\n  permissions: '0755'\n  encoding: b64\n  content: {script}\n\
         - path: /etc/systemd/x.conf\n  content: plain\n\
         runcmd:\n- [/opt/bin/setup, 'a  b']\n- echo text >>/opt/log\n- [env, 'PATH=/opt/bin:/usr/bin:/bin', kubeadm, join, '10.1.1.1:6443', \
         --token, abcdef.0123456789abcdef]\n- whoami\n",
        keys::public(&other)
    );
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(config.as_bytes()).unwrap();
    let data = gzip.finish().unwrap();
    let bench = Bench::with(|spec| spec.user_data = Some(data)).await;
    assert_eq!(bench.node.host_key_public(), keys::public(&host));
    assert!(
        bench
            .connect_with("cloud", std::sync::Arc::new(other))
            .await
            .is_some()
    );
    let success = bench.place("/home/cloud/success");
    bench
        .wait_for("the first boot to finish", |_| success.exists())
        .await;
    assert_eq!(bench.node.read_file("/opt/log").unwrap(), "ran a  b\ntext\n");
    assert_eq!(bench.node.read_file("/etc/systemd/x.conf").unwrap(), "plain");
    assert_eq!(
        bench.node.read_file("/etc/kubernetes/kubelet.conf").unwrap(),
        "kubelet's kubeconfig\n"
    );
    assert_eq!(
        bench.world.told(),
        ["join 10.1.1.1:6443 --token abcdef.0123456789abcdef"]
    );
    let log = bench.node.read_file("/var/log/cloud-init-output.log").unwrap();
    assert!(
        log.contains("This node has joined the cluster") && log.ends_with("root\n"),
        "{log}"
    );
    let boots: Vec<_> = bench
        .entries(JournalKind::Boot)
        .into_iter()
        .map(|entry| entry.text)
        .collect();
    assert!(
        boots
            .iter()
            .any(|text| text.contains("package_update is not known")),
        "{boots:?}"
    );
    bench.node.shutdown().await;
    let again = bench.again().await;
    again.node.shutdown().await;
    assert_eq!(
        again.node.read_file("/opt/log").unwrap(),
        "ran a  b\ntext\n",
        "it ran twice"
    );
    assert_eq!(again.node.host_key_public(), keys::public(&host));
}

#[tokio::test]
async fn unreadable_user_data_is_noted_and_the_node_starts() {
    let bench = Bench::with(|spec| spec.user_data = Some(b"#cloud-config\nruncmd: [".to_vec())).await;
    bench.connect().await.out("true").await;
    let boots = bench.entries(JournalKind::Boot);
    assert!(
        boots.iter().any(|entry| entry.text.starts_with("user data: ")),
        "{boots:?}"
    );
    bench.node.shutdown().await;
}
