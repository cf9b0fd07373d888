//! Cordoning the nodes that leave, and giving back what we cordoned (`behaviour.md` 6.3 and 6.6).
//!
//! What this must not know: why they leave.
//!
//! **Invariant:** a cordon is ours only when its ledger row was written *before* the cordon was sent. A node
//! that was cordoned already, or whose state could not be read, has no row and stays cordoned.

use futures_util::FutureExt;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;

use super::talk::Talk;
use super::trouble::{Trouble, ended_text, look_again};
use crate::domain::job::time_left;
use crate::jobs::rows::LedgerKind;
use crate::jobs::{Failure, OpCx, StepError, StepResult, fail, wait};

/// How long a rollback tries to uncordon, from the time at which it began.
pub const GIVE_BACK_LIMIT: Duration = Duration::from_mins(5);
/// How long the state before the cordons is asked for, before it counts as unreadable.
const READ_LIMIT: Duration = Duration::from_secs(5);

/// Cordons all `nodes`, one after the other, before any is drained.
///
/// # Errors
/// `Fail` with the node that could not be cordoned.
pub async fn cordon_all(talk: &Talk<'_>, nodes: &[(String, String)]) -> StepResult<()> {
    let cx = talk.cx;
    let since = cx.step("cordon_begun", "", async { Ok(cx.now()) }).await?;
    let before = cx.step("cordoned_before", "", look_before(talk, since)).await?;
    for (node, vm) in nodes {
        cx.progress("cordon", Some(node), None);
        let ours = before.get(node) == Some(&Some(false));
        cx.step("cordon", node, cordon(talk, node, vm, ours)).await?;
    }
    Ok(())
}

/// Whether each node was schedulable before we touched any; a node that is not in it could not be read. A
/// cordon that an earlier operation left to us counts as schedulable: it is ours.
async fn look_before(talk: &Talk<'_>, since: Timestamp) -> StepResult<BTreeMap<String, Option<bool>>> {
    let left_to_us = ours(talk.cx).await?;
    match talk.nodes().await {
        Ok(nodes) => Ok(nodes
            .into_iter()
            .map(|node| {
                let unschedulable = node.unschedulable && !left_to_us.contains(&node.name);
                (node.name, Some(unschedulable))
            })
            .collect()),
        Err(error) => {
            let (now, until) = (talk.cx.now(), since + READ_LIMIT);
            match look_again(error.text, since, now, until, talk.poll_cap) {
                Some(again) => Err(again),
                None => Ok(BTreeMap::new()),
            }
        }
    }
}

async fn cordon(talk: &Talk<'_>, node: &str, vm: &str, ours: bool) -> StepResult<()> {
    let cx = talk.cx;
    if let Some(reason) = cx.ended() {
        return Err(fail(ended_text(reason, &format!("node {node} was not cordoned"))));
    }
    if ours {
        cx.db()
            .ledger_put(LedgerKind::Cordon, node, &json!({ "vm": vm }))
            .await?;
    }
    let kube = &cx.ports().kube;
    talk.kube(|via| async move { kube.cordon(&via, node).await }.boxed())
        .await
        .map_err(|error| {
            let mut trouble = Trouble::from(error);
            trouble.text = format!(
                "unable to cordon Kubernetes node: {node} on VM: {vm}: {}",
                trouble.text
            );
            trouble.before_deadline(cx)
        })
}

/// The nodes that are cordoned by us, by the ledger.
pub async fn ours(cx: &OpCx) -> StepResult<BTreeSet<String>> {
    let rows = cx.db().ledger_list().await?;
    Ok(rows
        .into_iter()
        .filter(|row| row.kind == LedgerKind::Cordon)
        .map(|row| row.subject)
        .collect())
}

/// What came of giving back.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GivenBack {
    /// Schedulable again.
    pub uncordoned: Vec<String>,
    /// Still cordoned, left in the ledger, each with the reason.
    pub left: Vec<String>,
}

/// Uncordons those of `nodes` that we cordoned. What cannot be uncordoned in time is named and stays in the
/// ledger; it never fails.
pub async fn give_back(talk: &Talk<'_>, nodes: &[String]) -> StepResult<GivenBack> {
    let cx = talk.cx;
    let since = cx.step("give_back_begun", "", async { Ok(cx.now()) }).await?;
    let owned: BTreeSet<String> = cx.step("give_back_nodes", "", ours(cx)).await?;
    let mut given = GivenBack::default();
    for node in nodes.iter().filter(|node| owned.contains(*node)) {
        cx.progress("uncordon", Some(node), None);
        match cx.step("uncordon", node, uncordon(talk, node, since)).await {
            Ok(()) => given.uncordoned.push(node.clone()),
            Err(StepError::Fail(Failure { text, .. })) => given.left.push(format!("{node}: {text}")),
            Err(other) => return Err(other),
        }
    }
    Ok(given)
}

async fn uncordon(talk: &Talk<'_>, node: &str, since: Timestamp) -> StepResult<()> {
    let cx = talk.cx;
    let kube = &cx.ports().kube;
    let gone = |kind| kind == crate::ports::kube::KubeErrorKind::NotFound;
    match talk
        .kube(|via| async move { kube.uncordon(&via, node).await }.boxed())
        .await
    {
        Ok(()) => {}
        // A node that is gone needs no uncordon.
        Err(error) if gone(error.kind) => {}
        Err(error) => {
            let left = time_left(cx.now(), since + GIVE_BACK_LIMIT);
            if left.is_zero() {
                return Err(fail(error.text));
            }
            let pause = super::trouble::next_look(since, cx.now(), Duration::from_secs(10));
            return Err(wait(
                format!("node {node} cannot be uncordoned yet: {}", error.text),
                pause.min(left),
            ));
        }
    }
    cx.db().ledger_drop(LedgerKind::Cordon, node).await?;
    Ok(())
}

/// Cordons a node once more after somebody made it schedulable. The new cordon is ours.
pub async fn again(talk: &Talk<'_>, node: &str, vm: &str) -> StepResult<()> {
    let nodes = talk
        .nodes()
        .await
        .map_err(|error| Trouble::from(error).before_deadline(talk.cx))?;
    let schedulable = nodes.iter().any(|one| one.name == node && !one.unschedulable);
    cordon(talk, node, vm, schedulable).await
}
