//! Details of a cluster: names with a value, plain or sealed.

use secrecy::{ExposeSecret, SecretString};
use sqlx::PgConnection;

use super::DbError;
use super::secrets::{Cipher, Place};

/// The record of an unfinished upgrade: the target's id.
pub const UPGRADE_TARGET: &str = "upgradeKubernetesVersionId";
/// Beside it: the target's semantic version.
pub const UPGRADE_SEMANTIC: &str = "upgradeKubernetesSemanticVersion";
/// The administrator's kubeconfig, sealed.
pub const KUBECONFIG: &str = "kubeConfigData";

/// Whether a detail is shown to clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Display {
    /// Shown.
    Shown,
    /// Kept to ourselves.
    Hidden,
}

fn place(cluster_key: i64, name: &str) -> Place {
    Place::new(
        "kubernetes_cluster_details",
        "sealed",
        format!("{cluster_key}/{name}"),
    )
}

/// A plain detail.
pub async fn find(conn: &mut PgConnection, cluster_key: i64, name: &str) -> Result<Option<String>, DbError> {
    let row = sqlx::query_scalar!(
        "select value from kubernetes_cluster_details where cluster_id = $1 and name = $2",
        cluster_key,
        name
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.flatten())
}

/// Sets a plain detail.
pub async fn set(
    conn: &mut PgConnection,
    cluster_key: i64,
    name: &str,
    value: &str,
    display: Display,
) -> Result<(), DbError> {
    sqlx::query!(
        "insert into kubernetes_cluster_details (cluster_id, name, value, display) values ($1, $2, $3, $4)
         on conflict (cluster_id, name) do update
         set value = excluded.value, sealed = null, display = excluded.display",
        cluster_key,
        name,
        value,
        display == Display::Shown
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Drops a detail.
pub async fn drop_one(conn: &mut PgConnection, cluster_key: i64, name: &str) -> Result<(), DbError> {
    sqlx::query!(
        "delete from kubernetes_cluster_details where cluster_id = $1 and name = $2",
        cluster_key,
        name
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Drops the record of an unfinished upgrade.
pub async fn drop_upgrade_record(conn: &mut PgConnection, cluster_key: i64) -> Result<(), DbError> {
    drop_one(conn, cluster_key, UPGRADE_TARGET).await?;
    drop_one(conn, cluster_key, UPGRADE_SEMANTIC).await?;
    sqlx::query!(
        "delete from ledger where cluster_id = $1 and kind = 'script'",
        cluster_key
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// A sealed detail, opened.
pub async fn find_sealed(
    conn: &mut PgConnection,
    cipher: &Cipher,
    cluster_key: i64,
    name: &str,
) -> Result<Option<SecretString>, DbError> {
    let row = sqlx::query_scalar!(
        "select sealed from kubernetes_cluster_details where cluster_id = $1 and name = $2",
        cluster_key,
        name
    )
    .fetch_optional(conn)
    .await?;
    match row.flatten() {
        Some(sealed) => cipher.open_text(&place(cluster_key, name), &sealed).map(Some),
        None => Ok(None),
    }
}

/// Seals and sets a detail; never shown.
pub async fn set_sealed(
    conn: &mut PgConnection,
    cipher: &Cipher,
    cluster_key: i64,
    name: &str,
    secret: &SecretString,
) -> Result<(), DbError> {
    let sealed = cipher
        .seal(&place(cluster_key, name), secret.expose_secret().as_bytes())
        .map_err(|error| DbError::inconsistent("kubernetes_cluster_details", "sealed", cluster_key, error))?;
    sqlx::query!(
        "insert into kubernetes_cluster_details (cluster_id, name, sealed, display) values ($1, $2, $3, false)
         on conflict (cluster_id, name) do update set value = null, sealed = excluded.sealed, display = false",
        cluster_key,
        name,
        sealed
    )
    .execute(conn)
    .await?;
    Ok(())
}
