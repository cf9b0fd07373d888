//! The handle through which an operation uses the database: every write begins with the fence.
//!
//! What this must not know: any operation, ports, the wire.
//!
//! **Invariant:** a [`FencedTx`] exists only after the job's row was locked under id, owner, epoch and an
//! unexpired lease. Operations have no other handle, so an unfenced write cannot be written.

mod typed;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use sqlx::{PgConnection, PgPool, Postgres, Transaction};
use uuid::Uuid;

use super::secrets::Cipher;
use super::{DbError, jobs};
use crate::domain::id::{EventId, JobId};

/// Makes ids; the engine passes the port's.
pub type NewId = Arc<dyn Fn() -> Uuid + Send + Sync>;

/// Is told before and after each write, by name. The harness uses it to stop a job there.
#[async_trait]
pub trait WriteWatch: Send + Sync {
    /// At a point such as `ledger_put:before`. A watch that wants the job to stop here never returns.
    async fn at(&self, point: &str);
}

/// What a handle knows of the job that it writes for.
#[derive(Clone)]
pub struct FencedJob {
    /// The claim.
    pub lease: jobs::Lease,
    /// The command, which names the type of events.
    pub command: String,
    /// The account's key.
    pub account_key: i64,
    /// The user's key.
    pub user_key: i64,
    /// The cluster: key, id, name.
    pub cluster: Option<(i64, crate::domain::id::ClusterId, String)>,
    /// The Scheduled event.
    pub scheduled_event: Option<EventId>,
}

/// A failed fenced use of the database.
#[derive(Debug, thiserror::Error)]
pub enum FencedError {
    /// Another worker has the job, or the lease ran out: stop, and touch nothing.
    #[error("the lease of the job is lost")]
    LeaseLost,
    /// The database failed.
    #[error(transparent)]
    Db(#[from] DbError),
}

impl From<sqlx::Error> for FencedError {
    fn from(error: sqlx::Error) -> Self {
        Self::Db(error.into())
    }
}

/// The database as one claim of one job may use it.
#[derive(Clone)]
pub struct Fenced {
    pool: PgPool,
    job: Arc<FencedJob>,
    cipher: Arc<Cipher>,
    new_id: NewId,
    cancelled: Arc<AtomicBool>,
    watch: Option<Arc<dyn WriteWatch>>,
}

impl Fenced {
    /// A handle for a claimed job. `cancelled` is set as soon as any write sees that the job was cancelled.
    pub fn new(
        pool: PgPool,
        job: FencedJob,
        cipher: Arc<Cipher>,
        new_id: NewId,
        cancelled: Arc<AtomicBool>,
        watch: Option<Arc<dyn WriteWatch>>,
    ) -> Self {
        Self {
            pool,
            job: Arc::new(job),
            cipher,
            new_id,
            cancelled,
            watch,
        }
    }

    /// The job.
    #[must_use]
    pub fn job_id(&self) -> JobId {
        self.job.lease.job
    }

    /// Opens a transaction whose first statement is the fence. It is rolled back unless committed.
    pub async fn open(&self) -> Result<FencedTx<'static>, FencedError> {
        let mut tx = self.pool.begin().await?;
        match jobs::fence(&mut tx, self.job.lease).await? {
            None => Err(FencedError::LeaseLost),
            Some(cancel) => {
                if cancel {
                    self.cancelled.store(true, Ordering::Relaxed);
                }
                Ok(FencedTx {
                    tx,
                    job: self.job.clone(),
                    cipher: self.cipher.clone(),
                    new_id: self.new_id.clone(),
                })
            }
        }
    }

    /// One short fenced transaction. `name` is the name of its fault points.
    pub async fn write<T, E: From<FencedError>>(
        &self,
        name: &str,
        work: impl AsyncFnOnce(&mut FencedTx<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.at(name, "before").await;
        let mut tx = self.open().await?;
        let value = work(&mut tx).await?;
        tx.commit().await?;
        self.at(name, "after").await;
        Ok(value)
    }

    /// A read that needs no fence.
    pub async fn read<T>(
        &self,
        work: impl AsyncFnOnce(&mut PgConnection) -> Result<T, DbError>,
    ) -> Result<T, DbError> {
        let mut conn = self.pool.acquire().await?;
        work(&mut conn).await
    }

    async fn at(&self, name: &str, side: &str) {
        if let Some(watch) = &self.watch {
            watch.at(&format!("{name}:{side}")).await;
        }
    }

    fn cluster_key(&self) -> Result<i64, DbError> {
        self.job.cluster_key()
    }
}

impl FencedJob {
    fn cluster_key(&self) -> Result<i64, DbError> {
        self.cluster.as_ref().map(|(key, _, _)| *key).ok_or_else(|| {
            DbError::inconsistent(
                "async_job",
                "cluster_id",
                self.lease.job,
                "the job has no cluster",
            )
        })
    }
}

/// An open fenced transaction.
pub struct FencedTx<'t> {
    tx: Transaction<'t, Postgres>,
    job: Arc<FencedJob>,
    cipher: Arc<Cipher>,
    new_id: NewId,
}

impl FencedTx<'_> {
    /// The connection, for the engine's own statements.
    pub fn conn(&mut self) -> &mut PgConnection {
        &mut self.tx
    }

    /// Commits.
    pub async fn commit(self) -> Result<(), FencedError> {
        self.tx.commit().await.map_err(Into::into)
    }
}
