//! More workers: all at once, the good ones stay (`behaviour.md` 7).

use super::{Progress, Scaling, Stop};
use crate::domain::plan::scale::Removal;
use crate::jobs::StepResult;
use crate::jobs::rows::{FencedTx, LedgerKind};
use crate::operations::steps::join::{self, Added};
use crate::operations::steps::remove::Removed;
use crate::operations::steps::stranded;
use crate::operations::steps::together::together;

impl Scaling<'_> {
    pub(super) async fn grow(&self) -> StepResult<Progress> {
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
        let never_ready = self
            .plan
            .add
            .iter()
            .zip(&ended)
            .filter_map(|(addition, end)| match end {
                Added::Failed {
                    vm_id: Some(vm_id), ..
                } => Some(stranded::of_stranded(*vm_id, &addition.name)),
                _ => None,
            });
        let never_ready: Vec<Removal> = never_ready.collect();
        let taken_out = never_ready.iter().map(|removal| Box::pin(self.take_out(removal)));
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

    pub(super) async fn take_out(&self, removal: &Removal) -> StepResult<Removed> {
        let removed = stranded::remove_stranded(&self.talk, removal, &self.plan.cluster_name).await?;
        if removed == Removed::Out {
            let forget = async |tx: &mut FencedTx<'_>| {
                tx.ledger_drop(LedgerKind::Vm, &removal.vm_name).await?;
                Ok(())
            };
            self.cx.commit("stranded_out", &removal.vm_name, forget).await?;
        }
        Ok(removed)
    }
}
