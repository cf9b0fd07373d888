//! One claimed job, from its claim to where it stops.

use std::panic::{AssertUnwindSafe, Location};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use uuid::Uuid;

use super::cx::{JobInfo, OpCx};
use super::lease::{self, LeaseState, WhileLive};
use super::operation::{Operation, Settlement, Transition};
use super::step::{StepError, StepResult};
use super::worker::WorkerOptions;
use crate::db::jobs::{Claimed, Lease};
use crate::db::{Fenced, FencedJob};
use crate::domain::cluster::Event;
use crate::domain::id::ClusterId;
use crate::domain::job::{Failure, JobStatus, Waiting};

/// Where a run of a job stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// The job has ended.
    Ended(JobStatus),
    /// It waits.
    Parked {
        /// How long.
        after: Duration,
        /// What for.
        reason: String,
    },
    /// The lease was lost; nothing more was written.
    Lost,
    /// It was put back for another worker.
    HandedBack,
    /// A fault point stopped it as a kill would.
    Crashed,
}

/// How a pass over the operation goes.
enum Mode {
    Run,
    /// Settle by the operation's evidence.
    Abandon(Failure),
    /// Settle without asking the operation.
    Force(Failure),
}

/// One run.
pub(super) struct Run<'a> {
    pub(super) options: &'a WorkerOptions,
    pub(super) operation: Arc<dyn Operation>,
    pub(super) cx: OpCx,
    pub(super) shutdown: &'a CancellationToken,
    pub(super) waiting: Option<Waiting>,
}

/// Runs a claimed job until it stops. `sent` is when its claim was sent.
pub(crate) async fn run_claimed(
    options: &WorkerOptions,
    owner: Uuid,
    claimed: Claimed,
    sent: Instant,
    shutdown: &CancellationToken,
) -> Stop {
    let Some(operation) = options.registry.get(&claimed.command) else {
        // Claims ask only for known commands; the lease runs out if this ever happens.
        tracing::error!(job.id = %claimed.id, "no operation for `{}`", claimed.command);
        return Stop::Lost;
    };
    let lease = Lease {
        job: claimed.id,
        owner,
        epoch: claimed.epoch,
    };
    let length = options.tuning.lease;
    let lease = Arc::new(LeaseState::new(lease, sent, length, claimed.cancel_requested));
    let beat = lease::keep(lease.clone(), options.heartbeat_pool.clone(), length);
    let _beat = AbortOnDropHandle::new(tokio::spawn(beat));
    let mode = mode_of(options, &claimed);
    let mut run = Run {
        options,
        operation,
        waiting: claimed.waiting.clone(),
        cx: context(options, claimed, lease, shutdown),
        shutdown,
    };
    let crash = options.faults.crash_token();
    tokio::select! {
        biased;
        () = crash.cancelled() => Stop::Crashed,
        stop = Box::pin(run.drive(mode)) => stop,
    }
}

/// What has become too much for another run.
fn mode_of(options: &WorkerOptions, claimed: &Claimed) -> Mode {
    let tuning = &options.tuning;
    let taken = tuning.max_takeovers;
    if claimed.takeovers >= taken {
        let why = Failure::new(format!(
            "the job was taken over {} times without a new step; the workers that ran it died or lost it",
            claimed.takeovers
        ));
        return if claimed.takeovers >= taken + 3 {
            Mode::Force(why)
        } else {
            Mode::Abandon(why)
        };
    }
    if claimed.failures > tuning.max_failures {
        let last = claimed
            .waiting
            .as_ref()
            .map_or("unknown", |waiting| waiting.reason.as_str());
        let why = Failure::new(format!("{last} (given up after {} tries)", claimed.failures));
        return if claimed.failures > tuning.max_failures * 2 {
            Mode::Force(why)
        } else {
            Mode::Abandon(why)
        };
    }
    Mode::Run
}

