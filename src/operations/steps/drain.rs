//! Draining one node with patience (`behaviour.md` 5). Used by scale-down and by upgrade.
//!
//! What this must not know: who cordons, who uncordons, and what follows a drain.
//!
//! An attempt counts once, whatever ends it: its row is written before the command, the command has a name on
//! the node, and whoever takes the job over asks for that name before anything else.

use std::time::Duration;

use jiff::Timestamp;

use super::attempt::{Attempt, Ended, Run, begin, carry_out};
use super::talk::Talk;
use super::trouble::{ended_text, look_again};
use crate::domain::id::VmId;
use crate::domain::job::time_left;
use crate::domain::plan::drain::{AttemptEnd, Class, DrainFailure, may_retry, patience};
use crate::domain::settings::{DRAIN_RETRY_INTERVAL, Settings};
use crate::jobs::{EndReason, OpCx, StepResult, wait};
use crate::ports::kube::Via;
use crate::ports::shell::RunKey;

/// A node to drain.
#[derive(Debug, Clone, Copy)]
pub struct Draining<'a> {
    /// The Kubernetes node.
    pub node: &'a str,
    /// Its machine.
    pub vm_id: VmId,
    /// Its machine in texts.
    pub vm: &'a str,
    /// Attempts at most.
    pub attempts: u32,
    /// Which round of attempts this is: a node whose proof fails is drained once more.
    pub round: u32,
}

/// What came of draining a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Drained {
    /// It is drained, since then.
    At(Timestamp),
    /// It is not.
    Failed(DrainFailure),
    /// The operation must end.
    Over(EndReason),
}

/// Drains a node: attempts with waits between, each journaled.
pub async fn drain_node(talk: &Talk<'_>, draining: Draining<'_>) -> StepResult<Drained> {
    let cx = talk.cx;
    let mut last: Option<Ended> = None;
    for number in 1..=draining.attempts {
        let subject = subject(draining, number);
        let attempt = cx.step("drain_attempt", &subject, begin(talk)).await?;
        let Some(timeout_secs) = attempt.timeout_secs else {
            return Ok(no_time(cx, draining, number - 1, last));
        };
        cx.progress("drain", Some(draining.node), Some(number));
        let before = (number > 1).then(|| key(cx, &self::subject(draining, number - 1)));
        let run = Run {
            key: key(cx, &subject),
            before,
            timeout_secs,
        };
        let ended = cx
            .step(
                "drain",
                &subject,
                Box::pin(carry_out(talk, draining, &attempt, run)),
            )
            .await?;
        let Some(class) = ended.class.clone() else {
            return Ok(Drained::At(ended.at));
        };
        let pause = cx
            .step(
                "drain_next",
                &subject,
                after(cx, number, draining.attempts, &class),
            )
            .await?;
        let Some(pause) = pause else {
            return Ok(failed(draining, number, &ended));
        };
        cx.progress(
            "wait for the next attempt to drain",
            Some(draining.node),
            Some(number),
        );
        let over = cx
            .step("drain_pause", &subject, async {
                wait_between(cx, draining.node, ended.at, pause)
            })
            .await?;
        if let Some(reason) = over {
            return Ok(Drained::Over(reason));
        }
        last = Some(ended);
    }
    Ok(no_time(cx, draining, draining.attempts, last))
}

fn subject(draining: Draining<'_>, number: u32) -> String {
    match draining.round {
        1 => format!("{}#{number}", draining.node),
        round => format!("{}#{round}.{number}", draining.node),
    }
}

fn key(cx: &OpCx, subject: &str) -> RunKey {
    RunKey(format!("drain-{}-{}", cx.job().id, subject.replace('#', "-")))
}

fn failed(draining: Draining<'_>, attempts: u32, ended: &Ended) -> Drained {
    Drained::Failed(DrainFailure {
        node: draining.node.to_owned(),
        vm: draining.vm.to_owned(),
        attempts,
        class: ended.class.clone(),
        output: ended.end.output().to_owned(),
    })
}

/// No attempt is left, or no time for one: the last attempt's failure, else the end of the operation.
fn no_time(cx: &OpCx, draining: Draining<'_>, made: u32, last: Option<Ended>) -> Drained {
    match last {
        Some(ended) => failed(draining, made, &ended),
        None => Drained::Over(cx.ended().unwrap_or(EndReason::Deadline)),
    }
}

/// The current settings.
pub async fn settings(cx: &OpCx) -> StepResult<Settings> {
    Ok(Settings::from_rows(cx.db().stored_settings().await?))
}

/// The wait before the next attempt; none when there is none.
async fn after(cx: &OpCx, number: u32, attempts: u32, class: &Class) -> StepResult<Option<Duration>> {
    let interval = Duration::from_secs(settings(cx).await?.seconds(&DRAIN_RETRY_INTERVAL));
    Ok(may_retry(number, attempts, class, interval, cx.time_left()).then_some(interval))
}

fn wait_between(cx: &OpCx, node: &str, since: Timestamp, pause: Duration) -> StepResult<Option<EndReason>> {
    if cx.ended() == Some(EndReason::Cancel) {
        return Ok(Some(EndReason::Cancel));
    }
    let left = time_left(cx.now(), since + pause);
    if left.is_zero() {
        return Ok(None);
    }
    Err(wait(format!("the next attempt to drain node {node}"), left))
}

/// Ends what of ours may still run on a node, before anything is given back.
pub async fn stop_all(talk: &Talk<'_>, draining: Draining<'_>) -> StepResult<()> {
    let cx = talk.cx;
    for number in 1..=draining.attempts {
        let subject = subject(draining, number);
        let Some(Ok(attempt)) = cx.recorded::<Attempt>("drain_attempt", &subject)? else {
            continue;
        };
        if cx
            .recorded::<Ended>("drain", &subject)?
            .is_some_and(|ended| ended.is_ok_and(|e| settled(&e.end)))
        {
            continue;
        }
        let (Some(secs), Some(via)) = (attempt.timeout_secs, attempt.via.and_then(|id| talk.via_of(id)))
        else {
            continue;
        };
        let run = key(cx, &subject);
        let until = attempt.at + patience(secs);
        cx.step(
            "drain_stop",
            &subject,
            stop(talk, &via, &run, until, draining.node),
        )
        .await?;
    }
    Ok(())
}

/// Whether an attempt is known not to run any more.
fn settled(end: &AttemptEnd) -> bool {
    !matches!(end, AttemptEnd::Lost { .. })
}

async fn stop(talk: &Talk<'_>, via: &Via, run: &RunKey, until: Timestamp, node: &str) -> StepResult<()> {
    let cx = talk.cx;
    match cx.ports().kube.stop_drain(via, run).await {
        Ok(_) => Ok(()),
        // Waited out: past this time it cannot run any more.
        Err(error) => match look_again(
            format!("the drain of node {node} cannot be stopped: {}", error.text),
            until - patience(0),
            cx.now(),
            until,
            Duration::from_secs(5),
        ) {
            Some(again) => Err(again),
            None => Ok(()),
        },
    }
}

/// The text of an operation that ended before a node was drained.
#[must_use]
pub fn over_text(reason: EndReason, node: &str, vm: &str) -> String {
    ended_text(
        reason,
        &format!("Kubernetes node: {node} on VM: {vm} was not drained"),
    )
}
