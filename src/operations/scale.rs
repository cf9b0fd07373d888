//! Scales a cluster: fewer workers, more workers, another offering.
//!
//! ## Order
//! The plan first, from one look at everything; a refusal there gives the former state back. Growing changes
//! the offering before the size, shrinking after it.
//!
//! Fewer workers: cordon all that leave, so that pods of one do not land on the next; drain them one by one;
//! wait for their volumes. Until here everything is given back when anything fails. Then the ledger row
//! *removal*, the point of no return: each node is proved once more, deleted, its machine destroyed, its map
//! entry dropped.
//!
//! More workers: all at once, each on its own. Those that never become Ready are taken out again; the good
//! ones stay.
//!
//! ## What may be left behind
//! Ledger rows: machines to expunge, rules, ISOs, cordons that could not be given back. Each is named in an
//! event or in the error, and becomes a leftover when the job settles.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;

use super::Options;
use super::steps::cordon::{self, GivenBack};
use super::steps::drain::{self, Drained, Draining};
use super::steps::join::{self, Added};
use super::steps::machine;
use super::steps::remove::{self, Removed, Removing};
use super::steps::settle;
use super::steps::talk::Talk;
use super::steps::together::together;
use super::steps::trouble::ended_text;
use super::steps::volumes::{self, Volumes};
use super::steps::{plan, rules};
use crate::domain::cluster::{Role, State};
use crate::domain::event::{Level, Stage};
use crate::domain::id::VmId;
use crate::domain::plan::drain::{SCALE_DOWN_ATTEMPTS, failure_text};
use crate::domain::plan::offering::First;
use crate::domain::plan::resolve::{NodeWitness, Reach, Resolved};
use crate::domain::plan::rules::reconcile;
use crate::domain::plan::scale::{Leave, Removal, ScalePlan};
use crate::jobs::rows::{LedgerKind, OfferingOf};
use crate::jobs::{EndReason, Failure, OpCx, Operation, Settlement, StepError, StepResult, Transition};

/// `scaleKubernetesCluster`.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    options: Options,
}

impl Scale {
    /// The operation.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self { options }
    }
}

#[async_trait]
impl Operation for Scale {
    fn command(&self) -> &'static str {
        "scaleKubernetesCluster"
    }

    async fn run(&self, cx: &OpCx) -> StepResult<Settlement> {
        cx.progress("plan", None, None);
        let since = cx.step("plan_begun", "", async { Ok(cx.now()) }).await?;
        let made = cx
            .step(
                "make_plan",
                "",
                Box::pin(plan::make(cx, self.options.poll_cap, since)),
            )
            .await;
        let plan: ScalePlan = match made {
            Ok(plan) => plan,
            Err(StepError::Fail(failure)) => {
                let text = format!("{}: {}. Nothing was changed", headline(cx), failure.text);
                return Ok(Settlement::given_back(Failure::with_code(failure.code, text)));
            }
            Err(other) => return Err(other),
        };
        announce(cx, &plan).await?;
        let talk = Talk::open(cx, plan.members.clone(), self.options.poll_cap).await?;
        Box::pin(
            Scaling {
                cx,
                plan: &plan,
                talk,
            }
            .run(),
        )
        .await
    }

    async fn abandon(&self, cx: &OpCx, why: &Failure) -> StepResult<Settlement> {
        let failure = Failure::with_code(why.code, format!("{}: {}", headline(cx), why.text));
        if cx.recorded::<()>("started", "")?.is_none() {
            return Ok(Settlement::given_back(failure));
        }
        let sight = settle::sight(cx, self.options.poll_cap, cx.job().created).await?;
        Ok(sight.settlement(Err(failure)))
    }
}

fn headline(cx: &OpCx) -> String {
    format!("Scaling failed for Kubernetes cluster {}", of(cx))
}

fn of(cx: &OpCx) -> String {
    format!("{} ({})", cx.job().cluster_name, cx.job().cluster_id)
}

/// Writes the Started event with the choice and its reasons, stores plan and first matches.
async fn announce(cx: &OpCx, plan: &ScalePlan) -> StepResult<()> {
    cx.commit("started", "", async |tx| {
        let text = format!("Scaling Kubernetes cluster {}: {}", of(cx), plan.words());
        tx.event(Level::Info, Stage::Started, &text).await?;
        for member in plan
            .members
            .iter()
            .filter(|member| plan.first_matched.contains(&member.vm_id))
        {
            if let NodeWitness::Present(node) = &member.node {
                tx.match_node(member.vm_id, node).await?;
            }
        }
        let stored = serde_json::to_value(plan).unwrap_or_default();
        Ok(tx.set_plan(&stored).await?)
    })
    .await
}

