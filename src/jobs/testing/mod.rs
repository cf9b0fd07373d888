//! Running jobs by hand, for the operation harness and the engine's own tests.
//!
//! A [`Rig`] is a worker of one claim at a time: it takes one job, runs it to where it stops, and says where
//! that was. Waits are never slept, so a test drives time itself. A crash ([`FaultPoints::arm`]) drops the run
//! as `kill -9` would: the lease is left to run out, or [`expire_lease`] ends it.
//!
//! What this must not know: any operation.

pub mod nowhere;
mod seed;

pub use seed::{PlainView, seed_cluster, test_cipher};

use std::time::Duration;

use sqlx::PgPool;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::faults::FaultPoints;
pub use super::run::Stop;
use super::run::run_claimed;
use super::worker::WorkerOptions;
use crate::db::jobs::JobRow;
use crate::db::steps::{self, StepRow};
use crate::db::{DbError, jobs};
use crate::domain::id::JobId;

/// More stops than any honest job makes.
const MOST_STOPS: usize = 2000;

/// A worker that is moved by hand.
#[derive(Clone)]
pub struct Rig {
    /// What it runs with; `tuning` and `faults` may be changed between runs.
    pub options: WorkerOptions,
    /// Who it is.
    pub owner: Uuid,
    /// Cancel it to see how a job is put back.
    pub shutdown: CancellationToken,
}

impl Rig {
    /// A worker called `owner`. Waits are parked, not slept, and fault points are on.
    #[must_use]
    pub fn new(mut options: WorkerOptions, owner: Uuid) -> Self {
        options.tuning.in_place = Duration::ZERO;
        options.faults = FaultPoints::on();
        Self {
            options,
            owner,
            shutdown: CancellationToken::new(),
        }
    }

    /// Another worker on the same database, with fault points of its own.
    #[must_use]
    pub fn other(&self, owner: Uuid) -> Self {
        Self::new(self.options.clone(), owner)
    }

    /// Claims `job` (a parked one is made due) and runs it to its next stop. None: it cannot be claimed, since
    /// it is over or another worker holds it.
    pub async fn run_job(&self, job: JobId) -> Result<Option<Stop>, DbError> {
        make_due(&self.options.pool, job).await?;
        let sent = Instant::now();
        let mut claimed = self.options.claim(self.owner, 1, Some(job)).await?;
        let Some(claimed) = claimed.pop() else {
            return Ok(None);
        };
        Ok(Some(
            run_claimed(&self.options, self.owner, claimed, sent, &self.shutdown).await,
        ))
    }

    /// Runs `job` through all its waits. `waited` is told how long each wait is, and moves the test's clock.
    /// A crash or a lost lease is expired at once and the job run again.
    ///
    /// # Errors
    /// When the database fails, or the job does not end.
    pub async fn run_to_end(&self, job: JobId, mut waited: impl FnMut(Duration)) -> Result<JobRow, DbError> {
        for _ in 0..MOST_STOPS {
            match self.run_job(job).await? {
                Some(Stop::Parked { after, .. }) => waited(after),
                Some(Stop::Lost | Stop::Crashed) => expire_lease(&self.options.pool, job).await?,
                Some(Stop::HandedBack) => {}
                // Over, or another worker holds it.
                Some(Stop::Ended(_)) | None => break,
            }
        }
        let row = self.find(job).await?;
        if row.phase == "done" {
            Ok(row)
        } else {
            Err(DbError::inconsistent(
                "async_job",
                "phase",
                job,
                "the job does not end",
            ))
        }
    }

    /// The job's row.
    pub async fn find(&self, job: JobId) -> Result<JobRow, DbError> {
        let mut conn = self.options.pool.acquire().await?;
        jobs::find(&mut conn, job).await?.ok_or_else(|| DbError::Missing {
            table: "async_job",
            row: job.to_string(),
        })
    }

    /// The journal of a job, in order.
    pub async fn journal(&self, job: JobId) -> Result<Vec<StepRow>, DbError> {
        let mut conn = self.options.pool.acquire().await?;
        steps::list(&mut conn, job).await
    }

    /// The recorded keys of a job, as `name/subject`, in order.
    pub async fn keys(&self, job: JobId) -> Result<Vec<String>, DbError> {
        let rows = self.journal(job).await?;
        Ok(rows
            .into_iter()
            .map(|row| format!("{}/{}", row.name, row.subject))
            .collect())
    }
}

/// Ends the lease of a job at once, as if its time had run out.
pub async fn expire_lease(pool: &PgPool, job: JobId) -> Result<(), DbError> {
    sqlx::query!(
        "update async_job set lease_until = now() - interval '1 second' where id = $1 and phase = 'running'",
        job.0
    )
    .execute(pool)
    .await?;
    Ok(())
}

/// Makes a parked job due at once.
pub async fn make_due(pool: &PgPool, job: JobId) -> Result<(), DbError> {
    sqlx::query!(
        "update async_job set run_after = now() where id = $1 and phase = 'queued' and run_after > now()",
        job.0
    )
    .execute(pool)
    .await?;
    Ok(())
}
