//! What is wrong with a cluster that is to be imported, in words. Pure.

use super::file::ImportFile;
use super::judge::{Stored, TakeOver, on};
use super::look::{Seen, endpoint};
use crate::domain::id::ClusterId;
use crate::domain::plan::resolve::SSH_PORT;

/// The mark of machines that CloudStack's own Kubernetes plug-in made (`cks-facts.md` 3.0).
const PLUGIN_VM_TYPE: &str = "CKS_NODE";

pub(super) fn machine_problems(file: &ImportFile, seen: &Seen, stored: &Stored) -> Vec<String> {
    let mut found = Vec::new();
    for member in &file.members {
        match seen.machines.get(&member.vm) {
            None => found.push(format!(
                "machine {}: the cloud does not show it to the service's keys: check the id, or give the keys the right to see it",
                member.vm
            )),
            Some(machine) if machine.vm_type.as_deref() == Some(PLUGIN_VM_TYPE) => found.push(format!(
                "machine {}: CloudStack's own Kubernetes plug-in manages it (type {PLUGIN_VM_TYPE}) and would refuse to destroy it: end that management first",
                machine.name
            )),
            Some(machine) => {
                if !machine.nics.iter().any(|nic| nic.network_id == file.cluster.network) {
                    found.push(format!("machine {}: has no card on network {}", machine.name, file.cluster.network));
                }
            }
        }
        if let Some(cluster) = stored.taken.get(&member.vm) {
            found.push(format!(
                "machine {}: belongs to the managed cluster {cluster}",
                member.vm
            ));
        }
    }
    if stored.same_id {
        let id = file
            .cluster
            .id
            .map(|id: ClusterId| id.to_string())
            .unwrap_or_default();
        found.push(format!(
            "cluster {id}: is managed already, with other machines than the file names"
        ));
    }
    found
}

pub(super) fn network_problems(file: &ImportFile, seen: &Seen) -> Vec<String> {
    let mut found = Vec::new();
    let Some(network) = &seen.network else {
        found.push(format!(
            "network {}: the cloud does not show it to the service's keys",
            file.cluster.network
        ));
        return found;
    };
    if network.kind == "Isolated" && !network.routed && seen.public_ip.is_none() {
        found.push(format!(
            "network {}: has no source-NAT address, so its nodes cannot be reached",
            network.name
        ));
    }
    for member in &file.members {
        let Some(machine) = seen.machines.get(&member.vm) else {
            continue;
        };
        if on(machine) && endpoint(seen, member.vm, SSH_PORT).is_none() {
            found.push(format!(
                "machine {}: no forwarding rule to its port {SSH_PORT} stands on the network's address: add one",
                machine.name
            ));
        }
    }
    found
}

pub(super) fn fence_problems(seen: &Seen, stored: &Stored, take_over: TakeOver) -> Vec<String> {
    if take_over == TakeOver::Yes {
        return Vec::new();
    }
    seen.fences
        .iter()
        .filter(|(_, fence)| Some(fence.installation) != stored.installation)
        .map(|(vm, fence)| {
            format!(
                "machine {}: is fenced by another installation ({}): release the cluster there, or import with --take-over",
                seen.machines.get(vm).map_or_else(|| vm.to_string(), |machine| machine.name.clone()),
                fence.installation
            )
        })
        .collect()
}

pub(super) fn template_problems(file: &ImportFile, seen: &Seen) -> Vec<String> {
    let named = [
        ("worker", file.templates.worker),
        ("control", file.templates.control),
    ];
    let mut found: Vec<String> = named
        .iter()
        .filter_map(|(role, id)| id.map(|id| (role, id)))
        .filter_map(|(role, id)| match seen.templates.get(&id) {
            None => Some(format!(
                "[templates] {role} = {id}: the cloud does not show it to the service's keys"
            )),
            Some(template) if !template.ready => {
                Some(format!("[templates] {role}: {} is not ready", template.name))
            }
            Some(_) => None,
        })
        .collect();
    if file.templates.worker.is_none() {
        found.push(
            "[templates] worker is missing: name the template from which new workers are made".to_owned(),
        );
    }
    found
}
