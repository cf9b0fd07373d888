//! The result of a finished job, rendered inside the transaction that settles it.

use async_trait::async_trait;
use serde_json::{Value, json};
use sqlx::PgConnection;

use super::cluster;
use super::machine::View;
use crate::db::lists::clusters;
use crate::db::{DbError, settings};
use crate::jobs::ResultView;

/// Renders what a job leaves behind as replies show it. A result is kept for whoever may ask for it, so it
/// shows only what everybody may see.
#[derive(Debug, Clone, Copy, Default)]
pub struct Results;

#[async_trait]
impl ResultView for Results {
    async fn cluster(
        &self,
        conn: &mut PgConnection,
        cluster_key: i64,
        operation: &Value,
    ) -> Result<Value, DbError> {
        let values = settings::load(conn).await?;
        let rows = clusters::rows(conn, &[cluster_key]).await?;
        let row = rows.first().ok_or_else(|| DbError::Missing {
            table: "kubernetes_cluster",
            row: cluster_key.to_string(),
        })?;
        let mut object = cluster::cluster(row, View::Restricted, &values);
        if let Some(members) = object.as_object_mut() {
            // The job that ends here owns the cluster no more.
            members.remove("jobid");
            members.remove("jobstatus");
            if !operation.is_null() {
                members.insert("operation".to_owned(), operation.clone());
            }
        }
        Ok(json!({ "kubernetescluster": object }))
    }
}
