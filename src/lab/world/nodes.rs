//! Machines that run: a node for each machine that is on, none for the others.

use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use uuid::Uuid;

use super::host::Host;
use super::{World, held};
use crate::lab::cloud::model::{CloudState, Vm};
use crate::lab::node::{LabNode, NodeSpec};

impl World {
    /// Starts and stops nodes as the states of their machines say, and clears away what was expunged.
    pub(super) async fn settle_nodes(&self) {
        let running: Vec<Uuid> = held(&self.nodes).keys().copied().collect();
        for id in running {
            let on = self
                .cloud
                .read(|state| state.vm(id).is_some_and(|vm| vm.state.is_on()));
            if !on {
                let node = held(&self.nodes).remove(&id);
                self.kubes.stop_kubelet(id).await;
                self.cloud.change(|state| {
                    if let Some(vm) = state.vm_mut(id) {
                        vm.guest.registered = false;
                    }
                });
                if let Some(node) = node {
                    node.shutdown().await;
                }
            }
        }
        let (on, gone) = self.cloud.read(|state| {
            let on: Vec<Vm> = state.vms.iter().filter(|vm| vm.state.is_on()).cloned().collect();
            let gone: Vec<Uuid> = state.vms.iter().filter(|vm| vm.removed).map(|vm| vm.id).collect();
            (on, gone)
        });
        for id in gone {
            let root = self.root_of(id);
            if root.exists()
                && let Err(error) = std::fs::remove_dir_all(&root)
            {
                tracing::warn!(root = %root.display(), %error, "the files of an expunged machine are left");
            }
        }
        for vm in on {
            if !held(&self.nodes).contains_key(&vm.id) {
                self.boot(&vm).await;
            }
        }
    }

    async fn boot(&self, vm: &Vm) {
        let keys = self.cloud.read(|state| public_keys(state, vm));
        let user_data = vm.user_data.as_ref().and_then(|text| STANDARD.decode(text).ok());
        let spec = NodeSpec {
            vm_id: vm.id,
            hostname: vm.name.clone(),
            addresses: vec![IpAddr::V4(vm.address)],
            root: self.root_of(vm.id),
            login_user: "cloud".to_owned(),
            authorized_keys: keys,
            host_key: None,
            user_data,
            kubectl: self.kubectl.clone(),
        };
        match LabNode::boot(spec, Host::of(self.me.clone())).await {
            Ok(node) => {
                held(&self.nodes).insert(vm.id, node);
                self.provision(vm.id);
            }
            Err(error) => tracing::error!(vm = %vm.name, %error, "a machine of the lab did not boot"),
        }
    }
}

fn public_keys(state: &CloudState, vm: &Vm) -> Vec<String> {
    state
        .key_pairs
        .iter()
        .filter(|pair| Some(&pair.name) == vm.key_pair.as_ref())
        .map(|pair| pair.public_key.clone())
        .collect()
}
