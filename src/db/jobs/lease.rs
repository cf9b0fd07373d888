//! Claims, heartbeats, the fence, and the writes behind it.

use jiff::Timestamp;
use jiff_sqlx::Timestamp as Ts;
use serde_json::Value;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::db::DbError;
use crate::domain::cluster::State;
use crate::domain::id::{ClusterId, EventId, JobId};
use crate::domain::job::{JobStatus, Progress, Waiting};

/// A job that a worker has claimed.
#[derive(Debug, Clone)]
pub struct Claimed {
    /// Its id.
    pub id: JobId,
    /// The command.
    pub command: String,
    /// The account's key.
    pub account_key: i64,
    /// The user's key.
    pub user_key: i64,
    /// The cluster: key, id, name.
    pub cluster: Option<(i64, ClusterId, String)>,
    /// The request.
    pub request: Value,
    /// The HTTP request id.
    pub request_id: Option<String>,
    /// Where given-back returns to.
    pub from_state: Option<State>,
    /// The stored plan.
    pub plan: Option<Value>,
    /// Where it is.
    pub progress: Option<Progress>,
    /// What it waited for.
    pub waiting: Option<Waiting>,
    /// The claim's number.
    pub epoch: i64,
    /// Claims after a lost lease since the last new step, this one included.
    pub takeovers: i32,
    /// Failures since the last new step.
    pub failures: i32,
    /// When it must be over.
    pub deadline: Option<Timestamp>,
    /// Whether somebody cancelled it.
    pub cancel_requested: bool,
    /// The Scheduled event.
    pub scheduled_event: Option<EventId>,
    /// When it was admitted.
    pub created: Timestamp,
}

/// Whom a claim is for.
#[derive(Debug, Clone, Copy)]
pub struct ClaimBy<'a> {
    /// The worker.
    pub owner: Uuid,
    /// How long the lease is.
    pub lease_secs: f64,
    /// At most so many jobs.
    pub limit: i64,
    /// The commands that this worker knows; an older replica leaves what it does not know to newer ones.
    pub commands: &'a [String],
    /// Only this job (tests).
    pub only: Option<JobId>,
}

/// Claims due jobs and abandoned ones in one statement, each with a new epoch. A row that another claim or a
/// fenced write has locked is skipped, so no job is claimed twice and none in the middle of a write.
pub async fn claim(conn: &mut PgConnection, by: ClaimBy<'_>) -> Result<Vec<Claimed>, DbError> {
    let rows = sqlx::query!(
        r#"
        with due as (
          select id, phase from async_job
          where ((phase = 'queued' and run_after <= now()) or (phase = 'running' and lease_until < now()))
            and command = any($4) and ($5::uuid is null or id = $5)
          order by run_after, seq limit $3 for update skip locked
        )
        update async_job j
        set phase = 'running', owner = $1, epoch = nextval('job_epoch'),
            lease_until = now() + make_interval(secs => $2),
            takeovers = j.takeovers + case when due.phase = 'running' then 1 else 0 end, updated = now()
        from due left join async_job this on this.id = due.id
             left join kubernetes_cluster k on k.id = this.cluster_id
        where j.id = due.id
        returning j.id, j.command, j.account_id, j.user_id, k.id as "cluster_key?", k.uuid as "cluster_id?",
          k.name as "cluster_name?", j.request, j.request_id, j.from_state, j.plan, j.progress, j.waiting_for,
          j.epoch as "epoch!", j.takeovers, j.failures, j.deadline as "deadline: Ts", j.cancel_requested,
          j.scheduled_event, j.created as "created: Ts"
        "#,
        by.owner,
        by.lease_secs,
        by.limit,
        by.commands,
        by.only.map(|id| id.0),
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter()
        .map(|row| {
            let from_state = row.from_state.as_deref().map(str::parse::<State>).transpose();
            Ok(Claimed {
                id: row.id.into(),
                command: row.command,
                account_key: row.account_id,
                user_key: row.user_id,
                cluster: match (row.cluster_key, row.cluster_id, row.cluster_name) {
                    (Some(key), Some(id), Some(name)) => Some((key, id.into(), name)),
                    _ => None,
                },
                request: row.request,
                request_id: row.request_id,
                from_state: from_state
                    .map_err(|error| DbError::inconsistent("async_job", "from_state", row.id, error))?,
                plan: row.plan,
                progress: row.progress.and_then(|value| serde_json::from_value(value).ok()),
                waiting: row
                    .waiting_for
                    .and_then(|value| serde_json::from_value(value).ok()),
                epoch: row.epoch,
                takeovers: row.takeovers,
                failures: row.failures,
                deadline: row.deadline.map(Ts::to_jiff),
                cancel_requested: row.cancel_requested,
                scheduled_event: row.scheduled_event.map(Into::into),
                created: row.created.to_jiff(),
            })
        })
        .collect()
}

/// The three that name a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// The job.
    pub job: JobId,
    /// The worker.
    pub owner: Uuid,
    /// The claim's number.
    pub epoch: i64,
}

