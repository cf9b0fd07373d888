//! What the cloud told us and replies need (`cloud_object`), so that a list needs no call to the cloud.

use jiff::Timestamp;
use jiff_sqlx::{Timestamp as Ts, ToSqlx};
use serde_json::Value;
use sqlx::PgConnection;
use uuid::Uuid;

use super::DbError;

/// The kinds of objects that are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CloudKind {
    /// A zone.
    Zone,
    /// A service offering.
    Offering,
    /// A template.
    Template,
    /// A network.
    Network,
    /// An ISO.
    Iso,
    /// A virtual machine, as the cloud sent it.
    Vm,
    /// A public address.
    PublicIp,
}

impl CloudKind {
    /// The word as stored.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            CloudKind::Zone => "zone",
            CloudKind::Offering => "offering",
            CloudKind::Template => "template",
            CloudKind::Network => "network",
            CloudKind::Iso => "iso",
            CloudKind::Vm => "vm",
            CloudKind::PublicIp => "publicip",
        }
    }
}

/// A kept object.
#[derive(Debug, Clone, PartialEq)]
pub struct CloudObject {
    /// Its name.
    pub name: String,
    /// The object.
    pub data: Value,
    /// When the cloud said so.
    pub seen_at: Timestamp,
}

/// Keeps an object; an older sight never replaces a newer one.
pub async fn put(
    conn: &mut PgConnection,
    kind: CloudKind,
    id: Uuid,
    object: &CloudObject,
) -> Result<(), DbError> {
    sqlx::query!(
        "insert into cloud_object (kind, id, name, data, seen_at) values ($1, $2, $3, $4, $5)
         on conflict (kind, id) do update set name = excluded.name, data = excluded.data, seen_at = excluded.seen_at
         where cloud_object.seen_at <= excluded.seen_at",
        kind.name(),
        id,
        object.name,
        object.data,
        object.seen_at.to_sqlx() as Ts,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// A kept object.
pub async fn find(
    conn: &mut PgConnection,
    kind: CloudKind,
    id: Uuid,
) -> Result<Option<CloudObject>, DbError> {
    let row = sqlx::query!(
        r#"select name, data, seen_at as "seen_at: Ts" from cloud_object where kind = $1 and id = $2"#,
        kind.name(),
        id
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(|row| CloudObject {
        name: row.name,
        data: row.data,
        seen_at: row.seen_at.to_jiff(),
    }))
}

/// Forgets an object.
pub async fn forget(conn: &mut PgConnection, kind: CloudKind, id: Uuid) -> Result<(), DbError> {
    sqlx::query!(
        "delete from cloud_object where kind = $1 and id = $2",
        kind.name(),
        id
    )
    .execute(conn)
    .await?;
    Ok(())
}
