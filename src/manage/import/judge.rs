//! Decides what an import writes, from what was seen; or lists all that is wrong. Pure.

use std::collections::BTreeMap;

use super::file::{ImportFile, MemberSection};
use super::look::Seen;
use super::problems;
use crate::domain::account::stored_path;
use crate::domain::cluster::{Member, Role, State};
use crate::domain::id::{AccountId, InstallationId, OfferingId, VersionId, VmId};
use crate::domain::plan::resolve::{self, Facts, NodeWitness, Reach, Resolved, SSH_PORT};
use crate::domain::version::KubeVersion;
use crate::ports::cloud::{Machine, MachineState};

/// The port of the Kubernetes API.
const API_PORT: u16 = 6443;

/// What our database says that an import must know.
#[derive(Debug, Clone, Default)]
pub struct Stored {
    /// This installation.
    pub installation: Option<InstallationId>,
    /// Registered versions: id, semantic version.
    pub versions: Vec<(VersionId, String)>,
    /// Accounts: id, name, path of its domain.
    pub accounts: Vec<(AccountId, String, String)>,
    /// Machines of managed clusters, with the cluster's name.
    pub taken: BTreeMap<VmId, String>,
    /// A managed cluster that has the file's uuid.
    pub same_id: bool,
}

/// What an import writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Owner.
    pub account: AccountId,
    /// The version of the cluster as a whole.
    pub version: VersionId,
    /// The target of a half-done upgrade.
    pub upgrade_to: Option<VersionId>,
    /// The state that the evidence supports.
    pub state: State,
    /// Why it is in Alert.
    pub reason: Option<String>,
    /// Offering of the control nodes.
    pub control_offering: Option<OfferingId>,
    /// Offering of the workers.
    pub worker_offering: Option<OfferingId>,
    /// Members in the file's order.
    pub members: Vec<Member>,
    /// Total cores.
    pub cores: i64,
    /// Total memory in MB.
    pub memory_mb: i64,
    /// `https://ADDRESS:6443/`.
    pub endpoint: Option<String>,
    /// What is not known yet and will be read at the first start.
    pub unknown: Vec<String>,
}

/// Whether `--take-over` was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TakeOver {
    /// A foreign fence is refused.
    No,
    /// A foreign fence is replaced by ours.
    Yes,
}

/// Judges.
///
/// # Errors
/// Every problem, in words.
pub fn judge(
    file: &ImportFile,
    seen: &Seen,
    stored: &Stored,
    take_over: TakeOver,
) -> Result<Verdict, Vec<String>> {
    let mut found = file.problems();
    found.extend(seen.problems.iter().cloned());
    found.extend(problems::machine_problems(file, seen, stored));
    found.extend(problems::network_problems(file, seen));
    found.extend(problems::fence_problems(seen, stored, take_over));
    found.extend(problems::template_problems(file, seen));
    let account = take(account(file, seen, stored), &mut found);
    let version = take(version(file, stored), &mut found);
    let members = members(file, seen);
    let resolved = take(resolved(seen, &members), &mut found);
    let versions = take(node_versions(file, seen, resolved.as_deref()), &mut found);
    let upgrade = take(upgrade(file, stored, versions.as_ref()), &mut found);
    let (Some(account), Some(version), Some(resolved), Some(versions), Some(upgrade_to)) =
        (account, version, resolved, versions, upgrade)
    else {
        return Err(found);
    };
    if !found.is_empty() {
        return Err(found);
    }
    let (state, reason) = state(seen, &resolved, upgrade_to.is_some());
    Ok(Verdict {
        account,
        version,
        upgrade_to,
        state,
        reason,
        control_offering: offering(file, seen, Role::Control),
        worker_offering: offering(file, seen, Role::Worker),
        cores: seen.machines.values().map(|machine| machine.cpu_number).sum(),
        memory_mb: seen.machines.values().map(|machine| machine.memory_mb).sum(),
        endpoint: api_address(seen).map(|address| format!("https://{address}:{API_PORT}/")),
        unknown: unknown(file, seen),
        members: with_nodes(members, &resolved, &versions),
    })
}

fn take<T>(answer: Result<T, String>, problems: &mut Vec<String>) -> Option<T> {
    match answer {
        Ok(value) => Some(value),
        Err(problem) => {
            problems.push(problem);
            None
        }
    }
}

