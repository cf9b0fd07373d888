//! Clusters: look-up, and the only place where the state of a cluster is written.
//!
//! **Invariant:** `write_state` has the one UPDATE of the column `state`. It is a compare-and-set on state and
//! generation, and writes the history row in the same transaction.

use jiff_sqlx::Timestamp as Ts;
use sqlx::PgConnection;
use uuid::Uuid;

use super::{Cas, DbError, Expected};
use crate::domain::cluster::{Cluster, ClusterType, Event, IllegalTransition, State};
use crate::domain::id::{ClusterId, JobId};

/// The cluster with this id, unless it is destroyed or released.
pub async fn find(conn: &mut PgConnection, id: ClusterId) -> Result<Option<Cluster>, DbError> {
    load(conn, Some(id.0), None).await
}

/// The cluster with this id.
pub async fn get(conn: &mut PgConnection, id: ClusterId) -> Result<Cluster, DbError> {
    find(conn, id).await?.ok_or_else(|| missing(id))
}

/// The cluster with this key, destroyed or not.
pub async fn by_key(conn: &mut PgConnection, key: i64) -> Result<Cluster, DbError> {
    load(conn, None, Some(key)).await?.ok_or_else(|| missing(key))
}

/// Locks the row of a cluster until the end of the transaction, so that its state stays as it is read next.
/// It excludes every transition and every other admission on this cluster.
pub async fn lock(conn: &mut PgConnection, key: i64) -> Result<(), DbError> {
    sqlx::query_scalar!(
        "select id from kubernetes_cluster where id = $1 for no key update",
        key
    )
    .fetch_optional(&mut *conn)
    .await?
    .map(|_| ())
    .ok_or_else(|| missing(key))
}

/// Takes `event` on a cluster that must still be as `expected`.
///
/// # Errors
/// [`DbError::Illegal`] when the table of the state machine has no such row; nothing is written then.
pub async fn transition(
    conn: &mut PgConnection,
    key: i64,
    expected: Expected,
    event: Event,
    job: Option<JobId>,
    reason: Option<&str>,
) -> Result<Cas<Cluster>, DbError> {
    let to = expected.state.on(event)?;
    write_state(conn, key, expected, &event.to_string(), to, job, reason).await
}

/// Gives a cluster back to the state in which its operation found it (`GivenBack`, `behaviour.md` 3).
///
/// # Errors
/// [`DbError::Illegal`] when the state is none that can be given back, or `from` none to give back to.
pub async fn give_back(
    conn: &mut PgConnection,
    key: i64,
    expected: Expected,
    from: State,
    job: Option<JobId>,
    reason: Option<&str>,
) -> Result<Cas<Cluster>, DbError> {
    let to = expected.state.given_back(from).ok_or(IllegalTransition {
        from: expected.state,
        event: Event::OperationSucceeded,
    })?;
    write_state(conn, key, expected, "GivenBack", to, job, reason).await
}

/// The compare-and-set. In a close race `found` is the row as it was just before.
async fn write_state(
    conn: &mut PgConnection,
    key: i64,
    expected: Expected,
    event: &str,
    to: State,
    job: Option<JobId>,
    reason: Option<&str>,
) -> Result<Cas<Cluster>, DbError> {
    let row = sqlx::query!(
        r#"
        with found as (
          select id, state, generation from kubernetes_cluster where id = $1 and removed is null
        ), moved as (
          update kubernetes_cluster
          set state = $4,
              generation = generation + 1,
              state_reason = case
                when $4 = 'Alert' then coalesce($5, state_reason)
                when $4 in ('Running', 'Stopped', 'Destroyed') then null
                else state_reason end,
              removed = case when $4 = 'Destroyed' then now() end
          where id = $1 and removed is null and state = $2 and generation = $3
          returning id, generation
        )
        select found.state as "state!", found.generation as "generation!", moved.generation as "moved?"
        from found left join moved using (id)
        "#,
        key,
        expected.state.name(),
        expected.generation,
        to.name(),
        reason,
    )
    .fetch_optional(&mut *conn)
    .await?;
    let Some(row) = row else {
        return Ok(Cas::Missing);
    };
    let Some(generation) = row.moved else {
        let found = Expected {
            state: parse_state(key, &row.state)?,
            generation: row.generation,
        };
        return Ok(Cas::Lost { found });
    };
    sqlx::query!(
        "insert into cluster_history (cluster_id, generation, from_state, event, to_state, job_id, reason)
         values ($1, $2, $3, $4, $5, $6, $7)",
        key,
        generation,
        expected.state.name(),
        event,
        to.name(),
        job.map(|id| id.0),
        reason,
    )
    .execute(&mut *conn)
    .await?;
    by_key(conn, key).await.map(Cas::Applied)
}

