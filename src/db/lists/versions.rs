//! Supported versions as replies show them.

use jiff::Timestamp;
use jiff_sqlx::Timestamp as Ts;
use serde_json::Value;
use sqlx::PgConnection;
use uuid::Uuid;

use super::pattern;
use crate::db::DbError;
use crate::domain::id::{VersionId, ZoneId};

/// Which versions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// This one.
    pub id: Option<VersionId>,
    /// Usable in this zone.
    pub zone: Option<ZoneId>,
    /// For this CPU architecture.
    pub arch: Option<String>,
    /// With this text in the name.
    pub keyword: Option<String>,
}

/// A version as a reply shows it.
#[derive(Debug, Clone)]
pub struct VersionRow {
    /// Its id.
    pub id: VersionId,
    /// Its name.
    pub name: String,
    /// `1.32.5`.
    pub semantic_version: String,
    /// The ISO: id, and what the cloud said of it.
    pub iso: (Uuid, Option<(String, Value)>),
    /// Id and name of the only zone that it is for.
    pub zone: Option<(Uuid, Option<String>)>,
    /// `Enabled` or `Disabled`.
    pub state: String,
    /// CPU architecture.
    pub arch: String,
    /// Least cores.
    pub min_cpu: i32,
    /// Least memory in MB.
    pub min_memory_mb: i64,
    /// Whether hosts fetch the ISO themselves.
    pub direct_download: bool,
    /// When it was registered.
    pub created: Timestamp,
}

/// All matching versions, oldest first.
pub async fn list(conn: &mut PgConnection, filter: &Filter) -> Result<Vec<VersionRow>, DbError> {
    let rows = sqlx::query!(
        r#"select v.uuid, v.name, v.semantic_version, v.iso_id, v.zone_id, v.state, v.arch, v.min_cpu,
             v.min_ram_size, v.directdownload, v.created as "created: Ts", iso.name as "iso_name?",
             iso.data as "iso?", zone.name as "zone_name?"
           from kubernetes_supported_version v
           left join cloud_object iso on iso.kind = 'iso' and iso.id = v.iso_id
           left join cloud_object zone on zone.kind = 'zone' and zone.id = v.zone_id
           where v.removed is null
             and ($1::uuid is null or v.uuid = $1)
             and ($2::uuid is null or v.zone_id is null or v.zone_id = $2)
             and ($3::text is null or v.arch = $3)
             and ($4::text is null or v.name ilike $4)
           order by v.id"#,
        filter.id.map(|id| id.0),
        filter.zone.map(|id| id.0),
        filter.arch,
        filter.keyword.as_deref().map(pattern),
    )
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| VersionRow {
            id: row.uuid.into(),
            name: row.name,
            semantic_version: row.semantic_version,
            iso: (row.iso_id, row.iso_name.zip(row.iso)),
            zone: row.zone_id.map(|id| (id, row.zone_name)),
            state: row.state,
            arch: row.arch,
            min_cpu: row.min_cpu,
            min_memory_mb: row.min_ram_size,
            direct_download: row.directdownload,
            created: row.created.to_jiff(),
        })
        .collect())
}

/// Whether an id is or was that of a version; for a list by id, one that is gone is an empty list.
pub async fn semantic_version_of(conn: &mut PgConnection, id: VersionId) -> Result<Option<String>, DbError> {
    Ok(sqlx::query_scalar!(
        "select semantic_version from kubernetes_supported_version where uuid = $1",
        id.0
    )
    .fetch_optional(conn)
    .await?)
}
