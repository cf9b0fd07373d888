//! Kubelets: one for each booted machine that has joined a cluster and has its kubelet on.

use std::collections::HashMap;
use std::net::IpAddr;

use uuid::Uuid;

use super::kubes::seconds;
use super::{World, held};
use crate::lab::cloud::model::Vm;
use crate::lab::kube::{Kubelet, KubeletSpec};

impl World {
    /// Starts and stops kubelets: as their machines and their own switches say.
    pub(super) async fn settle_kubelets(&self) {
        let wanted: HashMap<Uuid, Vm> = self.cloud.read(|state| {
            let runs = |vm: &&Vm| vm.state.is_on() && vm.guest.kubelet && vm.guest.kubeconfig.is_some();
            state
                .vms
                .iter()
                .filter(runs)
                .map(|vm| (vm.id, vm.clone()))
                .collect()
        });
        let running: Vec<Uuid> = held(&self.kubes.kubelets).keys().copied().collect();
        for id in running {
            if !wanted.contains_key(&id) {
                self.kubes.stop_kubelet(id).await;
            }
        }
        for (id, vm) in wanted {
            let idle = held(&self.kubes.kubelets).contains_key(&id) || held(&self.kubes.silent).contains(&id);
            if idle || self.node(id).is_none() {
                continue;
            }
            let kubelet = Kubelet::start(KubeletSpec {
                node_name: vm.name.to_lowercase(),
                kubeconfig: vm.guest.kubeconfig.unwrap_or_default(),
                kubelet_version: vm.guest.kubelet_version,
                system_uuid: id.to_string(),
                provider_id: Some(format!("external-cloudstack:///{id}")),
                address: IpAddr::V4(vm.address),
                control_plane: vm.guest.control,
                pod_start_delay: seconds(self.record.kube.pod_start_seconds),
                heartbeat: seconds(self.record.kube.heartbeat_seconds),
            });
            held(&self.kubes.kubelets).insert(id, kubelet);
        }
    }

    /// Freezes or wakes a machine's kubelet; false if it has none.
    pub(crate) fn freeze_kubelet(&self, vm: Uuid, frozen: bool) -> bool {
        held(&self.kubes.kubelets)
            .get(&vm)
            .map(|kubelet| kubelet.set_frozen(frozen))
            .is_some()
    }
}
