//! What `cksd check` reads of the database: the rows that the invariants are about (`behaviour.md` 14).

use serde_json::Value;
use sqlx::PgConnection;
use uuid::Uuid;

use super::DbError;

/// A cluster, as far as the invariants look at it.
#[derive(Debug, Clone)]
pub struct ClusterRow {
    /// Inner key.
    pub key: i64,
    /// Its id.
    pub id: Uuid,
    /// Its name.
    pub name: String,
    /// Its state.
    pub state: String,
    /// Workers as counted.
    pub node_count: i64,
    /// Control nodes as counted.
    pub control_count: i64,
    /// Etcd machines as counted.
    pub etcd_count: i64,
    /// Cores as counted.
    pub cores: i64,
    /// Memory in MB as counted.
    pub memory_mb: i64,
    /// Whether an unfinished job owns it.
    pub live_job: bool,
    /// Members by role: workers, control nodes, etcd machines.
    pub members: (i64, i64, i64),
}

/// All managed clusters with their members counted.
pub async fn clusters(conn: &mut PgConnection) -> Result<Vec<ClusterRow>, DbError> {
    let rows = sqlx::query!(
        r#"select c.id, c.uuid, c.name, c.state, c.node_count, c.control_node_count, c.etcd_node_count, c.cores,
             c.memory,
             exists (select 1 from async_job j where j.cluster_id = c.id and j.phase <> 'done') as "live!",
             count(m.id) filter (where not m.control_node and not m.etcd_node) as "workers!",
             count(m.id) filter (where m.control_node) as "controls!",
             count(m.id) filter (where m.etcd_node) as "etcds!"
           from kubernetes_cluster c left join kubernetes_cluster_vm_map m on m.cluster_id = c.id
           where c.removed is null and c.released is null and c.cluster_type = 'CloudManaged'
           group by c.id order by c.id"#
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| ClusterRow {
            key: row.id,
            id: row.uuid,
            name: row.name,
            state: row.state,
            node_count: row.node_count,
            control_count: row.control_node_count,
            etcd_count: row.etcd_node_count,
            cores: row.cores,
            memory_mb: row.memory,
            live_job: row.live,
            members: (row.workers, row.controls, row.etcds),
        })
        .collect())
}

/// A ledger row that no live job owns.
#[derive(Debug, Clone)]
pub struct OpenLedger {
    /// Its cluster.
    pub cluster_key: i64,
    /// cordon, iso, rule, vm, host, script, removal, expunge.
    pub kind: String,
    /// Node, machine or rule.
    pub subject: String,
    /// Whether it is a leftover that the background tries again.
    pub leftover: bool,
}

/// Ledger rows whose job has ended.
pub async fn open_ledger(conn: &mut PgConnection) -> Result<Vec<OpenLedger>, DbError> {
    let rows = sqlx::query!(
        r#"select l.cluster_id, l.kind, l.subject, l.next_try is not null as "leftover!"
           from ledger l left join async_job j on j.id = l.job_id
           where j.id is null or j.phase = 'done' order by l.created"#
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| OpenLedger {
            cluster_key: row.cluster_id,
            kind: row.kind,
            subject: row.subject,
            leftover: row.leftover,
        })
        .collect())
}

/// Rules of ours on machines that are no member any more: cluster, machine, address and port.
pub async fn stray_rules(conn: &mut PgConnection) -> Result<Vec<(i64, Uuid, String)>, DbError> {
    let rows = sqlx::query!(
        r#"select r.cluster_id, r.vm_id as "vm_id!", r.address, r.public_port from cluster_rule r
           where r.vm_id is not null and not exists (
             select 1 from kubernetes_cluster_vm_map m where m.cluster_id = r.cluster_id and m.vm_id = r.vm_id)
           order by r.cluster_id, r.public_port"#
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| {
            (
                row.cluster_id,
                row.vm_id,
                format!("{}:{}", row.address, row.public_port),
            )
        })
        .collect())
}

/// A failed job on a cluster, with what it left.
#[derive(Debug, Clone)]
pub struct FailedJob {
    /// Its id.
    pub id: Uuid,
    /// Its command.
    pub command: String,
    /// Its error.
    pub result: Option<Value>,
    /// Whether any step of it was ever begun.
    pub has_steps: bool,
    /// Whether it ever changed the state.
    pub has_history: bool,
    /// Whether it left a ledger row.
    pub has_ledger: bool,
    /// ERROR events of it, with the job's own error text in them.
    pub told: i64,
    /// ERROR events of it.
    pub errors: i64,
}

/// Every failed job on a cluster.
pub async fn failed_jobs(conn: &mut PgConnection) -> Result<Vec<FailedJob>, DbError> {
    let rows = sqlx::query!(
        r#"select j.id, j.command, j.result,
             exists (select 1 from job_step s where s.job_id = j.id) as "has_steps!",
             exists (select 1 from cluster_history h where h.job_id = j.id) as "has_history!",
             exists (select 1 from ledger l where l.job_id = j.id) as "has_ledger!",
             (select count(*) from event e where e.job_id = j.id and e.level = 'ERROR') as "errors!",
             (select count(*) from event e where e.job_id = j.id and e.level = 'ERROR'
                and strpos(e.description, coalesce(j.result ->> 'errortext', '')) > 0) as "told!"
           from async_job j where j.phase = 'done' and j.status = 2 and j.cluster_id is not null order by j.seq"#
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| FailedJob {
            id: row.id,
            command: row.command,
            result: row.result,
            has_steps: row.has_steps,
            has_history: row.has_history,
            has_ledger: row.has_ledger,
            told: row.told,
            errors: row.errors,
        })
        .collect())
}
