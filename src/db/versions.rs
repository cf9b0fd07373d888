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

/// A version to register.
#[derive(Debug, Clone)]
pub struct NewVersion {
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
    /// Least number of cores.
    pub min_cpu: i32,
    /// Least memory in MB.
    pub min_ram_mb: i64,
}

/// Registers a version, enabled.
pub async fn insert(conn: &mut PgConnection, new: &NewVersion) -> Result<SupportedVersion, DbError> {
    sqlx::query!(
        "insert into kubernetes_supported_version
           (uuid, name, semantic_version, iso_id, zone_id, state, min_cpu, min_ram_size)
         values ($1, $2, $3, $4, $5, 'Enabled', $6, $7)",
        new.id.0,
        new.name,
        new.semantic_version,
        new.iso_id.0,
        new.zone_id.map(|id| id.0),
        new.min_cpu,
        new.min_ram_mb
    )
    .execute(&mut *conn)
    .await?;
    find(conn, new.id).await?.ok_or_else(|| DbError::Missing {
        table: "kubernetes_supported_version",
        row: new.id.to_string(),
    })
}

/// The registered version of an ISO, unless it was removed.
pub async fn by_iso(
    conn: &mut PgConnection,
    semantic_version: &str,
    iso: IsoId,
) -> Result<Option<SupportedVersion>, DbError> {
    let id = sqlx::query_scalar!(
        "select uuid from kubernetes_supported_version
         where semantic_version = $1 and iso_id = $2 and removed is null order by id limit 1",
        semantic_version,
        iso.0
    )
    .fetch_optional(&mut *conn)
    .await?;
    match id {
        Some(id) => find(conn, id.into()).await,
        None => Ok(None),
    }
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
