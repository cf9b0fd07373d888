//! Jobs: the row that is both the client's job and the engine's work item.
//!
//! What this must not know: who runs jobs, and how.
//!
//! Leases and `run_after` are compared in the database's time, since several workers compare them.

mod lease;

pub use lease::{
    ClaimBy, Claimed, Lease, Park, claim, fence, finish, heartbeat, next_due, note_new_step, park, set_plan,
    set_progress, set_waiting,
};

use jiff::Timestamp;
use jiff_sqlx::{Timestamp as Ts, ToSqlx};
use serde_json::Value;
use sqlx::PgConnection;
use uuid::Uuid;

use super::DbError;
use crate::domain::cluster::State;
use crate::domain::id::{ClusterId, EventId, JobId};
use crate::domain::job::{Failure, JobStatus, Progress, Waiting};

/// A job to be written.
#[derive(Debug, Clone)]
pub struct InsertJob<'a> {
    /// Its id.
    pub id: JobId,
    /// The command.
    pub command: &'a str,
    /// The account's key.
    pub account_key: i64,
    /// The user's key.
    pub user_key: i64,
    /// The cluster: key and id. It becomes the instance and the lock key.
    pub cluster: Option<(i64, ClusterId)>,
    /// The request as it was understood.
    pub request: &'a Value,
    /// The HTTP request id.
    pub request_id: Option<&'a str>,
    /// Where given-back returns to.
    pub from_state: Option<State>,
    /// When it must be over.
    pub deadline: Timestamp,
    /// A key under which the same request is admitted only once.
    pub idempotency_key: Option<&'a str>,
    /// The Scheduled event.
    pub scheduled_event: Option<EventId>,
}

/// Writes a queued job. Nothing is written, and false returned, when the cluster has an open job or the
/// idempotency key was used; a plain duplicate would abort the caller's transaction.
pub async fn insert(conn: &mut PgConnection, new: &InsertJob<'_>) -> Result<bool, DbError> {
    insert_row(conn, new, None).await
}

/// Writes a job that is over before it began. It holds no cluster.
pub async fn insert_failed(
    conn: &mut PgConnection,
    new: &InsertJob<'_>,
    failure: &Failure,
) -> Result<(), DbError> {
    insert_row(conn, new, Some(failure)).await.map(|_| ())
}

async fn insert_row(
    conn: &mut PgConnection,
    new: &InsertJob<'_>,
    failure: Option<&Failure>,
) -> Result<bool, DbError> {
    let done = sqlx::query!(
        "insert into async_job (id, command, account_id, user_id, instance_type, instance_id, cluster_id, lock_key,
           request, request_id, from_state, deadline, idempotency_key, scheduled_event,
           phase, status, result_code, result, completed)
         values ($1, $2, $3, $4, case when $6::uuid is not null then 'KubernetesCluster' end, $6, $5,
           case when $13::integer is null then 'cluster:' || $6::text end, $7, $8, $9, $10, $11, $12,
           case when $13::integer is null then 'queued' else 'done' end,
           case when $13::integer is null then 0::smallint else 2::smallint end,
           $13, $14, case when $13::integer is not null then now() end)
         on conflict do nothing",
        new.id.0,
        new.command,
        new.account_key,
        new.user_key,
        new.cluster.map(|(key, _)| key),
        new.cluster.map(|(_, id)| id.0),
        new.request,
        new.request_id,
        new.from_state.map(State::name),
        new.deadline.to_sqlx() as Ts,
        new.idempotency_key,
        new.scheduled_event.map(|id| id.0),
        failure.map(code_of),
        failure.map(Failure::to_result),
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected() == 1)
}

fn code_of(failure: &Failure) -> i32 {
    i32::try_from(failure.code).unwrap_or(530)
}

/// The open job of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenJob {
    /// Its id.
    pub id: JobId,
    /// Its command.
    pub command: String,
}

