//! The Kubernetes port by kubectl on a control node, as root's own kubeconfig there has it.
//!
//! What this must not know: the database, jobs.

mod classify;
mod read;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use secrecy::SecretString;

pub use self::classify::{kind_of, tail};
use crate::ports::fault::Effect;
use crate::ports::kube::{
    Budget, Eviction, Kube, KubeError, KubeErrorKind, KubeNode, Pod, Via, VolumeAttachment,
};
use crate::ports::shell::{Access, Command, Exit, NodeShell, Output, RunKey, RunState};

/// Where Kubernetes' programs are on the nodes of CloudStack's image.
const KUBECTL: &str = "/opt/bin/kubectl";
/// A hung API server ends a read after this; kubectl tries some requests twice.
const REQUEST_TIMEOUT: &str = "--request-timeout=20s";
/// For a short command in all: discovery and the request, each with its own timeout.
const LIMIT: Duration = Duration::from_mins(1);

/// The Kubernetes port over the shell port.
pub struct KubectlOverShell {
    shell: Arc<dyn NodeShell>,
}

impl KubectlOverShell {
    /// Speaks through this shell.
    #[must_use]
    pub fn new(shell: Arc<dyn NodeShell>) -> Self {
        Self { shell }
    }

    async fn exec(&self, via: &Via, access: Access, command: &Command) -> Result<Output, KubeError> {
        self.shell
            .exec(&via.target, via.fence, access, command, LIMIT)
            .await
            .map_err(|error| classify::shell(&name_of(command), &error))
    }

    /// A command that must exit with 0.
    async fn done(&self, via: &Via, access: Access, command: &Command) -> Result<Output, KubeError> {
        let output = self.exec(via, access, command).await?;
        if output.ok() {
            return Ok(output);
        }
        Err(classify::failed(&name_of(command), &output, access))
    }

    /// A list as JSON: standard output only, and never empty.
    async fn list<T>(
        &self,
        via: &Via,
        words: &[&str],
        read: impl Fn(&str) -> Result<T, serde_json::Error>,
    ) -> Result<T, KubeError> {
        let mut words = words.to_vec();
        words.extend(["-o", "json", REQUEST_TIMEOUT]);
        let command = kubectl(&words);
        let output = self.done(via, Access::Reads, &command).await?;
        if output.stdout.trim().is_empty() {
            return Err(classify::unreadable(&name_of(&command), "it is empty"));
        }
        read(&output.stdout).map_err(|e| classify::unreadable(&name_of(&command), &e.to_string()))
    }

    async fn run(
        &self,
        via: &Via,
        what: &str,
        key: &RunKey,
        call: RunCall<'_>,
    ) -> Result<RunState, KubeError> {
        let (target, fence) = (&via.target, via.fence);
        match call {
            RunCall::Start(command) => self.shell.run(target, fence, key, command).await,
            RunCall::Ask => self.shell.ask(target, fence, key).await,
            RunCall::Follow(limit) => self.shell.follow(target, fence, key, limit).await,
            RunCall::Stop => self.shell.stop(target, fence, key).await,
        }
        .map_err(|error| classify::shell(what, &error))
    }
}

/// What is done with a long command.
enum RunCall<'a> {
    Start(&'a Command),
    Ask,
    Follow(Duration),
    Stop,
}

fn kubectl(words: &[&str]) -> Command {
    Command::new(["sudo", KUBECTL].iter().chain(words).copied())
}

/// The command for errors: without the path, and without our own timeout.
fn name_of(command: &Command) -> String {
    let words: Vec<&str> = command
        .words
        .iter()
        .map(String::as_str)
        .filter(|word| *word != "sudo" && *word != REQUEST_TIMEOUT)
        .map(|word| if word == KUBECTL { "kubectl" } else { word })
        .collect();
    words.join(" ")
}

