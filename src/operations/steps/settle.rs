//! What an operation leaves behind: true counts, and a state by evidence (`behaviour.md` 3 and 6.8).
//!
//! What this must not know: which operation it settles.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::plan::{look, resolve_all};
use crate::domain::cluster::Event;
use crate::domain::id::VmId;
use crate::domain::plan::scale::ScalePlan;
use crate::domain::plan::settle::{Evidence, UpgradeRecord, judge, unfinished_upgrade};
use crate::jobs::rows::{Counts, LedgerKind, UPGRADE_SEMANTIC, UPGRADE_TARGET};
use crate::jobs::{Failure, OpCx, Settlement, StepError, StepResult, Transition};

/// What the settling step saw. Stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sight {
    /// Everything is as it should be.
    pub healthy: bool,
    /// In words.
    pub reason: String,
}

/// Brings counts, cores and memory in line with the map, once.
pub async fn true_counts(cx: &OpCx, plan: &ScalePlan, resized: &BTreeSet<VmId>) -> StepResult<()> {
    cx.commit("counts", "", async |tx| {
        let map = tx.members().await?;
        let counts = plan.counts(&map, resized);
        Ok(tx
            .set_counts(Counts {
                control: counts.control,
                workers: counts.workers,
                etcd: counts.etcd,
                cores: counts.cores,
                memory_mb: counts.memory_mb,
            })
            .await?)
    })
    .await
}

/// Looks once at everything, and keeps what it saw.
pub async fn by_evidence(cx: &OpCx, poll_cap: Duration) -> StepResult<Sight> {
    let since = cx.step("evidence_begun", "", async { Ok(cx.now()) }).await?;
    cx.step("evidence", "", sight(cx, poll_cap, since)).await
}

/// What can be seen now. An outside that does not answer is no evidence of health.
pub async fn sight(cx: &OpCx, poll_cap: Duration, since: Timestamp) -> StepResult<Sight> {
    match Box::pin(seen(cx, poll_cap, since)).await {
        Err(StepError::Fail(failure)) => Ok(Sight {
            healthy: false,
            reason: format!("the cluster could not be looked at: {}", failure.text),
        }),
        other => other,
    }
}

async fn seen(cx: &OpCx, poll_cap: Duration, since: Timestamp) -> StepResult<Sight> {
    let seen = look(cx, since).await?;
    let (resolved, nodes) = resolve_all(cx, &seen, poll_cap, since).await?;
    let record = upgrade_record(cx).await?;
    let own_version = seen.cluster.semantic_version.as_deref();
    let upgrade = unfinished_upgrade(record.as_ref(), own_version, &seen.members, &resolved, &nodes);
    let verdict = judge(Evidence {
        cluster: &seen.cluster,
        members: &seen.members,
        resolved: &resolved,
        nodes: &nodes,
        unfinished_upgrade: upgrade.as_deref(),
    });
    Ok(Sight {
        healthy: verdict.healthy(),
        reason: verdict.reason(),
    })
}

async fn upgrade_record(cx: &OpCx) -> StepResult<Option<UpgradeRecord>> {
    let Some(target) = cx.db().detail(UPGRADE_TARGET).await? else {
        return Ok(None);
    };
    let semantic = cx.db().detail(UPGRADE_SEMANTIC).await?;
    let script_started = cx
        .db()
        .ledger_list()
        .await?
        .iter()
        .any(|row| row.kind == LedgerKind::Script);
    Ok(Some(UpgradeRecord {
        target: semantic.unwrap_or(target),
        script_started,
    }))
}

impl Sight {
    /// The end of an operation whose outcome is this, with the state by evidence.
    #[must_use]
    pub fn settlement(self, outcome: Result<String, Failure>) -> Settlement {
        let event = if self.healthy {
            Event::OperationSucceeded
        } else {
            Event::OperationFailed
        };
        let end = match outcome {
            Ok(text) => Settlement::succeeded(text),
            Err(failure) => Settlement::failed(Transition::On(event), failure),
        };
        Settlement {
            transition: Transition::On(event),
            ..end.because(self.reason)
        }
    }
}
