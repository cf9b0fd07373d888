//! Draining one node with patience (`behaviour.md` 5). Used by scale-down and by upgrade.
//!
//! What this must not know: who cordons, who uncordons, and what follows a drain.
//!
//! An attempt counts once, whatever ends it: its row is written before the command, the command has a name on
//! the node, and whoever takes the job over asks for that name before anything else.

use futures_util::FutureExt;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::talk::Talk;
use super::trouble::{ended_text, next_look};
use crate::domain::cluster::Member;
use crate::domain::id::VmId;
use crate::domain::job::time_left;
use crate::domain::observed::KubeNode;
use crate::domain::plan::drain::{
    self, AttemptEnd, Class, DrainFailure, Judged, judge, may_retry, patience, tail,
};
use crate::domain::plan::resolve::{MachineWitness, machine_witness};
use crate::domain::settings::{DRAIN_RETRY_INTERVAL, DRAIN_TIMEOUT, Settings};
use crate::jobs::{EndReason, OpCx, StepResult, wait};
use crate::ports::cloud::MachineQuery;
use crate::ports::fault::Effect;
use crate::ports::kube::{KubeError, Via};
use crate::ports::shell::{Output, RunKey, RunState};

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

/// A planned attempt, stored before its command is sent.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Attempt {
    /// When it began.
    at: Timestamp,
    /// The timeout of kubectl; none when no time was left.
    timeout_secs: Option<u64>,
    /// The control node that it runs on.
    via: Option<VmId>,
    /// Why it cannot begin.
    #[serde(default)]
    refused: Option<String>,
    /// The node was NotReady when it began.
    #[serde(default)]
    not_ready: bool,
}

/// How an attempt ended.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Ended {
    at: Timestamp,
    end: AttemptEnd,
    class: Option<Class>,
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
        let attempt = cx
            .step("drain_attempt", &subject, begin(talk, draining.node))
            .await?;
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
            .step(
                "drain_pause",
                &subject,
                wait_between(cx, draining.node, ended.at, pause),
            )
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

/// Decides on an attempt. Its row stands before the command is sent.
async fn begin(talk: &Talk<'_>, node: &str) -> StepResult<Attempt> {
    let cx = talk.cx;
    let settings = settings(cx).await?;
    let left = if cx.ended().is_some() {
        Duration::ZERO
    } else {
        cx.time_left()
    };
    let timeout_secs = drain::timeout(settings.number(&DRAIN_TIMEOUT), left);
    let mut attempt = Attempt {
        at: cx.now(),
        timeout_secs,
        via: None,
        refused: None,
        not_ready: false,
    };
    if timeout_secs.is_none() {
        return Ok(attempt);
    }
    match talk.reached().await {
        Ok(control) => attempt.via = Some(control),
        Err(error) => attempt.refused = Some(error.text),
    }
    if let Ok(nodes) = talk.nodes().await {
        attempt.not_ready = !is_ready(&nodes, node);
    }
    Ok(attempt)
}

fn is_ready(nodes: &[KubeNode], name: &str) -> bool {
    nodes.iter().any(|node| node.name == name && node.ready)
}

/// The command of one attempt.
struct Run {
    key: RunKey,
    /// The name of the attempt before, which must not run beside this one.
    before: Option<RunKey>,
    timeout_secs: u64,
}

/// Starts, follows, judges.
async fn carry_out(
    talk: &Talk<'_>,
    draining: Draining<'_>,
    attempt: &Attempt,
    run: Run,
) -> StepResult<Ended> {
    let cx = talk.cx;
    let end = match attempt.via.and_then(|control| talk.via_of(control)) {
        None => AttemptEnd::Lost {
            text: attempt
                .refused
                .clone()
                .unwrap_or_else(|| "no control node is reached".to_owned()),
        },
        Some(via) => command(talk, draining.node, attempt, &run, &via).await?,
    };
    let class = match &end {
        AttemptEnd::Drained => None,
        failed => Some(class_of(talk, draining, attempt, failed.output()).await),
    };
    Ok(Ended {
        at: cx.now(),
        end,
        class,
    })
}

async fn command(
    talk: &Talk<'_>,
    node: &str,
    attempt: &Attempt,
    run: &Run,
    via: &Via,
) -> StepResult<AttemptEnd> {
    let cx = talk.cx;
    let kube = &cx.ports().kube;
    let until = attempt.at + patience(run.timeout_secs);
    if let Some(before) = &run.before
        && let Err(error) = clear(talk, via, before).await
    {
        return unknown(
            talk,
            attempt,
            until,
            error,
            "the attempt before cannot be asked about",
        );
    }
    let state = match kube.start_drain(via, &run.key, node, run.timeout_secs).await {
        Ok(state) => state,
        Err(error) => return unknown(talk, attempt, until, error, "the drain may not have begun"),
    };
    let state = match state {
        ended @ RunState::Ended { .. } => ended,
        RunState::Running { .. } | RunState::NotStarted => {
            let limit = time_left(cx.now(), until);
            match cx.until_lost(kube.follow_drain(via, &run.key, limit)).await? {
                Ok(state) => state,
                Err(error) => return unknown(talk, attempt, until, error, "the drain cannot be followed"),
            }
        }
    };
    match state {
        RunState::Ended { output, .. } => Ok(end_of(&output)),
        RunState::NotStarted => Ok(AttemptEnd::Lost {
            text: "the node does not know the command that was started".to_owned(),
        }),
        RunState::Running { .. } if !time_left(cx.now(), until).is_zero() => Err(wait(
            format!("node {node} is being drained"),
            next_look(attempt.at, cx.now(), talk.poll_cap),
        )),
        RunState::Running { .. } => match kube.stop_drain(via, &run.key).await {
            Ok(RunState::Ended { output, .. }) => Ok(AttemptEnd::Hung {
                output: joined(&output),
            }),
            Ok(_) => Ok(AttemptEnd::Hung {
                output: String::new(),
            }),
            Err(error) => Ok(AttemptEnd::Lost { text: error.text }),
        },
    }
}

