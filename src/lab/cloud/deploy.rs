//! deployVirtualMachine: its checks and the record it makes.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use uuid::Uuid;

use super::call::{Call, Reply};
use super::fault::no_capacity;
use super::model::{CloudState, Guest, Owner, Vm, VmState, Volume};
use super::work::Work;
use crate::lab::clock;
use crate::protocol::Fault;

/// First and last host number that a machine of a network gets.
const GUEST_HOSTS: (u8, u8) = (10, 99);

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