fn context(
    options: &WorkerOptions,
    claimed: Claimed,
    lease: Arc<LeaseState>,
    shutdown: &CancellationToken,
) -> OpCx {
    let ids = options.ports.ids.clone();
    let fenced = FencedJob {
        lease: lease.lease,
        command: claimed.command.clone(),
        account_key: claimed.account_key,
        user_key: claimed.user_key,
        cluster: claimed.cluster.clone(),
        scheduled_event: claimed.scheduled_event,
    };
    let db = Fenced::new(
        options.pool.clone(),
        fenced,
        options.cipher.clone(),
        Arc::new(move || ids.ordered()),
        lease.cancelled.clone(),
        Some(options.faults.clone()),
    );
    let (key, id, name) = claimed
        .cluster
        .unwrap_or((0, ClusterId(Uuid::nil()), String::new()));
    let cx = OpCx {
        job: JobInfo {
            id: claimed.id,
            command: claimed.command,
            cluster_id: id,
            cluster_key: key,
            cluster_name: name,
            account_key: claimed.account_key,
            user_key: claimed.user_key,
            request: claimed.request,
            from_state: claimed.from_state,
            deadline: claimed.deadline.unwrap_or(jiff::Timestamp::MAX),
            created: claimed.created,
            epoch: claimed.epoch,
            scheduled_event: claimed.scheduled_event,
        },
        ports: options.ports.clone(),
        db,
        installation: options.installation,
        lease,
        shutdown: shutdown.clone(),
        faults: options.faults.clone(),
        failures: AtomicI32::new(claimed.failures),
        max_failures: options.tuning.max_failures,
        abandoning: AtomicBool::new(false),
        told_of_cancel: AtomicBool::new(false),
        memory: std::sync::Mutex::default(),
    };
    cx.resume_progress(claimed.progress);
    cx
}

impl Run<'_> {
    async fn drive(&mut self, mut mode: Mode) -> Stop {
        loop {
            let (outcome, abandoning) = match &mode {
                Mode::Run => (self.pass(None).await, false),
                Mode::Abandon(why) => (self.pass(Some(why)).await, true),
                Mode::Force(why) => (Ok(forced(why.clone())), true),
            };
            match outcome {
                Ok(settlement) => return self.end(&settlement).await,
                Err(StepError::LeaseLost) => {
                    metrics::counter!("cksd_leases_lost_total").increment(1);
                    tracing::warn!(job.id = %self.cx.job.id, job.epoch = self.cx.job.epoch, "the lease is lost");
                    return Stop::Lost;
                }
                Err(StepError::HandBack) => return self.hand_back().await,
                Err(StepError::Fail(why)) if abandoning => mode = Mode::Force(why),
                Err(StepError::Fail(why)) => mode = Mode::Abandon(why),
                Err(StepError::Wait { reason, after, at }) => {
                    if let Some(stop) = self.pause(reason, after, at, 0).await {
                        return stop;
                    }
                }
                Err(StepError::Retry { reason, at }) => {
                    let failures = self.cx.failures.fetch_add(1, Ordering::Relaxed) + 1;
                    let most = self.options.tuning.max_failures;
                    if failures > most * 2 {
                        mode = Mode::Force(Failure::new(reason));
                    } else if failures > most && !abandoning {
                        mode = Mode::Abandon(Failure::new(format!(
                            "{reason} (given up after {failures} tries)"
                        )));
                    } else {
                        tracing::warn!(job.id = %self.cx.job.id, failures, "again after a failure: {reason}");
                        let after = self.options.tuning.backoff(failures);
                        if let Some(stop) = self.pause(reason, after, at, 1).await {
                            return stop;
                        }
                    }
                }
            }
        }
    }

    /// One pass over the operation from the journal on. A panic of an operation is a failure like any other.
    #[expect(clippy::disallowed_methods, reason = "the grace of a shutdown is real time")]
    async fn pass(&self, abandon: Option<&Failure>) -> StepResult<Settlement> {
        let cx = &self.cx;
        cx.alive()?;
        cx.load().await?;
        cx.abandoning.store(abandon.is_some(), Ordering::Relaxed);
        let work = match abandon {
            None => self.operation.run(cx),
            Some(why) => self.operation.abandon(cx, why),
        };
        let mut work = pin!(AssertUnwindSafe(work).catch_unwind());
        let outcome = tokio::select! {
            biased;
            () = cx.lease.lost.cancelled() => return Err(StepError::LeaseLost),
            outcome = WhileLive { state: &cx.lease, inner: work.as_mut() } => outcome,
            () = async {
                self.shutdown.cancelled().await;
                tokio::time::sleep(self.options.tuning.grace).await;
            } => return Err(StepError::HandBack),
        };
        match outcome {
            None => Err(StepError::LeaseLost),
            Some(Ok(outcome)) => outcome,
            Some(Err(panic)) => {
                let text = panic
                    .downcast_ref::<&str>()
                    .map(|text| (*text).to_owned())
                    .or_else(|| panic.downcast_ref::<String>().cloned())
                    .unwrap_or_default();
                tracing::error!(job.id = %cx.job.id, "the operation panicked: {text}");
                Err(StepError::Retry {
                    reason: format!("internal: the operation panicked: {text}"),
                    at: Location::caller(),
                })
            }
        }
    }
}

/// The end of a job whose operation cannot even be asked: not as desired, with the reason.
fn forced(why: Failure) -> Settlement {
    Settlement::failed(Transition::On(Event::OperationFailed), why)
}
