//! Reads everything that an import must know, and changes nothing.
//!
//! Each question that got no answer becomes a problem in words; the look goes on, so that one run shows all
//! that is wrong.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use futures_util::future::join_all;
use secrecy::SecretString;

use super::file::{ImportFile, MemberSection};
use crate::domain::cluster::Role;
use crate::domain::id::{InstallationId, OfferingId, TemplateId, VmId};
use crate::ports::Ports;
use crate::ports::cloud::{
    CloudError, FirewallRule, ForwardingRule, Machine, MachineQuery, MachineState, Network, Offering,
    PublicIp, Template, Zone,
};
use crate::ports::kube::{KubeNode, Via};
use crate::ports::shell::{Fence, NodeTarget, Scan};

/// The port of SSH on a machine.
const SSH_PORT: u16 = 22;

/// What was seen of a cluster before it is imported.
#[derive(Debug, Default)]
pub struct Seen {
    /// The machines that the file names and the cloud knows.
    pub machines: BTreeMap<VmId, Machine>,
    /// The network.
    pub network: Option<Network>,
    /// The zone of the machines.
    pub zone: Option<Zone>,
    /// The address on which the cluster's rules stand.
    pub public_ip: Option<PublicIp>,
    /// The forwarding rules on it.
    pub forwarding: Vec<ForwardingRule>,
    /// The firewall rules on it.
    pub firewall: Vec<FirewallRule>,
    /// Offerings of the machines.
    pub offerings: BTreeMap<OfferingId, Offering>,
    /// Templates that the file names.
    pub templates: BTreeMap<TemplateId, Template>,
    /// What each machine that is on showed of its host keys.
    pub scans: BTreeMap<VmId, Scan>,
    /// The fence that stands on a node.
    pub fences: BTreeMap<VmId, Fence>,
    /// The nodes of the cluster, when a control node could be asked.
    pub nodes: Option<Vec<KubeNode>>,
    /// The administrator's kubeconfig.
    pub kubeconfig: Option<SecretString>,
    /// Questions that got no answer although they should have, in words.
    pub problems: Vec<String>,
}

impl Seen {
    fn note<T>(&mut self, what: &str, answer: Result<T, CloudError>) -> Option<T> {
        match answer {
            Ok(value) => Some(value),
            Err(error) => {
                self.problems
                    .push(format!("{what}: the cloud gave no answer: {error}"));
                None
            }
        }
    }
}

/// The endpoint of a machine's SSH: its own forwarding rule, or its own address where none is needed.
///
/// Unlike an operation, an import never guesses a port: what it records must be certain.
#[must_use]
pub fn endpoint(seen: &Seen, vm: VmId, node_ssh_port: u16) -> Option<(IpAddr, u16)> {
    let direct = seen
        .network
        .as_ref()
        .is_some_and(|network| network.routed || network.kind == "Shared");
    if direct {
        let machine = seen.machines.get(&vm)?;
        return machine
            .nics
            .first()
            .and_then(|nic| nic.address)
            .map(|address| (address, node_ssh_port));
    }
    seen.forwarding
        .iter()
        .find(|rule| rule.vm_id == Some(vm) && rule.private_port == SSH_PORT && !rule.revoked)
        .map(|rule| (rule.address, rule.public_port))
}

/// Looks at cloud, nodes and Kubernetes. Reads only.
pub async fn look(
    file: &ImportFile,
    private_key: &SecretString,
    ports: &Ports,
    installation: InstallationId,
    node_ssh_port: u16,
) -> Seen {
    let mut seen = Seen::default();
    look_at_cloud(file, ports, &mut seen).await;
    look_at_nodes(file, private_key, ports, node_ssh_port, &mut seen).await;
    look_at_kubernetes(file, private_key, ports, installation, node_ssh_port, &mut seen).await;
    seen
}

async fn look_at_cloud(file: &ImportFile, ports: &Ports, seen: &mut Seen) {
    let cloud = &ports.cloud;
    let ids = file.members.iter().map(|member| member.vm).collect();
    let answer = cloud
        .machines(&MachineQuery {
            ids,
            ..MachineQuery::default()
        })
        .await;
    let machines = seen.note("machines of the cluster", answer).unwrap_or_default();
    seen.machines = machines
        .into_iter()
        .map(|machine| (machine.id, machine))
        .collect();
    let answer = cloud.network(file.cluster.network).await;
    seen.network = seen.note("network", answer).flatten();
    if seen.network.is_some() {
        let answer = cloud.public_ips(file.cluster.network).await;
        let addresses = seen
            .note("public addresses of the network", answer)
            .unwrap_or_default();
        seen.public_ip = addresses.into_iter().find(|ip| ip.source_nat);
    }
    if let Some(ip) = seen.public_ip.clone() {
        let answer = cloud.forwarding_rules(ip.id).await;
        seen.forwarding = seen.note("forwarding rules", answer).unwrap_or_default();
        let answer = cloud.firewall_rules(ip.id).await;
        seen.firewall = seen.note("firewall rules", answer).unwrap_or_default();
    }
    if let Some(zone) = seen.machines.values().find_map(|machine| machine.zone_id) {
        let answer = cloud.zone(zone).await;
        seen.zone = seen.note("zone", answer).flatten();
    }
    let offerings: std::collections::BTreeSet<_> = seen
        .machines
        .values()
        .filter_map(|machine| machine.offering_id)
        .collect();
    for id in offerings {
        let answer = cloud.offering(id).await;
        if let Some(offering) = seen.note("service offering", answer).flatten() {
            seen.offerings.insert(id, offering);
        }
    }
    for id in [file.templates.worker, file.templates.control]
        .into_iter()
        .flatten()
    {
        let answer = cloud.template(id).await;
        if let Some(template) = seen.note("template", answer).flatten() {
            seen.templates.insert(id, template);
        }
    }
}