/// Counts and resources of a cluster, which must equal its map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Control nodes.
    pub control: i64,
    /// Workers, external ones included.
    pub workers: i64,
    /// Separate etcd machines.
    pub etcd: i64,
    /// Cores of all.
    pub cores: i64,
    /// Memory of all, in MB.
    pub memory_mb: i64,
}

/// Sets the counts.
pub async fn set_counts(conn: &mut PgConnection, key: i64, counts: Counts) -> Result<(), DbError> {
    let done = sqlx::query!(
        "update kubernetes_cluster
         set control_node_count = $2, node_count = $3, etcd_node_count = $4, cores = $5, memory = $6
         where id = $1",
        key,
        counts.control,
        counts.workers,
        counts.etcd,
        counts.cores,
        counts.memory_mb,
    )
    .execute(conn)
    .await?;
    one(done.rows_affected(), key)
}

/// Sets the endpoint of the Kubernetes API.
pub async fn set_endpoint(conn: &mut PgConnection, key: i64, endpoint: &str) -> Result<(), DbError> {
    let done = sqlx::query!(
        "update kubernetes_cluster set endpoint = $2 where id = $1",
        key,
        endpoint
    )
    .execute(conn)
    .await?;
    one(done.rows_affected(), key)
}

/// Which machines an offering is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OfferingOf {
    /// The cluster's default.
    Default,
    /// Control nodes.
    Control,
    /// Workers.
    Worker,
    /// Etcd machines.
    Etcd,
}

/// Sets an offering of a cluster.
pub async fn set_offering(
    conn: &mut PgConnection,
    key: i64,
    of: OfferingOf,
    offering: Uuid,
) -> Result<(), DbError> {
    let which = match of {
        OfferingOf::Default => "default",
        OfferingOf::Control => "control",
        OfferingOf::Worker => "worker",
        OfferingOf::Etcd => "etcd",
    };
    let done = sqlx::query!(
        "update kubernetes_cluster set
           service_offering_id = case when $2 = 'default' then $3 else service_offering_id end,
           control_node_service_offering_id = case when $2 = 'control' then $3 else control_node_service_offering_id end,
           worker_node_service_offering_id = case when $2 = 'worker' then $3 else worker_node_service_offering_id end,
           etcd_node_service_offering_id = case when $2 = 'etcd' then $3 else etcd_node_service_offering_id end
         where id = $1",
        key,
        which,
        offering,
    )
    .execute(conn)
    .await?;
    one(done.rows_affected(), key)
}

/// Sets the version of a cluster.
pub async fn set_version(conn: &mut PgConnection, key: i64, version_key: i64) -> Result<(), DbError> {
    let done = sqlx::query!(
        "update kubernetes_cluster set kubernetes_version_id = $2 where id = $1",
        key,
        version_key
    )
    .execute(conn)
    .await?;
    one(done.rows_affected(), key)
}

