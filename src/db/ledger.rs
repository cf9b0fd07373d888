//! What we did to the outside and must give back or hand over.
//!
//! **Invariant:** a row stands before the effect that it accounts for, and goes after the effect is undone.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use jiff_sqlx::Timestamp as Ts;
use serde_json::Value;
use sqlx::PgConnection;
use uuid::Uuid;

use super::DbError;
use crate::domain::id::JobId;

/// What a ledger row accounts for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LedgerKind {
    /// A node that we cordoned.
    Cordon,
    /// An ISO that we put into a machine's drive.
    Iso,
    /// A rule that must go.
    Rule,
    /// A machine that we made and that has not become a node.
    Vm,
    /// A machine that left the cluster and whose kubelet may still run.
    Host,
    /// An upgrade script was started. A mark that stays until the upgrade is finished; never a leftover.
    Script,
    /// The point of no return of a removal. A mark of one job; never a leftover.
    Removal,
    /// A destroyed machine that still is to be expunged.
    Expunge,
}

impl LedgerKind {
    /// The word as stored.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            LedgerKind::Cordon => "cordon",
            LedgerKind::Iso => "iso",
            LedgerKind::Rule => "rule",
            LedgerKind::Vm => "vm",
            LedgerKind::Host => "host",
            LedgerKind::Script => "script",
            LedgerKind::Removal => "removal",
            LedgerKind::Expunge => "expunge",
        }
    }
}

impl fmt::Display for LedgerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for LedgerKind {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        use LedgerKind::*;
        [Cordon, Iso, Rule, Vm, Host, Script, Removal, Expunge]
            .into_iter()
            .find(|kind| kind.name() == text)
            .ok_or_else(|| format!("`{text}` is no kind"))
    }
}

/// A ledger row.
#[derive(Debug, Clone, PartialEq)]
pub struct LedgerRow {
    /// Its id.
    pub id: Uuid,
    /// The cluster.
    pub cluster_key: i64,
    /// The job that wrote it, or took it over.
    pub job_id: Option<JobId>,
    /// What it accounts for.
    pub kind: LedgerKind,
    /// Which one: a node name, a machine id, a rule id.
    pub subject: String,
    /// What is needed to undo it.
    pub detail: Value,
    /// When it was written.
    pub created: Timestamp,
    /// Why the last try to undo it failed.
    pub last_error: Option<String>,
    /// When it is tried next; set once it is a leftover.
    pub next_try: Option<Timestamp>,
    /// How often it was tried as a leftover.
    pub tries: i32,
}

