//! What the supervised processes do: run a worker with one operation until they are killed or told to stop.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cksd::adapters::system::{SystemClock, SystemIds};
use cksd::db;
use cksd::domain::event::{Level, Stage};
use cksd::jobs::testing::nowhere::nowhere;
use cksd::jobs::testing::{PlainView, test_cipher};
use cksd::jobs::{OpCx, Operation, Registry, Settlement, StepError, StepResult, Worker, WorkerOptions, wait};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::node::{Answer, command};
use crate::{LEASE, STEPS};

pub(crate) const URL: &str = "CKSD_CHAOS_URL";
pub(crate) const WORLD: &str = "CKSD_CHAOS_WORLD";

/// The command of the chaotic jobs.
pub(crate) const COMMAND: &str = "scaleKubernetesCluster";

pub(crate) async fn run(url: &str, folder: PathBuf) {
    let pools = db::pools(url).unwrap();
    let operation: Arc<dyn Operation> = Arc::new(Chaotic { folder });
    let mut options = WorkerOptions::new(
        &pools,
        nowhere(Arc::new(SystemClock), Arc::new(SystemIds)),
        Registry::new([operation]),
        Arc::new(PlainView),
        uuid::Uuid::from_u128(1).into(),
        test_cipher().unwrap(),
    );
    options.tuning.lease = LEASE;
    options.tuning.concurrency = 6;
    // Short waits are parked here, so that parking is under fire as well.
    options.tuning.in_place = Duration::from_millis(40);
    options.tuning.grace = Duration::from_millis(200);
    let (tracker, shutdown) = (TaskTracker::new(), CancellationToken::new());
    Worker::start(options, &tracker, shutdown.clone());
    signal(SignalKind::terminate()).unwrap().recv().await;
    shutdown.cancel();
    tracker.close();
    tracker.wait().await;
}

/// Begins, acts on a node five times with a wait between, and says once that it started.
struct Chaotic {
    folder: PathBuf,
}

#[async_trait]
impl Operation for Chaotic {
    fn command(&self) -> &'static str {
        COMMAND
    }

    async fn run(&self, cx: &OpCx) -> StepResult<Settlement> {
        cx.commit("started", "", async |tx| {
            Ok(tx.event(Level::Info, Stage::Started, "started").await?)
        })
        .await?;
        for step in 0..STEPS {
            let subject = step.to_string();
            cx.begin("act", &subject).await?;
            cx.step("act", &subject, self.act(cx, &subject)).await?;
            cx.step("settle_down", &subject, settle_down(cx)).await?;
        }
        Ok(Settlement::succeeded("done"))
    }
}

impl Chaotic {
    async fn act(&self, cx: &OpCx, step: &str) -> StepResult<bool> {
        pause().await;
        let job = cx.job();
        let answer = command(
            &self.folder,
            job.cluster_key,
            job.epoch,
            &job.id.to_string(),
            step,
        )
        .await;
        pause().await;
        match answer {
            Answer::Refused => Err(StepError::LeaseLost),
            answer => Ok(answer == Answer::Acted),
        }
    }
}

/// Waits now and then: in place, or parked.
async fn settle_down(cx: &OpCx) -> StepResult<()> {
    pause().await;
    match rand::random::<u8>() {
        0..40 => Err(wait(
            format!("cluster {} to settle", cx.job().cluster_key),
            Duration::from_millis(120),
        )),
        40..80 => Err(wait("a moment", Duration::from_millis(20))),
        _ => Ok(()),
    }
}

/// Some time in which a fault can strike.
async fn pause() {
    tokio::time::sleep(Duration::from_millis(u64::from(rand::random::<u8>()) / 3)).await;
}
