//! After a drain: no volume may still be attached to the node (`behaviour.md` 6.5).
//!
//! What this must not know: what follows.

use futures_util::FutureExt;
use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::drain::settings;
use super::talk::Talk;
use super::trouble::look_again;
use crate::domain::id::VmId;
use crate::domain::observed::{Pod, VolumeAttachment};
use crate::jobs::StepResult;

/// What came of waiting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Volumes {
    /// No attachment is left. Data disks that no attachment explains stay where they are.
    Detached {
        /// Their names.
        unexplained: Vec<String>,
    },
    /// These were not detached in time.
    Stuck(Vec<String>),
}

/// Waits until no attachment names the node, for at most the drain timeout, counted from the end of the
/// drain, whatever the deadline.
pub async fn wait_detached(
    talk: &Talk<'_>,
    node: &str,
    vm_id: VmId,
    since: Timestamp,
) -> StepResult<Volumes> {
    let cx = talk.cx;
    let limit = Duration::from_secs(settings(cx).await?.drain_timeout_secs());
    let kube = &cx.ports().kube;
    let left = match talk
        .kube(|via| async move { kube.volume_attachments(&via).await }.boxed())
        .await
    {
        Ok(all) => {
            let here: Vec<VolumeAttachment> = all.into_iter().filter(|one| one.node == node).collect();
            if here.is_empty() {
                Vec::new()
            } else {
                let pods = talk
                    .kube(|via| async move { kube.pods_on(&via, node).await }.boxed())
                    .await;
                attached(&here, &pods.unwrap_or_default())
            }
        }
        Err(error) => vec![format!("unknown ({})", error.text)],
    };
    if left.is_empty() {
        let disks = cx.ports().cloud.data_disks(vm_id).await.unwrap_or_default();
        return Ok(Volumes::Detached {
            unexplained: disks.into_iter().map(|disk| disk.name).collect(),
        });
    }
    let reason = format!("node {node} still has volumes attached: {}", left.join(", "));
    match look_again(reason, since, cx.now(), since + limit, talk.poll_cap) {
        Some(again) => Err(again),
        None => Ok(Volumes::Stuck(left)),
    }
}

/// The volumes on a node, those of its DaemonSet pods excepted.
fn attached(here: &[VolumeAttachment], pods: &[Pod]) -> Vec<String> {
    let excepted: BTreeSet<(String, String)> = pods
        .iter()
        .filter(|pod| pod.controller.as_deref() == Some("DaemonSet"))
        .flat_map(|pod| {
            pod.claims
                .iter()
                .map(|claim| (pod.namespace.clone(), claim.clone()))
        })
        .collect();
    here.iter()
        .filter(|one| !one.claim.as_ref().is_some_and(|claim| excepted.contains(claim)))
        .map(|one| one.volume.clone().unwrap_or_else(|| one.name.clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attachment(name: &str, claim: Option<&str>) -> VolumeAttachment {
        VolumeAttachment {
            name: name.into(),
            node: "wk-1".into(),
            volume: Some(format!("pv-{name}")),
            claim: claim.map(|claim| ("shop".into(), claim.into())),
            attached: true,
        }
    }

    #[test]
    fn a_volume_of_a_daemon_sets_pod_does_not_count() {
        let mut daemon = crate::domain::plan::fixtures::pod("log", "log");
        daemon.controller = Some("DaemonSet".into());
        daemon.claims = vec!["logs".into()];
        let here = [
            attachment("a", Some("logs")),
            attachment("b", Some("data")),
            attachment("c", None),
        ];
        assert_eq!(attached(&here, &[daemon]), ["pv-b", "pv-c"]);
    }
}
