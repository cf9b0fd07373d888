//! Supported Kubernetes versions.

use jiff::Timestamp;
use jiff_sqlx::Timestamp as Ts;
use sqlx::PgConnection;
use uuid::Uuid;

use super::DbError;
use crate::domain::id::{IsoId, VersionId, ZoneId};

/// A version that clusters may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SupportedVersion {
    /// The key inside the database.
    pub key: i64,
    /// The id that clients see.
    pub id: VersionId,
    /// Its name.
    pub name: String,
    /// `1.32.5`
    pub semantic_version: String,
    /// The ISO with its binaries.
    pub iso_id: IsoId,
    /// The only zone that it is for.
    pub zone_id: Option<ZoneId>,
    /// Whether new requests may name it.
    pub enabled: bool,
    /// `x86_64`
    pub arch: String,
    /// Least number of cores.
    pub min_cpu: i32,
    /// Least memory in MB.
    pub min_ram_mb: i64,
    /// Whether the ISO is downloaded straight to hosts.
    pub direct_download: bool,
    /// When it was registered.
    pub created: Timestamp,
}

/// A version by its id, unless it was removed.
pub async fn find(conn: &mut PgConnection, id: VersionId) -> Result<Option<SupportedVersion>, DbError> {
    load(conn, Some(id.0), None).await
}

/// A version by its key, removed or not.
pub async fn by_key(conn: &mut PgConnection, key: i64) -> Result<Option<SupportedVersion>, DbError> {
    load(conn, None, Some(key)).await
}

async fn load(
    conn: &mut PgConnection,
    id: Option<Uuid>,
    key: Option<i64>,
) -> Result<Option<SupportedVersion>, DbError> {
    let row = sqlx::query!(
        r#"select id, uuid, name, semantic_version, iso_id, zone_id, state, arch, min_cpu, min_ram_size,
             directdownload, created as "created: Ts"
           from kubernetes_supported_version
           where ($1::uuid is null or (uuid = $1 and removed is null)) and ($2::bigint is null or id = $2)"#,
        id,
        key
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(|row| SupportedVersion {
        key: row.id,
        id: row.uuid.into(),
        name: row.name,
        semantic_version: row.semantic_version,
        iso_id: row.iso_id.into(),
        zone_id: row.zone_id.map(Into::into),
        enabled: row.state == "Enabled",
        arch: row.arch,
        min_cpu: row.min_cpu,
        min_ram_mb: row.min_ram_size,
        direct_download: row.directdownload,
        created: row.created.to_jiff(),
    }))
}
