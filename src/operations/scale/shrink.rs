//! Fewer workers: empty the nodes, pass the point of no return, take them out (`behaviour.md` 6).

use serde_json::json;

use super::{Progress, Scaling, Stop};
use crate::domain::event::Level;
use crate::domain::plan::drain::{SCALE_DOWN_ATTEMPTS, failure_text};
use crate::domain::plan::scale::{Leave, Removal};
use crate::jobs::rows::LedgerKind;
use crate::jobs::{EndReason, StepError, StepResult};
use crate::operations::steps::cordon;
use crate::operations::steps::drain::{self, Drained, Draining};
use crate::operations::steps::remove::{self, Removed, Removing};
use crate::operations::steps::trouble::ended_text;
use crate::operations::steps::volumes::{self, Volumes};

impl Scaling<'_> {
    pub(super) async fn shrink(&self) -> StepResult<Progress> {
        if let Err(stop) = self.empty().await? {
            return Ok(Err(stop));
        }
        if let Err(stop) = self.pass_point_of_no_return().await? {
            return Ok(Err(stop));
        }
        let mut removed = remove::remove_all(&self.talk, &self.plan.remove, self.removing(1)).await?;
        if let [Removed::Unproved(why)] = removed.as_slice() {
            match Box::pin(self.empty_again(why)).await? {
                Err(stop) => return Ok(Err(stop)),
                Ok(()) => {
                    removed = remove::remove_all(&self.talk, &self.plan.remove, self.removing(2)).await?;
                }
            }
        }
        if let [Removed::Unproved(why)] = removed.as_slice() {
            return Ok(Err(roll_back(why, "repeat the request")));
        }
        let faults: Vec<String> = removed
            .iter()
            .filter_map(Removed::fault)
            .map(str::to_owned)
            .collect();
        Ok(if faults.is_empty() {
            Ok(())
        } else {
            Err(Stop::PartWay(faults))
        })
    }

    /// Cordons all, drains one by one, waits for volumes.
    pub(super) async fn empty(&self) -> StepResult<Progress> {
        let leaving: Vec<(String, String)> = self
            .to_drain()
            .map(|removal| (removal.node.clone(), removal.vm()))
            .collect();
        match cordon::cordon_all(&self.talk, &leaving).await {
            Ok(()) => {}
            Err(StepError::Fail(failure)) => {
                return Ok(Err(roll_back(
                    &failure.text,
                    "repeat the request when the cause is gone",
                )));
            }
            Err(other) => return Err(other),
        }
        for removal in self.to_drain() {
            if let Err(stop) = self.drain(removal, 1).await? {
                return Ok(Err(stop));
            }
        }
        Ok(Ok(()))
    }

    pub(super) fn to_drain(&self) -> impl Iterator<Item = &Removal> {
        self.plan
            .remove
            .iter()
            .filter(|removal| removal.leave == Leave::Drained)
    }

    pub(super) async fn drain(&self, removal: &Removal, round: u32) -> StepResult<Progress> {
        let vm = removal.vm();
        let since = match drain::drain_node(&self.talk, draining(removal, &vm, round)).await? {
            Drained::At(since) => since,
            Drained::Failed(failure) => {
                let advice = failure
                    .class
                    .as_ref()
                    .map_or("repeat the request", |class| class.advice());
                return Ok(Err(roll_back(&failure_text(&failure), advice)));
            }
            Drained::Over(reason) => {
                let text = drain::over_text(reason, &removal.node, &vm);
                return Ok(Err(roll_back(&text, "repeat the request")));
            }
        };
        let subject = if round == 1 {
            removal.node.clone()
        } else {
            format!("{}#{round}", removal.node)
        };
        self.cx.progress("wait for volumes", Some(&removal.node), None);
        let wait = volumes::wait_detached(&self.talk, &removal.node, removal.vm_id, since);
        match self.cx.step("volumes", &subject, wait).await? {
            Volumes::Stuck(volumes) => {
                let text = format!(
                    "Kubernetes node: {} on VM: {vm} still has volumes attached after its drain: {}",
                    removal.node,
                    volumes.join(", ")
                );
                Ok(Err(roll_back(
                    &text,
                    "find out what holds these volumes, then repeat the request",
                )))
            }
            Volumes::Detached { unexplained } if !unexplained.is_empty() => {
                let text = format!(
                    "VM {vm} has data disks that no volume attachment explains; they stay untouched: {}",
                    unexplained.join(", ")
                );
                remove::say(&self.talk, "data_disks", &subject, Level::Info, &text).await?;
                Ok(Ok(()))
            }
            Volumes::Detached { .. } => Ok(Ok(())),
        }
    }

    /// From here on the deadline no longer stops the removal. A cancel still counts a moment before.
    pub(super) async fn pass_point_of_no_return(&self) -> StepResult<Progress> {
        let cx = self.cx;
        let cancelled = cx
            .step("may_remove", "", async {
                Ok(cx.ended() == Some(EndReason::Cancel))
            })
            .await?;
        if cancelled {
            let text = ended_text(EndReason::Cancel, "the nodes were drained and not removed");
            return Ok(Err(roll_back(&text, "repeat the request")));
        }
        cx.commit("removal", "", async |tx| {
            let nodes: Vec<&str> = self.plan.remove.iter().map(|one| one.node.as_str()).collect();
            let subject = cx.job().id.to_string();
            Ok(tx
                .ledger_put(LedgerKind::Removal, &subject, &json!({ "nodes": nodes }))
                .await?)
        })
        .await?;
        Ok(Ok(()))
    }

    /// The first node could not be proved drained, and nothing is removed yet: once more, if there is time.
    pub(super) async fn empty_again(&self, why: &str) -> StepResult<Progress> {
        let Some(first) = self.plan.remove.first() else {
            return Ok(Ok(()));
        };
        let cx = self.cx;
        let again = first.leave == Leave::Drained;
        let again = cx
            .step("drain_again", &first.node, async {
                Ok(again && cx.ended().is_none())
            })
            .await?;
        if !again {
            return Ok(Err(roll_back(why, "repeat the request")));
        }
        match cx
            .step(
                "cordon_again",
                &first.node,
                cordon::again(&self.talk, &first.node, &first.vm()),
            )
            .await
        {
            Ok(()) => self.drain(first, 2).await,
            Err(StepError::Fail(failure)) => Ok(Err(roll_back(&failure.text, "repeat the request"))),
            Err(other) => Err(other),
        }
    }

    pub(super) fn removing(&self, round: u32) -> Removing<'_> {
        let control = self.plan.control.first().and_then(|id| self.plan.member(*id));
        Removing {
            cluster: &self.plan.cluster_name,
            reached_at: control
                .and_then(|member| member.endpoint)
                .map(|endpoint| endpoint.port),
            round,
        }
    }
}

pub(super) fn draining<'a>(removal: &'a Removal, vm: &'a str, round: u32) -> Draining<'a> {
    Draining {
        node: &removal.node,
        vm_id: removal.vm_id,
        vm,
        attempts: SCALE_DOWN_ATTEMPTS,
        round,
    }
}

fn roll_back(what: &str, advice: &str) -> Stop {
    Stop::RollBack {
        what: what.to_owned(),
        advice: advice.to_owned(),
    }
}
