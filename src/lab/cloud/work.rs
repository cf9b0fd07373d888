//! What async jobs do: begin (state checks, the state in between), one or two stages, the effect.
//!
//! Stages are data, so that a job goes on after a restart of the lab. Every effect accepts "already so".

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

use super::fault::internal;
use super::model::{CloudState, RuleState, Tag, VmState};
use super::view;
use crate::protocol::Fault;

/// The work of a job.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(crate) enum Work {
    Deploy { vm: Uuid, start: bool },
    Start { vm: Uuid },
    Stop { vm: Uuid },
    Reboot { vm: Uuid },
    Resize { vm: Uuid, offering: Uuid },
    Destroy { vm: Uuid, expunge: bool },
    Expunge { vm: Uuid },
    AttachIso { vm: Uuid, iso: Uuid, forced: bool },
    DetachIso { vm: Uuid },
    AddForward { rule: Uuid },
    DropForward { rule: Uuid },
    AddFirewall { rule: Uuid },
    DropFirewall { rule: Uuid },
    AddBalancer { rule: Uuid },
    DropBalancer { rule: Uuid },
    Assign { rule: Uuid, vms: Vec<Uuid> },
    Unassign { rule: Uuid, vms: Vec<Uuid> },
    AddTags { tags: Vec<Tag> },
    DropTags { tags: Vec<Tag> },
}

/// What follows a stage.
pub(crate) enum Stage {
    /// Another stage of so many seconds.
    Again(f64),
    /// The work is done.
    Done,
}

impl Work {
    /// The machine on which jobs queue.
    pub(crate) fn vm(&self) -> Option<Uuid> {
        match self {
            Self::Deploy { vm, .. }
            | Self::Start { vm }
            | Self::Stop { vm }
            | Self::Reboot { vm }
            | Self::Resize { vm, .. }
            | Self::Destroy { vm, .. }
            | Self::Expunge { vm }
            | Self::AttachIso { vm, .. }
            | Self::DetachIso { vm } => Some(*vm),
            _ => None,
        }
    }

    /// Checks, sets the state in between, and says how many seconds the first stage takes.
    pub(crate) fn begin(&self, state: &mut CloudState) -> Result<f64, Fault> {
        let times = state.times;
        let Some(id) = self.vm() else {
            self.begin_rule(state);
            return Ok(times.rule);
        };
        let vm = state.vm_mut(id).ok_or_else(|| gone(id))?;
        if vm.removed {
            return Err(gone(id));
        }
        let name = vm.name.clone();
        match self {
            Self::Deploy { start, .. } => Ok(if *start { times.deploy } else { 0.0 }),
            Self::Start { .. } => match vm.state {
                VmState::Stopped => {
                    vm.state = VmState::Starting;
                    Ok(times.start)
                }
                VmState::Running => Ok(0.0),
                other => Err(wrong_state("start", &name, other)),
            },
            Self::Stop { .. } => match vm.state {
                VmState::Running | VmState::Starting | VmState::Migrating => {
                    vm.state = VmState::Stopping;
                    Ok(times.stop)
                }
                VmState::Stopped => Ok(0.0),
                other => Err(wrong_state("stop", &name, other)),
            },
            Self::Reboot { .. } if vm.state == VmState::Running => {
                vm.state = VmState::Starting;
                Ok(times.reboot)
            }
            Self::Reboot { .. } => Err(wrong_state("reboot", &name, vm.state)),
            Self::Resize { .. } => match vm.state {
                VmState::Running | VmState::Stopped => Ok(times.resize),
                other => Err(wrong_state("scale", &name, other)),
            },
            Self::Destroy { .. } => begin_destroy(state, id),
            Self::Expunge { .. } => match vm.state {
                VmState::Destroyed | VmState::Expunging | VmState::Error => {
                    vm.state = VmState::Expunging;
                    Ok(times.expunge)
                }
                other => Err(wrong_state("expunge", &name, other)),
            },
            Self::AttachIso { iso, forced, .. } => match vm.iso {
                Some(other) if other != *iso && !forced => Err(internal(format!(
                    "the drive of virtual machine {name} already holds ISO {other}: detach it first"
                ))),
                _ => Ok(times.iso),
            },
            Self::DetachIso { .. } if vm.iso.is_none() => {
                Err(internal(format!("virtual machine {name} has no ISO to detach")))
            }
            _ => Ok(times.iso),
        }
    }