/// The stored reason of the state, if any.
pub async fn state_reason(conn: &mut PgConnection, key: i64) -> Result<Option<String>, DbError> {
    let row = sqlx::query_scalar!("select state_reason from kubernetes_cluster where id = $1", key)
        .fetch_optional(conn)
        .await?;
    row.ok_or_else(|| missing(key))
}

async fn load(
    conn: &mut PgConnection,
    id: Option<Uuid>,
    key: Option<i64>,
) -> Result<Option<Cluster>, DbError> {
    let row = sqlx::query!(
        r#"
        select k.id as key, k.uuid, k.name, k.description, k.zone_id, k.service_offering_id,
          k.control_node_service_offering_id, k.worker_node_service_offering_id, k.etcd_node_service_offering_id,
          k.template_id, k.worker_node_template_id, k.network_id, k.control_node_count, k.node_count,
          k.etcd_node_count, k.state, k.generation, k.key_pair, k.cores, k.memory, k.endpoint, k.cluster_type,
          k.autoscaling_enabled, k.minsize, k.maxsize, k.created as "created: Ts",
          v.uuid as "version_id?", v.semantic_version as "semantic_version?",
          a.uuid as account_id, d.uuid as domain_id, p.uuid as "project_id?"
        from kubernetes_cluster k
        join account a on a.id = k.account_id
        join domain d on d.id = k.domain_id
        left join kubernetes_supported_version v on v.id = k.kubernetes_version_id
        left join project p on p.project_account_id = k.account_id
        where ($1::uuid is null or (k.uuid = $1 and k.removed is null)) and ($2::bigint is null or k.id = $2)
        "#,
        id,
        key,
    )
    .fetch_optional(conn)
    .await?;
    let Some(row) = row else { return Ok(None) };
    let cluster_type = match row.cluster_type.as_str() {
        "CloudManaged" => ClusterType::CloudManaged,
        "ExternalManaged" => ClusterType::ExternalManaged,
        other => {
            return Err(DbError::inconsistent(
                "kubernetes_cluster",
                "cluster_type",
                row.key,
                other,
            ));
        }
    };
    Ok(Some(Cluster {
        key: row.key,
        id: row.uuid.into(),
        name: row.name,
        description: row.description,
        zone_id: row.zone_id.into(),
        version_id: row.version_id.map(Into::into),
        semantic_version: row.semantic_version,
        service_offering_id: row.service_offering_id.map(Into::into),
        control_offering_id: row.control_node_service_offering_id.map(Into::into),
        worker_offering_id: row.worker_node_service_offering_id.map(Into::into),
        etcd_offering_id: row.etcd_node_service_offering_id.map(Into::into),
        template_id: row.template_id.map(Into::into),
        worker_template_id: row.worker_node_template_id.map(Into::into),
        network_id: row.network_id.map(Into::into),
        control_count: row.control_node_count,
        node_count: row.node_count,
        etcd_count: row.etcd_node_count,
        account_id: row.account_id.into(),
        domain_id: row.domain_id.into(),
        project_id: row.project_id.map(Into::into),
        state: parse_state(row.key, &row.state)?,
        generation: row.generation,
        key_pair: row.key_pair,
        cores: row.cores,
        memory_mb: row.memory,
        endpoint: row.endpoint,
        cluster_type,
        autoscaling_enabled: row.autoscaling_enabled,
        min_size: row.minsize,
        max_size: row.maxsize,
        created: row.created.to_jiff(),
    }))
}

fn parse_state(key: i64, text: &str) -> Result<State, DbError> {
    text.parse()
        .map_err(|error| DbError::inconsistent("kubernetes_cluster", "state", key, error))
}

#[expect(clippy::needless_pass_by_value, reason = "callers read better")]
fn missing(row: impl ToString) -> DbError {
    DbError::Missing {
        table: "kubernetes_cluster",
        row: row.to_string(),
    }
}

fn one(rows: u64, key: i64) -> Result<(), DbError> {
    if rows == 1 { Ok(()) } else { Err(missing(key)) }
}
