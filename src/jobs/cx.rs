//! What an operation is given: its job, the ports, the fenced database and the journal.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::faults::FaultPoints;
use super::journal::{Memory, decode, key, to_json};
use super::lease::LeaseState;
use super::step::{StepError, StepResult};
use crate::db::steps::StepState;
use crate::db::{Fenced, FencedTx, jobs, steps};
use crate::domain::cluster::State;
use crate::domain::id::{ClusterId, EventId, InstallationId, JobId};
use crate::domain::job::{EndReason, Failure, Skipped, time_left};
use crate::ports::Ports;
use crate::ports::shell::Fence;

/// What an operation may know of its job.
#[derive(Debug, Clone)]
pub struct JobInfo {
    /// Its id.
    pub id: JobId,
    /// The command.
    pub command: String,
    /// The cluster; nil for a job that needs none.
    pub cluster_id: ClusterId,
    /// The cluster's key; 0 for a job that needs none.
    pub cluster_key: i64,
    /// The cluster's name.
    pub cluster_name: String,
    /// The account's key.
    pub account_key: i64,
    /// The user's key.
    pub user_key: i64,
    /// The request as it was understood.
    pub request: Value,
    /// Where given-back returns to.
    pub from_state: Option<State>,
    /// When it must be over.
    pub deadline: Timestamp,
    /// When it was admitted.
    pub created: Timestamp,
    /// The claim's number.
    pub epoch: i64,
    /// The Scheduled event.
    pub scheduled_event: Option<EventId>,
}

/// What came of [`OpCx::begin`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Begun {
    /// When it was begun first, in the database's time.
    pub at: Timestamp,
    /// Whether an earlier run or another owner began it.
    pub again: bool,
}

/// The context of one run of one job.
pub struct OpCx {
    pub(crate) job: JobInfo,
    pub(crate) ports: Ports,
    pub(crate) db: Fenced,
    pub(crate) installation: InstallationId,
    pub(crate) lease: Arc<LeaseState>,
    pub(crate) shutdown: CancellationToken,
    pub(crate) faults: Arc<FaultPoints>,
    pub(crate) failures: AtomicI32,
    pub(crate) max_failures: i32,
    /// Set while a job is settled instead of run: its steps are no progress then.
    pub(crate) abandoning: AtomicBool,
    /// Set once the operation was told that its job is cancelled.
    pub(crate) told_of_cancel: AtomicBool,
    pub(crate) memory: Mutex<Memory>,
}

impl OpCx {
    /// The job.
    pub fn job(&self) -> &JobInfo {
        &self.job
    }

    /// The ports.
    pub fn ports(&self) -> &Ports {
        &self.ports
    }

    /// The fence that node commands carry.
    pub fn fence(&self) -> Fence {
        Fence {
            installation: self.installation,
            epoch: self.job.epoch,
        }
    }

    /// The database, fenced.
    pub fn db(&self) -> &Fenced {
        &self.db
    }

    /// Now, by the port.
    pub fn now(&self) -> Timestamp {
        self.ports.clock.now()
    }

    /// Why the job must come to an end, if it must. Asked by the operation where it may still give back.
    pub fn ended(&self) -> Option<EndReason> {
        if self.lease.cancelled.load(Ordering::Relaxed) {
            self.told_of_cancel.store(true, Ordering::Relaxed);
            Some(EndReason::Cancel)
        } else if self.time_left().is_zero() {
            Some(EndReason::Deadline)
        } else {
            None
        }
    }

    /// How long until the deadline, zero when it has passed.
    pub fn time_left(&self) -> Duration {
        time_left(self.now(), self.job.deadline)
    }

    /// The fault points, for doubles of ports.
    pub fn faults(&self) -> &Arc<FaultPoints> {
        &self.faults
    }

    /// Runs a step once. If it is recorded, its recorded outcome is returned and `work` is dropped unpolled;
    /// else it is run and its result, or its failure for good, recorded under the fence.
    ///
    /// **Invariant:** name and subject come from the plan and are never renamed: they are stored data. A step
    /// that ran and was not recorded runs again, so it looks first and accepts "already so".
    pub async fn step<T: Serialize + DeserializeOwned>(
        &self,
        name: &'static str,
        subject: &str,
        work: impl Future<Output = StepResult<T>>,
    ) -> StepResult<T> {
        if let Some(outcome) = self.enter(name, subject)? {
            return outcome;
        }
        let label = format!("step:{name}/{subject}");
        self.flush_progress(name, subject).await?;
        self.point(&label, "before").await;
        let outcome = work.await;
        self.alive()?;
        let outcome = self.exhausted(outcome);
        match outcome {
            Ok(value) => {
                self.point(&label, "worked").await;
                let output = to_json(&value)?;
                self.record(name, subject, StepState::Done, output).await?;
                self.point(&label, "recorded").await;
                Ok(value)
            }
            Err(StepError::Fail(failure)) => {
                self.point(&label, "worked").await;
                self.record(name, subject, StepState::Failed, to_json(&failure)?)
                    .await?;
                self.point(&label, "recorded").await;
                Err(StepError::Fail(failure))
            }
            Err(other) => Err(other),
        }
    }

