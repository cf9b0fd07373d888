//! Taking nodes out for good: node object, machine, map entry, rules (`behaviour.md` 6.7).
//!
//! What this must not know: how the nodes were chosen and drained.
//!
//! Once the node has left Kubernetes its machine has left the cluster: the map entry goes whatever becomes of
//! the machine, since an entry without a node would hold the cluster in Alert for ever.

use futures_util::FutureExt;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;

use super::drain::settings;
use super::kubelet;
use super::machine::{self, Destroyed, Expunged, Following};
use super::proof::{self, Proof};
use super::rules;
use super::talk::Talk;
use super::together::together;
use crate::domain::event::{Level, Stage};
use crate::domain::id::VmId;
use crate::domain::job::time_left;
use crate::domain::plan::rules::leaving_with;
use crate::domain::plan::scale::Removal;
use crate::domain::settings::EXPUNGE_WAIT;
use crate::jobs::rows::{FencedTx, LedgerKind};
use crate::jobs::{StepResult, wait};

/// How many nodes leave at the same time, at most.
const TOGETHER: usize = 10;
/// Tries of `kubectl delete node`.
pub(super) const DELETE_TRIES: u32 = 5;
/// The pause between them.
pub(super) const DELETE_PAUSE: Duration = Duration::from_secs(10);
/// The time of one node's removal, from when it begins.
const NODE_LIMIT: Duration = Duration::from_mins(10);

/// What came of taking one node out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Removed {
    /// It is out.
    Out,
    /// It may not go, and is still in.
    Unproved(String),
    /// It is out, but not everything of it; the operation fails.
    OutWith(String),
    /// It is still in; the operation fails.
    StillIn(String),
}

impl Removed {
    /// Why the operation fails, if it does.
    #[must_use]
    pub fn fault(&self) -> Option<&str> {
        match self {
            Self::Out => None,
            Self::Unproved(text) | Self::OutWith(text) | Self::StillIn(text) => Some(text),
        }
    }
}

/// What the removals have in common.
#[derive(Debug, Clone, Copy)]
pub struct Removing<'a> {
    /// The cluster in texts.
    pub cluster: &'a str,
    /// The port by which the cluster is reached; its rule never goes.
    pub reached_at: Option<u16>,
    /// Which round of proof this is, for the first node.
    pub round: u32,
}

/// Takes nodes out: the first alone until its machine is destroyed, then the others, at most ten together.
/// After a failure no further removal is begun; those under way finish.
pub async fn remove_all(
    talk: &Talk<'_>,
    removals: &[Removal],
    removing: Removing<'_>,
) -> StepResult<Vec<Removed>> {
    let Some((first, others)) = removals.split_first() else {
        return Ok(Vec::new());
    };
    let begun = delete(talk, first, removing).await?;
    let destroyed = match &begun {
        Removed::Out => destroy(talk, first).await?,
        _ => return Ok(vec![begun]),
    };
    if let Destroyed::No { .. } = destroyed {
        return Ok(vec![Box::pin(clear_up(talk, first, destroyed, removing)).await?]);
    }
    let mut done = Vec::new();
    let chunks: Vec<&[Removal]> = if others.is_empty() {
        vec![&[]]
    } else {
        others.chunks(TOGETHER).collect()
    };
    let mut destroyed = Some(destroyed);
    for chunk in chunks {
        // The rest of the first one's removal goes on beside the first of the others.
        let rest = destroyed.take().map(|destroyed| Sequence::Rest(first, destroyed));
        let sequences = rest.into_iter().chain(chunk.iter().map(Sequence::Whole));
        let ended = together(sequences.map(|one| Box::pin(carry_out(talk, one, removing)))).await?;
        done.extend(
            ended
                .into_iter()
                .map(|end| end.unwrap_or_else(|f| Removed::StillIn(f.text))),
        );
        if done.iter().any(|one| one.fault().is_some()) {
            break;
        }
    }
    Ok(done)
}