fn account(file: &ImportFile, seen: &Seen, stored: &Stored) -> Result<AccountId, String> {
    let named = file
        .cluster
        .account
        .clone()
        .or_else(|| seen.machines.values().find_map(|m| m.account.clone()));
    let Some(name) = named else {
        return Err(
            "[cluster] account is missing and the machines show no owner: name the owning account".to_owned(),
        );
    };
    let path = stored_path(file.cluster.domain.as_deref().unwrap_or("/"));
    stored
        .accounts
        .iter()
        .find(|(_, account, domain)| *account == name && *domain == path)
        .map(|(id, _, _)| *id)
        .ok_or_else(|| {
            format!(
                "account {name} of domain {path} does not exist: make it with `cksd admin account add {name}`"
            )
        })
}

fn version(file: &ImportFile, stored: &Stored) -> Result<VersionId, String> {
    let wanted = &file.cluster.version;
    let fitting: Vec<_> = stored
        .versions
        .iter()
        .filter(|(_, semantic)| semantic == wanted)
        .collect();
    match (file.cluster.version_id, fitting.as_slice()) {
        (Some(id), _) if fitting.iter().any(|(found, _)| *found == id) => Ok(id),
        (Some(id), _) => Err(format!(
            "[cluster] version_id = {id}: is no registered version {wanted}"
        )),
        (None, [(id, _)]) => Ok(*id),
        (None, []) => Err(format!(
            "[cluster] version = {wanted}: is not registered: register it with `cksd admin version add`"
        )),
        (None, _) => Err(format!(
            "[cluster] version = {wanted}: several are registered: say which with version_id"
        )),
    }
}

fn members(file: &ImportFile, seen: &Seen) -> Vec<Member> {
    file.members
        .iter()
        .zip(1..)
        .map(|(member, key)| Member {
            key,
            vm_id: member.vm,
            vm_name: seen
                .machines
                .get(&member.vm)
                .map_or_else(|| member.vm.to_string(), |m| m.name.clone()),
            role: member.role,
            external: member.external,
            manual_upgrade: member.manual_upgrade || member.role == Role::Etcd,
            node_version: member.node_version.clone(),
            node: None,
            host_keys: seen
                .scans
                .get(&member.vm)
                .map_or_else(|| member.host_keys.clone(), |s| s.host_keys.clone()),
        })
        .collect()
}

fn resolved(seen: &Seen, members: &[Member]) -> Result<Vec<Resolved>, String> {
    let Some(nodes) = &seen.nodes else {
        return Ok(Vec::new());
    };
    let machines: Vec<Machine> = seen.machines.values().cloned().collect();
    let reach = seen
        .public_ip
        .as_ref()
        .map_or(Reach::Direct { port: SSH_PORT }, |ip| Reach::Forwarded {
            address: ip.address,
        });
    let facts = Facts {
        members,
        machines: &machines,
        nodes,
        rules: &seen.forwarding,
        reach,
    };
    resolve::resolve(facts).map_err(|error| error.to_string())
}

/// The bare version of each member's kubelet, as far as it is known.
fn node_versions(
    file: &ImportFile,
    seen: &Seen,
    resolved: Option<&[Resolved]>,
) -> Result<BTreeMap<VmId, String>, String> {
    let mut versions: BTreeMap<VmId, String> = file
        .members
        .iter()
        .filter_map(|member| member.node_version.clone().map(|version| (member.vm, version)))
        .collect();
    for member in resolved.unwrap_or_default() {
        let NodeWitness::Present(node) = &member.node else {
            continue;
        };
        let reported = seen.nodes.iter().flatten().find(|seen| seen.name == node.name);
        if let Some(reported) = reported {
            let version: KubeVersion = reported
                .kubelet_version
                .parse()
                .map_err(|error| format!("node {}: kubelet version: {error}", node.name))?;
            versions.insert(member.vm_id, version.to_string());
        }
    }
    Ok(versions)
}

