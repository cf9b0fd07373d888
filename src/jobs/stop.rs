//! The ways in which a run stops, and the writes that go with each.

use std::panic::Location;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::operation::Settlement;
use super::run::{Run, Stop};
use super::settle::settle;
use super::step::chain;
use crate::db::jobs::Park;
use crate::db::{FencedError, jobs};
use crate::domain::job::{JobStatus, Waiting};

/// What is written when a pass did not end the job.
#[derive(Clone, Copy)]
enum PutDown<'a> {
    /// What it waits for, with the lease kept.
    Waiting(&'a serde_json::Value),
    /// The job goes back to the queue.
    Park(&'a Park<'a>),
}

impl Run<'_> {
    /// Waits: shortly in place with the lease kept (None: go on), or parked.
    #[expect(clippy::disallowed_methods, reason = "a short wait is slept here")]
    pub(super) async fn pause(
        &mut self,
        reason: String,
        after: Duration,
        at: &'static Location<'static>,
        failures: i32,
    ) -> Option<Stop> {
        let tuning = &self.options.tuning;
        // A job never sleeps past its deadline: there it may have to give back.
        let left = self.cx.time_left();
        let after = if left.is_zero() { after } else { after.min(left) };
        let stored = self.waiting.as_ref().is_some_and(|old| old.reason == reason);
        let waiting = Waiting {
            since: self
                .waiting
                .take()
                .filter(|_| stored)
                .map_or_else(|| self.cx.now(), |old| old.since),
            reason: reason.clone(),
            at: format!("{}:{}", at.file(), at.line()),
        };
        let json = serde_json::to_value(&waiting).unwrap_or_default();
        self.waiting = Some(waiting);
        if after <= tuning.in_place && failures == 0 && !self.shutdown.is_cancelled() {
            if !stored && let Err(stop) = self.insist("waiting", PutDown::Waiting(&json)).await {
                return Some(stop);
            }
            tokio::select! {
                () = tokio::time::sleep(after) => {}
                () = self.shutdown.cancelled() => {}
                () = self.cx.lease.lost.cancelled() => {}
            }
            return None;
        }
        let progress = serde_json::to_value(self.cx.take_progress()).ok();
        let park = Park {
            after_secs: after.as_secs_f64(),
            waiting: Some(&json),
            progress: progress.as_ref(),
            failures,
            told_of_cancel: self.cx.told_of_cancel.load(Ordering::Relaxed),
        };
        match self.insist("park", PutDown::Park(&park)).await {
            Ok(()) => Some(Stop::Parked { after, reason }),
            Err(stop) => Some(stop),
        }
    }

    /// Puts the job back for another worker, at once.
    pub(super) async fn hand_back(&self) -> Stop {
        let progress = serde_json::to_value(self.cx.take_progress()).ok();
        let park = Park {
            after_secs: 0.0,
            waiting: None,
            progress: progress.as_ref(),
            failures: 0,
            told_of_cancel: true,
        };
        match self.insist("hand_back", PutDown::Park(&park)).await {
            Ok(()) => Stop::HandedBack,
            Err(stop) => stop,
        }
    }

    /// Ends the job.
    #[expect(clippy::disallowed_methods, reason = "the engine waits for the database here")]
    pub(super) async fn end(&self, settlement: &Settlement) -> Stop {
        let cx = &self.cx;
        cx.faults.at("settle:before").await;
        let status = loop {
            match settle(cx, self.options.view.as_ref(), settlement).await {
                Ok(status) => break status,
                Err(error) => {
                    if let Some(stop) = self.give_up(&error) {
                        return stop;
                    }
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
            }
        };
        cx.faults.at("settle:after").await;
        let outcome = if status == JobStatus::Succeeded {
            "succeeded"
        } else {
            "failed"
        };
        metrics::counter!("cksd_jobs_ended_total", "command" => cx.job.command.clone(), "outcome" => outcome)
            .increment(1);
        match &settlement.outcome {
            Ok(text) => tracing::info!(job.id = %cx.job.id, "{text}"),
            Err(failure) => tracing::warn!(job.id = %cx.job.id, code = failure.code, "{}", failure.text),
        }
        Stop::Ended(status)
    }

    /// Writes under the fence, again and again while the database is away and the lease is live.
    #[expect(clippy::disallowed_methods, reason = "the engine waits for the database here")]
    async fn insist(&self, name: &str, what: PutDown<'_>) -> Result<(), Stop> {
        self.cx.faults.at(&format!("{name}:before")).await;
        loop {
            match self.put_down(what).await {
                Ok(()) => break,
                Err(error) => {
                    if let Some(stop) = self.give_up(&error) {
                        return Err(stop);
                    }
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
            }
        }
        self.cx.faults.at(&format!("{name}:after")).await;
        Ok(())
    }

    async fn put_down(&self, what: PutDown<'_>) -> Result<(), FencedError> {
        let job = self.cx.job.id;
        let mut tx = self.cx.db.open().await?;
        match what {
            PutDown::Waiting(waiting) => jobs::set_waiting(tx.conn(), job, waiting).await?,
            PutDown::Park(park) => jobs::park(tx.conn(), job, park).await?,
        }
        tx.commit().await
    }

    /// Whether a failed write of the engine is the end of this run. The job then comes back by its lease.
    fn give_up(&self, error: &FencedError) -> Option<Stop> {
        match error {
            FencedError::Db(db) if db.is_unavailable() && self.cx.lease.is_live() => None,
            FencedError::LeaseLost => Some(Stop::Lost),
            FencedError::Db(db) => {
                tracing::error!(job.id = %self.cx.job.id, "the job's row cannot be written: {}", chain(db));
                Some(Stop::Lost)
            }
        }
    }
}