enum Sequence<'a> {
    Rest(&'a Removal, Destroyed),
    Whole(&'a Removal),
}

async fn carry_out(talk: &Talk<'_>, sequence: Sequence<'_>, removing: Removing<'_>) -> StepResult<Removed> {
    match sequence {
        Sequence::Rest(removal, destroyed) => clear_up(talk, removal, destroyed, removing).await,
        Sequence::Whole(removal) => {
            let begun = delete(talk, removal, removing).await?;
            if begun != Removed::Out {
                return Ok(begun);
            }
            let destroyed = destroy(talk, removal).await?;
            clear_up(talk, removal, destroyed, removing).await
        }
    }
}

/// Proves the node once more, then deletes it from Kubernetes.
async fn delete(talk: &Talk<'_>, removal: &Removal, removing: Removing<'_>) -> StepResult<Removed> {
    let cx = talk.cx;
    let node = removal.node.as_str();
    let subject = if removing.round == 1 {
        node.to_owned()
    } else {
        format!("{node}#{}", removing.round)
    };
    cx.progress("remove", Some(node), None);
    let since = cx.step("removal_begun", &subject, async { Ok(cx.now()) }).await?;
    let proof = cx
        .step("prove", &subject, proof::look(talk, removal, since))
        .await?;
    let proof = match proof {
        Proof::Proved { came_back } if !came_back.is_empty() => {
            let names: Vec<String> = came_back
                .iter()
                .map(|(_, space, name)| format!("{space}/{name}"))
                .collect();
            let text = format!(
                "Pods that tolerate the cordon came back to node {node} and are evicted once more: {}",
                names.join(", ")
            );
            say(talk, "came_back", &subject, Level::Warn, &text).await?;
            let begun = cx.step("evict_begun", &subject, async { Ok(cx.now()) }).await?;
            cx.step(
                "evict_again",
                &subject,
                proof::evict_again(talk, node, &came_back, begun),
            )
            .await?
        }
        other => other,
    };
    if let Proof::Refused(text) = proof {
        return Ok(Removed::Unproved(text));
    }
    let mut last = String::new();
    for number in 1..=DELETE_TRIES {
        let subject = format!("{node}#{number}");
        match cx.step("delete_node", &subject, delete_once(talk, node)).await? {
            Ok(()) => return Ok(Removed::Out),
            Err((at, text)) => {
                last = text;
                if number < DELETE_TRIES {
                    cx.step("delete_pause", &subject, async { pause(talk, node, at) })
                        .await?;
                }
            }
        }
    }
    Ok(Removed::StillIn(format!(
        "unable to delete Kubernetes node: {node} on VM: {}: {last}. The VM was not touched and the node is still \
         a member",
        removal.vm()
    )))
}

pub(super) async fn delete_once(talk: &Talk<'_>, node: &str) -> StepResult<Result<(), (Timestamp, String)>> {
    let kube = &talk.cx.ports().kube;
    let deleted = talk
        .kube(|via| async move { kube.delete_node(&via, node).await }.boxed())
        .await;
    Ok(deleted.map_err(|error| (talk.cx.now(), error.text)))
}

fn pause(talk: &Talk<'_>, node: &str, since: Timestamp) -> StepResult<()> {
    let left = time_left(talk.cx.now(), since + DELETE_PAUSE);
    if left.is_zero() {
        return Ok(());
    }
    Err(wait(format!("the next try to delete node {node}"), left))
}

/// Destroys the machine, without expunge.
pub async fn destroy(talk: &Talk<'_>, removal: &Removal) -> StepResult<Destroyed> {
    let cx = talk.cx;
    let subject = removal.vm_name.as_str();
    let since = cx.step("destroy_begun", subject, async { Ok(cx.now()) }).await?;
    let until = since + NODE_LIMIT;
    let asked = cx
        .step("destroy", subject, machine::ask_destroy(cx, removal.vm_id, until))
        .await?;
    let what = format!("VM {} is being destroyed", removal.vm());
    let following = Following {
        what: &what,
        since,
        until,
        cap: talk.poll_cap,
    };
    cx.step(
        "destroyed",
        subject,
        machine::wait_destroyed(cx, removal.vm_id, &asked, following),
    )
    .await
}

/// All that follows: expunge, map entry, rules. The entry goes whatever became of the machine.
pub(super) async fn clear_up(
    talk: &Talk<'_>,
    removal: &Removal,
    destroyed: Destroyed,
    removing: Removing<'_>,
) -> StepResult<Removed> {
    let cx = talk.cx;
    let subject = removal.vm_name.as_str();
    let mut faults = Vec::new();
    match destroyed {
        Destroyed::Yes { gone } => {
            let expunged = if gone {
                Expunged::Yes
            } else {
                expunge(talk, removal).await?
            };
            cx.commit("drop_member", subject, async |tx| {
                forget(tx, removal).await?;
                expunge_outcome(tx, removal, &expunged, removing.cluster).await
            })
            .await?;
        }
        Destroyed::No { state, cause } => {
            kubelet::stop(talk, removal).await?;
            cx.commit("drop_member", subject, async |tx| {
                forget(tx, removal).await?;
                let detail = json!({ "name": removal.vm_name, "state": state, "destroy_refused": true });
                Ok(tx
                    .ledger_put(LedgerKind::Vm, &removal.vm_id.to_string(), &detail)
                    .await?)
            })
            .await?;
            faults.push(format!(
                "unable to destroy VM {} (left in state {state}): {cause}. Its node was removed from the Kubernetes \
                 cluster and the VM is no longer part of the cluster; it may still be running and has to be \
                 destroyed manually",
                removal.vm()
            ));
        }
    }
    faults.extend(drop_rules(talk, removal.vm_id, subject, removing.reached_at).await?);
    cx.node_done(&removal.node);
    Ok(if faults.is_empty() {
        Removed::Out
    } else {
        Removed::OutWith(faults.join("; "))
    })
}

async fn forget(tx: &mut FencedTx<'_>, removal: &Removal) -> StepResult<()> {
    tx.drop_member(removal.vm_id).await?;
    tx.ledger_drop(LedgerKind::Cordon, &removal.node).await?;
    Ok(())
}

async fn expunge(talk: &Talk<'_>, removal: &Removal) -> StepResult<Expunged> {
    let cx = talk.cx;
    let subject = removal.vm_name.as_str();
    let begin = async { Ok(cx.now() + Duration::from_secs(settings(cx).await?.seconds(&EXPUNGE_WAIT))) };
    let until = cx.step("expunge_until", subject, begin).await?;
    let asked = cx
        .step(
            "expunge",
            subject,
            machine::ask_expunge(cx, removal.vm_id, subject, until),
        )
        .await?;
    let work = async {
        let patience = Duration::from_secs(settings(cx).await?.seconds(&EXPUNGE_WAIT));
        machine::wait_expunged(cx, removal.vm_id, &asked, patience, talk.poll_cap).await
    };
    cx.step("expunged", subject, work).await
}

async fn expunge_outcome(
    tx: &mut FencedTx<'_>,
    removal: &Removal,
    expunged: &Expunged,
    cluster: &str,
) -> StepResult<()> {
    let vm = removal.vm();
    match expunged {
        Expunged::Yes => {
            tx.ledger_drop(LedgerKind::Expunge, &removal.vm_id.to_string())
                .await?;
        }
        Expunged::Later => {
            let text = format!(
                "VM {vm} of the node removed from Kubernetes cluster {cluster} is still being expunged; it is no \
                 longer part of the cluster, and the expunge is followed in the background"
            );
            tx.event(Level::Info, Stage::Completed, &text).await?;
        }
        Expunged::Failed { state, cause } => {
            let text = format!(
                "Unable to expunge VM {vm} of the node removed from Kubernetes cluster {cluster}: {cause}. The VM is \
                 no longer part of the cluster and is left in state {state}; the expunge is retried in the \
                 background. Until it is expunged it keeps the cluster's network in use, and the cluster can't be \
                 deleted with its network"
            );
            tx.event(Level::Warn, Stage::Completed, &text).await?;
        }
    }
    Ok(())
}

/// Drops our rules of a machine that left. Says what could not be dropped.
pub async fn drop_rules(
    talk: &Talk<'_>,
    vm_id: VmId,
    subject: &str,
    reached_at: Option<u16>,
) -> StepResult<Vec<String>> {
    let cx = talk.cx;
    let since = cx
        .step("drop_rules_begun", subject, async { Ok(cx.now()) })
        .await?;
    let ask = async {
        let leaving = leaving_with(&rules::own(cx).await?, vm_id, reached_at);
        rules::ask_drop(cx, &leaving, since).await
    };
    let dropping = cx.step("drop_rules", subject, ask).await?;
    cx.step(
        "rules_dropped",
        subject,
        rules::wait_dropped(cx, &dropping, talk.poll_cap),
    )
    .await
}

/// Writes a remark as an event, once.
pub async fn say(
    talk: &Talk<'_>,
    name: &'static str,
    subject: &str,
    level: Level,
    text: &str,
) -> StepResult<()> {
    talk.cx
        .commit(name, subject, async |tx| {
            Ok(tx.event(level, Stage::Completed, text).await?)
        })
        .await
}