/// Names that Kubernetes itself would take: DNS labels joined by dots. Anything else could be a flag or worse.
fn check(what: &str, name: &str) -> Result<(), KubeError> {
    let label = |label: &str| {
        let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        (1..=63).contains(&label.len())
            && label.bytes().all(inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    if name.len() <= 253 && name.split('.').all(label) {
        return Ok(());
    }
    Err(classify::refused(format!(
        "the {what} name {name:?} is not a name that Kubernetes allows; nothing was sent"
    )))
}

#[async_trait]
impl Kube for KubectlOverShell {
    async fn nodes(&self, via: &Via) -> Result<Vec<KubeNode>, KubeError> {
        self.list(via, &["get", "nodes"], read::nodes).await
    }

    async fn pods_on(&self, via: &Via, node: &str) -> Result<Vec<Pod>, KubeError> {
        check("node", node)?;
        let selector = format!("spec.nodeName={node}");
        let words = ["get", "pods", "--all-namespaces", "--field-selector", &selector];
        self.list(via, &words, read::pods).await
    }

    async fn budgets(&self, via: &Via) -> Result<Vec<Budget>, KubeError> {
        self.list(via, &["get", "pdb", "--all-namespaces"], read::budgets)
            .await
    }

    async fn volume_attachments(&self, via: &Via) -> Result<Vec<VolumeAttachment>, KubeError> {
        let words = ["get", "volumeattachments"];
        let found = self
            .list(via, &words, |json| read::attachments(json, &read::Claims::new()))
            .await?;
        // Most clusters have none, and the volumes of the others may be many.
        if found.iter().all(|attachment| attachment.volume.is_none()) {
            return Ok(found);
        }
        let claims = self.list(via, &["get", "pv"], read::claims).await?;
        Ok(found
            .into_iter()
            .map(|attachment| VolumeAttachment {
                claim: attachment
                    .volume
                    .as_ref()
                    .and_then(|volume| claims.get(volume).cloned()),
                ..attachment
            })
            .collect())
    }

    async fn cordon(&self, via: &Via, node: &str) -> Result<(), KubeError> {
        check("node", node)?;
        self.done(via, Access::Changes, &kubectl(&["cordon", node]))
            .await
            .map(drop)
    }

    async fn uncordon(&self, via: &Via, node: &str) -> Result<(), KubeError> {
        check("node", node)?;
        self.done(via, Access::Changes, &kubectl(&["uncordon", node]))
            .await
            .map(drop)
    }

    async fn start_drain(
        &self,
        via: &Via,
        key: &RunKey,
        node: &str,
        timeout_secs: u64,
    ) -> Result<RunState, KubeError> {
        check("node", node)?;
        let timeout = format!("--timeout={timeout_secs}s");
        let command = kubectl(&[
            "drain",
            node,
            "--ignore-daemonsets",
            "--delete-emptydir-data",
            &timeout,
        ]);
        self.run(via, &name_of(&command), key, RunCall::Start(&command))
            .await
    }

    async fn ask_drain(&self, via: &Via, key: &RunKey) -> Result<RunState, KubeError> {
        self.run(via, "asking for the drain", key, RunCall::Ask).await
    }

    async fn follow_drain(&self, via: &Via, key: &RunKey, limit: Duration) -> Result<RunState, KubeError> {
        self.run(via, "following the drain", key, RunCall::Follow(limit))
            .await
    }

    async fn stop_drain(&self, via: &Via, key: &RunKey) -> Result<RunState, KubeError> {
        self.run(via, "stopping the drain", key, RunCall::Stop).await
    }

    async fn evict(&self, via: &Via, namespace: &str, name: &str) -> Result<Eviction, KubeError> {
        check("namespace", namespace)?;
        check("pod", name)?;
        // kubectl has no verb for one eviction; its raw create posts what it reads.
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/eviction");
        let body = serde_json::json!({
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": { "name": name, "namespace": namespace },
        });
        let command =
            kubectl(&["create", "--raw", &path, "-f", "-", REQUEST_TIMEOUT]).with_stdin(body.to_string());
        let output = self.exec(via, Access::Changes, &command).await?;
        if output.ok() {
            return Ok(Eviction::Accepted);
        }
        if let Some(message) = too_many_requests(&output.stderr) {
            return Ok(Eviction::Blocked(message));
        }
        let error = classify::failed(&name_of(&command), &output, Access::Changes);
        if error.kind == KubeErrorKind::NotFound {
            return Ok(Eviction::Accepted);
        }
        Err(error)
    }

    async fn delete_node(&self, via: &Via, node: &str) -> Result<(), KubeError> {
        check("node", node)?;
        let command = kubectl(&["delete", "node", node, "--ignore-not-found"]);
        self.done(via, Access::Changes, &command).await.map(drop)
    }

    async fn join_command(&self, via: &Via) -> Result<SecretString, KubeError> {
        let words = "sudo kubeadm token create --ttl 2h --print-join-command";
        let command = Command::new(words.split(' '));
        let output = self.done(via, Access::Changes, &command).await?;
        // Warnings may stand before it, on either stream.
        let line = output
            .stdout
            .lines()
            .map(str::trim)
            .rfind(|line| line.starts_with("kubeadm join "));
        line.map(SecretString::from).ok_or_else(|| KubeError {
            effect: Effect::MayHaveHappened,
            // Not the output, which may hold the token.
            ..classify::unreadable(&name_of(&command), "no line begins with `kubeadm join`")
        })
    }

    async fn kubeconfig(&self, via: &Via) -> Result<SecretString, KubeError> {
        // Newer images write one for users beside the administrator's.
        let mut missing = None;
        for file in ["/etc/kubernetes/user.conf", "/etc/kubernetes/admin.conf"] {
            let command = Command::new(["sudo", "cat", file]);
            let output = self.exec(via, Access::Reads, &command).await?;
            if output.ok() && !output.stdout.trim().is_empty() {
                return Ok(SecretString::from(output.stdout));
            }
            let why = match output.exit {
                Exit::Exited(0) => "it is empty".to_owned(),
                _ => tail(&output.stderr).to_owned(),
            };
            missing = Some(classify::unreadable(&name_of(&command), &why));
        }
        Err(missing.unwrap_or_else(|| classify::unreadable("kubeconfig", "there is none")))
    }
}

/// The message of a 429 that a budget caused.
fn too_many_requests(stderr: &str) -> Option<String> {
    stderr
        .lines()
        .find_map(|line| line.split_once("(TooManyRequests): "))
        .map(|(_, message)| message.trim().to_owned())
}
