//! Clusters with all that a reply shows of them, from what is stored.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff_sqlx::Timestamp as Ts;
use serde_json::Value;
use sqlx::PgConnection;
use uuid::Uuid;

use super::pattern;
use crate::db::DbError;
use crate::domain::account::{ProjectRows, Scope};
use crate::domain::id::{ClusterId, JobId, VmId};

/// Which clusters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// This one.
    pub id: Option<ClusterId>,
    /// With this name.
    pub name: Option<String>,
    /// With this text in the name.
    pub keyword: Option<String>,
    /// In this state.
    pub state: Option<String>,
    /// Of this type.
    pub cluster_type: Option<String>,
}

/// A cluster as a reply shows it.
#[derive(Debug, Clone)]
pub struct ClusterRow {
    /// The key inside the database.
    pub key: i64,
    /// Its id.
    pub id: ClusterId,
    /// Its name.
    pub name: String,
    /// Its description.
    pub description: Option<String>,
    /// Its state.
    pub state: String,
    /// Why it is in that state, where somebody wrote it down.
    pub state_reason: Option<String>,
    /// Id and name of the zone.
    pub zone: (Uuid, Option<String>),
    /// Number of control nodes.
    pub control_count: i64,
    /// Number of workers.
    pub node_count: i64,
    /// Number of etcd machines.
    pub etcd_count: i64,
    /// Id and name of the template.
    pub template: Option<(Uuid, String)>,
    /// Id and name of the default offering.
    pub offering: Option<(Uuid, String)>,
    /// Those of the control nodes.
    pub control_offering: Option<(Uuid, String)>,
    /// Those of the workers.
    pub worker_offering: Option<(Uuid, String)>,
    /// Those of the etcd machines.
    pub etcd_offering: Option<(Uuid, String)>,
    /// Id and name of the network.
    pub network: Option<(Uuid, String)>,
    /// Whether nodes are reached at their own addresses.
    pub direct_access: bool,
    /// Id and name of the version.
    pub version: Option<(Uuid, String)>,
    /// The CNI configuration.
    pub cni_config_id: Option<Uuid>,
    /// Whether the CSI driver is deployed.
    pub csi_enabled: bool,
    /// The owner, unless it is a project.
    pub account: Option<String>,
    /// Id and name of the owning project.
    pub project: Option<(Uuid, String)>,
    /// The owner's domain: id, name, path as stored.
    pub domain: (Uuid, String, String),
    /// Name of the key pair.
    pub key_pair: Option<String>,
    /// Cores of all members.
    pub cores: i64,
    /// Memory of all members in MB.
    pub memory_mb: i64,
    /// Id and address, if there is exactly one.
    pub address: Option<(Uuid, String)>,
    /// Address of the Kubernetes API.
    pub endpoint: Option<String>,
    /// Whether the autoscaler runs.
    pub autoscaling_enabled: bool,
    /// Its limits.
    pub min_size: Option<i64>,
    /// Its limits.
    pub max_size: Option<i64>,
    /// `CloudManaged` or `ExternalManaged`.
    pub cluster_type: String,
    /// When it was made.
    pub created: Timestamp,
    /// The job that owns it now.
    pub open_job: Option<JobId>,
    /// Its members.
    pub members: Vec<MemberRow>,
}

/// A member as a reply shows it.
#[derive(Debug, Clone)]
pub struct MemberRow {
    /// The machine.
    pub vm_id: VmId,
    /// Its name.
    pub vm_name: String,
    /// Whether it runs etcd alone.
    pub etcd: bool,
    /// Whether the user brought it.
    pub external: bool,
    /// The recorded version of its kubelet.
    pub node_version: Option<String>,
    /// The machine as the cloud sent it, when it was last seen.
    pub machine: Option<Value>,
    /// Public port and address of its SSH forward.
    pub ssh: Option<(i32, String)>,
}

/// The keys of all matching clusters, oldest first.
pub async fn keys(conn: &mut PgConnection, scope: &Scope, filter: &Filter) -> Result<Vec<i64>, DbError> {
    Ok(sqlx::query_scalar!(
        r#"select k.id from kubernetes_cluster k
           join account a on a.id = k.account_id
           join domain d on d.id = k.domain_id
           where k.removed is null and k.released is null
             and ($1::uuid is null or k.uuid = $1)
             and ($2::text is null or k.name = $2)
             and ($3::text is null or k.name ilike $3)
             and ($4::text is null or k.state = $4)
             and ($5::text is null or k.cluster_type = $5)
             and ($6::bigint[] is null or k.account_id = any($6))
             and ($7::bigint is null or k.domain_id = $7)
             and ($8::text is null or starts_with(d.path, $8))
             and ($9 or not a.is_project)
           order by k.id"#,
        filter.id.map(|id| id.0),
        filter.name,
        filter.keyword.as_deref().map(pattern),
        filter.state,
        filter.cluster_type,
        scope.accounts.as_deref(),
        scope.domain,
        scope.subtree,
        scope.projects == ProjectRows::Shown,
    )
    .fetch_all(conn)
    .await?)
}

/// What an id stands for, for somebody who sees `scope`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// A cluster, by key.
    Here(i64),
    /// A cluster that was deleted or released.
    Gone,
}

