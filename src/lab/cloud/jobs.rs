//! Runs async jobs: one at a time on a machine, with service times, across restarts of the lab.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use uuid::Uuid;

use super::Cloud;
use super::fault::of_code;
use super::model::{CloudState, Job};
use super::work::{Stage, Work};
use crate::lab::clock;
use crate::lab::faults::{FaultKind, FaultPoint, delay_of};
use crate::protocol::Fault;

/// How many finished jobs are remembered.
const REMEMBERED: usize = 400;

impl CloudState {
    /// Records a job that has not begun.
    pub(crate) fn add_job(
        &mut self,
        command: &str,
        user: Uuid,
        instance: Option<(String, Uuid)>,
        work: Work,
    ) -> Uuid {
        let finished = self.jobs.iter().filter(|job| job.status != 0).count();
        if finished > REMEMBERED
            && let Some(oldest) = self.jobs.iter().position(|job| job.status != 0)
        {
            self.jobs.remove(oldest);
        }
        let id = clock::fresh_id();
        let seq = self.next_number();
        self.jobs.push(Job {
            id,
            seq,
            command: command.to_owned(),
            user,
            instance,
            work,
            created: clock::now(),
            due: None,
            status: 0,
            code: 0,
            result: None,
            completed: None,
        });
        id
    }

    fn job_mut(&mut self, id: Uuid) -> Option<&mut Job> {
        self.jobs.iter_mut().find(|have| have.id == id)
    }

    fn set_due(&mut self, id: Uuid, due: Timestamp) {
        if let Some(job) = self.job_mut(id) {
            job.due = Some(due);
        }
    }

    fn finish(&mut self, id: Uuid, status: u8, code: u16, result: Value) {
        if let Some(job) = self.job_mut(id) {
            job.status = status;
            job.code = code;
            job.result = Some(result);
            job.completed = Some(clock::now());
        }
    }
}

impl Cloud {
    /// Starts the runner of a job.
    pub(crate) fn spawn_job(self: &Arc<Self>, id: Uuid) {
        let cloud = Arc::clone(self);
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = cloud.run_job(id) => {}
            }
        });
    }

    /// Goes on with what an earlier run of the lab left unfinished.
    pub(crate) fn resume_jobs(self: &Arc<Self>) {
        let mut pending: Vec<(u64, Uuid)> = self.read(|state| {
            state
                .jobs
                .iter()
                .filter(|job| job.status == 0)
                .map(|job| (job.seq, job.id))
                .collect()
        });
        pending.sort_unstable();
        for (_, id) in pending {
            self.spawn_job(id);
        }
    }

    async fn run_job(self: Arc<Self>, id: Uuid) {
        let found = self.read(|state| {
            let job = state.jobs.iter().find(|have| have.id == id)?;
            let subject = job
                .instance
                .as_ref()
                .map(|(_, id)| id.to_string())
                .unwrap_or_default();
            Some((job.command.clone(), subject, job.work.clone(), job.user))
        });
        let Some((command, subject, work, user)) = found else {
            return;
        };
        let _turn = match work.vm() {
            Some(vm) => Some(self.turn(vm).lock_owned().await),
            None => None,
        };
        let struck = self.faults.strike(&command, FaultPoint::Job, &[&subject]);
        clock::pause(delay_of(&struck)).await;
        if let Some(fault) = before(&struck) {
            self.change(|state| work.undo(state));
            self.settle().await;
            self.conclude(id, &struck, &work, user, Err(fault));
            return;
        }
        let outcome = self.stages(id, &work).await;
        if outcome.is_err() {
            self.change(|state| work.undo(state));
            self.settle().await;
        }
        self.conclude(id, &struck, &work, user, outcome);
    }

    async fn stages(&self, id: Uuid, work: &Work) -> Result<(), Fault> {
        let begun = self.read(|state| {
            state
                .jobs
                .iter()
                .find(|have| have.id == id)
                .and_then(|job| job.due)
        });
        let mut due = if let Some(due) = begun {
            due
        } else {
            let due = self.change(|state| -> Result<Timestamp, Fault> {
                let due = self.after(work.begin(state)?);
                state.set_due(id, due);
                Ok(due)
            })?;
            self.settle().await;
            due
        };
        loop {
            clock::pause_until(due).await;
            let again = self.change(|state| -> Result<Option<Timestamp>, Fault> {
                match work.advance(state)? {
                    Stage::Done => Ok(None),
                    Stage::Again(seconds) => {
                        let due = self.after(seconds);
                        state.set_due(id, due);
                        Ok(Some(due))
                    }
                }
            })?;
            self.settle().await;
            match again {
                Some(next) => due = next,
                None => return Ok(()),
            }
        }
    }

    /// The time at which a stage of so many seconds, scaled, ends.
    fn after(&self, seconds: f64) -> Timestamp {
        let now = clock::now();
        let span = Duration::try_from_secs_f64(seconds * self.factor).unwrap_or_default();
        now.checked_add(span).unwrap_or(now)
    }

    fn conclude(&self, id: Uuid, struck: &[FaultKind], work: &Work, user: Uuid, outcome: Result<(), Fault>) {
        let dropped = struck
            .iter()
            .any(|kind| matches!(kind, FaultKind::DropBefore | FaultKind::DropAfter));
        let outcome = outcome.and_then(|()| after(struck).map_or(Ok(()), Err));
        self.change(|state| {
            if dropped {
                state.jobs.retain(|job| job.id != id);
                return;
            }
            match outcome {
                Ok(()) => {
                    let account = state.user(user).and_then(|user| state.account(user.account));
                    let admin = account.is_some_and(|account| account.kind.number() == 1);
                    // The object of the result does not show its own job as pending.
                    state.finish(id, 1, 0, Value::Null);
                    let result = work.result(state, admin);
                    state.finish(id, 1, 0, result);
                }
                Err(fault) => state.finish(id, 2, fault.code().number(), fault.job_result()),
            }
        });
    }
}

fn before(struck: &[FaultKind]) -> Option<Fault> {
    struck.iter().find_map(|kind| match kind {
        FaultKind::FailBefore { code, text } => Some(of_code(*code, text.clone())),
        FaultKind::DropBefore => Some(of_code(530, "the job was dropped")),
        _ => None,
    })
}

fn after(struck: &[FaultKind]) -> Option<Fault> {
    struck.iter().find_map(|kind| match kind {
        FaultKind::FailAfter { code, text } => Some(of_code(*code, text.clone())),
        _ => None,
    })
}
