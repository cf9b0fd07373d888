//! Talking to a cluster: its nodes over SSH, its Kubernetes through a control node.
//!
//! What this must not know: what is said.

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use secrecy::SecretString;
use tokio::sync::OnceCell;

use crate::domain::cluster::Role;
use crate::domain::id::VmId;
use crate::domain::observed::KubeNode;
use crate::domain::plan::resolve::Resolved;
use crate::jobs::rows::SshIdentity;
use crate::jobs::{OpCx, StepResult, fail};
use crate::ports::fault::{Effect, Retry};
use crate::ports::kube::{KubeError, KubeErrorKind, Via};
use crate::ports::shell::NodeTarget;

/// How one operation speaks with one cluster. Made anew in each pass, since it holds the private key.
pub struct Talk<'a> {
    /// The operation.
    pub cx: &'a OpCx,
    /// The longest pause between looks.
    pub poll_cap: Duration,
    identity: SshIdentity,
    members: Vec<Resolved>,
    nodes: OnceCell<Vec<KubeNode>>,
    join: OnceCell<SecretString>,
}

impl<'a> Talk<'a> {
    /// Reads how the cluster's nodes are reached.
    pub async fn open(cx: &'a OpCx, members: Vec<Resolved>, poll_cap: Duration) -> StepResult<Self> {
        let Some(identity) = cx.db().ssh_identity().await? else {
            return Err(fail(
                "no SSH user and key are recorded for the cluster: import it again",
            ));
        };
        Ok(Self {
            cx,
            poll_cap,
            identity,
            members,
            nodes: OnceCell::new(),
            join: OnceCell::new(),
        })
    }

    /// Where a member is reached and what it must prove.
    #[must_use]
    pub fn target(&self, member: &Resolved) -> Option<NodeTarget> {
        let endpoint = member.endpoint?;
        Some(NodeTarget {
            vm_id: member.vm_id,
            vm_name: member.vm_name.clone(),
            host: endpoint.address.to_string(),
            port: endpoint.port,
            user: self.identity.user.clone(),
            private_key: self.identity.private_key.clone(),
            host_keys: member.host_keys.clone(),
            addresses: member.addresses.clone(),
        })
    }

    /// A member.
    #[must_use]
    pub fn member(&self, vm_id: VmId) -> Option<&Resolved> {
        self.members.iter().find(|member| member.vm_id == vm_id)
    }

    /// The control nodes in map order, those that run first.
    pub fn control(&self) -> impl Iterator<Item = &Resolved> {
        let control = || self.members.iter().filter(|member| member.role == Role::Control);
        let runs = |member: &&Resolved| member.machine.running();
        control()
            .filter(runs)
            .chain(control().filter(move |member| !runs(member)))
    }

    /// The way through one control node.
    #[must_use]
    pub fn via(&self, control: &Resolved) -> Option<Via> {
        Some(Via {
            target: self.target(control)?,
            fence: self.cx.fence(),
        })
    }

    /// The way through a control node that was chosen before.
    #[must_use]
    pub fn via_of(&self, vm_id: VmId) -> Option<Via> {
        self.via(self.member(vm_id)?)
    }

    /// The first control node that is reached and proves itself.
    pub async fn reached(&self) -> Result<VmId, KubeError> {
        let mut last = no_control_node();
        for control in self.control() {
            let Some(target) = self.target(control) else {
                continue;
            };
            match self.cx.ports().shell.prove(&target).await {
                Ok(()) => return Ok(control.vm_id),
                Err(error) => {
                    last = KubeError {
                        text: format!("control node {}: {error}", control.node_name()),
                        kind: KubeErrorKind::ControlNode,
                        effect: Effect::DidNotHappen,
                        retry: error.retry,
                    };
                }
            }
        }
        Err(last)
    }

    /// Calls Kubernetes through the first control node that can be used; if one goes away, through the next.
    ///
    /// The way is passed by value: an async closure that borrows it cannot be proved to be `Send`.
    pub async fn kube<'f, T>(
        &self,
        call: impl Fn(Via) -> BoxFuture<'f, Result<T, KubeError>> + Send,
    ) -> Result<T, KubeError> {
        let mut last = no_control_node();
        for control in self.control() {
            let Some(via) = self.via(control) else { continue };
            match call(via).await {
                Err(error)
                    if error.kind == KubeErrorKind::ControlNode && error.effect == Effect::DidNotHappen =>
                {
                    last = KubeError {
                        text: format!("control node {}: {}", control.node_name(), error.text),
                        ..error
                    };
                }
                other => return other,
            }
        }
        Err(last)
    }

    /// All nodes, as they are now.
    pub async fn nodes(&self) -> Result<Vec<KubeNode>, KubeError> {
        let kube = &self.cx.ports().kube;
        self.kube(|via| async move { kube.nodes(&via).await }.boxed())
            .await
    }

    /// All nodes, listed once in this pass for all sequences that wait for one.
    pub async fn nodes_of_this_pass(&self) -> Result<&[KubeNode], KubeError> {
        self.nodes
            .get_or_try_init(|| self.nodes())
            .await
            .map(Vec::as_slice)
    }

    /// The command with which a new node joins. Never recorded: it holds a token. One per pass is enough.
    pub async fn join_command(&self) -> Result<&SecretString, KubeError> {
        let kube = &self.cx.ports().kube;
        self.join
            .get_or_try_init(|| self.kube(|via| async move { kube.join_command(&via).await }.boxed()))
            .await
    }
}

fn no_control_node() -> KubeError {
    KubeError {
        text: "no control node of the cluster can be reached: none has a known endpoint".to_owned(),
        kind: KubeErrorKind::ControlNode,
        effect: Effect::DidNotHappen,
        retry: Retry::Later,
    }
}
