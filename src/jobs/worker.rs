//! The loop of a process: wake, claim, run.

use std::sync::Arc;
use std::time::Duration;

use sqlx::PgPool;
use sqlx::postgres::{PgListener, PgPoolOptions};
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument;
use uuid::Uuid;

use super::faults::FaultPoints;
use super::operation::{Registry, ResultView};
use super::run::run_claimed;
use super::step::chain;
use crate::db::jobs::{self, ClaimBy, Claimed};
use crate::db::secrets::Cipher;
use crate::db::{DbError, Pools};
use crate::domain::id::InstallationId;
use crate::ports::Ports;

/// Times and counts of the engine.
#[derive(Debug, Clone)]
pub struct Tuning {
    /// How long a claim lasts without a heartbeat; heartbeats come every third.
    pub lease: Duration,
    /// How many jobs this process runs at once.
    pub concurrency: usize,
    /// How often the tables are looked at whatever the notifications say; up to twice as long, at random.
    pub poll: Duration,
    /// Waits up to this long are slept with the lease kept; longer ones are parked.
    pub in_place: Duration,
    /// Failures since the last new step after which a step fails for good.
    pub max_failures: i32,
    /// Takeovers since the last new step after which a job is settled instead of run.
    pub max_takeovers: i32,
    /// The wait after the first failure; it doubles.
    pub backoff_first: Duration,
    /// The longest wait between failures.
    pub backoff_most: Duration,
    /// How long a running step may go on after SIGTERM before its job is put back.
    pub grace: Duration,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(15),
            concurrency: 16,
            poll: Duration::from_secs(1),
            in_place: Duration::from_secs(2),
            max_failures: 10,
            max_takeovers: 5,
            backoff_first: Duration::from_secs(1),
            backoff_most: Duration::from_secs(30),
            grace: Duration::from_secs(2),
        }
    }
}

impl Tuning {
    /// The wait after so many failures.
    pub(crate) fn backoff(&self, failures: i32) -> Duration {
        let doublings = u32::try_from(failures.saturating_sub(1)).unwrap_or(0).min(16);
        self.backoff_first
            .saturating_mul(1 << doublings)
            .min(self.backoff_most)
    }
}

/// All that a worker needs.
#[derive(Clone)]
pub struct WorkerOptions {
    /// For everything.
    pub pool: PgPool,
    /// For heartbeats only.
    pub heartbeat_pool: PgPool,
    /// The outside.
    pub ports: Ports,
    /// The operations.
    pub registry: Registry,
    /// Renders results.
    pub view: Arc<dyn ResultView>,
    /// Which installation we are.
    pub installation: InstallationId,
    /// Opens secrets.
    pub cipher: Arc<Cipher>,
    /// Times and counts.
    pub tuning: Tuning,
    /// Fault points; off in production.
    pub faults: Arc<FaultPoints>,
}

impl WorkerOptions {
    /// Options with the usual times, and without faults.
    pub fn new(
        pools: &Pools,
        ports: Ports,
        registry: Registry,
        view: Arc<dyn ResultView>,
        installation: InstallationId,
        cipher: Arc<Cipher>,
    ) -> Self {
        Self {
            pool: pools.main.clone(),
            heartbeat_pool: pools.heartbeat.clone(),
            ports,
            registry,
            view,
            installation,
            cipher,
            tuning: Tuning::default(),
            faults: FaultPoints::off(),
        }
    }

    pub(crate) async fn claim(
        &self,
        owner: Uuid,
        limit: usize,
        only: Option<crate::domain::id::JobId>,
    ) -> Result<Vec<Claimed>, DbError> {
        let commands = self.registry.commands();
        let by = ClaimBy {
            owner,
            lease_secs: self.tuning.lease.as_secs_f64(),
            limit: i64::try_from(limit).unwrap_or(i64::MAX),
            commands: &commands,
            only,
        };
        let mut conn = self.pool.acquire().await?;
        jobs::claim(&mut conn, by).await
    }
}

/// A running worker of this process.
pub struct Worker {
    options: WorkerOptions,
    /// The name of this process's run in leases.
    owner: Uuid,
    slots: Arc<Semaphore>,
    wake: Arc<Notify>,
    tracker: TaskTracker,
    shutdown: CancellationToken,
}

