//! Which installation this database is.

use sqlx::PgConnection;
use uuid::Uuid;

use super::DbError;
use crate::domain::id::InstallationId;

/// The installation of this database, made with `new_id` at the first call ever.
pub async fn get_or_make(conn: &mut PgConnection, new_id: Uuid) -> Result<InstallationId, DbError> {
    sqlx::query!(
        "insert into installation (id) values ($1) on conflict do nothing",
        new_id
    )
    .execute(&mut *conn)
    .await?;
    let id = sqlx::query_scalar!("select id from installation")
        .fetch_one(conn)
        .await?;
    Ok(id.into())
}
