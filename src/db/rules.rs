//! Which rules of the cloud are ours (`cluster_rule`).

use std::net::IpAddr;

use sqlx::PgConnection;

use super::DbError;
use crate::domain::id::{PublicIpId, RuleId, VmId};

/// What a rule is in the cloud.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RuleKind {
    /// A port-forwarding rule.
    Forwarding,
    /// A firewall rule.
    Firewall,
}

/// What a rule is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RulePurpose {
    /// SSH of one node.
    Ssh,
    /// The Kubernetes API.
    Api,
}

/// A rule of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterRule {
    /// Its id in the cloud.
    pub cloud_id: RuleId,
    /// What it is.
    pub kind: RuleKind,
    /// The machine that it leads to.
    pub vm_id: Option<VmId>,
    /// What it is for.
    pub purpose: RulePurpose,
    /// The public address.
    pub public_ip_id: PublicIpId,
    /// The address itself.
    pub address: IpAddr,
    /// First public port.
    pub public_port: u16,
    /// Last public port.
    pub public_end_port: u16,
}

/// The rules of a cluster, by port.
pub async fn list(conn: &mut PgConnection, cluster_key: i64) -> Result<Vec<ClusterRule>, DbError> {
    let rows = sqlx::query!(
        "select cloud_id, kind, vm_id, purpose, public_ip_id, address, public_port, public_end_port
         from cluster_rule where cluster_id = $1 order by public_port, cloud_id",
        cluster_key
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter()
        .map(|row| {
            let wrong = |column, what: &dyn ToString| {
                DbError::inconsistent("cluster_rule", column, row.cloud_id, what.to_string())
            };
            Ok(ClusterRule {
                cloud_id: row.cloud_id.into(),
                kind: match row.kind.as_str() {
                    "forwarding" => RuleKind::Forwarding,
                    "firewall" => RuleKind::Firewall,
                    other => return Err(wrong("kind", &other)),
                },
                vm_id: row.vm_id.map(Into::into),
                purpose: match row.purpose.as_str() {
                    "ssh" => RulePurpose::Ssh,
                    "api" => RulePurpose::Api,
                    other => return Err(wrong("purpose", &other)),
                },
                public_ip_id: row.public_ip_id.into(),
                address: row.address.parse().map_err(|error| wrong("address", &error))?,
                public_port: row
                    .public_port
                    .try_into()
                    .map_err(|error| wrong("public_port", &error))?,
                public_end_port: row
                    .public_end_port
                    .try_into()
                    .map_err(|error| wrong("public_end_port", &error))?,
            })
        })
        .collect()
}

/// Writes a rule of ours; one that is there already is brought up to date.
pub async fn put(conn: &mut PgConnection, cluster_key: i64, rule: &ClusterRule) -> Result<(), DbError> {
    let kind = match rule.kind {
        RuleKind::Forwarding => "forwarding",
        RuleKind::Firewall => "firewall",
    };
    let purpose = match rule.purpose {
        RulePurpose::Ssh => "ssh",
        RulePurpose::Api => "api",
    };
    sqlx::query!(
        "insert into cluster_rule
           (cloud_id, cluster_id, kind, vm_id, purpose, public_ip_id, address, public_port, public_end_port)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9)
         on conflict (cloud_id) do update set vm_id = excluded.vm_id, public_ip_id = excluded.public_ip_id,
           address = excluded.address, public_port = excluded.public_port,
           public_end_port = excluded.public_end_port",
        rule.cloud_id.0,
        cluster_key,
        kind,
        rule.vm_id.map(|id| id.0),
        purpose,
        rule.public_ip_id.0,
        rule.address.to_string(),
        i32::from(rule.public_port),
        i32::from(rule.public_end_port),
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Drops a rule of ours; says whether it was there.
pub async fn drop_one(conn: &mut PgConnection, cluster_key: i64, rule: RuleId) -> Result<bool, DbError> {
    let done = sqlx::query!(
        "delete from cluster_rule where cluster_id = $1 and cloud_id = $2",
        cluster_key,
        rule.0
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected() > 0)
}
