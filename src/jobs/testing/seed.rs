//! Rows that tests begin with.

use std::sync::Arc;

use async_trait::async_trait;
use secrecy::SecretSlice;
use serde_json::{Value, json};
use sqlx::{PgConnection, PgPool};

use crate::db::secrets::Cipher;
use crate::db::{DbError, clusters};
use crate::domain::cluster::{Cluster, State};
use crate::jobs::ResultView;
use crate::ports::clock::Ids;

/// Writes a cluster called `name` in `state`, with an owner if there is none yet: account and user 1, an Admin
/// in the domain `/`.
pub async fn seed_cluster(
    pool: &PgPool,
    ids: &dyn Ids,
    name: &str,
    state: State,
) -> Result<Cluster, DbError> {
    let mut conn = pool.acquire().await?;
    sqlx::query!(
        r#"with d as (
             insert into domain (uuid, name, path) values ($1, 'ROOT', '/') on conflict do nothing returning id
           ), a as (
             insert into account (uuid, domain_id, account_name, role) select $2, id, 'admin', 'Admin' from d
             returning id
           )
           insert into "user" (uuid, account_id, username) select $3, id, 'admin' from a"#,
        ids.random(),
        ids.random(),
        ids.random()
    )
    .execute(&mut *conn)
    .await?;
    let key = sqlx::query_scalar!(
        "insert into kubernetes_cluster (uuid, name, zone_id, account_id, domain_id, state)
         select $1, $2, $3, a.id, a.domain_id, $4 from account a order by a.id limit 1
         returning id",
        ids.random(),
        name,
        ids.random(),
        state.name()
    )
    .fetch_one(&mut *conn)
    .await?;
    clusters::by_key(&mut conn, key).await
}

/// A cipher with a key that only tests have.
#[must_use]
pub fn test_cipher() -> Option<Arc<Cipher>> {
    Cipher::new(&SecretSlice::from(vec![7; 32])).ok().map(Arc::new)
}

/// A view that shows the least.
#[derive(Debug, Clone, Copy)]
pub struct PlainView;

#[async_trait]
impl ResultView for PlainView {
    async fn cluster(
        &self,
        conn: &mut PgConnection,
        cluster_key: i64,
        operation: &Value,
    ) -> Result<Value, DbError> {
        let cluster = clusters::by_key(conn, cluster_key).await?;
        Ok(
            json!({ "kubernetescluster": { "id": cluster.id, "state": cluster.state.name(), "operation": operation } }),
        )
    }
}