/// The machines that are on, with where they are reached.
fn reachable<'a>(
    file: &'a ImportFile,
    seen: &Seen,
    node_ssh_port: u16,
) -> Vec<(&'a MemberSection, Machine, (IpAddr, u16))> {
    file.members
        .iter()
        .filter_map(|member| {
            let machine = seen.machines.get(&member.vm)?;
            let on = matches!(machine.state, MachineState::Running | MachineState::Migrating);
            let endpoint = endpoint(seen, member.vm, node_ssh_port)?;
            on.then(|| (member, machine.clone(), endpoint))
        })
        .collect()
}

fn target(
    file: &ImportFile,
    private_key: &SecretString,
    machine: &Machine,
    at: (IpAddr, u16),
    host_keys: Vec<String>,
) -> NodeTarget {
    NodeTarget {
        vm_id: machine.id,
        vm_name: machine.name.clone(),
        host: at.0.to_string(),
        port: at.1,
        user: file.ssh.user.clone(),
        private_key: private_key.clone(),
        host_keys,
        addresses: machine.nics.iter().filter_map(|nic| nic.address).collect(),
    }
}

async fn look_at_nodes(
    file: &ImportFile,
    private_key: &SecretString,
    ports: &Ports,
    node_ssh_port: u16,
    seen: &mut Seen,
) {
    let asked = reachable(file, seen, node_ssh_port).into_iter().map(|(member, machine, at)| {
        let shell = Arc::clone(&ports.shell);
        async move {
            let name = machine.name.clone();
            let scan = match shell.scan(&at.0.to_string(), at.1).await {
                Ok(scan) => scan,
                Err(error) => return Err(format!("machine {name} at {}:{}: {error}", at.0, at.1)),
            };
            let stated = &member.host_keys;
            if !stated.is_empty() && !scan.host_keys.iter().any(|key| stated.contains(key)) {
                return Err(format!(
                    "machine {name}: shows host key {} and not one that the file states: check who answers at {}:{}",
                    scan.fingerprints.join(", "),
                    at.0,
                    at.1
                ));
            }
            let target = target(file, private_key, &machine, at, scan.host_keys.clone());
            match shell.fence(&target).await {
                Ok(fence) => Ok((machine.id, scan, fence)),
                Err(error) => Err(format!("machine {name}: {error}")),
            }
        }
    });
    for answer in join_all(asked).await {
        match answer {
            Ok((vm, scan, fence)) => {
                seen.scans.insert(vm, scan);
                if let Some(fence) = fence {
                    seen.fences.insert(vm, fence);
                }
            }
            Err(problem) => seen.problems.push(problem),
        }
    }
}

async fn look_at_kubernetes(
    file: &ImportFile,
    private_key: &SecretString,
    ports: &Ports,
    installation: InstallationId,
    node_ssh_port: u16,
    seen: &mut Seen,
) {
    let mut errors = Vec::new();
    for (member, machine, at) in reachable(file, seen, node_ssh_port) {
        let (Role::Control, Some(scan)) = (member.role, seen.scans.get(&machine.id)) else {
            continue;
        };
        // A foreign fence refuses every command but the reading of the fence itself (`behaviour.md` 4), so the
        // look speaks in the name of the installation that stands there; it only reads.
        let speaker = seen
            .fences
            .get(&machine.id)
            .map_or(installation, |fence| fence.installation);
        let via = Via {
            target: target(file, private_key, &machine, at, scan.host_keys.clone()),
            fence: Fence {
                installation: speaker,
                epoch: 0,
            },
        };
        match ports.kube.nodes(&via).await {
            Ok(nodes) => {
                seen.nodes = Some(nodes);
                match ports.kube.kubeconfig(&via).await {
                    Ok(text) => seen.kubeconfig = Some(text),
                    Err(error) => seen
                        .problems
                        .push(format!("kubeconfig on {}: {error}", machine.name)),
                }
                return;
            }
            Err(error) => errors.push(format!("Kubernetes through {}: {error}", machine.name)),
        }
    }
    seen.problems.append(&mut errors);
}
