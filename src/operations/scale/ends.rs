//! How a scale ends: done, given back, or stopped part way.

use std::collections::BTreeSet;

use super::shrink::draining;
use super::{Scaling, headline, of};
use crate::domain::cluster::{Role, State};
use crate::domain::id::VmId;
use crate::domain::plan::resolve::{FIRST_SSH_PORT, Reach, Resolved};
use crate::domain::plan::rules::reconcile;
use crate::jobs::{Failure, Settlement, StepResult, Transition};
use crate::operations::steps::cordon::{self, GivenBack};
use crate::operations::steps::trouble::Trouble;
use crate::operations::steps::{drain, remove, rules, settle};

impl Scaling<'_> {
    pub(super) async fn succeed(&self) -> StepResult<Settlement> {
        settle::true_counts(self.cx, self.plan, &self.resized()?).await?;
        let text = format!(
            "Successfully completed scaling Kubernetes cluster {}",
            of(self.cx)
        );
        // What was in Alert is Running only if the evidence says so.
        if self.cx.job().from_state == Some(State::Alert) {
            return Ok(settle::by_evidence(self.cx, self.talk.poll_cap)
                .await?
                .settlement(Ok(text)));
        }
        Ok(Settlement::succeeded(text))
    }

    /// Gives back what was changed, unless a node has left already.
    pub(super) async fn roll_back(&self, what: &str, advice: &str) -> StepResult<Settlement> {
        for removal in self.to_drain() {
            for round in [1, 2] {
                drain::stop_all(&self.talk, draining(removal, &removal.vm(), round)).await?;
            }
        }
        if self.cx.recorded::<()>("removal", "")?.is_some() {
            let left = self.cx.step("left_already", "", self.left_already()).await?;
            if !left.is_empty() {
                let fault = format!("{what}; already out of the cluster: {}", left.join(", "));
                return self.stop_part_way(&[fault], advice).await;
            }
        }
        let nodes: Vec<String> = self.to_drain().map(|removal| removal.node.clone()).collect();
        let given = cordon::give_back(&self.talk, &nodes).await?;
        let text = format!(
            "{}, {what}. No node was removed; {}. To do next: {advice}",
            headline(self.cx),
            changed(&given)
        );
        Ok(Settlement::given_back(Failure::new(text)))
    }

    /// The chosen nodes that Kubernetes does not have any more.
    pub(super) async fn left_already(&self) -> StepResult<Vec<String>> {
        let deleted = self.to_drain().any(|removal| {
            let subject = format!("{}#1", removal.node);
            matches!(
                self.cx.recorded::<serde_json::Value>("delete_node", &subject),
                Ok(Some(_))
            )
        });
        if !deleted {
            return Ok(Vec::new());
        }
        match self.talk.nodes().await {
            Ok(nodes) => Ok(self
                .to_drain()
                .filter(|removal| !nodes.iter().any(|node| node.name == removal.node))
                .map(|removal| removal.node.clone())
                .collect()),
            Err(error) => Err(Trouble::from(error).before_deadline(self.cx)),
        }
    }

    /// Puts in order what is left: cordons of ours, counts; then the state by evidence.
    pub(super) async fn stop_part_way(&self, faults: &[String], advice: &str) -> StepResult<Settlement> {
        let nodes: Vec<String> = self.to_drain().map(|removal| removal.node.clone()).collect();
        let given = cordon::give_back(&self.talk, &nodes).await?;
        settle::true_counts(self.cx, self.plan, &self.resized()?).await?;
        let mut parts = vec![format!("{}, {}", headline(self.cx), faults.join("; "))];
        if !given.uncordoned.is_empty() || !given.left.is_empty() {
            parts.push(format!("Of the nodes still in the cluster, {}", changed(&given)));
        }
        if !advice.is_empty() {
            parts.push(format!("To do next: {advice}"));
        }
        let text = parts.join(". ");
        let failure = Failure::new(text);
        if self.cx.job().from_state == Some(State::Stopped) {
            return Ok(Settlement::failed(Transition::GivenBack, failure));
        }
        Ok(settle::by_evidence(self.cx, self.talk.poll_cap)
            .await?
            .settlement(Err(failure)))
    }

    /// A finished request again: only our rules are looked after.
    pub(super) async fn look_after_rules(&self) -> StepResult<Settlement> {
        let members: Vec<&Resolved> = self
            .plan
            .members
            .iter()
            .filter(|one| one.role != Role::Etcd && !one.external)
            .collect();
        if let (Reach::Forwarded { address }, Some(ip)) = (self.plan.reach, self.plan.ip_id) {
            let ids: Vec<VmId> = self.plan.members.iter().map(|one| one.vm_id).collect();
            let wanted = self.cx.step("reconcile", "", async {
                let own = rules::own(self.cx).await?;
                let present = self.cx.ports().cloud.forwarding_rules(ip).await?;
                let mut wanted = reconcile(&own, &present, &ids);
                wanted.missing.retain(|id| {
                    members
                        .iter()
                        .any(|one| one.vm_id == *id && one.machine.running())
                });
                Ok(wanted)
            });
            let wanted = wanted.await?;
            let mut faults = Vec::new();
            let gone: BTreeSet<VmId> = wanted.drop.iter().filter_map(|rule| rule.vm_id).collect();
            let reached_at = self.removing(1).reached_at;
            for vm_id in gone {
                faults.extend(remove::drop_rules(&self.talk, vm_id, &vm_id.to_string(), reached_at).await?);
            }
            for vm_id in &wanted.missing {
                let place = rules::Place {
                    ip,
                    address,
                    port: FIRST_SSH_PORT,
                };
                let made = rules::ensure_rules(&self.talk, &vm_id.to_string(), *vm_id, place).await?;
                faults.extend(made.err());
            }
            if !faults.is_empty() {
                return self.stop_part_way(&faults, "repeat the request").await;
            }
        }
        self.succeed().await
    }
}

/// What was changed and given back, in words.
fn changed(given: &GivenBack) -> String {
    let mut parts = Vec::new();
    if given.uncordoned.is_empty() {
        parts.push("no node had to be made schedulable again".to_owned());
    } else {
        parts.push(format!(
            "cordoned by this operation and schedulable again: {}; pods that were evicted meanwhile stay where they are",
            given.uncordoned.join(", ")
        ));
    }
    if !given.left.is_empty() {
        parts.push(format!(
            "still cordoned, to be retried in the background: {}",
            given.left.join("; ")
        ));
    }
    parts.join("; ")
}
