//! ISOs in the drives of machines. A row of the ledger stands for each that we put in.
//!
//! What this must not know: what is on them.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;

use super::machine::{Asked, again_before_deadline, look, wait_done};
use super::trouble::look_again;
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

/// How long the ISO is tried to be taken out, before it is left in the ledger.
const DETACH_LIMIT: Duration = Duration::from_mins(1);

/// Asks the cloud to take the ISO out again. What cannot be asked in time stays in the ledger.
pub async fn ask_detach(cx: &OpCx, vm_id: VmId, since: Timestamp) -> StepResult<Asked> {
    let now = cx.now();
    let asked = match look(cx, vm_id).await {
        Ok(Some(machine)) if machine.iso_id.is_some() => cx.ports().cloud.detach_iso(vm_id).await,
        Ok(_) => return Ok(Asked::already(now)),
        Err(error) => Err(error),
    };
    match asked {
        Ok(job) => Ok(Asked {
            at: now,
            job: Some(job),
            refused: None,
        }),
        Err(error) => {
            let reason = format!("the ISO cannot be detached yet: {error}");
            match look_again(reason, since, now, since + DETACH_LIMIT, DETACH_LIMIT / 10) {
                Some(again) => Err(again),
                None => Ok(Asked {
                    at: now,
                    job: None,
                    refused: Some(error.to_string()),
                }),
            }
        }
    }
}

/// Follows a detach; the ledger row goes when it is done.
pub async fn wait_detached(cx: &OpCx, vm_id: VmId, asked: &Asked, cap: Duration) -> StepResult<bool> {
    let until = asked.at + DETACH_LIMIT;
    let done = wait_done(cx, asked, "the ISO is being detached", until, cap)
        .await?
        .is_ok();
    if done {
        cx.db().ledger_drop(LedgerKind::Iso, &vm_id.to_string()).await?;
    }
    Ok(done)
}
