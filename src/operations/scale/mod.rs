//! Scales a cluster: fewer workers, more workers, another offering.
//!
//! What this must not know: SQL, adapters, the wire.
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

mod ends;
mod grow;
mod resize;
mod shrink;

use std::time::Duration;

use async_trait::async_trait;

use super::Options;
use super::steps::talk::Talk;
use super::steps::{plan, settle};
use crate::domain::event::{Level, Stage};
use crate::domain::plan::offering::First;
use crate::domain::plan::resolve::NodeWitness;
use crate::domain::plan::scale::ScalePlan;
use crate::jobs::{Failure, OpCx, Operation, Settlement, StepError, StepResult};

/// Older than any patience: a look that is given up at the first trouble.
const LONG_AGO: Duration = Duration::from_hours(1);

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
        let sight = settle::sight(cx, self.options.poll_cap, cx.now() - LONG_AGO).await?;
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
}
