//! Commands on machines and their disks.

use uuid::Uuid;

use super::call::{Call, Reply};
use super::model::{CloudState, Vm, VmState};
use super::view;
use super::work::Work;
use crate::protocol::Fault;

/// listVirtualMachines and listVirtualMachinesMetrics.
pub(crate) fn list(state: &CloudState, call: &Call<'_>) -> Result<Reply, Fault> {
    let scope = call.scope(state)?;
    let mut wanted = call.ids("ids")?;
    wanted.extend(call.id("id")?);
    let parameter = if call.text("ids").is_some() { "ids" } else { "id" };
    for id in &wanted {
        state.vm(*id).ok_or_else(|| call.unknown(parameter, id))?;
    }
    let network = known(call, "networkid", |id| state.network(id).is_some())?;
    let template = known(call, "templateid", |id| {
        state.templates.iter().any(|have| have.id == id)
    })?;
    let iso = known(call, "isoid", |id| state.isos.iter().any(|have| have.id == id))?;
    known(call, "zoneid", |id| state.zone.id == id)?;
    let (name, keyword, word) = (call.text("name"), call.text("keyword"), call.text("state"));
    let admin = call.caller.is_admin();
    let mut found: Vec<&Vm> = state
        .vms
        .iter()
        .filter(|vm| !vm.removed && (wanted.is_empty() || wanted.contains(&vm.id)))
        .filter(|vm| scope.shows(state, vm.owner, !wanted.is_empty()))
        .filter(|vm| network.is_none_or(|id| vm.network == id))
        .filter(|vm| template.is_none_or(|id| vm.template == id))
        .filter(|vm| iso.is_none_or(|id| vm.iso == Some(id)))
        .filter(|vm| name.is_none_or(|name| contains(&vm.name, name)))
        .filter(|vm| keyword.is_none_or(|key| contains(&vm.name, key) || contains(&vm.display_name, key)))
        .filter(|vm| word.is_none_or(|word| in_state(vm.state, word)))
        .collect();
    found.sort_by_key(|vm| std::cmp::Reverse(vm.created));
    let items = found.into_iter().map(|vm| view::vm(state, vm, admin)).collect();
    call.list(state, "virtualmachine", items)
}

/// An id parameter that must resolve if it is given.
pub(crate) fn known(call: &Call<'_>, name: &str, is: impl Fn(Uuid) -> bool) -> Result<Option<Uuid>, Fault> {
    match call.id(name)? {
        Some(id) if !is(id) => Err(call.unknown(name, id)),
        found => Ok(found),
    }
}

/// The substring match of most list commands, which ignores case.
pub(crate) fn contains(text: &str, piece: &str) -> bool {
    text.to_lowercase().contains(&piece.to_lowercase())
}

fn in_state(state: VmState, word: &str) -> bool {
    if word.eq_ignore_ascii_case("present") {
        return !matches!(state, VmState::Destroyed | VmState::Expunging);
    }
    state.word().eq_ignore_ascii_case(word)
}

/// startVirtualMachine.
pub(crate) fn start(state: &mut CloudState, call: &Call<'_>) -> Result<Reply, Fault> {
    let vm = call.need_vm(state, "id")?.id;
    Ok(Reply::on_vm(vm, Work::Start { vm }))
}

/// stopVirtualMachine.
pub(crate) fn stop(state: &mut CloudState, call: &Call<'_>) -> Result<Reply, Fault> {
    let vm = call.need_vm(state, "id")?.id;
    Ok(Reply::on_vm(vm, Work::Stop { vm }))
}

/// rebootVirtualMachine.
pub(crate) fn reboot(state: &mut CloudState, call: &Call<'_>) -> Result<Reply, Fault> {
    let vm = call.need_vm(state, "id")?.id;
    Ok(Reply::on_vm(vm, Work::Reboot { vm }))
}

/// scaleVirtualMachine.
pub(crate) fn resize(state: &mut CloudState, call: &Call<'_>) -> Result<Reply, Fault> {
    let vm = call.need_vm(state, "id")?.id;
    let offering = call.need_id("serviceofferingid")?;
    state
        .offering(offering)
        .ok_or_else(|| call.unknown("serviceofferingid", offering))?;
    Ok(Reply::on_vm(vm, Work::Resize { vm, offering }))
}

/// destroyVirtualMachine.
pub(crate) fn destroy(state: &mut CloudState, call: &Call<'_>) -> Result<Reply, Fault> {
    let vm = call.need_vm(state, "id")?.id;
    let expunge = call.flag("expunge");
    if expunge {
        may_expunge(state, call)?;
    }
    for disk in call.ids("volumeids")? {
        let found = state
            .volumes
            .iter()
            .any(|have| have.id == disk && have.vm == Some(vm) && have.data);
        if !found {
            return Err(call.unknown("volumeids", disk));
        }
    }
    Ok(Reply::on_vm(vm, Work::Destroy { vm, expunge }))
}

