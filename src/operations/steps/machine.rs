//! Machines in the cloud: following its jobs, destroying, expunging, resizing.
//!
//! What this must not know: Kubernetes.
//!
//! Every effect is two steps: one that looks and submits, one that follows the cloud's job. A job that the
//! cloud does not know any more is no answer: the machine itself is looked at.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::trouble::look_again;
use crate::domain::id::{CloudJobId, OfferingId, VmId};
use crate::domain::job::time_left;
use crate::domain::observed::{Machine, MachineState};
use crate::jobs::rows::{CloudKind, CloudObject, LedgerKind};
use crate::jobs::{OpCx, StepResult, wait};
use crate::ports::cloud::{CloudError, CloudErrorKind, CloudJob, MachineQuery};
use crate::ports::fault::{Effect, Retry};

/// What was asked of the cloud.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// When it was first asked.
    pub at: Timestamp,
    /// The cloud's job; none when it was so already, or the answer was lost and the effect was seen.
    pub job: Option<CloudJobId>,
    /// Why the cloud refused.
    #[serde(default)]
    pub refused: Option<String>,
}

impl Asked {
    /// It was so already.
    #[must_use]
    pub fn already(at: Timestamp) -> Self {
        Self {
            at,
            job: None,
            refused: None,
        }
    }
}

/// How a job of the cloud ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum JobEnd {
    /// Well.
    Done,
    /// Badly.
    Failed(String),
    /// The cloud does not know it, or its time is over.
    Unknown(String),
}

/// How a job of the cloud is followed.
#[derive(Debug, Clone, Copy)]
pub struct Following<'a> {
    /// What it does, for the reason of a wait.
    pub what: &'a str,
    /// Since when.
    pub since: Timestamp,
    /// Until when it is asked for.
    pub until: Timestamp,
    /// The longest pause between looks.
    pub cap: Duration,
}

/// Follows a job of the cloud. A cloud that does not answer is asked again until the time is over.
pub async fn follow(cx: &OpCx, job: CloudJobId, following: Following<'_>) -> StepResult<JobEnd> {
    let Following {
        what,
        since,
        until,
        cap,
    } = following;
    let (reason, pace) = match cx.ports().cloud.job(job).await {
        Ok(CloudJob::Succeeded) => return Ok(JobEnd::Done),
        Ok(CloudJob::Failed { text, .. }) => return Ok(JobEnd::Failed(text)),
        Ok(CloudJob::Unknown) => return Ok(JobEnd::Unknown(format!("{what}: the cloud lost its job"))),
        Ok(CloudJob::Pending) => (what.to_owned(), cap),
        Err(error) => (format!("{what}: {error}"), cap.max(Duration::from_secs(5))),
    };
    match look_again(reason.clone(), since, cx.now(), until, pace) {
        Some(again) => Err(again),
        None => Ok(JobEnd::Unknown(format!("{reason}: no end in time"))),
    }
}

/// A machine as the cloud shows it now.
pub async fn look(cx: &OpCx, vm_id: VmId) -> Result<Option<Machine>, CloudError> {
    let query = MachineQuery {
        ids: vec![vm_id],
        ..MachineQuery::default()
    };
    Ok(cx
        .ports()
        .cloud
        .machines(&query)
        .await?
        .into_iter()
        .find(|machine| machine.id == vm_id))
}

/// Keeps what the cloud said of a machine, so that a list needs no call.
pub async fn keep(cx: &OpCx, machine: &Machine) -> StepResult<()> {
    let object = CloudObject {
        name: machine.name.clone(),
        data: machine.raw.clone(),
        seen_at: cx.now(),
    };
    Ok(cx
        .db()
        .put_cloud_object(CloudKind::Vm, machine.id.0, &object)
        .await?)
}

/// Whether a machine is destroyed, or further.
fn destroyed(machine: Option<&Machine>) -> bool {
    machine.is_none_or(|machine| matches!(machine.state, MachineState::Destroyed | MachineState::Expunging))
}

/// An error after which the same can be asked again. Its effect may have happened, so the next try looks.
fn worth_another(error: &CloudError) -> bool {
    error.retry != Retry::Never
}

