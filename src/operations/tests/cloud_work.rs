//! What jobs of the cloud do when they end.

use super::things;
use super::world::{Doing, State};
use crate::domain::id::VmId;
use crate::domain::observed::MachineState;

/// Ends a job of the cloud: its effect, or its error.
pub(super) fn finish(state: &mut State, doing: &Doing) -> Result<(), String> {
    let (word, vm) = describe(doing);
    let name = vm.map(|vm| state.name_of(vm)).unwrap_or_default();
    if let Some(text) = state.bad_jobs.get(&(word.to_owned(), name.clone())) {
        return Err(text.clone());
    }
    if already(state, doing) {
        return Ok(());
    }
    match doing {
        Doing::Deploy(vm) => boot(state, *vm),
        Doing::Start(vm) => set(state, *vm, MachineState::Running),
        Doing::Stop(vm) => power_off(state, *vm, MachineState::Stopped),
        Doing::Destroy(vm) => power_off(state, *vm, MachineState::Destroyed),
        Doing::Expunge(vm) => {
            state.machines.remove(vm);
            state.forwards.retain(|rule| rule.vm_id != Some(*vm));
        }
        Doing::Resize(vm, offering) => {
            let machine = state.machines.get_mut(vm).unwrap();
            machine.offering_id = Some(*offering);
            (machine.cpu_number, machine.memory_mb) = (4, 8192);
        }
        Doing::Iso(vm, iso) => state.machines.get_mut(vm).unwrap().iso_id = *iso,
        Doing::Forward | Doing::Firewall => {}
        Doing::Unforward(rule) => state.forwards.retain(|one| one.id != *rule),
        Doing::Unfirewall(rule) => state.firewalls.retain(|one| one.id != *rule),
    }
    if vm.is_some() {
        state.did(format!("{word} {name}"));
    }
    Ok(())
}

/// Whether a second request finds the first one's work done.
fn already(state: &State, doing: &Doing) -> bool {
    let machine = |vm: &VmId| state.machines.get(vm);
    match doing {
        Doing::Destroy(vm) => machine(vm)
            .is_none_or(|one| matches!(one.state, MachineState::Destroyed | MachineState::Expunging)),
        Doing::Expunge(vm) | Doing::Deploy(vm) | Doing::Start(vm) | Doing::Stop(vm) => machine(vm).is_none(),
        Doing::Resize(vm, offering) => machine(vm).is_none_or(|one| one.offering_id == Some(*offering)),
        Doing::Iso(vm, iso) => machine(vm).is_none_or(|one| one.iso_id == *iso),
        Doing::Forward | Doing::Unforward(_) | Doing::Firewall | Doing::Unfirewall(_) => false,
    }
}

fn describe(doing: &Doing) -> (&'static str, Option<VmId>) {
    match doing {
        Doing::Deploy(vm) => ("deploy", Some(*vm)),
        Doing::Destroy(vm) => ("destroy", Some(*vm)),
        Doing::Expunge(vm) => ("expunge", Some(*vm)),
        Doing::Stop(vm) => ("stop", Some(*vm)),
        Doing::Start(vm) => ("start", Some(*vm)),
        Doing::Resize(vm, _) => ("resize", Some(*vm)),
        Doing::Iso(vm, Some(_)) => ("attach iso", Some(*vm)),
        Doing::Iso(vm, None) => ("detach iso", Some(*vm)),
        Doing::Forward => ("forward", None),
        Doing::Unforward(_) => ("unforward", None),
        Doing::Firewall => ("firewall", None),
        Doing::Unfirewall(_) => ("unfirewall", None),
    }
}

fn set(state: &mut State, vm: VmId, to: MachineState) {
    state.machines.get_mut(&vm).unwrap().state = to;
}

/// A machine that is switched off leaves its node NotReady.
fn power_off(state: &mut State, vm: VmId, to: MachineState) {
    set(state, vm, to);
    let uuid = vm.to_string();
    for node in state
        .nodes
        .values_mut()
        .filter(|node| node.system_uuid.as_deref() == Some(uuid.as_str()))
    {
        node.ready = false;
    }
}

/// A machine that was made boots, and joins when its user data says so.
fn boot(state: &mut State, vm: VmId) {
    set(state, vm, MachineState::Running);
    let machine = state.machines[&vm].clone();
    let joins = state
        .user_data
        .get(&vm)
        .is_some_and(|data| data.contains("kubeadm"));
    let number = state.made.iter().position(|one| *one == vm).unwrap_or(usize::MAX);
    if joins && !state.never_join.contains(&number) {
        state.nodes.insert(machine.name.clone(), things::node(&machine));
    }
}
