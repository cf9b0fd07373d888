//! Events as replies show them.

use jiff::Timestamp;
use jiff_sqlx::{Timestamp as Ts, ToSqlx};
use sqlx::PgConnection;
use uuid::Uuid;

use super::{Listed, Window, pattern};
use crate::db::DbError;
use crate::domain::account::{ProjectRows, Scope};
use crate::domain::id::EventId;

/// Which events.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// This one.
    pub id: Option<EventId>,
    /// Of this type.
    pub kind: Option<String>,
    /// Of this level.
    pub level: Option<String>,
    /// Written at or after this moment.
    pub from: Option<Timestamp>,
    /// Written at or before this moment.
    pub until: Option<Timestamp>,
    /// This event and those that belong to it.
    pub start: Option<EventId>,
    /// About this object.
    pub resource: Option<Uuid>,
    /// About objects of this type.
    pub resource_type: Option<String>,
    /// With this text in type or description.
    pub keyword: Option<String>,
    /// Archived or not; without an answer, only those that are not.
    pub archived: Option<bool>,
}

/// An event as a reply shows it.
#[derive(Debug, Clone)]
pub struct EventRow {
    /// Its id.
    pub id: EventId,
    /// `KUBERNETES.CLUSTER.SCALE` and the like.
    pub kind: String,
    /// `INFO`, `WARN` or `ERROR`.
    pub level: String,
    /// `Created`, `Scheduled`, `Started` or `Completed`.
    pub stage: String,
    /// What happened.
    pub description: String,
    /// The user.
    pub user_name: Option<String>,
    /// The account, unless it is a project's.
    pub account: Option<String>,
    /// Id and name of the project.
    pub project: Option<(Uuid, String)>,
    /// Domain: id, name, path as stored.
    pub domain: (Uuid, String, String),
    /// Type of the object.
    pub resource_type: Option<String>,
    /// Its id.
    pub resource_id: Option<Uuid>,
    /// Its name.
    pub resource_name: Option<String>,
    /// The event that it belongs to.
    pub parent: Option<Uuid>,
    /// Whether it was archived.
    pub archived: bool,
    /// When it was written.
    pub created: Timestamp,
}

/// A page of events, newest first.
pub async fn list(
    conn: &mut PgConnection,
    scope: &Scope,
    filter: &Filter,
    window: Window,
) -> Result<Listed<EventRow>, DbError> {
    let (total, rows) = page(conn, scope, filter, window).await?;
    if rows.is_empty() && window.offset > 0 {
        let first = Window { limit: 1, offset: 0 };
        let (total, _) = page(conn, scope, filter, first).await?;
        return Ok(Listed::of(total.or(Some(0)), rows));
    }
    Ok(Listed::of(total, rows))
}

async fn page(
    conn: &mut PgConnection,
    scope: &Scope,
    filter: &Filter,
    window: Window,
) -> Result<(Option<i64>, Vec<EventRow>), DbError> {
    let rows = sqlx::query!(
        r#"select e.id, e.type as kind, e.level, e.state as stage, e.description, e.resource_type, e.resource_id,
             e.resource_name, e.parent_id, e.archived, e.created as "created: Ts",
             u.username as "user_name?", a.account_name, a.is_project, p.uuid as "project_id?",
             p.name as "project_name?", d.uuid as domain_id, d.name as domain_name, d.path,
             count(*) over () as total
           from event e
           join account a on a.id = e.account_id
           join domain d on d.id = e.domain_id
           left join "user" u on u.id = e.user_id
           left join project p on p.project_account_id = e.account_id
           left join kubernetes_cluster k on e.resource_type = 'KubernetesCluster' and k.uuid = e.resource_id
           left join domain kd on kd.id = k.domain_id
           where ($1::uuid is null or e.id = $1)
             and ($2::text is null or e.type = $2)
             and ($3::text is null or e.level = $3)
             and ($4::timestamptz is null or e.created >= $4)
             and ($5::timestamptz is null or e.created <= $5)
             and ($6::uuid is null or e.id = $6 or e.parent_id = $6)
             and ($7::uuid is null or e.resource_id = $7)
             and ($8::text is null or lower(e.resource_type) = lower($8))
             and ($9::text is null or e.type ilike $9 or e.description ilike $9)
             and e.archived = $10
             and ($11::bigint[] is null or e.account_id = any($11) or k.account_id = any($11))
             and ($12::bigint is null or e.domain_id = $12)
             and ($13::text is null or starts_with(d.path, $13) or starts_with(kd.path, $13))
             and ($14 or not a.is_project)
           order by e.seq desc limit $15 offset $16"#,
        filter.id.map(|id| id.0),
        filter.kind,
        filter.level,
        filter.from.map(ToSqlx::to_sqlx) as Option<Ts>,
        filter.until.map(ToSqlx::to_sqlx) as Option<Ts>,
        filter.start.map(|id| id.0),
        filter.resource,
        filter.resource_type,
        filter.keyword.as_deref().map(pattern),
        filter.archived.unwrap_or(false),
        scope.accounts.as_deref(),
        scope.domain,
        scope.subtree,
        scope.projects == ProjectRows::Shown,
        window.limit,
        window.offset,
    )
    .fetch_all(conn)
    .await?;
    let total = rows.first().and_then(|row| row.total);
    let rows = rows
        .into_iter()
        .map(|row| EventRow {
            id: row.id.into(),
            kind: row.kind,
            level: row.level,
            stage: row.stage,
            description: row.description,
            user_name: row.user_name,
            account: (!row.is_project).then_some(row.account_name),
            project: row.project_id.zip(row.project_name),
            domain: (row.domain_id, row.domain_name, row.path),
            resource_type: row.resource_type,
            resource_id: row.resource_id,
            resource_name: row.resource_name,
            parent: row.parent_id,
            archived: row.archived,
            created: row.created.to_jiff(),
        })
        .collect();
    Ok((total, rows))
}
