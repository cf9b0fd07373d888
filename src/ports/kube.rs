//! The cluster's Kubernetes in the service's words. Reached by `kubectl` on a control node.

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::fault::{Effect, Retry};
use super::shell::{Fence, NodeTarget, RunKey, RunState};
pub use crate::domain::observed::{Budget, KubeNode, Pod, VolumeAttachment};

/// The control node through which an operation speaks, and the fence of its commands.
#[derive(Debug, Clone)]
pub struct Via {
    /// The control node.
    pub target: NodeTarget,
    /// The fence that changing commands carry.
    pub fence: Fence,
}

/// What came of an eviction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Eviction {
    /// Accepted, or the pod was gone.
    Accepted,
    /// A budget does not allow it now (429), with the server's message.
    Blocked(String),
}

/// A failed call to Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{text}")]
pub struct KubeError {
    /// What went wrong: the command and the end of kubectl's output, or the shell's error.
    pub text: String,
    /// What kind of failure it is.
    pub kind: KubeErrorKind,
    /// Whether the effect may have happened.
    pub effect: Effect,
    /// Whether to try again.
    pub retry: Retry,
}

/// Kinds of failed calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum KubeErrorKind {
    /// The control node cannot be used at all (SSH, login, identity): try the next one.
    ControlNode,
    /// The node's fence refused us: another owner acts.
    Fence,
    /// The API server does not answer.
    ApiAway,
    /// No such object.
    NotFound,
    /// The API refused the credentials or the request.
    Refused,
    /// kubectl failed otherwise.
    Failed,
    /// An answer that cannot be read.
    Unreadable,
}

/// The cluster's Kubernetes.
#[async_trait]
pub trait Kube: Send + Sync {
    /// All nodes, in one call.
    async fn nodes(&self, via: &Via) -> Result<Vec<KubeNode>, KubeError>;
    /// The pods of one node, all namespaces.
    async fn pods_on(&self, via: &Via, node: &str) -> Result<Vec<Pod>, KubeError>;
    /// All disruption budgets.
    async fn budgets(&self, via: &Via) -> Result<Vec<Budget>, KubeError>;
    /// All volume attachments, with the claims of their volumes.
    async fn volume_attachments(&self, via: &Via) -> Result<Vec<VolumeAttachment>, KubeError>;
    /// `kubectl cordon NODE`.
    async fn cordon(&self, via: &Via, node: &str) -> Result<(), KubeError>;
    /// `kubectl uncordon NODE`.
    async fn uncordon(&self, via: &Via, node: &str) -> Result<(), KubeError>;
    /// Starts `kubectl drain NODE --ignore-daemonsets --delete-emptydir-data --timeout=Ts` detached, unless
    /// that key ever began.
    async fn start_drain(
        &self,
        via: &Via,
        key: &RunKey,
        node: &str,
        timeout_secs: u64,
    ) -> Result<RunState, KubeError>;
    /// How far a drain is.
    async fn ask_drain(&self, via: &Via, key: &RunKey) -> Result<RunState, KubeError>;
    /// Waits for a drain, at most `limit`.
    async fn follow_drain(&self, via: &Via, key: &RunKey, limit: Duration) -> Result<RunState, KubeError>;
    /// Ends a drain.
    async fn stop_drain(&self, via: &Via, key: &RunKey) -> Result<RunState, KubeError>;
    /// Evicts one pod.
    async fn evict(&self, via: &Via, namespace: &str, name: &str) -> Result<Eviction, KubeError>;
    /// `kubectl delete node NODE --ignore-not-found`.
    async fn delete_node(&self, via: &Via, node: &str) -> Result<(), KubeError>;
    /// `kubeadm token create --ttl 2h --print-join-command`: the join command.
    async fn join_command(&self, via: &Via) -> Result<secrecy::SecretString, KubeError>;
    /// The kubeconfig of the cluster's administrator as it stands on the control node.
    async fn kubeconfig(&self, via: &Via) -> Result<secrecy::SecretString, KubeError>;
}