impl Worker {
    /// Starts claiming and running jobs on `tracker` until `shutdown`; returns at once. After the shutdown the
    /// running jobs are put back, and the tracker becomes empty.
    pub fn start(options: WorkerOptions, tracker: &TaskTracker, shutdown: CancellationToken) {
        let worker = Arc::new(Self {
            owner: options.ports.ids.random(),
            slots: Arc::new(Semaphore::new(options.tuning.concurrency)),
            wake: Arc::new(Notify::new()),
            tracker: tracker.clone(),
            shutdown,
            options,
        });
        tracker.spawn(worker.clone().listen());
        tracker.spawn(worker.work());
    }

    /// Turns notifications into looks at the tables. A task of its own: a `try_recv` that is dropped half way
    /// can swallow the news that the connection was lost.
    #[expect(clippy::disallowed_methods, reason = "the engine waits for the database here")]
    async fn listen(self: Arc<Self>) {
        let options = (*self.options.pool.connect_options()).clone();
        let own = PgPoolOptions::new().max_connections(1).connect_lazy_with(options);
        let forever = async {
            loop {
                if let Ok(mut listener) = PgListener::connect_with(&own).await
                    && listener.listen("cksd_jobs").await.is_ok()
                {
                    self.wake.notify_one();
                    // None: the connection was lost, and is there again; whatever was said meanwhile is
                    // in the tables. An error is treated alike, after a pause.
                    while listener.try_recv().await.is_ok() {
                        self.wake.notify_one();
                    }
                }
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        };
        tokio::select! {
            () = self.shutdown.cancelled() => {}
            () = forever => {}
        }
        own.close().await;
    }

    #[expect(clippy::disallowed_methods, reason = "the engine's poll is real time")]
    async fn work(self: Arc<Self>) {
        let mut away = false;
        while !self.shutdown.is_cancelled() {
            let poll = self.options.tuning.poll;
            let jittered = poll + poll.mul_f64(rand::random::<f64>());
            let wait = match self.claim_and_spawn().await {
                Ok(due) => {
                    if std::mem::take(&mut away) {
                        tracing::info!("the database answers again");
                    }
                    // Not below 20 ms: what is due and not claimable is in the middle of a write.
                    due.map_or(jittered, |due| jittered.min(due.max(Duration::from_millis(20))))
                }
                Err(error) => {
                    if !std::mem::replace(&mut away, true) {
                        tracing::warn!("no jobs can be claimed: {}", chain(&error));
                    }
                    jittered.min(Duration::from_secs(1))
                }
            };
            tokio::select! {
                () = self.shutdown.cancelled() => {}
                () = self.wake.notified() => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// Claims as many jobs as there are slots; returns in what time the next one is due.
    async fn claim_and_spawn(self: &Arc<Self>) -> Result<Option<Duration>, DbError> {
        loop {
            let free = self.slots.available_permits();
            if free == 0 {
                // The end of a job wakes us.
                return Ok(None);
            }
            let sent = Instant::now();
            let claimed = self.options.claim(self.owner, free, None).await?;
            if claimed.is_empty() {
                let mut conn = self.options.pool.acquire().await?;
                let due = jobs::next_due(&mut conn, &self.options.registry.commands()).await?;
                return Ok(due.map(|secs| Duration::try_from_secs_f64(secs).unwrap_or(Duration::ZERO)));
            }
            for one in claimed {
                self.spawn(one, sent);
            }
        }
    }

    fn spawn(self: &Arc<Self>, claimed: Claimed, sent: Instant) {
        let Ok(permit) = self.slots.clone().try_acquire_owned() else {
            // Cannot be: only this loop takes slots. The lease would run out.
            return;
        };
        if claimed.takeovers > 0 {
            metrics::counter!("cksd_jobs_taken_over_total").increment(1);
        }
        let span = tracing::info_span!(
            "job",
            job.id = %claimed.id,
            job.command = %claimed.command,
            job.epoch = claimed.epoch,
            cluster.id = claimed.cluster.as_ref().map(|(_, id, _)| tracing::field::display(*id)),
            request.id = claimed.request_id.as_deref(),
        );
        let worker = self.clone();
        let run = async move {
            let stop = run_claimed(&worker.options, worker.owner, claimed, sent, &worker.shutdown).await;
            tracing::debug!(?stop, "the run stopped");
            drop(permit);
            worker.wake.notify_one();
        };
        self.tracker.spawn(run.instrument(span));
    }
}