struct Scaling<'a> {
    cx: &'a OpCx,
    plan: &'a ScalePlan,
    talk: Talk<'a>,
}

/// Why an operation stops, and how.
enum Stop {
    /// Before the point of no return: everything is given back.
    RollBack { what: String, advice: String },
    /// Part way: what was done stays, the rest is put in order, the state is found by evidence.
    PartWay(Vec<String>),
}

type Progress = Result<(), Stop>;

impl Scaling<'_> {
    async fn run(&self) -> StepResult<Settlement> {
        if self.plan.is_done_already() {
            return self.look_after_rules().await;
        }
        match Box::pin(self.work()).await? {
            Ok(()) => self.succeed().await,
            Err(Stop::RollBack { what, advice }) => self.roll_back(&what, &advice).await,
            Err(Stop::PartWay(faults)) => self.stop_part_way(&faults, "").await,
        }
    }

    async fn work(&self) -> StepResult<Progress> {
        if self.plan.first == First::Offering
            && let Err(stop) = self.resize().await?
        {
            return Ok(Err(stop));
        }
        if !self.plan.remove.is_empty()
            && let Err(stop) = Box::pin(self.shrink()).await?
        {
            return Ok(Err(stop));
        }
        if !self.plan.add.is_empty()
            && let Err(stop) = Box::pin(self.grow()).await?
        {
            return Ok(Err(stop));
        }
        if self.plan.first == First::Size {
            return self.resize().await;
        }
        Ok(Ok(()))
    }

    // ------------------------------------------------------------ fewer workers

    async fn shrink(&self) -> StepResult<Progress> {
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
    async fn empty(&self) -> StepResult<Progress> {
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

    fn to_drain(&self) -> impl Iterator<Item = &Removal> {
        self.plan
            .remove
            .iter()
            .filter(|removal| removal.leave == Leave::Drained)
    }

    async fn drain(&self, removal: &Removal, round: u32) -> StepResult<Progress> {
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
    async fn pass_point_of_no_return(&self) -> StepResult<Progress> {
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
    async fn empty_again(&self, why: &str) -> StepResult<Progress> {
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

    fn removing(&self, round: u32) -> Removing<'_> {
        let control = self.plan.control.first().and_then(|id| self.plan.member(*id));
        Removing {
            cluster: &self.plan.cluster_name,
            reached_at: control
                .and_then(|member| member.endpoint)
                .map(|endpoint| endpoint.port),
            round,
        }
    }

    // ------------------------------------------------------------ more workers

    async fn grow(&self) -> StepResult<Progress> {
        let Some(mould) = &self.plan.mould else {
            return Ok(Ok(()));
        };
        let additions = self.plan.add.iter();
        let sequences = additions.map(|one| Box::pin(join::add_one(&self.talk, self.plan, mould, one)));
        let ended = together(sequences).await?;
        let ended: Vec<Added> = ended
            .into_iter()
            .map(|end| {
                end.unwrap_or_else(|failure| Added::Failed {
                    vm_id: None,
                    cause: failure.text,
                })
            })
            .collect();
        let stranded = self
            .plan
            .add
            .iter()
            .zip(&ended)
            .filter_map(|(addition, end)| match end {
                Added::Failed {
                    vm_id: Some(vm_id), ..
                } => Some(remove::of_stranded(*vm_id, &addition.name)),
                _ => None,
            });
        let stranded: Vec<Removal> = stranded.collect();
        let taken_out = stranded.iter().map(|removal| Box::pin(self.take_out(removal)));
        let taken_out = together(taken_out).await?;
        let mut faults: Vec<String> = Vec::new();
        for (addition, end) in self.plan.add.iter().zip(&ended) {
            if let Added::Failed { cause, .. } = end {
                faults.push(format!("{} was not: {cause}", addition.name));
            }
        }
        for fault in taken_out.iter().filter_map(|end| match end {
            Ok(removed) => removed.fault().map(str::to_owned),
            Err(failure) => Some(failure.text.clone()),
        }) {
            faults.push(fault);
        }
        if faults.is_empty() {
            return Ok(Ok(()));
        }
        let ready = ended.iter().filter(|end| **end == Added::Ready).count();
        let nodes = if ended.len() == 1 {
            "node was"
        } else {
            "nodes were"
        };
        faults.insert(0, format!("{ready} of {} {nodes} added", ended.len()));
        Ok(Err(Stop::PartWay(faults)))
    }

    async fn take_out(&self, removal: &Removal) -> StepResult<Removed> {
        let removed = remove::remove_stranded(&self.talk, removal, &self.plan.cluster_name).await?;
        if removed == Removed::Out {
            let forget = async |tx: &mut crate::jobs::rows::FencedTx<'_>| {
                tx.ledger_drop(LedgerKind::Vm, &removal.vm_name).await?;
                Ok(())
            };
            self.cx.commit("stranded_out", &removal.vm_name, forget).await?;
        }
        Ok(removed)
    }

    // ------------------------------------------------------------ another offering

    async fn resize(&self) -> StepResult<Progress> {
        let cx = self.cx;
        for one in &self.plan.offering.resize {
            cx.progress("change the offering", Some(&one.vm_name), None);
            let over = cx
                .step("may_resize", &one.vm_name, async { Ok(cx.ended()) })
                .await?;
            if let Some(reason) = over {
                let text = ended_text(reason, &format!("VM {} keeps its offering", one.vm_name));
                return Ok(Err(Stop::PartWay(vec![text])));
            }
            let ask = machine::ask_resize(cx, one.vm_id, one.offering);
            let asked = cx.step("resize", &one.vm_name, ask).await?;
            let until = (asked.at + Duration::from_mins(10)).max(cx.job().deadline);
            let what = format!("the offering of VM {} is being changed", one.vm_name);
            let done = machine::wait_done(cx, &asked, &what, until, self.talk.poll_cap);
            if let Err(cause) = cx.step("resized", &one.vm_name, done).await? {
                let text = format!(
                    "the offering of VM {} ({}) could not be changed: {cause}",
                    one.vm_name, one.vm_id
                );
                return Ok(Err(Stop::PartWay(vec![text])));
            }
        }
        if self.plan.offering.is_empty() {
            return Ok(Ok(()));
        }
        cx.commit("offerings", "", async |tx| {
            if let Some(offering) = self.plan.offering.default {
                tx.set_offering(OfferingOf::Default, offering).await?;
            }
            for (role, offering) in &self.plan.offering.roles {
                let of = match role {
                    Role::Control => OfferingOf::Control,
                    Role::Worker => OfferingOf::Worker,
                    Role::Etcd => OfferingOf::Etcd,
                };
                tx.set_offering(of, *offering).await?;
            }
            Ok(())
        })
        .await?;
        Ok(Ok(()))
    }

    fn resized(&self) -> StepResult<BTreeSet<VmId>> {
        let mut done = BTreeSet::new();
        for one in &self.plan.offering.resize {
            if let Some(Ok(Ok(()))) = self.cx.recorded::<Result<(), String>>("resized", &one.vm_name)? {
                done.insert(one.vm_id);
            }
        }
        Ok(done)
    }

    // ------------------------------------------------------------ ends

    async fn succeed(&self) -> StepResult<Settlement> {
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
    async fn roll_back(&self, what: &str, advice: &str) -> StepResult<Settlement> {
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
    async fn left_already(&self) -> StepResult<Vec<String>> {
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
            Err(error) => Err(super::steps::trouble::Trouble::from(error).before_deadline(self.cx)),
        }
    }

    /// Puts in order what is left: cordons of ours, counts; then the state by evidence.
    async fn stop_part_way(&self, faults: &[String], advice: &str) -> StepResult<Settlement> {
        let nodes: Vec<String> = self.to_drain().map(|removal| removal.node.clone()).collect();
        let given = cordon::give_back(&self.talk, &nodes).await?;
        settle::true_counts(self.cx, self.plan, &self.resized()?).await?;
        let mut text = format!("{}, {}", headline(self.cx), faults.join("; "));
        if !given.uncordoned.is_empty() || !given.left.is_empty() {
            text.push_str(&format!(
                ". Of the nodes still in the cluster, {}",
                changed(&given)
            ));
        }
        if !advice.is_empty() {
            text.push_str(&format!(". To do next: {advice}"));
        }
        let failure = Failure::new(text);
        if self.cx.job().from_state == Some(State::Stopped) {
            return Ok(Settlement::failed(Transition::GivenBack, failure));
        }
        Ok(settle::by_evidence(self.cx, self.talk.poll_cap)
            .await?
            .settlement(Err(failure)))
    }

    /// A finished request again: only our rules are looked after.
    async fn look_after_rules(&self) -> StepResult<Settlement> {
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
                let place = join::Place {
                    ip,
                    address,
                    port: crate::domain::plan::resolve::FIRST_SSH_PORT,
                };
                let made = join::ensure_rules(&self.talk, &vm_id.to_string(), *vm_id, place).await?;
                faults.extend(made.err());
            }
            if !faults.is_empty() {
                return self.stop_part_way(&faults, "repeat the request").await;
            }
        }
        self.succeed().await
    }
}

fn draining<'a>(removal: &'a Removal, vm: &'a str, round: u32) -> Draining<'a> {
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