/// Ends what is left of the attempt before: a second command never starts beside a first.
async fn clear(talk: &Talk<'_>, via: &Via, before: &RunKey) -> Result<(), KubeError> {
    let kube = &talk.cx.ports().kube;
    if let RunState::Running { .. } = kube.ask_drain(via, before).await? {
        kube.stop_drain(via, before).await?;
    }
    Ok(())
}

/// An error that says that nothing happened ends the attempt. Another one is waited out: the command may run,
/// so it is asked for again until its time is over.
#[track_caller]
fn unknown(
    talk: &Talk<'_>,
    attempt: &Attempt,
    until: Timestamp,
    error: KubeError,
    what: &str,
) -> StepResult<AttemptEnd> {
    let (cx, text) = (talk.cx, format!("{what}: {}", error.text));
    let left = time_left(cx.now(), until);
    if error.effect == Effect::DidNotHappen || left.is_zero() {
        return Ok(AttemptEnd::Lost { text });
    }
    Err(wait(
        text,
        next_look(attempt.at, cx.now(), Duration::from_secs(5)).min(left),
    ))
}

fn end_of(output: &Output) -> AttemptEnd {
    if output.ok() {
        AttemptEnd::Drained
    } else {
        AttemptEnd::Refused {
            output: joined(output),
        }
    }
}

/// What kubectl said, its complaints last, as on a terminal.
fn joined(output: &Output) -> String {
    let both = format!("{}\n{}", output.stdout.trim_end(), output.stderr.trim_end());
    tail(both.trim()).to_owned()
}

/// Judges a failed attempt from state first; what cannot be read is left to the text.
async fn class_of(talk: &Talk<'_>, draining: Draining<'_>, attempt: &Attempt, text: &str) -> Class {
    let kube = &talk.cx.ports().kube;
    let node = draining.node;
    let pods = talk
        .kube(|via| async move { kube.pods_on(&via, node).await }.boxed())
        .await
        .ok();
    let budgets = talk
        .kube(|via| async move { kube.budgets(&via).await }.boxed())
        .await
        .ok();
    let nodes = talk.nodes().await.ok();
    let ready_again = nodes
        .as_deref()
        .is_none_or(|nodes| was_ready_since(nodes, node, attempt.at));
    let machine = witness(talk, draining.vm_id).await;
    judge(Judged {
        pods: pods.as_deref(),
        budgets: budgets.as_deref(),
        machine: &machine,
        not_ready_throughout: attempt.not_ready && !ready_again,
        text,
    })
}

/// Whether the node is Ready, or has been at some time since `at`.
fn was_ready_since(nodes: &[KubeNode], name: &str, at: Timestamp) -> bool {
    nodes
        .iter()
        .find(|node| node.name == name)
        .is_some_and(|node| node.ready || node.ready_since.is_some_and(|since| since > at))
}

/// What the cloud says of one machine now, seen beside the others, so that a key that lost sight is noticed.
pub async fn witness(talk: &Talk<'_>, vm_id: VmId) -> MachineWitness {
    let Ok(members) = talk.cx.db().members().await else {
        return MachineWitness::Unknown;
    };
    let ids = ids_of(&members, vm_id);
    match talk
        .cx
        .ports()
        .cloud
        .machines(&MachineQuery {
            ids,
            ..MachineQuery::default()
        })
        .await
    {
        Ok(machines) => machine_witness(machines.iter().find(|machine| machine.id == vm_id), &machines),
        Err(_) => MachineWitness::Unknown,
    }
}

fn ids_of(members: &[Member], vm_id: VmId) -> Vec<VmId> {
    let mut ids: Vec<VmId> = members.iter().map(|member| member.vm_id).collect();
    if !ids.contains(&vm_id) {
        ids.push(vm_id);
    }
    ids
}

/// The wait before the next attempt; none when there is none.
async fn after(cx: &OpCx, number: u32, attempts: u32, class: &Class) -> StepResult<Option<Duration>> {
    let interval = Duration::from_secs(settings(cx).await?.seconds(&DRAIN_RETRY_INTERVAL));
    Ok(may_retry(number, attempts, class, interval, cx.time_left()).then_some(interval))
}

async fn wait_between(
    cx: &OpCx,
    node: &str,
    since: Timestamp,
    pause: Duration,
) -> StepResult<Option<EndReason>> {
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
        Err(error) => match super::trouble::look_again(
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
