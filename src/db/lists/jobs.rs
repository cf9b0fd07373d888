//! Jobs as replies show them.

use jiff::Timestamp;
use jiff_sqlx::{Timestamp as Ts, ToSqlx};
use serde_json::Value;
use sqlx::PgConnection;
use uuid::Uuid;

use super::{Listed, Window, pattern};
use crate::db::DbError;
use crate::domain::account::{ProjectRows, Scope};
use crate::domain::id::JobId;

/// Which jobs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// This one.
    pub id: Option<JobId>,
    /// Made at or after this moment.
    pub since: Option<Timestamp>,
    /// With this text in the command.
    pub keyword: Option<String>,
    /// Of this object.
    pub instance: Option<Uuid>,
    /// Of objects of this type.
    pub instance_type: Option<String>,
}

/// A job as a reply shows it.
#[derive(Debug, Clone)]
pub struct JobRow {
    /// Its id.
    pub id: JobId,
    /// Its command.
    pub command: String,
    /// Account: id and name.
    pub account: (Uuid, String),
    /// Domain: id and path as stored.
    pub domain: (Uuid, String),
    /// The user.
    pub user_id: Uuid,
    /// Type and id of the object.
    pub instance: Option<(String, Uuid)>,
    /// 0, 1 or 2.
    pub status: i16,
    /// 0, or the code of the error.
    pub result_code: i32,
    /// The result of a finished job.
    pub result: Option<Value>,
    /// Where the operation is.
    pub progress: Option<Value>,
    /// What it waits for.
    pub waiting_for: Option<Value>,
    /// When it must have ended.
    pub deadline: Option<Timestamp>,
    /// When it was admitted.
    pub created: Timestamp,
    /// When it ended.
    pub completed: Option<Timestamp>,
}

/// A page of jobs, oldest first.
pub async fn list(
    conn: &mut PgConnection,
    scope: &Scope,
    filter: &Filter,
    window: Window,
) -> Result<Listed<JobRow>, DbError> {
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
) -> Result<(Option<i64>, Vec<JobRow>), DbError> {
    let rows = sqlx::query!(
        r#"select j.id, j.command, j.instance_type, j.instance_id, j.status, j.result_code, j.result, j.progress,
             j.waiting_for, j.deadline as "deadline: Ts", j.created as "created: Ts",
             j.completed as "completed: Ts", a.uuid as account_id, a.account_name, d.uuid as domain_id, d.path,
             u.uuid as user_id, count(*) over () as total
           from async_job j
           join account a on a.id = j.account_id
           join domain d on d.id = a.domain_id
           join "user" u on u.id = j.user_id
           left join kubernetes_cluster k on k.id = j.cluster_id
           left join domain kd on kd.id = k.domain_id
           where ($1::uuid is null or j.id = $1)
             and ($2::timestamptz is null or j.created >= $2)
             and ($3::text is null or j.command ilike $3)
             and ($4::uuid is null or j.instance_id = $4)
             and ($5::text is null or lower(j.instance_type) = lower($5))
             and ($6::bigint[] is null or j.account_id = any($6) or k.account_id = any($6))
             and ($7::bigint is null or a.domain_id = $7)
             and ($8::text is null or starts_with(d.path, $8) or starts_with(kd.path, $8))
             and ($9 or not a.is_project)
           order by j.seq limit $10 offset $11"#,
        filter.id.map(|id| id.0),
        filter.since.map(ToSqlx::to_sqlx) as Option<Ts>,
        filter.keyword.as_deref().map(pattern),
        filter.instance,
        filter.instance_type,
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
        .map(|row| JobRow {
            id: row.id.into(),
            command: row.command,
            account: (row.account_id, row.account_name),
            domain: (row.domain_id, row.path),
            user_id: row.user_id,
            instance: row.instance_type.zip(row.instance_id),
            status: row.status,
            result_code: row.result_code.unwrap_or_default(),
            result: row.result,
            progress: row.progress,
            waiting_for: row.waiting_for,
            deadline: row.deadline.map(Ts::to_jiff),
            created: row.created.to_jiff(),
            completed: row.completed.map(Ts::to_jiff),
        })
        .collect();
    Ok((total, rows))
}

/// The machines among `machines` that an earlier scale of this cluster named, in its request or its plan, and that
/// are members of no cluster now.
pub async fn removed_machines(
    conn: &mut PgConnection,
    cluster_key: i64,
    machines: &[Uuid],
) -> Result<Vec<Uuid>, DbError> {
    let rows = sqlx::query_scalar!(
        r#"select vm.id as "id!" from unnest($2::uuid[]) as vm (id)
           where exists (
             select 1 from async_job j
             where j.cluster_id = $1 and j.command = 'scaleKubernetesCluster' and j.phase = 'done' and j.plan is not null
               and (j.request -> 'node_ids' ? vm.id::text
                 or strpos(j.plan::text, vm.id::text) > 0))
             and not exists (select 1 from kubernetes_cluster_vm_map m where m.vm_id = vm.id)"#,
        cluster_key,
        machines
    )
    .fetch_all(conn)
    .await?;
    Ok(rows)
}
