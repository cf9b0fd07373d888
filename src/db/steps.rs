//! The journal: which steps of a job began, ended, and how.

use jiff::Timestamp;
use jiff_sqlx::Timestamp as Ts;
use serde_json::Value;
use sqlx::PgConnection;

use super::DbError;
use crate::domain::id::JobId;

/// How far a step is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StepState {
    /// Written before an effect that must be counted.
    Begun,
    /// Done; `output` is what it returned.
    Done,
    /// Failed; `output` is the failure.
    Failed,
}

impl StepState {
    fn name(self) -> &'static str {
        match self {
            StepState::Begun => "begun",
            StepState::Done => "done",
            StepState::Failed => "failed",
        }
    }
}

/// A row of the journal.
#[derive(Debug, Clone, PartialEq)]
pub struct StepRow {
    /// Its order.
    pub seq: i64,
    /// The step.
    pub name: String,
    /// What it is about.
    pub subject: String,
    /// How often it was begun.
    pub attempt: i32,
    /// How far it is.
    pub state: StepState,
    /// What it returned.
    pub output: Option<Value>,
    /// The claim that wrote it last.
    pub epoch: i64,
    /// When it was first written.
    pub started: Timestamp,
    /// When it ended.
    pub ended: Option<Timestamp>,
}

/// The journal of a job, in order.
pub async fn list(conn: &mut PgConnection, job: JobId) -> Result<Vec<StepRow>, DbError> {
    let rows = sqlx::query!(
        r#"select seq, name, subject, attempt, state, output, epoch, started as "started: Ts", ended as "ended: Ts"
           from job_step where job_id = $1 order by seq"#,
        job.0
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter()
        .map(|row| {
            Ok(StepRow {
                state: match row.state.as_str() {
                    "begun" => StepState::Begun,
                    "done" => StepState::Done,
                    "failed" => StepState::Failed,
                    other => return Err(DbError::inconsistent("job_step", "state", job, other)),
                },
                seq: row.seq,
                name: row.name,
                subject: row.subject,
                attempt: row.attempt,
                output: row.output,
                epoch: row.epoch,
                started: row.started.to_jiff(),
                ended: row.ended.map(Ts::to_jiff),
            })
        })
        .collect()
}

/// Records the end of a step. A row that only began is completed; the same record by the same claim may be
/// written again (its first answer may have been lost). Says whether it was written.
pub async fn record(
    conn: &mut PgConnection,
    job: JobId,
    epoch: i64,
    (name, subject): (&str, &str),
    state: StepState,
    output: &Value,
) -> Result<bool, DbError> {
    let done = sqlx::query!(
        "insert into job_step (job_id, name, subject, state, output, epoch, ended)
         values ($1, $2, $3, $4, $5, $6, clock_timestamp())
         on conflict (job_id, name, subject) do update
         set state = excluded.state, output = excluded.output, epoch = excluded.epoch, ended = excluded.ended
         where job_step.state = 'begun' or job_step.epoch = excluded.epoch",
        job.0,
        name,
        subject,
        state.name(),
        output,
        epoch
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Writes the beginning of a step, or finds it; returns the row's start and how often it was begun.
pub async fn begin(
    conn: &mut PgConnection,
    job: JobId,
    epoch: i64,
    (name, subject): (&str, &str),
) -> Result<(Timestamp, i32), DbError> {
    let row = sqlx::query!(
        r#"insert into job_step (job_id, name, subject, state, epoch) values ($1, $2, $3, 'begun', $4)
           on conflict (job_id, name, subject) do update
           set attempt = job_step.attempt + 1, epoch = excluded.epoch
           returning started as "started: Ts", attempt"#,
        job.0,
        name,
        subject,
        epoch
    )
    .fetch_one(conn)
    .await?;
    Ok((row.started.to_jiff(), row.attempt))
}
