//! One attempt to drain a node: decided, begun, followed, judged.
//!
//! What this must not know: how many attempts there are and what follows the last.

use std::time::Duration;

use futures_util::FutureExt;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::drain::{Draining, settings};
use super::talk::Talk;
use super::trouble::next_look;
use crate::domain::cluster::Member;
use crate::domain::id::VmId;
use crate::domain::job::time_left;
use crate::domain::observed::KubeNode;
use crate::domain::plan::drain::{self, AttemptEnd, Class, Judged, judge, patience, tail};
use crate::domain::plan::resolve::{MachineWitness, machine_witness};
use crate::domain::settings::DRAIN_TIMEOUT;
use crate::jobs::{EndReason, StepResult, wait};
use crate::ports::cloud::MachineQuery;
use crate::ports::fault::Effect;
use crate::ports::kube::{KubeError, Via};
use crate::ports::shell::{Output, RunKey, RunState};

/// How long a drain is followed before a cancel is looked for.
const GLANCE: Duration = Duration::from_secs(15);

/// A planned attempt, stored before its command is sent.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Attempt {
    /// When it began.
    pub(super) at: Timestamp,
    /// The timeout of kubectl; none when no time was left.
    pub(super) timeout_secs: Option<u64>,
    /// The control node that it runs on.
    pub(super) via: Option<VmId>,
    /// Why it cannot begin.
    #[serde(default)]
    pub(super) refused: Option<String>,
}

/// How an attempt ended.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Ended {
    pub(super) at: Timestamp,
    pub(super) end: AttemptEnd,
    pub(super) class: Option<Class>,
}

/// Decides on an attempt. Its row stands before the command is sent.
pub(super) async fn begin(talk: &Talk<'_>) -> StepResult<Attempt> {
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
    };
    if timeout_secs.is_none() {
        return Ok(attempt);
    }
    match talk.reached().await {
        Ok(control) => attempt.via = Some(control),
        Err(error) => attempt.refused = Some(error.text),
    }
    Ok(attempt)
}

/// The command of one attempt.
pub(super) struct Run {
    pub(super) key: RunKey,
    /// The name of the attempt before, which must not run beside this one.
    pub(super) before: Option<RunKey>,
    pub(super) timeout_secs: u64,
}

/// Starts, follows, judges.
pub(super) async fn carry_out(
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
            &error,
            "the attempt before cannot be asked about",
        );
    }
    let state = match kube.start_drain(via, &run.key, node, run.timeout_secs).await {
        Ok(state) => state,
        Err(error) => return unknown(talk, attempt, until, &error, "the drain may not have begun"),
    };
    let state = match state {
        ended @ RunState::Ended { .. } => ended,
        RunState::Running { .. } | RunState::NotStarted => {
            match cx.until_lost(follow(talk, via, &run.key, until)).await? {
                Ok(state) => state,
                Err(error) => return unknown(talk, attempt, until, &error, "the drain cannot be followed"),
            }
        }
    };
    match state {
        RunState::Ended { output, .. } => Ok(end_of(&output)),
        RunState::NotStarted => Ok(AttemptEnd::Lost {
            text: "the node does not know the command that was started".to_owned(),
        }),
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

/// Follows a drain until it ends, its time is over, or the operation is cancelled.
async fn follow(talk: &Talk<'_>, via: &Via, key: &RunKey, until: Timestamp) -> Result<RunState, KubeError> {
    let cx = talk.cx;
    loop {
        let limit = time_left(cx.now(), until).min(GLANCE);
        let state = cx.ports().kube.follow_drain(via, key, limit).await?;
        let over = time_left(cx.now(), until).is_zero() || cx.ended() == Some(EndReason::Cancel);
        if over || !matches!(state, RunState::Running { .. }) {
            return Ok(state);
        }
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
    error: &KubeError,
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
    let not_ready_throughout = match talk.nodes().await {
        Ok(nodes) => was_not_ready(&nodes, node, attempt.at),
        Err(_) => false,
    };
    let machine = witness(talk, draining.vm_id).await;
    judge(Judged {
        pods: pods.as_deref(),
        budgets: budgets.as_deref(),
        machine: &machine,
        not_ready_throughout,
        text,
    })
}

/// Whether the node is NotReady and has been since before `at`, by what Kubernetes says of its condition.
fn was_not_ready(nodes: &[KubeNode], name: &str, at: Timestamp) -> bool {
    nodes
        .iter()
        .find(|node| node.name == name)
        .is_some_and(|node| !node.ready && node.ready_since.is_some_and(|since| since <= at))
}

/// What the cloud says of one machine now, seen beside the others, so that a key that lost sight is noticed.
pub(super) async fn witness(talk: &Talk<'_>, vm_id: VmId) -> MachineWitness {
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