/// Asks the cloud to destroy a machine, unless it is destroyed already.
pub async fn ask_destroy(cx: &OpCx, vm_id: VmId, until: Timestamp) -> StepResult<Asked> {
    let now = cx.now();
    let machine = match look(cx, vm_id).await {
        Ok(machine) => machine,
        Err(error) => return again_or_refused(cx, &error, until),
    };
    if destroyed(machine.as_ref()) {
        return Ok(Asked::already(now));
    }
    match cx.ports().cloud.destroy(vm_id).await {
        Ok(job) => Ok(Asked {
            at: now,
            job: Some(job),
            refused: None,
        }),
        Err(error) if error.kind == CloudErrorKind::NotFound => Ok(Asked::already(now)),
        Err(error) => again_or_refused(cx, &error, until),
    }
}

/// Tries again while there is time; then, or when the cloud will never do it, it is refused.
#[track_caller]
fn again_or_refused(cx: &OpCx, error: &CloudError, until: Timestamp) -> StepResult<Asked> {
    let left = time_left(cx.now(), until);
    if worth_another(error) && !left.is_zero() {
        return Err(wait(error.to_string(), Duration::from_secs(2).min(left)));
    }
    Ok(Asked {
        at: cx.now(),
        job: None,
        refused: Some(error.to_string()),
    })
}

/// What became of a machine that was to be destroyed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Destroyed {
    /// It is destroyed, expunging, or gone.
    Yes {
        /// The cloud has no such machine any more.
        gone: bool,
    },
    /// It is not.
    No {
        /// The state in which it is.
        state: String,
        /// Why.
        cause: String,
    },
}

/// Follows a destroy, and says by the machine itself what became of it when the job does not say "done".
pub async fn wait_destroyed(
    cx: &OpCx,
    vm_id: VmId,
    asked: &Asked,
    following: Following<'_>,
) -> StepResult<Destroyed> {
    let cause = match (asked.job, &asked.refused) {
        (Some(job), _) => match follow(cx, job, following).await? {
            JobEnd::Done => return Ok(Destroyed::Yes { gone: false }),
            JobEnd::Failed(text) | JobEnd::Unknown(text) => text,
        },
        (None, Some(text)) => text.clone(),
        (None, None) => String::new(),
    };
    match look(cx, vm_id).await {
        Ok(machine) if destroyed(machine.as_ref()) => Ok(Destroyed::Yes {
            gone: machine.is_none(),
        }),
        Ok(machine) => {
            let under_way = machine
                .as_ref()
                .is_some_and(|one| one.state == MachineState::Stopping);
            let again = under_way.then(|| {
                look_again(
                    following.what,
                    following.since,
                    cx.now(),
                    following.until,
                    following.cap,
                )
            });
            match again.flatten() {
                Some(again) => Err(again),
                None => Ok(Destroyed::No {
                    state: machine.map_or_else(|| "gone".to_owned(), |one| state_words(&one.state)),
                    cause,
                }),
            }
        }
        Err(error) => {
            let reason = format!("{}: {error}", following.what);
            match look_again(
                reason,
                following.since,
                cx.now(),
                following.until,
                Duration::from_secs(5),
            ) {
                Some(again) => Err(again),
                None => Ok(Destroyed::No {
                    state: "unknown".to_owned(),
                    cause: format!("{cause}; {error}"),
                }),
            }
        }
    }
}

/// A state in the cloud's word.
#[must_use]
pub fn state_words(state: &MachineState) -> String {
    match state {
        MachineState::Other(word) => word.clone(),
        known => format!("{known:?}"),
    }
}

/// Asks the cloud to expunge a destroyed machine. The ledger row stands before it is asked: from here on the
/// machine is ours to see through, whatever becomes of this job.
pub async fn ask_expunge(cx: &OpCx, vm_id: VmId, vm_name: &str, until: Timestamp) -> StepResult<Asked> {
    let now = cx.now();
    let detail = json!({ "name": vm_name, "seen": "Destroyed" });
    cx.db()
        .ledger_put(LedgerKind::Expunge, &vm_id.to_string(), &detail)
        .await?;
    match cx.ports().cloud.expunge(vm_id).await {
        Ok(job) => Ok(Asked {
            at: now,
            job: Some(job),
            refused: None,
        }),
        Err(error) if error.kind == CloudErrorKind::NotFound => Ok(Asked::already(now)),
        Err(error) => match look(cx, vm_id).await {
            Ok(None) => Ok(Asked::already(now)),
            // Asked or not: it is being done, or it is a leftover that the background asks for again.
            Ok(Some(machine)) if machine.state == MachineState::Expunging => Ok(Asked::already(now)),
            _ => again_or_refused(cx, &error, until),
        },
    }
}

