//! Commands on public addresses: port forwarding and firewall.

use uuid::Uuid;

use super::call::{Call, Reply};
use super::fault::conflict;
use super::machines::known;
use super::model::{CloudState, Firewall, Forward, Owner, RuleState};
use super::view;
use super::work::Work;
use crate::lab::clock;
use crate::protocol::Fault;

/// The owner of what hangs on a public address.
pub(crate) fn owner_at(state: &CloudState, ip: Uuid) -> Option<Owner> {
    state.ip(ip).map(|ip| ip.owner)
}

/// The public address that a parameter names, of the caller.
pub(crate) fn need_ip(state: &CloudState, call: &Call<'_>, name: &str) -> Result<Uuid, Fault> {
    let id = call.need_id(name)?;
    let ip = state.ip(id).ok_or_else(|| call.unknown(name, id))?;
    call.allow(state, ip.owner)?;
    Ok(id)
}

/// listPublicIpAddresses.
pub(crate) fn list_ips(state: &CloudState, call: &Call<'_>) -> Result<Reply, Fault> {
    let scope = call.scope(state)?;
    let id = call.id("id")?;
    let is_network = |id| state.network(id).is_some();
    let network = known(call, "associatednetworkid", is_network)?;
    let network = network.or(known(call, "networkid", is_network)?);
    let address = call.text("ipaddress");
    let items = state
        .ips
        .iter()
        .filter(|ip| id.is_none_or(|id| ip.id == id) && network.is_none_or(|id| ip.network == id))
        .filter(|ip| address.is_none_or(|text| ip.address.to_string() == text))
        .filter(|_| call.flag_or("issourcenat", true))
        .filter(|ip| scope.shows(state, ip.owner, id.is_some() || network.is_some()))
        .map(|ip| view::ip(state, ip))
        .collect();
    call.list(state, "publicipaddress", items)
}

/// listPortForwardingRules.
pub(crate) fn list_forwards(state: &CloudState, call: &Call<'_>) -> Result<Reply, Fault> {
    let scope = call.scope(state)?;
    let id = call.id("id")?;
    let ip = known(call, "ipaddressid", |id| state.ip(id).is_some())?;
    let network = known(call, "networkid", |id| state.network(id).is_some())?;
    let items = state
        .forwards
        .iter()
        .filter(|rule| id.is_none_or(|id| rule.id == id) && ip.is_none_or(|ip| rule.ip == ip))
        .filter(|rule| on_network(state, rule.ip, network))
        .filter(|rule| owner_at(state, rule.ip).is_some_and(|own| scope.shows(state, own, by_id(id, ip))))
        .map(|rule| view::forward(state, rule))
        .collect();
    call.list(state, "portforwardingrule", items)
}

fn by_id(id: Option<Uuid>, ip: Option<Uuid>) -> bool {
    id.is_some() || ip.is_some()
}

fn on_network(state: &CloudState, ip: Uuid, network: Option<Uuid>) -> bool {
    network.is_none_or(|id| state.ip(ip).is_some_and(|ip| ip.network == id))
}

/// createPortForwardingRule.
pub(crate) fn create_forward(state: &mut CloudState, call: &Call<'_>) -> Result<Reply, Fault> {
    let ip = need_ip(state, call, "ipaddressid")?;
    let protocol = protocol(call, &["tcp", "udp"])?;
    let public = range(call, "publicport", "publicendport")?;
    let private = range(call, "privateport", "privateendport")?;
    let vm = call.need_vm(state, "virtualmachineid")?;
    if state.ip(ip).is_some_and(|ip| ip.network != vm.network) {
        return Err(Fault::invalid(format!(
            "virtual machine {} is not on the network of the address",
            vm.name
        )));
    }
    let vm = vm.id;
    check_conflict(state, ip, &protocol, public, None)?;
    let id = clock::fresh_id();
    state.forwards.push(Forward {
        id,
        ip,
        protocol: protocol.clone(),
        public,
        private,
        vm,
        state: RuleState::Add,
    });
    if call.flag("openfirewall") {
        state.firewall.push(Firewall {
            id: clock::fresh_id(),
            ip,
            protocol,
            ports: Some(public),
            cidrs: vec!["0.0.0.0/0".to_owned()],
            state: RuleState::Active,
        });
    }
    let work = Work::AddForward { rule: id };
    Ok(Reply::Submit {
        makes: Some(id),
        instance: Some(("PortForwardingRule", id)),
        work,
    })
}

/// Refuses a rule on public ports that another rule has, whatever its state.
pub(crate) fn check_conflict(
    state: &CloudState,
    ip: Uuid,
    protocol: &str,
    ports: (u16, u16),
    except: Option<Uuid>,
) -> Result<(), Fault> {
    let forwards = state
        .forwards
        .iter()
        .filter(|rule| rule.ip == ip && rule.protocol == protocol && Some(rule.id) != except)
        .map(|rule| (rule.id, rule.public));
    let balancers = state
        .balancers
        .iter()
        .filter(|rule| rule.ip == ip && rule.protocol == protocol && Some(rule.id) != except)
        .map(|rule| (rule.id, (rule.public, rule.public)));
    for (id, taken) in forwards.chain(balancers) {
        if overlap(taken, ports) {
            return Err(conflict(format!(
                "The range specified, {}-{}, conflicts with rule {id} which has {}-{}",
                ports.0, ports.1, taken.0, taken.1
            )));
        }
    }
    Ok(())
}