/// Extends a lease that has not run out. None: it is lost. Some: whether somebody cancelled the job.
pub async fn heartbeat(
    conn: &mut PgConnection,
    lease: Lease,
    lease_secs: f64,
) -> Result<Option<bool>, DbError> {
    Ok(sqlx::query_scalar!(
        "update async_job set lease_until = now() + make_interval(secs => $4)
         where id = $1 and owner = $2 and epoch = $3 and phase = 'running' and lease_until > now()
         returning cancel_requested",
        lease.job.0,
        lease.owner,
        lease.epoch,
        lease_secs
    )
    .fetch_optional(conn)
    .await?)
}

/// The fence: locks the row of a claimed job until the end of the transaction. A claim skips it meanwhile, so
/// no takeover falls between this check and the writes that follow. None: the lease is lost.
pub async fn fence(conn: &mut PgConnection, lease: Lease) -> Result<Option<bool>, DbError> {
    Ok(sqlx::query_scalar!(
        "select cancel_requested from async_job
         where id = $1 and owner = $2 and epoch = $3 and phase = 'running' and lease_until > clock_timestamp()
         for update",
        lease.job.0,
        lease.owner,
        lease.epoch
    )
    .fetch_optional(conn)
    .await?)
}

/// A new step was recorded: failures and takeovers count from here, and nothing is waited for any more.
/// Only behind the fence.
pub async fn note_new_step(conn: &mut PgConnection, job: JobId) -> Result<(), DbError> {
    sqlx::query!(
        "update async_job set failures = 0, takeovers = 0, waiting_for = null, updated = now() where id = $1",
        job.0
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Stores where a job is. Only behind the fence.
pub async fn set_progress(conn: &mut PgConnection, job: JobId, progress: &Value) -> Result<(), DbError> {
    sqlx::query!(
        "update async_job set progress = $2, updated = now() where id = $1",
        job.0,
        progress
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Stores what a job waits for while it keeps its lease. Only behind the fence.
pub async fn set_waiting(conn: &mut PgConnection, job: JobId, waiting: &Value) -> Result<(), DbError> {
    sqlx::query!(
        "update async_job set waiting_for = $2, updated = now() where id = $1",
        job.0,
        waiting
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Stores the plan of a job. Only behind the fence.
pub async fn set_plan(conn: &mut PgConnection, job: JobId, plan: &Value) -> Result<(), DbError> {
    sqlx::query!(
        "update async_job set plan = $2, updated = now() where id = $1",
        job.0,
        plan
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// How a job is put down.
#[derive(Debug, Clone)]
pub struct Park<'a> {
    /// How long.
    pub after_secs: f64,
    /// What for; none leaves what stands there.
    pub waiting: Option<&'a Value>,
    /// Where it is; none leaves what stands there.
    pub progress: Option<&'a Value>,
    /// How many failures to add.
    pub failures: i32,
    /// Whether the operation already knows of a cancel. If it does not, a cancelled job is due at once, so
    /// that a cancel is not slept through.
    pub told_of_cancel: bool,
}

/// Puts a job down until its time has come; it keeps its cluster. Only behind the fence.
pub async fn park(conn: &mut PgConnection, job: JobId, park: &Park<'_>) -> Result<(), DbError> {
    sqlx::query!(
        "update async_job
         set phase = 'queued', owner = null, lease_until = null, updated = now(),
             run_after = case when cancel_requested and not $6 then now() else now() + make_interval(secs => $2) end,
             waiting_for = coalesce($3, waiting_for), progress = coalesce($4, progress), failures = failures + $5
         where id = $1",
        job.0,
        park.after_secs,
        park.waiting,
        park.progress,
        park.failures,
        park.told_of_cancel
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Ends a job. Only behind the fence.
pub async fn finish(
    conn: &mut PgConnection,
    job: JobId,
    status: JobStatus,
    code: i64,
    result: &Value,
    progress: Option<&Value>,
) -> Result<(), DbError> {
    sqlx::query!(
        "update async_job
         set phase = 'done', status = $2, owner = null, lease_until = null, waiting_for = null,
             result_code = $3, result = $4, progress = coalesce($5, progress), updated = now(), completed = now()
         where id = $1",
        job.0,
        status.code(),
        i32::try_from(code).unwrap_or(530),
        result,
        progress
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// In how many seconds the next job is due or the next lease runs out; negative when it is over already.
pub async fn next_due(conn: &mut PgConnection, commands: &[String]) -> Result<Option<f64>, DbError> {
    Ok(sqlx::query_scalar!(
        r#"select (extract(epoch from min(case phase when 'queued' then run_after else lease_until end) - now()))::float8
             as "due?"
           from async_job where phase <> 'done' and command = any($1)"#,
        commands
    )
    .fetch_one(conn)
    .await?)
}
