//! What an import reads of the database, and the one transaction in which it writes.

use std::collections::BTreeMap;

use sqlx::PgConnection;
use uuid::Uuid;

use super::DbError;
use crate::domain::cluster::State;
use crate::domain::id::{AccountId, ClusterId, NetworkId, OfferingId, TemplateId, VersionId, VmId, ZoneId};

/// Every registered version: id and semantic version.
pub async fn versions(conn: &mut PgConnection) -> Result<Vec<(VersionId, String)>, DbError> {
    let rows = sqlx::query!(
        "select uuid, semantic_version from kubernetes_supported_version where removed is null order by id"
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| (VersionId(row.uuid), row.semantic_version))
        .collect())
}

/// Every account: id, name, path of its domain.
pub async fn accounts(conn: &mut PgConnection) -> Result<Vec<(AccountId, String, String)>, DbError> {
    let rows = sqlx::query!(
        "select a.uuid, a.account_name, d.path from account a join domain d on d.id = a.domain_id
         where a.removed is null order by a.id"
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| (AccountId(row.uuid), row.account_name, row.path))
        .collect())
}

/// The machines of every managed cluster, with the cluster's id and name.
pub async fn taken(conn: &mut PgConnection) -> Result<BTreeMap<VmId, (ClusterId, String)>, DbError> {
    let rows = sqlx::query!(
        "select m.vm_id, c.uuid, c.name from kubernetes_cluster_vm_map m
         join kubernetes_cluster c on c.id = m.cluster_id where c.removed is null"
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| (VmId(row.vm_id), (ClusterId(row.uuid), row.name)))
        .collect())
}

/// Whether a cluster of that id is managed, and whether it was released.
pub async fn known(conn: &mut PgConnection, id: ClusterId) -> Result<Option<Known>, DbError> {
    let row = sqlx::query!(
        "select released is not null as \"released!\" from kubernetes_cluster where uuid = $1",
        id.0
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(|row| {
        if row.released {
            Known::Released
        } else {
            Known::Managed
        }
    }))
}

/// What the database says of a cluster id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// It is under management.
    Managed,
    /// Its management has ended.
    Released,
}

/// The row of a cluster as an import writes it.
#[derive(Debug)]
pub struct NewCluster {
    /// Its id.
    pub id: ClusterId,
    /// Its name.
    pub name: String,
    /// Its description.
    pub description: String,
    /// Its zone.
    pub zone_id: ZoneId,
    /// The version of the cluster as a whole.
    pub version: VersionId,
    /// Offering of the control nodes.
    pub control_offering: Option<OfferingId>,
    /// Offering of the workers; the cluster's default too.
    pub worker_offering: Option<OfferingId>,
    /// Template of new workers; the cluster's default too.
    pub worker_template: Option<TemplateId>,
    /// Template of new control nodes.
    pub control_template: Option<TemplateId>,
    /// Its network.
    pub network_id: NetworkId,
    /// Owner.
    pub account: AccountId,
    /// Its state and why.
    pub state: State,
    /// Why it is in Alert.
    pub reason: Option<String>,
    /// Key pair name.
    pub key_pair: Option<String>,
    /// Total cores.
    pub cores: i64,
    /// Total memory in MB.
    pub memory_mb: i64,
    /// Where its API answers.
    pub endpoint: Option<String>,
    /// Number of control nodes, workers and etcd machines.
    pub counts: (i64, i64, i64),
}

/// Writes the row of a cluster and returns its key. The caller holds the transaction.
pub async fn insert(conn: &mut PgConnection, new: &NewCluster) -> Result<i64, DbError> {
    let key = sqlx::query_scalar!(
        "insert into kubernetes_cluster (uuid, name, description, zone_id, kubernetes_version_id,
           service_offering_id, control_node_service_offering_id, worker_node_service_offering_id, template_id,
           control_node_template_id, worker_node_template_id, network_id, control_node_count, node_count,
           etcd_node_count, account_id, domain_id, state, state_reason, key_pair, cores, memory, endpoint)
         select $1, $2, $3, $4, v.id, $6, $7, $6, $8, $9, $8, $10, $11, $12, $13, a.id, a.domain_id, $14, $15, $16,
           $17, $18, $19
         from kubernetes_supported_version v, account a where v.uuid = $5 and a.uuid = $20
         returning id",
        new.id.0,
        new.name,
        new.description,
        new.zone_id.0,
        new.version.0,
        new.worker_offering.map(Uuid::from),
        new.control_offering.map(Uuid::from),
        new.worker_template.map(Uuid::from),
        new.control_template.map(Uuid::from),
        new.network_id.0,
        new.counts.0,
        new.counts.1,
        new.counts.2,
        new.state.name(),
        new.reason,
        new.key_pair,
        new.cores,
        new.memory_mb,
        new.endpoint,
        new.account.0,
    )
    .fetch_one(conn)
    .await?;
    Ok(key)
}
