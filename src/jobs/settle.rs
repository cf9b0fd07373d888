//! How a job ends: one fenced transaction for the cluster's state, the job, its event and what it still owes.

use serde_json::{Value, json};
use sqlx::{Connection, PgConnection};

use super::cx::OpCx;
use super::operation::{ResultView, Settlement, Transition, UpgradeRecord};
use super::step::chain;
use crate::db::{Cas, DbError, Expected, FencedError, clusters, details, jobs, ledger};
use crate::domain::event::{Level, Stage};
use crate::domain::job::{Failure, JobStatus, operation_object};

/// Ends the job. Nothing is written unless all of it is.
pub(crate) async fn settle(
    cx: &OpCx,
    view: &dyn ResultView,
    settlement: &Settlement,
) -> Result<JobStatus, FencedError> {
    let progress = cx.take_progress();
    let deadline = Some(cx.job.deadline);
    let mut tx = cx.db.open().await?;
    let mut outcome = settlement.outcome.clone();
    if cx.job.cluster_key != 0
        && let Err(refused) = move_cluster(cx, tx.conn(), settlement).await?
    {
        outcome = Err(refused);
    }
    let (status, code, result) = match &outcome {
        Ok(_) => {
            let operation = operation_object(Some(&progress), None, deadline);
            (
                JobStatus::Succeeded,
                0,
                render(cx, tx.conn(), view, &operation).await?,
            )
        }
        Err(failure) => (JobStatus::Failed, failure.code, failure.to_result()),
    };
    ledger::to_leftovers(tx.conn(), cx.job.id).await?;
    let (level, text) = match &outcome {
        Ok(text) => (Level::Info, text),
        Err(failure) => (Level::Error, &failure.text),
    };
    tx.event(level, Stage::Completed, text).await?;
    let progress = serde_json::to_value(&progress)
        .map_err(|error| DbError::inconsistent("async_job", "progress", cx.job.id, error))?;
    jobs::finish(tx.conn(), cx.job.id, status, code, &result, Some(&progress)).await?;
    tx.commit().await?;
    Ok(status)
}

/// Takes the transition. The inner error is a transition that the state does not have: the job then ends as
/// failed and says so, and the state stays, since no state may ever be overwritten.
async fn move_cluster(
    cx: &OpCx,
    conn: &mut PgConnection,
    settlement: &Settlement,
) -> Result<Result<(), Failure>, DbError> {
    let key = cx.job.cluster_key;
    if settlement.upgrade_record == UpgradeRecord::Drop {
        details::drop_upgrade_record(conn, key).await?;
    }
    if settlement.transition == Transition::Keep {
        return Ok(Ok(()));
    }
    // The lock makes what is read next still true when it is compared.
    clusters::lock(conn, key).await?;
    let cluster = clusters::by_key(conn, key).await?;
    let expected = Expected {
        state: cluster.state,
        generation: cluster.generation,
    };
    let (job, reason) = (Some(cx.job.id), settlement.reason.as_deref());
    let moved = match settlement.transition {
        Transition::Keep => return Ok(Ok(())),
        Transition::On(event) => clusters::transition(conn, key, expected, event, job, reason).await,
        Transition::GivenBack => {
            let from = cx.job.from_state.ok_or_else(|| {
                DbError::inconsistent(
                    "async_job",
                    "from_state",
                    cx.job.id,
                    "there is no state to give back to",
                )
            })?;
            clusters::give_back(conn, key, expected, from, job, reason).await
        }
    };
    let refused = |what: String| {
        let said = settlement
            .outcome
            .as_ref()
            .err()
            .map_or(String::new(), |failure| format!("{}; ", failure.text));
        tracing::error!(job.id = %cx.job.id, cluster.id = %cx.job.cluster_id, "settling: {what}");
        Ok(Err(Failure::new(format!(
            "{said}cluster `{}` could not be settled: {what}",
            cx.job.cluster_name
        ))))
    };
    match moved {
        Ok(Cas::Applied(_)) => Ok(Ok(())),
        Ok(Cas::Lost { found }) => refused(format!("it is {} meanwhile", found.state)),
        Ok(Cas::Missing) => refused("it does not exist any more".into()),
        Err(DbError::Illegal(illegal)) => refused(illegal.to_string()),
        Err(other) => Err(other),
    }
}

/// The result of a success. A result that cannot be rendered must not undo a finished operation, so it is
/// replaced by the cluster's id.
async fn render(
    cx: &OpCx,
    conn: &mut PgConnection,
    view: &dyn ResultView,
    operation: &Value,
) -> Result<Value, DbError> {
    if cx.job.cluster_key == 0 {
        return Ok(json!({ "success": true }));
    }
    let mut inner = conn.begin().await?;
    match view.cluster(&mut inner, cx.job.cluster_key, operation).await {
        Ok(result) => {
            inner.commit().await?;
            Ok(result)
        }
        Err(error) if error.is_unavailable() => Err(error),
        Err(error) => {
            tracing::error!(job.id = %cx.job.id, "the result cannot be rendered: {}", chain(&error));
            inner.rollback().await?;
            Ok(json!({ "kubernetescluster": { "id": cx.job.cluster_id, "operation": operation } }))
        }
    }
}
