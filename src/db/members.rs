//! The map of machines to clusters (`kubernetes_cluster_vm_map`), with the host keys of each machine.

use sqlx::PgConnection;

use super::DbError;
use crate::domain::cluster::{MatchedNode, Member, Role};
use crate::domain::id::VmId;

/// A member to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewMember {
    /// The machine.
    pub vm_id: VmId,
    /// Its name in the cloud.
    pub vm_name: String,
    /// Its role.
    pub role: Role,
    /// Brought by the user.
    pub external: bool,
    /// Left out of upgrades.
    pub manual_upgrade: bool,
    /// Its kubelet's version, bare semver.
    pub node_version: Option<String>,
}

/// The members of a cluster, oldest first.
pub async fn list(conn: &mut PgConnection, cluster_key: i64) -> Result<Vec<Member>, DbError> {
    let rows = sqlx::query!(
        r#"
        select m.id, m.vm_id, m.vm_name, m.control_node, m.etcd_node, m.external_node, m.manual_upgrade,
          m.kubernetes_node_version, m.node,
          array(select h.public_key from ssh_host_key h
                where h.cluster_id = m.cluster_id and h.vm_id = m.vm_id
                order by h.recorded, h.public_key) as "host_keys!"
        from kubernetes_cluster_vm_map m
        where m.cluster_id = $1
        order by m.id
        "#,
        cluster_key,
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter()
        .map(|row| {
            let node = row.node.map(serde_json::from_value::<MatchedNode>).transpose();
            Ok(Member {
                key: row.id,
                vm_id: row.vm_id.into(),
                vm_name: row.vm_name,
                role: match (row.control_node, row.etcd_node) {
                    (true, _) => Role::Control,
                    (_, true) => Role::Etcd,
                    _ => Role::Worker,
                },
                external: row.external_node,
                manual_upgrade: row.manual_upgrade,
                node_version: row.kubernetes_node_version,
                node: node.map_err(|error| {
                    DbError::inconsistent("kubernetes_cluster_vm_map", "node", row.id, error)
                })?,
                host_keys: row.host_keys,
            })
        })
        .collect()
}

/// Writes a member; one that is there already is left as it is.
pub async fn insert(conn: &mut PgConnection, cluster_key: i64, new: &NewMember) -> Result<(), DbError> {
    sqlx::query!(
        "insert into kubernetes_cluster_vm_map
           (cluster_id, vm_id, vm_name, control_node, etcd_node, external_node, manual_upgrade, kubernetes_node_version)
         values ($1, $2, $3, $4, $5, $6, $7, $8)
         on conflict (cluster_id, vm_id) do nothing",
        cluster_key,
        new.vm_id.0,
        new.vm_name,
        new.role == Role::Control,
        new.role == Role::Etcd,
        new.external,
        new.manual_upgrade,
        new.node_version,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Drops a member and its host keys; says whether it was there.
pub async fn drop_one(conn: &mut PgConnection, cluster_key: i64, vm: VmId) -> Result<bool, DbError> {
    sqlx::query!(
        "delete from ssh_host_key where cluster_id = $1 and vm_id = $2",
        cluster_key,
        vm.0
    )
    .execute(&mut *conn)
    .await?;
    let done = sqlx::query!(
        "delete from kubernetes_cluster_vm_map where cluster_id = $1 and vm_id = $2",
        cluster_key,
        vm.0
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// Stores the Kubernetes node that a member was matched with. The first match stays.
pub async fn match_node(
    conn: &mut PgConnection,
    cluster_key: i64,
    vm: VmId,
    node: &MatchedNode,
) -> Result<(), DbError> {
    let node = serde_json::to_value(node)
        .map_err(|error| DbError::inconsistent("kubernetes_cluster_vm_map", "node", vm, error))?;
    sqlx::query!(
        "update kubernetes_cluster_vm_map set node = $3 where cluster_id = $1 and vm_id = $2 and node is null",
        cluster_key,
        vm.0,
        node,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Records the version of a member's kubelet, bare semver.
pub async fn set_node_version(
    conn: &mut PgConnection,
    cluster_key: i64,
    vm: VmId,
    version: &str,
) -> Result<(), DbError> {
    sqlx::query!(
        "update kubernetes_cluster_vm_map set kubernetes_node_version = $3 where cluster_id = $1 and vm_id = $2",
        cluster_key,
        vm.0,
        version,
    )
    .execute(conn)
    .await?;
    Ok(())
}
