//! What an operation is given: its job, the ports, the fenced database and the journal.

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::faults::FaultPoints;
use super::lease::LeaseState;
use super::step::{StepError, StepResult, chain, fail, retry};
use crate::db::steps::{StepRow, StepState};
use crate::db::{DbError, Fenced, FencedError, FencedTx, jobs, steps};
use crate::domain::cluster::State;
use crate::domain::id::{ClusterId, EventId, InstallationId, JobId};
use crate::domain::job::{EndReason, Failure, Progress, Skipped, time_left};
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

type Key = (String, String);

#[derive(Default)]
pub(crate) struct Memory {
    journal: HashMap<Key, StepRow>,
    /// Keys used in this pass: the same key twice in one pass is a mistake of the operation.
    used: HashSet<Key>,
    /// Progress as it is to be, and as it is stored.
    progress: Progress,
    stored: Option<Progress>,
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
        if attempt == 1 {
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

/// The engine's side.
impl OpCx {
    /// Reads the journal from the database; every pass over the operation begins with it.
    pub(crate) async fn load(&self) -> Result<(), DbError> {
        let job = self.job.id;
        let rows = self.db.read(async |conn| steps::list(conn, job).await).await?;
        let mut memory = self.memory();
        memory.used.clear();
        memory.journal = rows
            .into_iter()
            .map(|row| ((row.name.clone(), row.subject.clone()), row))
            .collect();
        Ok(())
    }

    /// The stored progress at the claim.
    pub(crate) fn resume_progress(&self, progress: Option<Progress>) {
        let mut memory = self.memory();
        memory.progress = progress.clone().unwrap_or_default();
        memory.stored = progress;
    }

    /// Progress as it is now, for a write; marks it as stored.
    pub(crate) fn take_progress(&self) -> Progress {
        let now = self.now();
        let mut memory = self.memory();
        let mut next = memory.progress.clone();
        let same =
            |old: &Progress| (&old.step, &old.node, old.attempt) == (&next.step, &next.node, next.attempt);
        next.since = match &memory.stored {
            Some(old) if same(old) => old.since.or(Some(now)),
            _ => Some(now),
        };
        memory.stored = Some(next.clone());
        memory.progress = next.clone();
        next
    }

    /// Fails when the lease is lost.
    pub(crate) fn alive(&self) -> StepResult<()> {
        if self.lease.is_live() {
            Ok(())
        } else {
            Err(StepError::LeaseLost)
        }
    }

    /// Fails when nothing new may be started.
    fn check(&self) -> StepResult<()> {
        self.alive()?;
        if self.shutdown.is_cancelled() {
            return Err(StepError::HandBack);
        }
        Ok(())
    }

    /// The recorded outcome; else whether the step may be run now.
    fn enter<T: DeserializeOwned>(
        &self,
        name: &'static str,
        subject: &str,
    ) -> StepResult<Option<StepResult<T>>> {
        {
            let mut memory = self.memory();
            if !memory.used.insert(key(name, subject)) {
                return Err(fail(format!(
                    "internal: step `{name}` of `{subject}` was used twice in one run"
                )));
            }
            if let Some(row) = memory.journal.get(&key(name, subject))
                && let Some(outcome) = decode(row)?
            {
                return Ok(Some(outcome.map_err(StepError::Fail)));
            }
        }
        self.check()?;
        Ok(None)
    }

    /// A failure that came too often becomes one for good, so that the operation can give back.
    fn exhausted<T>(&self, outcome: StepResult<T>) -> StepResult<T> {
        match outcome {
            Err(StepError::Retry { reason, .. })
                if self.failures.load(Ordering::Relaxed) >= self.max_failures =>
            {
                Err(fail(format!(
                    "{reason} (given up after {} tries)",
                    self.max_failures + 1
                )))
            }
            other => other,
        }
    }

    /// Records an outcome, for as long as the lease is live: the work is done, and doing it again because the
    /// database was away for a second would be a waste.
    #[expect(clippy::disallowed_methods, reason = "the engine waits for the database here")]
    async fn record(
        &self,
        name: &'static str,
        subject: &str,
        state: StepState,
        output: Value,
    ) -> StepResult<()> {
        let mut pause = Duration::from_millis(50);
        loop {
            match self.try_record(name, subject, state, &output).await {
                Ok(()) => break,
                Err(FencedError::LeaseLost) => return Err(StepError::LeaseLost),
                Err(FencedError::Db(error)) if error.is_unavailable() && !self.shutdown.is_cancelled() => {
                    self.alive()?;
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(Duration::from_secs(1));
                }
                Err(FencedError::Db(error)) => return Err(retry(chain(&error))),
            }
        }
        self.remember(name, subject, state, output);
        Ok(())
    }

    async fn try_record(
        &self,
        name: &'static str,
        subject: &str,
        state: StepState,
        output: &Value,
    ) -> Result<(), FencedError> {
        let mut tx = self.db.open().await?;
        self.write_step(&mut tx, name, subject, state, output).await?;
        tx.commit().await
    }

    async fn write_step(
        &self,
        tx: &mut FencedTx<'_>,
        name: &'static str,
        subject: &str,
        state: StepState,
        output: &Value,
    ) -> Result<(), FencedError> {
        let (job, epoch) = (self.job.id, self.job.epoch);
        if !steps::record(tx.conn(), job, epoch, (name, subject), state, output).await? {
            let what = format!("step `{name}` of `{subject}` was recorded by another claim");
            return Err(DbError::inconsistent("job_step", "state", job, what).into());
        }
        Ok(jobs::note_new_step(tx.conn(), job).await?)
    }

    fn remember(&self, name: &'static str, subject: &str, state: StepState, output: Value) {
        self.failures.store(0, Ordering::Relaxed);
        let now = self.now();
        let mut memory = self.memory();
        let row = StepRow {
            seq: 0,
            name: name.to_owned(),
            subject: subject.to_owned(),
            attempt: 1,
            state,
            output: Some(output),
            epoch: self.job.epoch,
            started: now,
            ended: Some(now),
        };
        memory.journal.insert(key(name, subject), row);
    }

    /// Stores progress when a step really runs and something has changed.
    async fn flush_progress(&self, name: &'static str, subject: &str) -> StepResult<()> {
        let changed = {
            let mut memory = self.memory();
            if memory.progress.step.is_empty() {
                name.clone_into(&mut memory.progress.step);
                memory.progress.node = Some(subject.to_owned()).filter(|one| !one.is_empty());
            }
            memory.stored.as_ref().is_none_or(|stored| {
                let mut same = memory.progress.clone();
                same.since = stored.since;
                same != *stored
            })
        };
        if !changed {
            return Ok(());
        }
        let progress = to_json(&self.take_progress())?;
        let job = self.job.id;
        self.db
            .write("progress", async |tx: &mut FencedTx<'_>| {
                jobs::set_progress(tx.conn(), job, &progress)
                    .await
                    .map_err(FencedError::from)
            })
            .await?;
        Ok(())
    }

    async fn point(&self, label: &str, side: &str) {
        self.faults.at(&format!("{label}:{side}")).await;
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(name: &str, subject: &str) -> Key {
    (name.to_owned(), subject.to_owned())
}

fn to_json<T: Serialize>(value: &T) -> StepResult<Value> {
    serde_json::to_value(value)
        .map_err(|error| fail(format!("internal: a step's output is no JSON: {error}")))
}

fn decode<T: DeserializeOwned>(row: &StepRow) -> StepResult<Option<Result<T, Failure>>> {
    let unreadable = |error| {
        fail(format!(
            "internal: the recorded output of step `{}` cannot be read: {error}",
            row.name
        ))
    };
    let output = row.output.clone().unwrap_or(Value::Null);
    match row.state {
        StepState::Begun => Ok(None),
        StepState::Done => serde_json::from_value(output)
            .map(|value| Some(Ok(value)))
            .map_err(unreadable),
        StepState::Failed => serde_json::from_value(output)
            .map(|value| Some(Err(value)))
            .map_err(unreadable),
    }
}
