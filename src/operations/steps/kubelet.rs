//! Stopping the kubelet of a machine that left the cluster and still runs.
//!
//! What this must not know: why it still runs.

use std::time::Duration;

use serde_json::json;

use super::talk::Talk;
use crate::domain::plan::scale::Removal;
use crate::jobs::StepResult;
use crate::jobs::rows::LedgerKind;
use crate::ports::shell::{Access, Command};

/// A machine that could not be destroyed may still run its kubelet, which would register the node again.
pub async fn stop(talk: &Talk<'_>, removal: &Removal) -> StepResult<()> {
    let cx = talk.cx;
    let work = async {
        let Some(target) = talk.member(removal.vm_id).and_then(|member| talk.target(member)) else {
            return Ok(());
        };
        let subject = removal.vm_id.to_string();
        cx.db()
            .ledger_put(LedgerKind::Host, &subject, &json!({ "name": removal.vm_name }))
            .await?;
        let command = Command::new(["sudo", "systemctl", "disable", "--now", "kubelet"]);
        let limit = Duration::from_secs(30);
        let stopped = cx
            .ports()
            .shell
            .exec(&target, cx.fence(), Access::Changes, &command, limit)
            .await;
        if stopped.is_ok_and(|output| output.ok()) {
            cx.db().ledger_drop(LedgerKind::Host, &subject).await?;
        }
        Ok(())
    };
    cx.step("stop_kubelet", &removal.vm_name, work).await
}