/// Writes a row for a job, or takes over the row that stands there.
pub async fn put(
    conn: &mut PgConnection,
    new_id: Uuid,
    cluster_key: i64,
    job: JobId,
    kind: LedgerKind,
    subject: &str,
    detail: &Value,
) -> Result<(), DbError> {
    sqlx::query!(
        "insert into ledger (id, cluster_id, job_id, kind, subject, detail) values ($1, $2, $3, $4, $5, $6)
         on conflict (cluster_id, kind, subject)
         do update set job_id = excluded.job_id, detail = excluded.detail, next_try = null, last_error = null",
        new_id,
        cluster_key,
        job.0,
        kind.name(),
        subject,
        detail,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Drops a row; says whether it was there.
pub async fn drop_one(
    conn: &mut PgConnection,
    cluster_key: i64,
    kind: LedgerKind,
    subject: &str,
) -> Result<bool, DbError> {
    let done = sqlx::query!(
        "delete from ledger where cluster_id = $1 and kind = $2 and subject = $3",
        cluster_key,
        kind.name(),
        subject
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// The rows of a cluster, oldest first.
pub async fn list(conn: &mut PgConnection, cluster_key: i64) -> Result<Vec<LedgerRow>, DbError> {
    let rows = sqlx::query!(
        r#"select id, cluster_id, job_id, kind, subject, detail, created as "created: Ts", last_error,
             next_try as "next_try: Ts", tries
           from ledger where cluster_id = $1 order by created, id"#,
        cluster_key
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter()
        .map(|row| {
            Ok(LedgerRow {
                id: row.id,
                cluster_key: row.cluster_id,
                job_id: row.job_id.map(Into::into),
                kind: parse_kind(row.id, &row.kind)?,
                subject: row.subject,
                detail: row.detail,
                created: row.created.to_jiff(),
                last_error: row.last_error,
                next_try: row.next_try.map(Ts::to_jiff),
                tries: row.tries,
            })
        })
        .collect()
}

/// Makes the open cordon, ISO and host rows of a cluster those of `job` (`behaviour.md` 11), so that the
/// background never touches a node while a job owns its cluster.
pub async fn take_over(conn: &mut PgConnection, cluster_key: i64, job: JobId) -> Result<u64, DbError> {
    let done = sqlx::query!(
        "update ledger set job_id = $2, next_try = null
         where cluster_id = $1 and kind in ('cordon', 'iso', 'host')",
        cluster_key,
        job.0
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
}

/// At the end of a job: its removal marks go, and what else it leaves becomes work of the background.
/// Returns how many rows became leftovers.
pub async fn to_leftovers(conn: &mut PgConnection, job: JobId) -> Result<u64, DbError> {
    sqlx::query!("delete from ledger where job_id = $1 and kind = 'removal'", job.0)
        .execute(&mut *conn)
        .await?;
    let done = sqlx::query!(
        "update ledger set next_try = now()
         where job_id = $1 and next_try is null and kind in ('cordon', 'iso', 'rule', 'vm', 'host', 'expunge')",
        job.0
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
}

/// Due leftovers, each locked until the end of the transaction; rows that another replica has are skipped.
/// Those that act on a node (cordon, ISO, host) only while no live job owns the cluster. Each taken row is
/// put off by `hold`, so that it comes back by itself if the caller dies.
pub async fn claim_leftovers(
    conn: &mut PgConnection,
    limit: i64,
    hold_secs: f64,
) -> Result<Vec<LedgerRow>, DbError> {
    let rows = sqlx::query!(
        r#"
        with due as (
          select l.id from ledger l
          where l.next_try <= now()
            and (l.kind not in ('cordon', 'iso', 'host')
                 or not exists (select 1 from async_job j where j.cluster_id = l.cluster_id and j.phase <> 'done'))
          order by l.next_try limit $1 for update of l skip locked
        )
        update ledger set next_try = now() + make_interval(secs => $2), tries = tries + 1
        from due where ledger.id = due.id
        returning ledger.id, cluster_id, job_id, kind, subject, detail, created as "created: Ts", last_error,
          next_try as "next_try: Ts", tries
        "#,
        limit,
        hold_secs
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter()
        .map(|row| {
            Ok(LedgerRow {
                id: row.id,
                cluster_key: row.cluster_id,
                job_id: row.job_id.map(Into::into),
                kind: parse_kind(row.id, &row.kind)?,
                subject: row.subject,
                detail: row.detail,
                created: row.created.to_jiff(),
                last_error: row.last_error,
                next_try: row.next_try.map(Ts::to_jiff),
                tries: row.tries,
            })
        })
        .collect()
}

/// Puts a leftover off, with the reason.
pub async fn put_off(
    conn: &mut PgConnection,
    id: Uuid,
    after_secs: f64,
    error: Option<&str>,
) -> Result<(), DbError> {
    sqlx::query!(
        "update ledger set next_try = now() + make_interval(secs => $2), last_error = coalesce($3, last_error)
         where id = $1 and next_try is not null",
        id,
        after_secs,
        error
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Drops a leftover that is done. A row that a job has taken over meanwhile stays.
pub async fn drop_leftover(conn: &mut PgConnection, id: Uuid) -> Result<bool, DbError> {
    let done = sqlx::query!("delete from ledger where id = $1 and next_try is not null", id)
        .execute(conn)
        .await?;
    Ok(done.rows_affected() > 0)
}

fn parse_kind(id: Uuid, text: &str) -> Result<LedgerKind, DbError> {
    text.parse()
        .map_err(|error: String| DbError::inconsistent("ledger", "kind", id, error))
}
