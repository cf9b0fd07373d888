//! One cluster in the database and one world outside, with a worker that is moved by hand.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use sqlx::{PgConnection, PgPool, Row};

use super::seed::{cipher, seed};
use super::world::{World, fixed};
use crate::db::{DbError, Pools, clusters, settings};
use crate::domain::cluster::{Cluster, Event, State};
use crate::domain::id::JobId;
use crate::domain::job::JobStatus;
use crate::domain::settings::Setting;
use crate::jobs::admission::{Admission, NewJob, admit};
use crate::jobs::testing::{Rig, Stop, expire_lease};
use crate::jobs::{Registry, ResultView, WorkerOptions};
use crate::operations::{Options, all};
use crate::ports::Ports;
use crate::ports::clock::Clock;

/// More stops than any honest job makes.
const MOST_STOPS: usize = 3000;

struct View;

#[async_trait]
impl ResultView for View {
    async fn cluster(&self, _: &mut PgConnection, _: i64, operation: &Value) -> Result<Value, DbError> {
        Ok(json!({ "kubernetescluster": { "operation": operation } }))
    }
}

pub(super) struct Bench {
    pub(super) pool: PgPool,
    pub(super) world: Arc<World>,
    pub(super) rig: Rig,
    account_key: i64,
    user_key: i64,
    pub(super) cluster_key: i64,
}

/// How a run is meddled with: told before each run of the job which one it is.
pub(super) type Meddle<'a> = &'a mut (dyn FnMut(&Bench, usize) + Send);

impl Bench {
    /// Empties the database and writes one cluster with the machines of `world`, in `state`.
    pub(super) async fn new(pool: &PgPool, world: World, state: State) -> Self {
        let world = Arc::new(world);
        let mut conn = pool.acquire().await.unwrap();
        let (account_key, user_key, cluster_key) = seed(&mut conn, &world, state).await;
        drop(conn);
        let ports = Ports {
            cloud: world.clone(),
            kube: world.clone(),
            shell: world.clone(),
            clock: world.clone(),
            ids: world.clone(),
        };
        let pools = Pools {
            main: pool.clone(),
            heartbeat: pool.clone(),
        };
        let registry = Registry::new(all(Options {
            poll_cap: Duration::from_secs(1),
        }));
        let options = WorkerOptions::new(
            &pools,
            ports,
            registry,
            Arc::new(View),
            fixed(0x1d).into(),
            Arc::new(cipher()),
        );
        Self {
            pool: pool.clone(),
            world,
            rig: Rig::new(options, fixed(0xaaa)),
            account_key,
            user_key,
            cluster_key,
        }
    }

    pub(super) async fn set(&self, setting: &Setting, value: &str) {
        let mut conn = self.pool.acquire().await.unwrap();
        settings::set(&mut conn, setting, value).await.unwrap();
    }

    pub(super) async fn cluster(&self) -> Cluster {
        let mut conn = self.pool.acquire().await.unwrap();
        clusters::by_key(&mut conn, self.cluster_key).await.unwrap()
    }

    /// Admits a scale, as the API does.
    pub(super) async fn admit(&self, request: Value, event: Event, limit: Duration) -> JobId {
        let cluster = self.cluster().await;
        let new = NewJob {
            command: "scaleKubernetesCluster",
            account_key: self.account_key,
            user_key: self.user_key,
            cluster: &cluster,
            event,
            request: &request,
            request_id: None,
            now: self.world.now(),
            time_limit: limit,
            scheduled_text: "Scaling Kubernetes cluster",
            idempotency_key: None,
        };
        let mut tx = self.pool.begin().await.unwrap();
        let admission = admit(&mut tx, self.world.as_ref(), &new).await.unwrap();
        tx.commit().await.unwrap();
        let Admission::Admitted(job) = admission else {
            panic!("{admission:?}")
        };
        job
    }

    /// Runs a job through waits and crashes to its end.
    pub(super) async fn run(&self, job: JobId, meddle: Meddle<'_>) -> bool {
        for number in 0..MOST_STOPS {
            meddle(self, number);
            match self.rig.run_job(job).await.unwrap() {
                Some(Stop::Parked { after, .. }) => self.world.advance(after),
                Some(Stop::Crashed) => {
                    self.rig.options.faults.disarm();
                    expire_lease(&self.pool, job).await.unwrap();
                }
                Some(Stop::Lost) => expire_lease(&self.pool, job).await.unwrap(),
                Some(Stop::HandedBack) => {}
                Some(Stop::Ended(status)) => return status == JobStatus::Succeeded,
                // It ended, and the stop was after its last write.
                None => {
                    let row = self.rig.find(job).await.unwrap();
                    assert_eq!(row.phase, "done", "the job cannot be claimed");
                    return row.status == JobStatus::Succeeded;
                }
            }
        }
        panic!(
            "the job does not end: now {}, {:?}",
            self.world.now(),
            self.rig.find(job).await.unwrap()
        )
    }

    /// Another worker on the same database and world.
    pub(super) fn other(&self) -> Self {
        Self {
            pool: self.pool.clone(),
            world: self.world.clone(),
            rig: self.rig.other(fixed(0xbbb)),
            ..*self
        }
    }

    /// Every text of every table that an operation writes.
    #[expect(
        clippy::disallowed_methods,
        reason = "a test reads what no function of ours reads"
    )]
    pub(super) async fn dump(&self) -> String {
        let mut all = String::new();
        for table in [
            "async_job",
            "job_step",
            "event",
            "ledger",
            "kubernetes_cluster_details",
            "cloud_object",
        ] {
            let rows = sqlx::query(sqlx::AssertSqlSafe(format!(
                "select row_to_json(t)::text from {table} t"
            )))
            .fetch_all(&self.pool)
            .await
            .unwrap();
            for row in rows {
                all.push_str(&row.get::<String, _>(0));
            }
        }
        all
    }

    /// Cancels a job, as its owner may.
    #[expect(clippy::disallowed_methods, reason = "a test plays the caller")]
    pub(super) async fn cancel(&self, job: JobId) {
        sqlx::query("update async_job set cancel_requested = true where id = $1")
            .bind(job.0)
            .execute(&self.pool)
            .await
            .unwrap();
    }

    /// The text of a failed job.
    pub(super) async fn error(&self, job: JobId) -> String {
        let row = self.rig.find(job).await.unwrap();
        let result = row.result.unwrap_or_default();
        result
            .get("errortext")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    }

    /// The events, oldest first.
    #[expect(
        clippy::disallowed_methods,
        reason = "a test reads what no function of ours reads"
    )]
    pub(super) async fn events(&self) -> Vec<String> {
        sqlx::query("select level, state, description from event order by seq")
            .fetch_all(&self.pool)
            .await
            .unwrap()
            .iter()
            .map(|row| {
                format!(
                    "{} {} {}",
                    row.get::<String, _>(0),
                    row.get::<String, _>(1),
                    row.get::<String, _>(2)
                )
            })
            .collect()
    }
}
