//! Settings that somebody has changed (`configuration`); all others have their default.

use sqlx::PgConnection;

use super::DbError;
use crate::domain::settings::{Setting, Settings};

/// The values of all settings.
pub async fn load(conn: &mut PgConnection) -> Result<Settings, DbError> {
    let rows = sqlx::query!("select name, value from configuration")
        .fetch_all(conn)
        .await?;
    Ok(Settings::from_rows(
        rows.into_iter().map(|row| (row.name, row.value)),
    ))
}

/// Stores the value of a setting, which must have passed [`Setting::check`].
pub async fn set(conn: &mut PgConnection, setting: &Setting, value: &str) -> Result<(), DbError> {
    sqlx::query!(
        "insert into configuration (name, value) values ($1, $2)
         on conflict (name) do update set value = excluded.value, updated = now()",
        setting.name,
        value
    )
    .execute(conn)
    .await?;
    Ok(())
}