    fn begin_rule(&self, state: &mut CloudState) {
        match self {
            Self::DropForward { rule } => state.forward_state(*rule, RuleState::Revoke),
            Self::DropFirewall { rule } => state.firewall_state(*rule, RuleState::Revoke),
            Self::DropBalancer { rule } => state.balancer_state(*rule, RuleState::Revoke),
            _ => {}
        }
    }

    /// Takes the effect of the stage that is over.
    pub(crate) fn advance(&self, state: &mut CloudState) -> Result<Stage, Fault> {
        match self {
            Self::Destroy { vm, expunge } => return end_destroy(state, *vm, *expunge),
            Self::Deploy { vm, start } => {
                state.set_vm(
                    *vm,
                    if *start {
                        VmState::Running
                    } else {
                        VmState::Stopped
                    },
                );
            }
            Self::Start { vm } | Self::Reboot { vm } => state.set_vm(*vm, VmState::Running),
            Self::Stop { vm } => state.set_vm(*vm, VmState::Stopped),
            Self::Resize { vm, offering } => {
                if let Some(vm) = state.vm_mut(*vm) {
                    vm.offering = *offering;
                }
            }
            Self::Expunge { vm } => state.forget_vm(*vm),
            Self::AttachIso { vm, iso, .. } => {
                if let Some(vm) = state.vm_mut(*vm) {
                    vm.iso = Some(*iso);
                }
            }
            Self::DetachIso { vm } => {
                if let Some(vm) = state.vm_mut(*vm) {
                    vm.iso = None;
                }
            }
            Self::AddForward { rule } => state.forward_state(*rule, RuleState::Active),
            Self::DropForward { rule } => state.forwards.retain(|have| have.id != *rule),
            Self::AddFirewall { rule } => state.firewall_state(*rule, RuleState::Active),
            Self::DropFirewall { rule } => state.firewall.retain(|have| have.id != *rule),
            Self::AddBalancer { rule } => state.balancer_state(*rule, RuleState::Active),
            Self::DropBalancer { rule } => state.balancers.retain(|have| have.id != *rule),
            Self::Assign { rule, vms } => state.assign(*rule, vms),
            Self::Unassign { rule, vms } => {
                if let Some(rule) = state.balancers.iter_mut().find(|have| have.id == *rule) {
                    rule.vms.retain(|vm| !vms.contains(vm));
                }
            }
            Self::AddTags { tags } => {
                state.drop_tags(tags);
                state.tags.extend(tags.iter().cloned());
            }
            Self::DropTags { tags } => state.drop_tags(tags),
        }
        Ok(Stage::Done)
    }

    /// What is left when the work failed.
    pub(crate) fn undo(&self, state: &mut CloudState) {
        match self {
            Self::Deploy { vm, .. } => state.set_vm(*vm, VmState::Error),
            Self::Start { vm } => state.replace_state(*vm, VmState::Starting, VmState::Stopped),
            Self::Stop { vm } => state.replace_state(*vm, VmState::Stopping, VmState::Running),
            Self::AddForward { rule } => state.forwards.retain(|have| have.id != *rule),
            Self::AddFirewall { rule } => state.firewall.retain(|have| have.id != *rule),
            Self::AddBalancer { rule } => state.balancers.retain(|have| have.id != *rule),
            _ => {}
        }
    }

    /// The `jobresult` of a success.
    pub(crate) fn result(&self, state: &CloudState, admin: bool) -> Value {
        match self {
            Self::Expunge { .. } | Self::Resize { .. } => json!({"success": true}),
            Self::AddForward { rule } => match state.forwards.iter().find(|have| have.id == *rule) {
                Some(rule) => json!({"portforwardingrule": view::forward(state, rule)}),
                None => json!({"success": true}),
            },
            Self::AddFirewall { rule } => match state.firewall.iter().find(|have| have.id == *rule) {
                Some(rule) => json!({"firewallrule": view::firewall(state, rule)}),
                None => json!({"success": true}),
            },
            Self::AddBalancer { rule } => match state.balancers.iter().find(|have| have.id == *rule) {
                Some(rule) => json!({"loadbalancer": view::balancer(state, rule)}),
                None => json!({"success": true}),
            },
            _ => match self.vm().and_then(|id| state.vm(id)) {
                Some(vm) => json!({"virtualmachine": view::vm(state, vm, admin)}),
                None => json!({"success": true}),
            },
        }
    }
}

fn gone(id: Uuid) -> Fault {
    internal(format!(
        "unable to find uuid for id {id}: the virtual machine is expunged"
    ))
}

