//! Proving once more that a node may be deleted, right before it is (`behaviour.md` 6.7).
//!
//! What this must not know: how it is deleted.
//!
//! A job that is resumed after hours must not trust its journal: between the drain and now somebody may have
//! made the node schedulable again, or started its machine.

use futures_util::FutureExt;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::attempt::witness;
use super::talk::Talk;
use super::trouble::look_again;
use crate::domain::observed::{KubeNode, Pod};
use crate::domain::plan::choice::is_down;
use crate::domain::plan::drain::would_move;
use crate::domain::plan::scale::{Leave, Removal};
use crate::jobs::StepResult;
use crate::ports::kube::Eviction;

/// How long a node that cannot be looked at is asked about.
const LOOK_LIMIT: Duration = Duration::from_mins(1);
/// How long a pod that came back and was evicted once more is waited for.
const EVICTION_LIMIT: Duration = Duration::from_secs(30);

/// What the last look says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Proof {
    /// It may go. These pods tolerate the cordon and came back.
    Proved {
        /// UIDs and names of the pods to evict once more.
        came_back: Vec<(String, String, String)>,
    },
    /// It may not.
    Refused(String),
}

/// Looks at a node for the last time.
pub async fn look(talk: &Talk<'_>, removal: &Removal, since: Timestamp) -> StepResult<Proof> {
    match seen(talk, removal).await {
        Ok(proof) => Ok(proof),
        Err(text) => {
            let text = format!("node {} cannot be proved drained: {text}", removal.node);
            match look_again(
                text.clone(),
                since,
                talk.cx.now(),
                since + LOOK_LIMIT,
                Duration::from_secs(5),
            ) {
                Some(again) => Err(again),
                None => Ok(Proof::Refused(text)),
            }
        }
    }
}

async fn seen(talk: &Talk<'_>, removal: &Removal) -> Result<Proof, String> {
    let kube = &talk.cx.ports().kube;
    let pods = async {
        match removal.leave {
            Leave::Down => Ok(Vec::new()),
            Leave::Drained | Leave::NodeGone => {
                talk.kube(|via| async move { kube.pods_on(&via, &removal.node).await }.boxed())
                    .await
            }
        }
    };
    // Together: both are one look.
    let (nodes, pods) = futures_util::future::join(talk.nodes(), pods).await;
    let nodes = nodes.map_err(|error| error.text)?;
    let node = nodes.iter().find(|node| node.name == removal.node);
    if removal.leave == Leave::Down {
        return Ok(down(talk, removal, node).await);
    }
    let Some(node) = node else {
        return Ok(proved(Vec::new()));
    };
    if !node.unschedulable {
        return Ok(Proof::Refused(format!(
            "node {} is schedulable again",
            removal.node
        )));
    }
    Ok(proved(pods.map_err(|error| error.text)?))
}

fn proved(pods: Vec<Pod>) -> Proof {
    Proof::Proved {
        came_back: pods
            .into_iter()
            .filter(would_move)
            .map(|pod| (pod.uid, pod.namespace, pod.name))
            .collect(),
    }
}

async fn down(talk: &Talk<'_>, removal: &Removal, node: Option<&KubeNode>) -> Proof {
    let machine = witness(talk, removal.vm_id).await;
    if is_down(&machine, node) {
        return proved(Vec::new());
    }
    let ready = node.is_some_and(|node| node.ready);
    Proof::Refused(format!(
        "VM {} was down and is {} now, its node {} is {}",
        removal.vm(),
        machine.words(),
        removal.node,
        if ready { "Ready" } else { "not Ready" }
    ))
}

/// Evicts pods that came back, once, and waits until those very pods are gone. A budget that holds one is
/// respected: then the node may not go.
pub async fn evict_again(
    talk: &Talk<'_>,
    node: &str,
    came_back: &[(String, String, String)],
    since: Timestamp,
) -> StepResult<Proof> {
    let cx = talk.cx;
    let kube = &cx.ports().kube;
    let Ok(pods) = talk
        .kube(|via| async move { kube.pods_on(&via, node).await }.boxed())
        .await
    else {
        return again_or(talk, node, "cannot be looked at", since);
    };
    let here: Vec<&Pod> = pods
        .iter()
        .filter(|pod| came_back.iter().any(|(uid, ..)| *uid == pod.uid))
        .collect();
    if here.is_empty() {
        return Ok(Proof::Proved {
            came_back: Vec::new(),
        });
    }
    for pod in here.iter().filter(|pod| pod.deleting_since.is_none()) {
        let evicted = talk
            .kube(|via| async move { kube.evict(&via, &pod.namespace, &pod.name).await }.boxed())
            .await;
        if let Ok(Eviction::Blocked(text)) = evicted {
            let reason = format!(
                "pod {}/{} came back and cannot be evicted: {text}",
                pod.namespace, pod.name
            );
            return again_or(talk, node, &reason, since);
        }
    }
    again_or(talk, node, "has pods that came back and do not end", since)
}

#[track_caller]
fn again_or(talk: &Talk<'_>, node: &str, what: &str, since: Timestamp) -> StepResult<Proof> {
    let text = format!("node {node}: {what}");
    match look_again(
        text.clone(),
        since,
        talk.cx.now(),
        since + EVICTION_LIMIT,
        talk.poll_cap,
    ) {
        Some(again) => Err(again),
        None => Ok(Proof::Refused(text)),
    }
}
