//! Another offering: machine by machine (`behaviour.md` 8).

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Progress, Scaling, Stop};
use crate::domain::cluster::Role;
use crate::domain::id::VmId;
use crate::jobs::StepResult;
use crate::jobs::rows::OfferingOf;
use crate::operations::steps::machine;
use crate::operations::steps::trouble::ended_text;

impl Scaling<'_> {
    pub(super) async fn resize(&self) -> StepResult<Progress> {
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

    pub(super) fn resized(&self) -> StepResult<BTreeSet<VmId>> {
        let mut done = BTreeSet::new();
        for one in &self.plan.offering.resize {
            if let Some(Ok(Ok(()))) = self.cx.recorded::<Result<(), String>>("resized", &one.vm_name)? {
                done.insert(one.vm_id);
            }
        }
        Ok(done)
    }
}