/// The unfinished job of a cluster, if there is one (invariant I1: *live*).
pub async fn open_of(conn: &mut PgConnection, cluster_key: i64) -> Result<Option<OpenJob>, DbError> {
    let row = sqlx::query!(
        "select id, command from async_job where cluster_id = $1 and phase <> 'done'",
        cluster_key
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(|row| OpenJob {
        id: row.id.into(),
        command: row.command,
    }))
}

/// The job that was admitted under an idempotency key.
pub async fn by_idempotency(
    conn: &mut PgConnection,
    account_key: i64,
    key: &str,
) -> Result<Option<JobId>, DbError> {
    let id = sqlx::query_scalar!(
        "select id from async_job where account_id = $1 and idempotency_key = $2",
        account_key,
        key
    )
    .fetch_optional(conn)
    .await?;
    Ok(id.map(Into::into))
}

/// A job as replies need it.
#[derive(Debug, Clone, PartialEq)]
pub struct JobRow {
    /// Its id.
    pub id: JobId,
    /// Its order.
    pub seq: i64,
    /// The command.
    pub command: String,
    /// The account's key.
    pub account_key: i64,
    /// The user's key.
    pub user_key: i64,
    /// `KubernetesCluster` and the like.
    pub instance_type: Option<String>,
    /// The object's id.
    pub instance_id: Option<Uuid>,
    /// The cluster's key.
    pub cluster_key: Option<i64>,
    /// The request.
    pub request: Value,
    /// queued, running, done.
    pub phase: String,
    /// What clients see.
    pub status: JobStatus,
    /// Where it is.
    pub progress: Option<Progress>,
    /// What it waits for.
    pub waiting: Option<Waiting>,
    /// When it must be over.
    pub deadline: Option<Timestamp>,
    /// Whether somebody cancelled it.
    pub cancel_requested: bool,
    /// Claims after a lost lease since the last new step.
    pub takeovers: i32,
    /// Failures since the last new step.
    pub failures: i32,
    /// The last claim.
    pub epoch: Option<i64>,
    /// The code of the result.
    pub result_code: Option<i32>,
    /// The result.
    pub result: Option<Value>,
    /// When it was admitted.
    pub created: Timestamp,
    /// When it ended.
    pub completed: Option<Timestamp>,
}

/// A job.
pub async fn find(conn: &mut PgConnection, id: JobId) -> Result<Option<JobRow>, DbError> {
    let row = sqlx::query!(
        r#"select id, seq, command, account_id, user_id, instance_type, instance_id, cluster_id, request, phase,
             status, progress, waiting_for, deadline as "deadline: Ts", cancel_requested, takeovers, failures, epoch,
             result_code, result, created as "created: Ts", completed as "completed: Ts"
           from async_job where id = $1"#,
        id.0
    )
    .fetch_optional(conn)
    .await?;
    let Some(row) = row else { return Ok(None) };
    Ok(Some(JobRow {
        id,
        seq: row.seq,
        command: row.command,
        account_key: row.account_id,
        user_key: row.user_id,
        instance_type: row.instance_type,
        instance_id: row.instance_id,
        cluster_key: row.cluster_id,
        request: row.request,
        phase: row.phase,
        status: JobStatus::from_code(row.status)
            .ok_or_else(|| DbError::inconsistent("async_job", "status", id, row.status))?,
        progress: row.progress.and_then(|value| serde_json::from_value(value).ok()),
        waiting: row
            .waiting_for
            .and_then(|value| serde_json::from_value(value).ok()),
        deadline: row.deadline.map(Ts::to_jiff),
        cancel_requested: row.cancel_requested,
        takeovers: row.takeovers,
        failures: row.failures,
        epoch: row.epoch,
        result_code: row.result_code,
        result: row.result,
        created: row.created.to_jiff(),
        completed: row.completed.map(Ts::to_jiff),
    }))
}

/// Asks a job to end; says whether it was still open. A parked one becomes due at once.
pub async fn request_cancel(conn: &mut PgConnection, job: JobId) -> Result<bool, DbError> {
    let done = sqlx::query!(
        "update async_job set cancel_requested = true, run_after = least(run_after, now()), updated = now()
         where id = $1 and phase <> 'done'",
        job.0
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected() == 1)
}
