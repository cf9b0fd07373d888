//! The cloud-init user data of a new worker: its host key, and how it joins.
//!
//! What this must not know: how it reaches the machine (the adapter compresses and encodes it).
//!
//! The host key is ours, so that the machine is known from its first second. The join command comes from a
//! control node; it is taken apart into words, and what could mean anything to a shell is refused.

use secrecy::{ExposeSecret, SecretString};
use serde_json::json;

/// Installs the cluster's binaries from the attached ISO when the template brings none, as the nodes of the
/// cluster were made. A template that has kubeadm needs nothing of it.
const SETUP: &str = r#"#!/bin/sh
# Makes this machine ready to join: binaries from the attached ISO, unless the template brings them.
set -eu
PATH=$PATH:/opt/bin
command -v kubeadm >/dev/null 2>&1 && exit 0
tries=0
until mount -o ro LABEL=CDROM /mnt 2>/dev/null || mount -o ro /dev/sr0 /mnt 2>/dev/null; do
    tries=$((tries + 1))
    [ "$tries" -lt 120 ] || { echo "no ISO with binaries was attached" >&2; exit 1; }
    sleep 5
done
mkdir -p /opt/cni/bin /opt/bin /etc/systemd/system/kubelet.service.d
tar -C /opt/cni/bin -xzf /mnt/cni/cni-plugins-*64.tgz
tar -C /opt/bin -xzf /mnt/cri-tools/crictl-linux-*64.tar.gz
install -m 0755 /mnt/k8s/kubeadm /mnt/k8s/kubelet /mnt/k8s/kubectl /opt/bin/
sed 's:/usr/bin:/opt/bin:g' /mnt/kubelet.service >/etc/systemd/system/kubelet.service
sed 's:/usr/bin:/opt/bin:g' /mnt/10-kubeadm.conf >/etc/systemd/system/kubelet.service.d/10-kubeadm.conf
for image in /mnt/docker/*; do ctr -n k8s.io image import "$image" || true; done
umount /mnt
systemctl daemon-reload
systemctl enable kubelet
"#;

/// A join command that is not one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the control node did not answer with a join command")]
pub struct NoJoinCommand;

/// The user data of a worker.
///
/// # Errors
/// When `join` is no plain `kubeadm join …`. It is not quoted: it holds a token.
pub fn worker(
    host_key: &SecretString,
    public_key: &str,
    join: &SecretString,
) -> Result<String, NoJoinCommand> {
    let mut words = words(join.expose_secret())?;
    // cloud-init's PATH has no /opt/bin.
    let mut command = vec![
        "env".to_owned(),
        "PATH=/opt/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin".to_owned(),
    ];
    command.append(&mut words);
    let config = json!({
        "ssh_deletekeys": true,
        "ssh_keys": { "ed25519_private": host_key.expose_secret(), "ed25519_public": public_key },
        "write_files": [{
            "path": "/opt/bin/setup-kube-node",
            "permissions": "0700",
            "owner": "root:root",
            "content": SETUP,
        }],
        "runcmd": [["/opt/bin/setup-kube-node"], command],
    });
    // JSON is YAML, and has no line that a key or a token could break out of.
    Ok(format!("#cloud-config\n{config:#}\n"))
}

/// The words of a join command: the line that begins with it, of characters that mean nothing to a shell.
fn words(text: &str) -> Result<Vec<String>, NoJoinCommand> {
    let plain = |word: &&str| {
        word.chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':' | '/' | '=' | '[' | ']'))
    };
    let line = text
        .lines()
        .map(str::trim)
        .find(|line| line.starts_with("kubeadm join "));
    let words: Vec<&str> = line.ok_or(NoJoinCommand)?.split_whitespace().collect();
    let token = words.contains(&"--token");
    if words.len() < 5 || !token || !words.iter().all(plain) {
        return Err(NoJoinCommand);
    }
    Ok(words.into_iter().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOIN: &str = "kubeadm join 10.1.1.1:6443 --token abcdef.0123456789abcdef --discovery-token-ca-cert-hash \
                        sha256:00ff ";

    #[test]
    fn the_user_data_is_cloud_config_with_the_host_key_and_the_join_command_as_words() {
        let key = SecretString::from(
            "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n",
        );
        let data = worker(&key, "ssh-ed25519 AAAA", &JOIN.into()).unwrap();
        let body = data.strip_prefix("#cloud-config\n").unwrap();
        let read: serde_yaml_ng::Value = serde_yaml_ng::from_str(body).unwrap();
        assert_eq!(
            read["ssh_keys"]["ed25519_private"].as_str().unwrap(),
            key.expose_secret()
        );
        let command = read["runcmd"][1].as_sequence().unwrap();
        let command: Vec<&str> = command.iter().map(|word| word.as_str().unwrap()).collect();
        assert_eq!(command[2..4], ["kubeadm", "join"]);
        assert!(command.contains(&"abcdef.0123456789abcdef"));
    }

    #[test]
    fn a_warning_before_the_command_does_not_matter() {
        let noisy = format!("W1130 configset.go: warning\n{JOIN}\n");
        assert_eq!(words(&noisy).unwrap()[1], "join");
    }

    #[test]
    fn what_is_no_join_command_is_refused() {
        for bad in [
            "",
            "error: no token",
            "kubeadm join",
            "kubeadm join 10.1.1.1:6443 --token a.b; reboot now please",
            "kubeadm join $(id) --token a.b --x y",
        ] {
            assert!(words(bad).is_err(), "{bad}");
        }
    }
}
