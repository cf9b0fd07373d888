//! Commands on machines and their disks.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use uuid::Uuid;

use super::call::{Call, Reply};
use super::fault::no_capacity;
use super::model::{CloudState, Guest, Owner, Vm, VmState, Volume};
use super::view;
use super::work::Work;
use crate::lab::clock;
use crate::protocol::Fault;

/// First and last host number that a machine of a network gets.
const GUEST_HOSTS: (u8, u8) = (10, 99);

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

/// deployVirtualMachine: the record is there before the answer.
pub(crate) fn deploy(state: &mut CloudState, call: &Call<'_>) -> Result<Reply, Fault> {
    let offering = call.need_id("serviceofferingid")?;
    state
        .offering(offering)
        .ok_or_else(|| call.unknown("serviceofferingid", offering))?;
    let template = call.need_id("templateid")?;
    let image = state.templates.iter().find(|have| have.id == template);
    let image = image.ok_or_else(|| call.unknown("templateid", template))?;
    if image.system {
        return Err(Fault::invalid(format!(
            "template {} is a system template: deploy from one that users may use",
            image.name
        )));
    }
    let zone = call.need_id("zoneid")?;
    if state.zone.id != zone {
        return Err(call.unknown("zoneid", zone));
    }
    let owner = owner_of(state, call)?;
    let network = network_of(state, call, owner)?;
    let id = custom_id(state, call)?;
    let number = state.counter + 1;
    let name = call
        .text("name")
        .map_or_else(|| format!("VM-{id}"), str::to_owned);
    check_name(state, &name, network)?;
    let user_data = user_data(state, call)?;
    let key_pair = key_pair(state, call, owner)?;
    let address = free_address(state, network)?;
    let start = call.flag_or("startvm", true);
    let details: BTreeMap<String, String> = call.params.merged_map("details")?;
    let now = clock::now();
    state.next_number();
    state.vms.push(Vm {
        id,
        display_name: call
            .text("displayname")
            .map_or_else(|| name.clone(), str::to_owned),
        name: name.clone(),
        instance_name: format!("i-2-{number}-VM"),
        owner,
        user: call.caller.user,
        created: now,
        state: if start {
            VmState::Starting
        } else {
            VmState::Stopped
        },
        removed: false,
        offering,
        template,
        network,
        nic: clock::fresh_id(),
        address,
        key_pair,
        iso: None,
        user_data,
        details,
        backup_offering: None,
        backups: 0,
        delete_protection: false,
        kind: "User".to_owned(),
        guest: Guest::default(),
    });
    state.volumes.push(Volume {
        id: clock::fresh_id(),
        name: format!("ROOT-{number}"),
        data: false,
        vm: Some(id),
        owner,
        bytes: 8 << 30,
        created: now,
    });
    let work = Work::Deploy { vm: id, start };
    Ok(Reply::Submit {
        makes: Some(id),
        instance: Some(("VirtualMachine", id)),
        work,
    })
}

fn owner_of(state: &CloudState, call: &Call<'_>) -> Result<Owner, Fault> {
    if let Some(project) = call.id("projectid")? {
        state
            .project(project)
            .ok_or_else(|| call.unknown("projectid", project))?;
        let owner = Owner::Project(project);
        call.allow(state, owner)?;
        return Ok(owner);
    }
    let domain = call.id("domainid")?;
    match call.text("account") {
        Some(name) => Ok(Owner::Account(call.account_of(state, name, domain)?)),
        None => Ok(Owner::Account(call.caller.account)),
    }
}

fn network_of(state: &CloudState, call: &Call<'_>, owner: Owner) -> Result<Uuid, Fault> {
    let list = call.ids("networkids")?;
    let records = call.params.map("iptonetworklist")?;
    let from_map = records.values().next().and_then(|record| record.get("networkid"));
    let id = match (list.first(), from_map) {
        (Some(id), _) => *id,
        (None, Some(text)) => text.parse().map_err(|_| call.unknown("iptonetworklist", text))?,
        (None, None) => return Err(Fault::missing(call.command, "networkids")),
    };
    let network = state.network(id).ok_or_else(|| call.unknown("networkids", id))?;
    if network.owner != owner && !call.caller.is_admin() {
        return Err(Fault::invalid(format!(
            "network {} is not of the owner of the machine",
            network.name
        )));
    }
    Ok(id)
}

fn custom_id(state: &CloudState, call: &Call<'_>) -> Result<Uuid, Fault> {
    let Some(id) = call.id("customid")? else {
        return Ok(clock::fresh_id());
    };
    if !call.caller.is_admin() {
        return Err(super::fault::permission(
            "only a root administrator may choose an id",
        ));
    }
    if state.vm(id).is_some() {
        return Err(Fault::invalid(format!(
            "a virtual machine with id {id} exists already"
        )));
    }
    Ok(id)
}

fn check_name(state: &CloudState, name: &str, network: Uuid) -> Result<(), Fault> {
    let label = name.len() <= 63
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
        && !name.ends_with('-');
    if !label {
        return Err(Fault::invalid(format!(
            "name {name} is no host name: letters, digits and dashes only"
        )));
    }
    let taken = state
        .vms
        .iter()
        .any(|vm| !vm.removed && vm.network == network && vm.name.eq_ignore_ascii_case(name));
    if taken {
        return Err(Fault::invalid(format!(
            "a virtual machine with host name {name} exists already in the network's domain"
        )));
    }
    Ok(())
}

/// The rules of `api-protocol.md` 5.2, measured on the base64 text.
fn user_data(state: &CloudState, call: &Call<'_>) -> Result<Option<String>, Fault> {
    let Some(text) = call.text("userdata") else {
        return Ok(None);
    };
    let most = if call.post { 1_048_576 } else { 4096 };
    if text.len() > most {
        let method = if call.post { "POST" } else { "GET" };
        return Err(Fault::invalid(format!(
            "User data is too long for http {method} request"
        )));
    }
    if text.len() > state.settings.user_data_max {
        return Err(Fault::invalid(format!(
            "User data has exceeded configurable max length: {}",
            state.settings.user_data_max
        )));
    }
    let decoded = STANDARD
        .decode(text)
        .map_err(|_| Fault::invalid("User data is not base64 encoded."))?;
    if decoded.is_empty() {
        return Err(Fault::invalid("User data is too short."));
    }
    Ok(Some(text.to_owned()))
}

fn key_pair(state: &CloudState, call: &Call<'_>, owner: Owner) -> Result<Option<String>, Fault> {
    let Some(name) = call.text("keypair").or_else(|| call.text("keypairs")) else {
        return Ok(None);
    };
    let known = state.key_pairs.iter().any(|pair| {
        pair.name == name && (Owner::Account(pair.account) == owner || matches!(owner, Owner::Project(_)))
    });
    if known {
        return Ok(Some(name.to_owned()));
    }
    Err(Fault::invalid(format!(
        "the owner of the machine has no key pair named {name}"
    )))
}

/// The lowest free address in the network's part of the lab's subnet.
fn free_address(state: &CloudState, network: Uuid) -> Result<Ipv4Addr, Fault> {
    let base = state
        .ips
        .iter()
        .find(|ip| ip.network == network)
        .map(|ip| ip.address.octets());
    let Some([a, b, c, _]) = base else {
        return Err(no_capacity("the network has no address range"));
    };
    (GUEST_HOSTS.0..=GUEST_HOSTS.1)
        .map(|host| Ipv4Addr::new(a, b, c, host))
        .find(|address| !state.vms.iter().any(|vm| !vm.removed && vm.address == *address))
        .ok_or_else(|| no_capacity("the network has no free address"))
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
