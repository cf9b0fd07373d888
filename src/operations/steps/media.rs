//! ISOs in the drives of machines. A row of the ledger stands for each that we put in.
//!
//! What this must not know: what is on them.

use std::time::Duration;

use serde_json::json;

use super::machine::{Asked, again_before_deadline, look, wait_done};
use crate::domain::id::{IsoId, VmId};
use crate::jobs::rows::LedgerKind;
use crate::jobs::{OpCx, StepResult};

/// Asks the cloud to put an ISO into a machine's drive. The ledger row stands before.
pub async fn ask_attach(cx: &OpCx, vm_id: VmId, iso: IsoId) -> StepResult<Asked> {
    let now = cx.now();
    match look(cx, vm_id).await {
        Ok(Some(machine)) if machine.iso_id == Some(iso) => {
            cx.db()
                .ledger_put(LedgerKind::Iso, &vm_id.to_string(), &json!({ "iso": iso }))
                .await?;
            return Ok(Asked::already(now));
        }
        Ok(_) => {}
        Err(error) => return again_before_deadline(cx, &error),
    }
    cx.db()
        .ledger_put(LedgerKind::Iso, &vm_id.to_string(), &json!({ "iso": iso }))
        .await?;
    match cx.ports().cloud.attach_iso(vm_id, iso).await {
        Ok(job) => Ok(Asked {
            at: now,
            job: Some(job),
            refused: None,
        }),
        Err(error) => again_before_deadline(cx, &error),
    }
}

/// Asks the cloud to take the ISO out again. What cannot be asked stays in the ledger.
pub async fn ask_detach(cx: &OpCx, vm_id: VmId) -> StepResult<Asked> {
    let now = cx.now();
    match look(cx, vm_id).await {
        Ok(Some(machine)) if machine.iso_id.is_some() => {}
        Ok(_) => return Ok(Asked::already(now)),
        Err(error) => {
            return Ok(Asked {
                at: now,
                job: None,
                refused: Some(error.to_string()),
            });
        }
    }
    match cx.ports().cloud.detach_iso(vm_id).await {
        Ok(job) => Ok(Asked {
            at: now,
            job: Some(job),
            refused: None,
        }),
        Err(error) => Ok(Asked {
            at: now,
            job: None,
            refused: Some(error.to_string()),
        }),
    }
}

/// Follows a detach; the ledger row goes when it is done.
pub async fn wait_detached(cx: &OpCx, vm_id: VmId, asked: &Asked, cap: Duration) -> StepResult<bool> {
    let until = asked.at + Duration::from_mins(1);
    let done = wait_done(cx, asked, "the ISO is being detached", until, cap)
        .await?
        .is_ok();
    if done {
        cx.db().ledger_drop(LedgerKind::Iso, &vm_id.to_string()).await?;
    }
    Ok(done)
}