/// expungeVirtualMachine.
pub(crate) fn expunge(state: &mut CloudState, call: &Call<'_>) -> Result<Reply, Fault> {
    let vm = call.need_vm(state, "id")?.id;
    may_expunge(state, call)?;
    Ok(Reply::on_vm(vm, Work::Expunge { vm }))
}

fn may_expunge(state: &CloudState, call: &Call<'_>) -> Result<(), Fault> {
    if call.caller.is_admin() || state.settings.allow_user_expunge {
        return Ok(());
    }
    Err(super::fault::permission(
        "only a root administrator may expunge here (allow.user.expunge.recover.vm)",
    ))
}

/// recoverVirtualMachine answers at once.
pub(crate) fn recover(state: &mut CloudState, call: &Call<'_>) -> Result<Reply, Fault> {
    let id = call.need_vm(state, "id")?.id;
    may_expunge(state, call)?;
    let vm = state.vm_mut(id).ok_or_else(|| call.unknown("id", id))?;
    if vm.state != VmState::Destroyed {
        return Err(Fault::invalid(format!(
            "cannot recover virtual machine {} in state {}: only a destroyed one comes back",
            vm.name,
            vm.state.word()
        )));
    }
    vm.state = VmState::Stopped;
    answer_vm(state, call, id)
}

/// updateVirtualMachine: display name and delete protection.
pub(crate) fn update(state: &mut CloudState, call: &Call<'_>) -> Result<Reply, Fault> {
    let id = call.need_vm(state, "id")?.id;
    let vm = state.vm_mut(id).ok_or_else(|| call.unknown("id", id))?;
    if let Some(name) = call.text("displayname") {
        name.clone_into(&mut vm.display_name);
    }
    vm.delete_protection = call.flag_or("deleteprotection", vm.delete_protection);
    vm.details.extend(call.params.merged_map("details")?);
    answer_vm(state, call, id)
}

fn answer_vm(state: &CloudState, call: &Call<'_>, id: Uuid) -> Result<Reply, Fault> {
    let vm = state.vm(id).ok_or_else(|| call.unknown("id", id))?;
    Ok(Reply::object(
        "virtualmachine",
        view::vm(state, vm, call.caller.is_admin()),
    ))
}

/// attachIso.
pub(crate) fn attach_iso(state: &mut CloudState, call: &Call<'_>) -> Result<Reply, Fault> {
    let iso = call.need_id("id")?;
    let found = state
        .isos
        .iter()
        .find(|have| have.id == iso)
        .ok_or_else(|| call.unknown("id", iso))?;
    if !found.ready {
        return Err(Fault::invalid(format!("ISO {} is not ready", found.name)));
    }
    let vm = call.need_vm(state, "virtualmachineid")?;
    if !matches!(vm.state, VmState::Running | VmState::Stopped) {
        return Err(Fault::invalid(format!(
            "an ISO is attached to a running or stopped machine: {} is {}",
            vm.name,
            vm.state.word()
        )));
    }
    Ok(Reply::on_vm(
        vm.id,
        Work::AttachIso {
            vm: vm.id,
            iso,
            forced: call.flag("forced"),
        },
    ))
}

/// detachIso.
pub(crate) fn detach_iso(state: &mut CloudState, call: &Call<'_>) -> Result<Reply, Fault> {
    let vm = call.need_vm(state, "virtualmachineid")?.id;
    Ok(Reply::on_vm(vm, Work::DetachIso { vm }))
}

/// listVolumes.
pub(crate) fn list_volumes(state: &CloudState, call: &Call<'_>) -> Result<Reply, Fault> {
    let scope = call.scope(state)?;
    let id = call.id("id")?;
    let vm = known(call, "virtualmachineid", |id| state.vm(id).is_some())?;
    let data = call
        .text("type")
        .map(|kind| kind.eq_ignore_ascii_case("DATADISK"));
    let by_id = id.is_some() || vm.is_some();
    let items = state
        .volumes
        .iter()
        .filter(|disk| id.is_none_or(|id| disk.id == id) && vm.is_none_or(|vm| disk.vm == Some(vm)))
        .filter(|disk| data.is_none_or(|data| disk.data == data))
        .filter(|disk| scope.shows(state, disk.owner, by_id))
        .map(|disk| view::volume(state, disk))
        .collect();
    call.list(state, "volume", items)
}
