//! What the background reads of all clusters at once.

use jiff::Timestamp;
use jiff_sqlx::{Timestamp as Ts, ToSqlx};
use serde_json::Value;
use sqlx::PgConnection;
use uuid::Uuid;

use super::{DbError, Expected};
use crate::domain::id::{ClusterId, VmId};

/// A cluster that rests, with the generation that a transition must still find.
#[derive(Debug, Clone)]
pub struct Resting {
    /// Inner key.
    pub key: i64,
    /// Its id.
    pub id: ClusterId,
    /// Its name.
    pub name: String,
    /// Its state and generation.
    pub expected: Expected,
    /// Its owner's key.
    pub account_key: i64,
}

/// Clusters in Running, Stopped or Alert that no live job owns.
pub async fn resting(conn: &mut PgConnection) -> Result<Vec<Resting>, DbError> {
    let rows = sqlx::query!(
        r#"select c.id, c.uuid, c.name, c.state, c.generation, c.account_id from kubernetes_cluster c
           where c.removed is null and c.released is null and c.cluster_type = 'CloudManaged'
             and c.state in ('Running', 'Stopped', 'Alert')
             and not exists (select 1 from async_job j where j.cluster_id = c.id and j.phase <> 'done')
           order by c.id"#
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter()
        .map(|row| {
            let state = row
                .state
                .parse()
                .map_err(|error| DbError::inconsistent("kubernetes_cluster", "state", row.id, error))?;
            Ok(Resting {
                key: row.id,
                id: ClusterId(row.uuid),
                name: row.name,
                expected: Expected {
                    state,
                    generation: row.generation,
                },
                account_key: row.account_id,
            })
        })
        .collect()
}

/// Whether a cluster came into Alert since `since`: the scanner looks at once then.
pub async fn alert_since(conn: &mut PgConnection, since: Timestamp) -> Result<bool, DbError> {
    let found = sqlx::query_scalar!(
        r#"select exists (select 1 from cluster_history where to_state = 'Alert' and at >= $1) as "found!""#,
        since.to_sqlx() as Ts,
    )
    .fetch_one(conn)
    .await?;
    Ok(found)
}

/// Whether the script rows of an unfinished upgrade stand for a cluster.
pub async fn script_started(conn: &mut PgConnection, key: i64) -> Result<bool, DbError> {
    let found = sqlx::query_scalar!(
        r#"select exists (select 1 from ledger where cluster_id = $1 and kind = 'script') as "found!""#,
        key
    )
    .fetch_one(conn)
    .await?;
    Ok(found)
}

/// Whether the machine is a member of any cluster.
pub async fn is_member(conn: &mut PgConnection, vm: VmId) -> Result<bool, DbError> {
    let found = sqlx::query_scalar!(
        r#"select exists (select 1 from kubernetes_cluster_vm_map where vm_id = $1) as "found!""#,
        vm.0
    )
    .fetch_one(conn)
    .await?;
    Ok(found)
}

/// An epoch higher than every one before, for a command of the background on a node.
pub async fn new_epoch(conn: &mut PgConnection) -> Result<i64, DbError> {
    Ok(sqlx::query_scalar!(r#"select nextval('job_epoch') as "epoch!""#)
        .fetch_one(conn)
        .await?)
}

/// Keeps what a leftover must remember for its next try. A row that a job has taken over stays as it is.
pub async fn remember(conn: &mut PgConnection, id: Uuid, detail: &Value) -> Result<(), DbError> {
    sqlx::query!(
        "update ledger set detail = $2 where id = $1 and next_try is not null",
        id,
        detail
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// The key of the account that owns a cluster.
pub async fn owner(conn: &mut PgConnection, cluster_key: i64) -> Result<i64, DbError> {
    let key = sqlx::query_scalar!(
        "select account_id from kubernetes_cluster where id = $1",
        cluster_key
    )
    .fetch_one(conn)
    .await?;
    Ok(key)
}

/// Keeps what a walk showed of the machines of clusters: id, name, and the object as the cloud sent it. Rows
/// that say the same already are left alone, so that a quiet pass writes nothing.
pub async fn remember_machines(
    conn: &mut PgConnection,
    ids: &[Uuid],
    names: &[String],
    data: &[Value],
    seen_at: Timestamp,
) -> Result<(), DbError> {
    sqlx::query!(
        "insert into cloud_object (kind, id, name, data, seen_at)
         select 'vm', seen.id, seen.name, seen.data, $4
         from unnest($1::uuid[], $2::text[], $3::jsonb[]) as seen (id, name, data)
         join kubernetes_cluster_vm_map m on m.vm_id = seen.id
         on conflict (kind, id) do update set name = excluded.name, data = excluded.data, seen_at = excluded.seen_at
         where cloud_object.seen_at <= excluded.seen_at and cloud_object.data is distinct from excluded.data",
        ids,
        names,
        data,
        seen_at.to_sqlx() as Ts,
    )
    .execute(conn)
    .await?;
    Ok(())
}