fn overlap(a: (u16, u16), b: (u16, u16)) -> bool {
    a.0 <= b.1 && b.0 <= a.1
}

fn range(call: &Call<'_>, first: &str, last: &str) -> Result<(u16, u16), Fault> {
    let from = call.need_port(first)?;
    let to = call.port(last)?.unwrap_or(from);
    if to < from {
        return Err(Fault::invalid(format!("{last} {to} is below {first} {from}")));
    }
    Ok((from, to))
}

/// The protocol of a rule, in lower case.
pub(crate) fn protocol(call: &Call<'_>, known: &[&str]) -> Result<String, Fault> {
    let word = call.need("protocol")?.to_lowercase();
    if known.contains(&word.as_str()) {
        return Ok(word);
    }
    Err(Fault::invalid(format!(
        "protocol {word} is not one of {}",
        known.join(", ")
    )))
}

/// deletePortForwardingRule.
pub(crate) fn delete_forward(state: &mut CloudState, call: &Call<'_>) -> Result<Reply, Fault> {
    let id = call.need_id("id")?;
    let rule = state
        .forwards
        .iter()
        .find(|have| have.id == id)
        .ok_or_else(|| call.unknown("id", id))?;
    allow_at(state, call, rule.ip)?;
    let work = Work::DropForward { rule: id };
    Ok(Reply::Submit {
        makes: None,
        instance: Some(("PortForwardingRule", id)),
        work,
    })
}

/// Refuses rules on an address that the caller may not use.
pub(crate) fn allow_at(state: &CloudState, call: &Call<'_>, ip: Uuid) -> Result<(), Fault> {
    match owner_at(state, ip) {
        Some(owner) => call.allow(state, owner),
        None => Ok(()),
    }
}

/// listFirewallRules.
pub(crate) fn list_firewall(state: &CloudState, call: &Call<'_>) -> Result<Reply, Fault> {
    let scope = call.scope(state)?;
    let id = call.id("id")?;
    let ip = known(call, "ipaddressid", |id| state.ip(id).is_some())?;
    let network = known(call, "networkid", |id| state.network(id).is_some())?;
    let items = state
        .firewall
        .iter()
        .filter(|rule| id.is_none_or(|id| rule.id == id) && ip.is_none_or(|ip| rule.ip == ip))
        .filter(|rule| on_network(state, rule.ip, network))
        .filter(|rule| owner_at(state, rule.ip).is_some_and(|own| scope.shows(state, own, by_id(id, ip))))
        .map(|rule| view::firewall(state, rule))
        .collect();
    call.list(state, "firewallrule", items)
}

/// createFirewallRule.
pub(crate) fn create_firewall(state: &mut CloudState, call: &Call<'_>) -> Result<Reply, Fault> {
    let ip = need_ip(state, call, "ipaddressid")?;
    let protocol = protocol(call, &["tcp", "udp", "icmp", "all"])?;
    let ports = match (call.port("startport")?, call.port("endport")?) {
        (None, None) => None,
        (Some(first), last) if last.is_none_or(|last| last >= first) => Some((first, last.unwrap_or(first))),
        _ => return Err(Fault::invalid("startport is missing, or above endport")),
    };
    let mut cidrs = call.params.list("cidrlist");
    if cidrs.is_empty() {
        cidrs.push("0.0.0.0/0".to_owned());
    }
    for have in state
        .firewall
        .iter()
        .filter(|have| have.ip == ip && have.protocol == protocol)
    {
        match (have.ports, ports) {
            (None, None) => {
                return Err(conflict(format!(
                    "There is already a firewall rule specified with protocol = {protocol} and no ports"
                )));
            }
            (Some(taken), Some(wanted)) if overlap(taken, wanted) => {
                return Err(conflict(format!(
                    "The range specified, {}-{}, conflicts with rule {} which has {}-{}",
                    wanted.0, wanted.1, have.id, taken.0, taken.1
                )));
            }
            _ => {}
        }
    }
    let id = clock::fresh_id();
    state.firewall.push(Firewall {
        id,
        ip,
        protocol,
        ports,
        cidrs,
        state: RuleState::Add,
    });
    let work = Work::AddFirewall { rule: id };
    Ok(Reply::Submit {
        makes: Some(id),
        instance: Some(("FirewallRule", id)),
        work,
    })
}

/// deleteFirewallRule.
pub(crate) fn delete_firewall(state: &mut CloudState, call: &Call<'_>) -> Result<Reply, Fault> {
    let id = call.need_id("id")?;
    let rule = state
        .firewall
        .iter()
        .find(|have| have.id == id)
        .ok_or_else(|| call.unknown("id", id))?;
    allow_at(state, call, rule.ip)?;
    let work = Work::DropFirewall { rule: id };
    Ok(Reply::Submit {
        makes: None,
        instance: Some(("FirewallRule", id)),
        work,
    })
}
