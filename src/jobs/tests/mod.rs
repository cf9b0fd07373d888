//! Tests of the engine on a real Postgres, with operations that touch nothing outside.
//!
//! What this must not know: any operation of the service.

mod admission;
mod claim;
mod ends;
mod steps;
mod worker;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use serde_json::json;
use sqlx::PgPool;
use uuid::Uuid;

use super::admission::{Admission, NewJob, admit};
use super::testing::nowhere::{CountingIds, ManualClock, nowhere};
use super::testing::{PlainView, Rig, seed_cluster, test_cipher};
use super::{OpCx, Operation, Registry, Settlement, StepResult, WorkerOptions, faults::FaultPoints};
use crate::db::{Pools, clusters};
use crate::domain::cluster::{Cluster, Event, State};
use crate::domain::id::JobId;
use crate::domain::job::Failure;
use crate::ports::clock::{Clock, Ids};

const SCALE: &str = "scaleKubernetesCluster";

type Body = dyn for<'a> Fn(&'a OpCx) -> BoxFuture<'a, StepResult<Settlement>> + Send + Sync;

/// An operation whose body a test gives.
struct Scripted {
    body: Box<Body>,
    abandoned: Arc<Mutex<Vec<Failure>>>,
}

#[async_trait]
impl Operation for Scripted {
    fn command(&self) -> &'static str {
        SCALE
    }

    async fn run(&self, cx: &OpCx) -> StepResult<Settlement> {
        (self.body)(cx).await
    }

    async fn abandon(&self, _: &OpCx, why: &Failure) -> StepResult<Settlement> {
        self.abandoned.lock().unwrap().push(why.clone());
        Ok(Settlement::failed(
            super::Transition::On(Event::OperationFailed),
            why.clone(),
        ))
    }
}

/// A database with one Running cluster, and a worker that is moved by hand.
struct World {
    pool: PgPool,
    clock: Arc<ManualClock>,
    ids: Arc<CountingIds>,
    cluster: Cluster,
    rig: Rig,
    abandoned: Arc<Mutex<Vec<Failure>>>,
}

impl World {
    async fn new<F>(pool: PgPool, body: F) -> Self
    where
        F: for<'a> Fn(&'a OpCx) -> BoxFuture<'a, StepResult<Settlement>> + Send + Sync + 'static,
    {
        let ids = CountingIds::new(1);
        let clock = ManualClock::new("2026-01-01T00:00:00Z".parse().unwrap());
        let cluster = seed_cluster(&pool, ids.as_ref(), "blue", State::Running)
            .await
            .unwrap();
        let abandoned = Arc::new(Mutex::new(Vec::new()));
        let operation: Arc<dyn Operation> = Arc::new(Scripted {
            body: Box::new(body),
            abandoned: abandoned.clone(),
        });
        let pools = Pools {
            main: pool.clone(),
            heartbeat: pool.clone(),
        };
        let options = WorkerOptions::new(
            &pools,
            nowhere(clock.clone(), ids.clone()),
            Registry::new([operation]),
            Arc::new(PlainView),
            Uuid::from_u128(9).into(),
            test_cipher().unwrap(),
        );
        Self {
            rig: Rig::new(options, Uuid::from_u128(1)),
            pool,
            clock,
            ids,
            cluster,
            abandoned,
        }
    }

    fn new_job<'a>(&self, cluster: &'a Cluster, request: &'a serde_json::Value) -> NewJob<'a> {
        NewJob {
            command: SCALE,
            account_key: 1,
            user_key: 1,
            cluster,
            event: Event::ScaleDownRequested,
            request,
            request_id: Some("req-1"),
            now: self.clock.now(),
            time_limit: Duration::from_hours(1),
            scheduled_text: "scaling `blue`",
            idempotency_key: None,
        }
    }

    async fn admit(&self) -> JobId {
        let request = json!({ "size": 1 });
        let mut tx = self.pool.begin().await.unwrap();
        let admission = admit(&mut tx, self.ids.as_ref(), &self.new_job(&self.cluster, &request))
            .await
            .unwrap();
        tx.commit().await.unwrap();
        match admission {
            Admission::Admitted(job) => job,
            other => panic!("not admitted: {other:?}"),
        }
    }

    async fn cluster_now(&self) -> Cluster {
        clusters::by_key(&mut self.pool.acquire().await.unwrap(), self.cluster.key)
            .await
            .unwrap()
    }

    /// `LEVEL Stage text` of each event, oldest first.
    async fn events(&self) -> Vec<String> {
        sqlx::query_scalar!(
            r#"select level || ' ' || state || ' ' || description as "text!" from event order by seq"#
        )
        .fetch_all(&self.pool)
        .await
        .unwrap()
    }

    /// `from event to` of each transition, oldest first.
    async fn history(&self) -> Vec<String> {
        sqlx::query_scalar!(
            r#"select from_state || ' ' || event || ' ' || to_state as "text!" from cluster_history order by generation"#
        )
        .fetch_all(&self.pool)
        .await
        .unwrap()
    }
}

/// Counts effects.
#[derive(Clone, Default)]
struct Counter(Arc<AtomicUsize>);

impl Counter {
    fn add(&self) -> usize {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

#[expect(clippy::unnecessary_wraps, reason = "it is what an operation returns")]
fn done() -> StepResult<Settlement> {
    Ok(Settlement::succeeded("scaled `blue`"))
}