/// Looks an id up; nothing for one that is unknown or out of sight.
pub async fn look_up(
    conn: &mut PgConnection,
    scope: &Scope,
    id: ClusterId,
) -> Result<Option<Known>, DbError> {
    let row = sqlx::query!(
        r#"select k.id, (k.removed is not null or k.released is not null) as "gone!"
           from kubernetes_cluster k join domain d on d.id = k.domain_id
           where k.uuid = $1
             and ($2::bigint[] is null or k.account_id = any($2))
             and ($3::text is null or starts_with(d.path, $3))"#,
        id.0,
        scope.accounts.as_deref(),
        scope.subtree,
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(|row| {
        if row.gone {
            Known::Gone
        } else {
            Known::Here(row.id)
        }
    }))
}

fn named(id: Option<Uuid>, name: Option<String>) -> Option<(Uuid, String)> {
    Some((id?, name?))
}

/// The clusters with these keys, oldest first, with their members: two statements.
pub async fn rows(conn: &mut PgConnection, keys: &[i64]) -> Result<Vec<ClusterRow>, DbError> {
    let rows = sqlx::query_file!("src/db/sql/list_cluster_rows.sql", keys)
        .fetch_all(&mut *conn)
        .await?;
    let mut members = members(conn, keys).await?;
    Ok(rows
        .into_iter()
        .map(|row| ClusterRow {
            key: row.key,
            id: row.uuid.into(),
            name: row.name,
            description: row.description,
            state: row.state,
            state_reason: row.state_reason,
            zone: (row.zone_id, row.zone_name),
            control_count: row.control_node_count,
            node_count: row.node_count,
            etcd_count: row.etcd_node_count,
            template: named(row.template, row.template_name),
            offering: named(row.service_offering_id, row.offering_name),
            control_offering: named(row.control_node_service_offering_id, row.control_offering_name),
            worker_offering: named(row.worker_node_service_offering_id, row.worker_offering_name),
            etcd_offering: named(row.etcd_node_service_offering_id, row.etcd_offering_name),
            network: named(row.network_id, row.network_name),
            direct_access: row.network_kind.as_deref() == Some("Shared") || row.network_routed == Some(true),
            version: named(row.version_id, row.version_name),
            cni_config_id: row.cni_config_id,
            csi_enabled: row.csi_enabled,
            account: (!row.is_project).then_some(row.account_name),
            project: named(row.project_id, row.project_name),
            domain: (row.domain_id, row.domain_name, row.domain_path),
            key_pair: row.key_pair,
            cores: row.cores,
            memory_mb: row.memory,
            address: named(row.ip_id, row.ip_address).filter(|_| row.ip_addresses == Some(1)),
            endpoint: row.endpoint,
            autoscaling_enabled: row.autoscaling_enabled,
            min_size: row.minsize,
            max_size: row.maxsize,
            cluster_type: row.cluster_type,
            created: row.created.to_jiff(),
            open_job: row.job_id.map(Into::into),
            members: members.remove(&row.key).unwrap_or_default(),
        })
        .collect())
}

async fn members(conn: &mut PgConnection, keys: &[i64]) -> Result<BTreeMap<i64, Vec<MemberRow>>, DbError> {
    let rows = sqlx::query!(
        r#"select m.cluster_id, m.vm_id, m.vm_name, m.etcd_node, m.external_node, m.kubernetes_node_version,
             vm.data as "machine?", r.public_port as "ssh_port?", r.address as "ssh_address?"
           from kubernetes_cluster_vm_map m
           left join cloud_object vm on vm.kind = 'vm' and vm.id = m.vm_id
           left join lateral (
             select r.public_port, r.address from cluster_rule r
             where r.cluster_id = m.cluster_id and r.vm_id = m.vm_id and r.kind = 'forwarding' and r.purpose = 'ssh'
             order by r.public_port limit 1
           ) r on true
           where m.cluster_id = any($1)
           order by m.cluster_id, m.id"#,
        keys
    )
    .fetch_all(conn)
    .await?;
    let mut members: BTreeMap<i64, Vec<MemberRow>> = BTreeMap::new();
    for row in rows {
        members.entry(row.cluster_id).or_default().push(MemberRow {
            vm_id: row.vm_id.into(),
            vm_name: row.vm_name,
            etcd: row.etcd_node,
            external: row.external_node,
            node_version: row.kubernetes_node_version,
            machine: row.machine,
            ssh: row.ssh_port.zip(row.ssh_address),
        });
    }
    Ok(members)
}

/// The cluster in sight of `scope` that one of these machines belongs to, by machine.
pub async fn of_machines(
    conn: &mut PgConnection,
    scope: &Scope,
    machines: &[VmId],
) -> Result<BTreeMap<VmId, i64>, DbError> {
    let ids: Vec<Uuid> = machines.iter().map(|vm| vm.0).collect();
    let rows = sqlx::query!(
        "select m.vm_id, m.cluster_id from kubernetes_cluster_vm_map m
         join kubernetes_cluster k on k.id = m.cluster_id
         join domain d on d.id = k.domain_id
         where m.vm_id = any($1)
           and ($2::bigint[] is null or k.account_id = any($2))
           and ($3::text is null or starts_with(d.path, $3))",
        &ids,
        scope.accounts.as_deref(),
        scope.subtree,
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| (row.vm_id.into(), row.cluster_id))
        .collect())
}