fn wrong_state(verb: &str, name: &str, state: VmState) -> Fault {
    internal(format!(
        "cannot {verb} virtual machine {name} in state {}",
        state.word()
    ))
}

fn begin_destroy(state: &mut CloudState, id: Uuid) -> Result<f64, Fault> {
    let times = state.times;
    let vm = state.vm_mut(id).ok_or_else(|| gone(id))?;
    if vm.delete_protection {
        return Err(internal(format!(
            "virtual machine {} is protected against deletion: switch its delete protection off first",
            vm.name
        )));
    }
    if vm.kind == "CKS_NODE" {
        return Err(internal(format!(
            "virtual machine {} belongs to a cluster of the cloud's own Kubernetes service: remove it there",
            vm.name
        )));
    }
    match vm.state {
        VmState::Running | VmState::Starting | VmState::Migrating => {
            vm.state = VmState::Stopping;
            Ok(times.destroy)
        }
        VmState::Destroyed | VmState::Expunging => Ok(0.0),
        _ => Ok(times.destroy),
    }
}

/// The first stage ends in Destroyed, a second one (on demand) in the machine's removal.
fn end_destroy(state: &mut CloudState, id: Uuid, expunge: bool) -> Result<Stage, Fault> {
    let times = state.times;
    let vm = state.vm_mut(id).ok_or_else(|| gone(id))?;
    if vm.removed {
        return Ok(Stage::Done);
    }
    if vm.backup_offering.is_some() && vm.backups > 0 {
        // As the existing service: the machine is stopped before its backups are looked at.
        vm.state = VmState::Stopped;
        return Err(internal(format!(
            "virtual machine {} has a backup offering with {} backups: remove them before it is destroyed",
            vm.name, vm.backups
        )));
    }
    match (vm.state, expunge) {
        (VmState::Expunging, true) => {
            state.forget_vm(id);
            Ok(Stage::Done)
        }
        (VmState::Expunging, false) => Ok(Stage::Done),
        (_, true) => {
            vm.state = VmState::Expunging;
            Ok(Stage::Again(times.expunge))
        }
        (_, false) => {
            vm.state = VmState::Destroyed;
            Ok(Stage::Done)
        }
    }
}

impl CloudState {
    fn set_vm(&mut self, id: Uuid, to: VmState) {
        if let Some(vm) = self.vm_mut(id) {
            vm.state = to;
        }
    }

    fn replace_state(&mut self, id: Uuid, from: VmState, to: VmState) {
        if let Some(vm) = self.vm_mut(id)
            && vm.state == from
        {
            vm.state = to;
        }
    }

    fn forward_state(&mut self, id: Uuid, to: RuleState) {
        if let Some(rule) = self.forwards.iter_mut().find(|have| have.id == id) {
            rule.state = to;
        }
    }

    fn firewall_state(&mut self, id: Uuid, to: RuleState) {
        if let Some(rule) = self.firewall.iter_mut().find(|have| have.id == id) {
            rule.state = to;
        }
    }

    fn balancer_state(&mut self, id: Uuid, to: RuleState) {
        if let Some(rule) = self.balancers.iter_mut().find(|have| have.id == id) {
            rule.state = to;
        }
    }

    fn assign(&mut self, rule: Uuid, vms: &[Uuid]) {
        if let Some(rule) = self.balancers.iter_mut().find(|have| have.id == rule) {
            for vm in vms {
                if !rule.vms.contains(vm) {
                    rule.vms.push(*vm);
                }
            }
        }
    }

    fn drop_tags(&mut self, tags: &[Tag]) {
        self.tags.retain(|have| {
            !tags.iter().any(|tag| {
                tag.resource == have.resource
                    && tag.key == have.key
                    && (tag.value.is_empty() || tag.value == have.value)
            })
        });
    }

    /// Takes an expunged machine and all that hung on it out of the world; its id stays known.
    fn forget_vm(&mut self, id: Uuid) {
        if let Some(vm) = self.vm_mut(id) {
            vm.state = VmState::Expunging;
            vm.removed = true;
            vm.user_data = None;
        }
        self.forwards.retain(|rule| rule.vm != id);
        for rule in &mut self.balancers {
            rule.vms.retain(|vm| *vm != id);
        }
        self.volumes.retain(|disk| disk.data || disk.vm != Some(id));
        for disk in &mut self.volumes {
            if disk.vm == Some(id) {
                disk.vm = None;
            }
        }
        self.tags.retain(|tag| tag.resource != id);
    }
}
