//! The journal and the progress of one run, the engine's side of [`OpCx`].

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::cx::OpCx;
use super::step::{StepError, StepResult, chain, fail, retry};
use crate::db::steps::{StepRow, StepState};
use crate::db::{DbError, FencedError, FencedTx, jobs, steps};
use crate::domain::job::{Failure, Progress};

type Key = (String, String);

#[derive(Default)]
pub(crate) struct Memory {
    pub(crate) journal: HashMap<Key, StepRow>,
    /// Keys used in this pass: the same key twice in one pass is a mistake of the operation.
    used: HashSet<Key>,
    /// Progress as it is to be, and as it is stored.
    pub(crate) progress: Progress,
    stored: Option<Progress>,
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
    pub(crate) fn check(&self) -> StepResult<()> {
        self.alive()?;
        if self.shutdown.is_cancelled() {
            return Err(StepError::HandBack);
        }
        Ok(())
    }

    /// The recorded outcome; else whether the step may be run now.
    pub(crate) fn enter<T: DeserializeOwned>(
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
    pub(crate) fn exhausted<T>(&self, outcome: StepResult<T>) -> StepResult<T> {
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
    pub(crate) async fn record(
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

    pub(crate) async fn write_step(
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
        if !self.abandoning.load(Ordering::Relaxed) {
            jobs::note_new_step(tx.conn(), job).await?;
        }
        Ok(())
    }

    pub(crate) fn remember(&self, name: &'static str, subject: &str, state: StepState, output: Value) {
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
    pub(crate) async fn flush_progress(&self, name: &'static str, subject: &str) -> StepResult<()> {
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

    pub(crate) async fn point(&self, label: &str, side: &str) {
        self.faults.at(&format!("{label}:{side}")).await;
    }

    pub(crate) fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) fn key(name: &str, subject: &str) -> Key {
    (name.to_owned(), subject.to_owned())
}

pub(crate) fn to_json<T: Serialize>(value: &T) -> StepResult<Value> {
    serde_json::to_value(value)
        .map_err(|error| fail(format!("internal: a step's output is no JSON: {error}")))
}

pub(crate) fn decode<T: DeserializeOwned>(row: &StepRow) -> StepResult<Option<Result<T, Failure>>> {
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