/// What became of an expunge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Expunged {
    /// The machine is gone.
    Yes,
    /// It takes longer than the caller waits; a leftover.
    Later,
    /// The cloud failed, or took more than the longest time; a leftover, and somebody should look.
    Failed {
        /// The state in which the machine is.
        state: String,
        /// Why.
        cause: String,
    },
}

/// The longest that an expunge is waited for, whatever the setting.
pub const EXPUNGE_LIMIT: Duration = Duration::from_mins(5);

/// Follows an expunge for at most `patience`.
pub async fn wait_expunged(
    cx: &OpCx,
    vm_id: VmId,
    asked: &Asked,
    patience: Duration,
    cap: Duration,
) -> StepResult<Expunged> {
    let limit = patience.min(EXPUNGE_LIMIT);
    let cause = match (asked.job, &asked.refused) {
        (Some(job), _) => {
            let following = Following {
                what: "the removed node's VM is being expunged",
                since: asked.at,
                until: asked.at + limit,
                cap,
            };
            match follow(cx, job, following).await? {
                JobEnd::Done => return Ok(Expunged::Yes),
                JobEnd::Unknown(_) if patience < EXPUNGE_LIMIT => {
                    return Ok(match look(cx, vm_id).await {
                        Ok(None) => Expunged::Yes,
                        _ => Expunged::Later,
                    });
                }
                JobEnd::Failed(text) | JobEnd::Unknown(text) => text,
            }
        }
        (None, Some(text)) => text.clone(),
        (None, None) => String::new(),
    };
    Ok(match look(cx, vm_id).await {
        Ok(None) => Expunged::Yes,
        Ok(Some(_)) if cause.is_empty() => Expunged::Later,
        Ok(Some(machine)) => Expunged::Failed {
            state: state_words(&machine.state),
            cause,
        },
        Err(_) => Expunged::Failed {
            state: "unknown".to_owned(),
            cause,
        },
    })
}

/// Asks the cloud to give a machine another offering, unless it has it.
pub async fn ask_resize(cx: &OpCx, vm_id: VmId, offering: OfferingId) -> StepResult<Asked> {
    let now = cx.now();
    match look(cx, vm_id).await {
        Ok(Some(machine)) if machine.offering_id == Some(offering) => return Ok(Asked::already(now)),
        Ok(_) => {}
        Err(error) => return again_before_deadline(cx, &error),
    }
    match cx.ports().cloud.resize(vm_id, offering).await {
        Ok(job) => Ok(Asked {
            at: now,
            job: Some(job),
            refused: None,
        }),
        Err(error) => again_before_deadline(cx, &error),
    }
}

/// Tries again until the deadline; then, or when the cloud will never do it, it is refused.
#[track_caller]
pub fn again_before_deadline(cx: &OpCx, error: &CloudError) -> StepResult<Asked> {
    if worth_another(error) && cx.ended().is_none() {
        let pause = if error.effect == Effect::DidNotHappen {
            1
        } else {
            2
        };
        return Err(wait(error.to_string(), Duration::from_secs(pause)));
    }
    Ok(Asked {
        at: cx.now(),
        job: None,
        refused: Some(error.to_string()),
    })
}

/// Follows what was asked for, and says why it is not done.
pub async fn wait_done(
    cx: &OpCx,
    asked: &Asked,
    what: &str,
    until: Timestamp,
    cap: Duration,
) -> StepResult<Result<(), String>> {
    match (asked.job, &asked.refused) {
        (None, None) => Ok(Ok(())),
        (None, Some(text)) => Ok(Err(text.clone())),
        (Some(job), _) => {
            let following = Following {
                what,
                since: asked.at,
                until,
                cap,
            };
            Ok(match follow(cx, job, following).await? {
                JobEnd::Done => Ok(()),
                JobEnd::Failed(text) | JobEnd::Unknown(text) => Err(text),
            })
        }
    }
}
