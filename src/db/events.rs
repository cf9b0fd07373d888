//! Audit events.

use sqlx::PgConnection;
use uuid::Uuid;

use super::DbError;
use crate::domain::event::{Level, Stage};
use crate::domain::id::{EventId, JobId};

/// An event to be written. The owner's domain is read with the account.
#[derive(Debug, Clone)]
pub struct NewEvent<'a> {
    /// Its id.
    pub id: EventId,
    /// `KUBERNETES.CLUSTER.SCALE` and the like.
    pub kind: &'a str,
    /// How serious it is.
    pub level: Level,
    /// Where in the life of the request it stands.
    pub stage: Stage,
    /// What happened.
    pub text: &'a str,
    /// The account's key.
    pub account_key: i64,
    /// The user's key.
    pub user_key: Option<i64>,
    /// `KubernetesCluster` and the like.
    pub resource_type: Option<&'a str>,
    /// The object's id.
    pub resource_id: Option<Uuid>,
    /// The object's name.
    pub resource_name: Option<&'a str>,
    /// The event that it belongs to (the Scheduled one).
    pub parent: Option<EventId>,
    /// The job.
    pub job: Option<JobId>,
}

/// Writes an event.
pub async fn insert(conn: &mut PgConnection, event: &NewEvent<'_>) -> Result<(), DbError> {
    sqlx::query!(
        "insert into event (id, type, level, state, description, account_id, user_id, domain_id, resource_type,
           resource_id, resource_name, parent_id, job_id)
         select $1, $2, $3, $4, $5, a.id, $7, a.domain_id, $8, $9, $10, $11, $12 from account a where a.id = $6",
        event.id.0,
        event.kind,
        event.level.name(),
        event.stage.name(),
        event.text,
        event.account_key,
        event.user_key,
        event.resource_type,
        event.resource_id,
        event.resource_name,
        event.parent.map(|id| id.0),
        event.job.map(|id| id.0),
    )
    .execute(conn)
    .await?;
    Ok(())
}