    /// Database work that is recorded in the same transaction as its journal row: exactly once.
    pub async fn commit<T: Serialize + DeserializeOwned>(
        &self,
        name: &'static str,
        subject: &str,
        work: impl AsyncFnOnce(&mut FencedTx<'_>) -> StepResult<T>,
    ) -> StepResult<T> {
        if let Some(outcome) = self.enter(name, subject)? {
            return outcome;
        }
        let label = format!("commit:{name}/{subject}");
        self.point(&label, "before").await;
        let mut tx = self.db.open().await?;
        let outcome = work(&mut tx).await;
        match outcome {
            Ok(value) => {
                let output = to_json(&value)?;
                self.write_step(&mut tx, name, subject, StepState::Done, &output)
                    .await?;
                self.point(&label, "worked").await;
                tx.commit().await?;
                self.remember(name, subject, StepState::Done, output);
                self.point(&label, "recorded").await;
                Ok(value)
            }
            Err(StepError::Fail(failure)) => {
                drop(tx);
                self.record(name, subject, StepState::Failed, to_json(&failure)?)
                    .await?;
                self.point(&label, "recorded").await;
                Err(StepError::Fail(failure))
            }
            Err(other) => Err(other),
        }
    }

    /// Writes that something begins, before an effect that must be counted, or finds that it began before.
    /// A later [`OpCx::step`] with the same key completes the row.
    pub async fn begin(&self, name: &'static str, subject: &str) -> StepResult<Begun> {
        self.check()?;
        if let Some(row) = self.memory().journal.get(&key(name, subject))
            && row.state != StepState::Begun
        {
            return Ok(Begun {
                at: row.started,
                again: true,
            });
        }
        let label = format!("begin:{name}/{subject}");
        self.point(&label, "before").await;
        let mut tx = self.db.open().await?;
        let epoch = self.job.epoch;
        let (at, attempt) = steps::begin(tx.conn(), self.job.id, epoch, (name, subject)).await?;
        if attempt == 1 && !self.abandoning.load(Ordering::Relaxed) {
            jobs::note_new_step(tx.conn(), self.job.id).await?;
        }
        tx.commit().await?;
        if attempt == 1 {
            self.failures.store(0, Ordering::Relaxed);
        }
        self.point(&label, "after").await;
        Ok(Begun {
            at,
            again: attempt > 1,
        })
    }

    /// The recorded outcome of a step, without running it.
    pub fn recorded<T: DeserializeOwned>(
        &self,
        name: &'static str,
        subject: &str,
    ) -> StepResult<Option<Result<T, Failure>>> {
        let memory = self.memory();
        let Some(row) = memory.journal.get(&key(name, subject)) else {
            return Ok(None);
        };
        decode(row)
    }

    /// Says where the operation is, for `operation` of queryAsyncJobResult. Kept in memory until the next step
    /// really runs, is recorded or waits, so that a replay costs nothing and never shows the past.
    pub fn progress(&self, step: &str, node: Option<&str>, attempt: Option<u32>) {
        let mut memory = self.memory();
        step.clone_into(&mut memory.progress.step);
        memory.progress.node = node.map(str::to_owned);
        memory.progress.attempt = attempt;
    }

    /// Adds a node that is done.
    pub fn node_done(&self, node: &str) {
        let mut memory = self.memory();
        if !memory.progress.nodes_done.iter().any(|one| one == node) {
            memory.progress.nodes_done.push(node.to_owned());
        }
    }

    /// Adds a node that was skipped, with what was seen.
    pub fn node_skipped(&self, node: &str, proof: &str) {
        let mut memory = self.memory();
        if !memory.progress.nodes_skipped.iter().any(|one| one.node == node) {
            memory.progress.nodes_skipped.push(Skipped {
                node: node.to_owned(),
                proof: proof.to_owned(),
            });
        }
    }

    /// Runs something that lasts, such as following a command. It ends at once when the lease is lost or this
    /// process goes away; what it watched goes on.
    pub async fn until_lost<T>(&self, work: impl Future<Output = T>) -> StepResult<T> {
        tokio::select! {
            biased;
            () = self.lease.lost.cancelled() => Err(StepError::LeaseLost),
            () = self.shutdown.cancelled() => Err(StepError::HandBack),
            value = work => {
                self.alive()?;
                Ok(value)
            }
        }
    }
}
