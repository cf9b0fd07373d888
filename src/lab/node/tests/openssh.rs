//! OpenSSH's own client, where it is installed.

use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use russh::keys::ssh_key::LineEnding;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use super::Bench;

#[tokio::test]
async fn the_ssh_command_works_against_a_node() {
    let bench = Bench::new().await;
    let key = bench.folder.path().join("key");
    std::fs::write(&key, bench.key.to_openssh(LineEnding::LF).unwrap()).unwrap();
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    let known = bench.folder.path().join("known");
    let port = bench.address.port();
    let host_key = bench.node.host_key_public();
    std::fs::write(&known, format!("[127.0.0.1]:{port} {host_key}\n")).unwrap();
    let run = async |line: &str, input: &str| {
        let child = Command::new("ssh")
            .args([
                "-F",
                "none",
                "-o",
                "BatchMode=yes",
                "-o",
                "StrictHostKeyChecking=yes",
            ])
            .args(["-o", "IdentitiesOnly=yes", "-o", "IdentityAgent=none"])
            .arg("-o")
            .arg(format!("UserKnownHostsFile={}", known.display()))
            .arg("-i")
            .arg(&key)
            .args(["-p", &port.to_string(), "cloud@127.0.0.1", line])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut child = match child {
            Ok(child) => child,
            Err(error) => {
                assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
                return None;
            }
        };
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(input.as_bytes()).await.unwrap();
        drop(stdin);
        let out = child.wait_with_output().await.unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Some((text(out.stdout), text(out.stderr), out.status.code()))
    };
    let big = "x".repeat(3_000_000);
    let Some(given) = run("sudo tee /opt/big | wc -c; echo err >&2; exit 6", &big).await else {
        return;
    };
    assert_eq!(given, ("3000000\n".to_owned(), "err\n".to_owned(), Some(6)));
    let (out, _, code) = run("cat /opt/big", "").await.unwrap();
    assert!(out == big && code == Some(0));
    bench.node.shutdown().await;
}
