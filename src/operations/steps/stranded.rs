//! Machines that were made and whose nodes never became Ready: taken out again (`behaviour.md` 7).
//!
//! What this must not know: why they never became Ready. A node that was ever Ready never comes here.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::remove::{DELETE_PAUSE, DELETE_TRIES, Removed, Removing, clear_up, delete_once, destroy};
use super::talk::Talk;
use crate::domain::id::VmId;
use crate::domain::plan::choice::Reason;
use crate::domain::plan::scale::{Leave, Removal};
use crate::jobs::{StepResult, wait};

/// A removal for a machine whose node never became Ready: nothing to prove, nothing to drain.
#[must_use]
pub fn of_stranded(vm_id: VmId, name: &str) -> Removal {
    Removal {
        vm_id,
        vm_name: name.to_owned(),
        node: name.to_owned(),
        reason: Reason::NotReady,
        leave: Leave::NodeGone,
    }
}

/// The outcome of `kubectl delete node` for a node that never became Ready.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stranded(pub Option<String>);

/// Takes out a machine that never became a Ready node.
pub async fn remove_stranded(talk: &Talk<'_>, removal: &Removal, cluster: &str) -> StepResult<Removed> {
    let cx = talk.cx;
    let begun = cx
        .step("stranded_begun", &removal.vm_name, async { Ok(cx.now()) })
        .await?;
    let gone = async {
        match delete_once(talk, &removal.node).await? {
            Ok(()) => Ok(Stranded(None)),
            Err((at, text)) if at > begun + DELETE_PAUSE * DELETE_TRIES => Ok(Stranded(Some(text))),
            Err((_, text)) => Err(wait(text, DELETE_PAUSE.min(Duration::from_secs(2)))),
        }
    };
    let Stranded(left) = cx.step("delete_stranded", &removal.vm_name, gone).await?;
    let destroyed = destroy(talk, removal).await?;
    let removing = Removing {
        cluster,
        reached_at: None,
        round: 1,
    };
    let removed = clear_up(talk, removal, destroyed, removing).await?;
    Ok(match (removed, left) {
        (Removed::Out, Some(text)) => Removed::OutWith(format!("its node object is left: {text}")),
        (removed, _) => removed,
    })
}
