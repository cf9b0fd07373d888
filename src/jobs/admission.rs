//! How a job comes to be: in the transaction of the request that asks for it.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use sqlx::{Connection, PgConnection};

use crate::db::events::{self, NewEvent};
use crate::db::jobs::{self, InsertJob, OpenJob};
use crate::db::{Cas, DbError, Expected, clusters, ledger};
use crate::domain::cluster::{Cluster, Event};
use crate::domain::event::{Level, RESOURCE_CLUSTER, Stage, type_of_command};
use crate::domain::id::{EventId, JobId};
use crate::domain::job::Failure;
use crate::ports::clock::Ids;

/// A job that is asked for.
#[derive(Debug, Clone)]
pub struct NewJob<'a> {
    /// The command, exactly as on the wire: `scaleKubernetesCluster`.
    pub command: &'a str,
    /// The account's key.
    pub account_key: i64,
    /// The user's key.
    pub user_key: i64,
    /// The cluster as the caller read it; its state and generation are what is compared.
    pub cluster: &'a Cluster,
    /// The event that admission takes on the cluster.
    pub event: Event,
    /// The request as it was understood; the operation reads it.
    pub request: &'a Value,
    /// The HTTP request id.
    pub request_id: Option<&'a str>,
    /// Now, by the port.
    pub now: Timestamp,
    /// How long it may take.
    pub time_limit: Duration,
    /// The text of the Scheduled event.
    pub scheduled_text: &'a str,
    /// A key under which the same request is admitted only once.
    pub idempotency_key: Option<&'a str>,
}

/// What came of asking.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a request that was not admitted must be answered"]
pub enum Admission {
    /// It is admitted.
    Admitted(JobId),
    /// The same request was admitted before, under the same idempotency key.
    Repeated(JobId),
    /// Another operation has the cluster.
    Busy {
        /// Its job.
        job: JobId,
        /// Its command.
        command: String,
    },
    /// The cluster is not any more what the caller read; nothing was written. Read again.
    Lost {
        /// What was found.
        found: Expected,
    },
    /// The cluster is gone.
    Gone,
}

/// Admits a job in the caller's transaction: the job, the compare-and-set of the cluster, the Scheduled event,
/// and the cluster's open cordon, ISO and host rows become the new job's. Whatever is not [`Admitted`] has
/// written nothing, and the transaction can still write the born-failed job.
///
/// [`Admitted`]: Admission::Admitted
///
/// # Errors
/// [`DbError::Illegal`] when the state does not take the event; check before asking.
pub async fn admit(tx: &mut PgConnection, ids: &dyn Ids, new: &NewJob<'_>) -> Result<Admission, DbError> {
    let (job, scheduled) = (JobId(ids.ordered()), EventId(ids.ordered()));
    let mut inner = tx.begin().await?;
    // Locked first, by everyone, so that two admissions meet here and not crosswise at the index.
    match clusters::lock(&mut inner, new.cluster.key).await {
        Err(DbError::Missing { .. }) => return Ok(Admission::Gone),
        other => other?,
    }
    let mut inserted = false;
    // The holder of the cluster may end between our insert and our look; then there is room after all.
    for _ in 0..3 {
        inserted = jobs::insert(&mut inner, &row(new, job, Some(scheduled))).await?;
        if inserted {
            break;
        }
        if let Some(OpenJob { id, command }) = jobs::open_of(&mut inner, new.cluster.key).await? {
            inner.rollback().await?;
            return Ok(Admission::Busy { job: id, command });
        }
        if let Some(key) = new.idempotency_key
            && let Some(id) = jobs::by_idempotency(&mut inner, new.account_key, key).await?
        {
            inner.rollback().await?;
            return Ok(Admission::Repeated(id));
        }
    }
    if !inserted {
        let what = "a job was refused by an index, and no job is in the way";
        return Err(DbError::inconsistent(
            "async_job",
            "lock_key",
            new.cluster.id,
            what,
        ));
    }
    let expected = Expected {
        state: new.cluster.state,
        generation: new.cluster.generation,
    };
    let moved =
        clusters::transition(&mut inner, new.cluster.key, expected, new.event, Some(job), None).await?;
    match moved {
        Cas::Applied(_) => {}
        Cas::Lost { found } => {
            inner.rollback().await?;
            return Ok(Admission::Lost { found });
        }
        Cas::Missing => {
            inner.rollback().await?;
            return Ok(Admission::Gone);
        }
    }
    ledger::take_over(&mut inner, new.cluster.key, job).await?;
    write_event(
        &mut inner,
        new,
        scheduled,
        job,
        (Level::Info, Stage::Scheduled),
        new.scheduled_text,
    )
    .await?;
    inner.commit().await?;
    Ok(Admission::Admitted(job))
}

/// Writes a job that failed before it began: the row, one ERROR event, and nothing else (I10).
pub async fn born_failed(
    tx: &mut PgConnection,
    ids: &dyn Ids,
    new: &NewJob<'_>,
    failure: &Failure,
) -> Result<JobId, DbError> {
    let (job, id) = (JobId(ids.ordered()), EventId(ids.ordered()));
    let row = InsertJob {
        idempotency_key: None,
        ..row(new, job, None)
    };
    jobs::insert_failed(tx, &row, failure).await?;
    write_event(tx, new, id, job, (Level::Error, Stage::Completed), &failure.text).await?;
    Ok(job)
}

fn row<'a>(new: &NewJob<'a>, job: JobId, scheduled: Option<EventId>) -> InsertJob<'a> {
    InsertJob {
        id: job,
        command: new.command,
        account_key: new.account_key,
        user_key: new.user_key,
        cluster: Some((new.cluster.key, new.cluster.id)),
        request: new.request,
        request_id: new.request_id,
        from_state: Some(new.cluster.state),
        deadline: new.now.saturating_add(new.time_limit).unwrap_or(Timestamp::MAX),
        idempotency_key: new.idempotency_key,
        scheduled_event: scheduled,
    }
}

async fn write_event(
    conn: &mut PgConnection,
    new: &NewJob<'_>,
    id: EventId,
    job: JobId,
    (level, stage): (Level, Stage),
    text: &str,
) -> Result<(), DbError> {
    let event = NewEvent {
        id,
        kind: &type_of_command(new.command),
        level,
        stage,
        text,
        account_key: new.account_key,
        user_key: Some(new.user_key),
        resource_type: Some(RESOURCE_CLUSTER),
        resource_id: Some(new.cluster.id.0),
        resource_name: Some(&new.cluster.name),
        parent: None,
        job: Some(job),
    };
    events::insert(conn, &event).await
}