fn upgrade(
    file: &ImportFile,
    stored: &Stored,
    versions: Option<&BTreeMap<VmId, String>>,
) -> Result<Option<VersionId>, String> {
    let parse = |text: &str| {
        text.parse::<KubeVersion>()
            .map_err(|error| format!("version {text}: {error}"))
    };
    let own = parse(&file.cluster.version)?;
    let mut above = Vec::new();
    for (vm, version) in versions.into_iter().flatten() {
        let managed = file
            .members
            .iter()
            .any(|member: &MemberSection| member.vm == *vm && !member.manual_upgrade);
        if managed && parse(version)? > own {
            above.push(format!("{vm} at {version}"));
        }
    }
    match (file.cluster.upgrade_to, above.as_slice()) {
        (None, []) => Ok(None),
        (None, above) => Err(format!(
            "nodes are above the cluster's version {}: {}: name the version of the half-done upgrade with upgrade_to",
            file.cluster.version,
            above.join(", ")
        )),
        (Some(id), _) => match stored.versions.iter().find(|(found, _)| *found == id) {
            Some((_, semantic)) if parse(semantic)? > own => Ok(Some(id)),
            Some((_, semantic)) => Err(format!(
                "[cluster] upgrade_to: {semantic} is not above {}",
                file.cluster.version
            )),
            None => Err(format!("[cluster] upgrade_to = {id}: is not registered")),
        },
    }
}

/// Whether a machine is on; one that moves between hosts is.
pub(super) fn on(machine: &Machine) -> bool {
    matches!(machine.state, MachineState::Running | MachineState::Migrating)
}

/// The state that the evidence supports (`behaviour.md` 13).
fn state(seen: &Seen, resolved: &[Resolved], unfinished_upgrade: bool) -> (State, Option<String>) {
    if seen
        .machines
        .values()
        .all(|machine| machine.state == MachineState::Stopped)
    {
        return (State::Stopped, None);
    }
    let mut faults: Vec<String> = seen
        .machines
        .values()
        .filter(|machine| !on(machine))
        .map(|machine| format!("VM {} is {:?}", machine.name, machine.state))
        .collect();
    if seen.nodes.is_none() {
        faults.push("no control node could be asked".to_owned());
    }
    for member in resolved {
        let node = match &member.node {
            NodeWitness::NotExpected => continue,
            NodeWitness::Gone(_) => None,
            NodeWitness::Present(node) => seen.nodes.iter().flatten().find(|seen| seen.name == node.name),
        };
        match node {
            None => faults.push(format!("VM {} has no Kubernetes node", member.vm_name)),
            Some(node) if !node.ready => faults.push(format!("node {} is not Ready", node.name)),
            Some(_) => {}
        }
    }
    if unfinished_upgrade {
        faults.push("an upgrade is unfinished".to_owned());
    }
    if faults.is_empty() {
        (State::Running, None)
    } else {
        (State::Alert, Some(faults.join("; ")))
    }
}

fn offering(file: &ImportFile, seen: &Seen, role: Role) -> Option<OfferingId> {
    file.members
        .iter()
        .filter(|member| member.role == role && !member.external)
        .find_map(|member| seen.machines.get(&member.vm)?.offering_id)
}

/// Where the Kubernetes API answers: the network's address, else the first control machine's own.
fn api_address(seen: &Seen) -> Option<std::net::IpAddr> {
    seen.public_ip.as_ref().map(|ip| ip.address)
}

fn unknown(file: &ImportFile, seen: &Seen) -> Vec<String> {
    let mut list = Vec::new();
    for member in &file.members {
        let name = seen
            .machines
            .get(&member.vm)
            .map_or_else(|| member.vm.to_string(), |m| m.name.clone());
        if !seen.scans.contains_key(&member.vm) && member.host_keys.is_empty() {
            list.push(format!("host key of {name}"));
        }
    }
    if seen.kubeconfig.is_none() && file.cluster.kubeconfig_file.is_none() {
        list.push("kubeconfig".to_owned());
    }
    list
}

fn with_nodes(members: Vec<Member>, resolved: &[Resolved], versions: &BTreeMap<VmId, String>) -> Vec<Member> {
    members
        .into_iter()
        .map(|mut member| {
            let found = resolved.iter().find(|resolved| resolved.vm_id == member.vm_id);
            if let Some(NodeWitness::Present(node)) = found.map(|resolved| &resolved.node) {
                member.node = Some(node.clone());
            }
            member.node_version = versions.get(&member.vm_id).cloned().or(member.node_version);
            member
        })
        .collect()
}
