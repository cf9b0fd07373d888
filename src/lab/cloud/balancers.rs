//! Commands on load balancer rules.

use uuid::Uuid;

use super::call::{Call, Reply};
use super::machines::{contains, known};
use super::model::{Balancer, CloudState, RuleState};
use super::rules::{allow_at, check_conflict, owner_at};
use super::view;
use super::work::Work;
use crate::lab::clock;
use crate::protocol::Fault;

/// listLoadBalancerRules.
pub(crate) fn list(state: &CloudState, call: &Call<'_>) -> Result<Reply, Fault> {
    let scope = call.scope(state)?;
    let id = call.id("id")?;
    let ip = known(call, "publicipid", |id| state.ip(id).is_some())?;
    let network = known(call, "networkid", |id| state.network(id).is_some())?;
    let vm = known(call, "virtualmachineid", |id| state.vm(id).is_some())?;
    let (name, keyword) = (call.text("name"), call.text("keyword"));
    let items = state
        .balancers
        .iter()
        .filter(|rule| id.is_none_or(|id| rule.id == id) && ip.is_none_or(|ip| rule.ip == ip))
        .filter(|rule| vm.is_none_or(|vm| rule.vms.contains(&vm)))
        .filter(|rule| network.is_none_or(|id| state.ip(rule.ip).is_some_and(|ip| ip.network == id)))
        .filter(|rule| name.is_none_or(|name| rule.name == name))
        .filter(|rule| keyword.is_none_or(|key| contains(&rule.name, key)))
        .filter(|rule| {
            owner_at(state, rule.ip).is_some_and(|own| scope.shows(state, own, id.is_some() || ip.is_some()))
        })
        .map(|rule| view::balancer(state, rule))
        .collect();
    call.list(state, "loadbalancerrule", items)
}

/// createLoadBalancerRule.
pub(crate) fn create(state: &mut CloudState, call: &Call<'_>) -> Result<Reply, Fault> {
    let algorithm = call.need("algorithm")?.to_owned();
    let name = call.need("name")?.to_owned();
    let private = call.need_port("privateport")?;
    let public = call.need_port("publicport")?;
    let ip = match (call.id("publicipid")?, call.id("networkid")?) {
        (Some(id), _) => state.ip(id).ok_or_else(|| call.unknown("publicipid", id))?.id,
        (None, Some(network)) => {
            let found = state.ips.iter().find(|ip| ip.network == network);
            found.ok_or_else(|| call.unknown("networkid", network))?.id
        }
        (None, None) => return Err(Fault::missing(call.command, "publicipid")),
    };
    allow_at(state, call, ip)?;
    let protocol = call.text("protocol").unwrap_or("tcp").to_lowercase();
    check_conflict(state, ip, &protocol, (public, public), None)?;
    let id = clock::fresh_id();
    let state_now = RuleState::Add;
    state.balancers.push(Balancer {
        id,
        name,
        ip,
        algorithm,
        protocol,
        public,
        private,
        vms: Vec::new(),
        state: state_now,
    });
    let work = Work::AddBalancer { rule: id };
    Ok(Reply::Submit {
        makes: Some(id),
        instance: Some(("LoadBalancerRule", id)),
        work,
    })
}

fn need_rule(state: &CloudState, call: &Call<'_>) -> Result<Uuid, Fault> {
    let id = call.need_id("id")?;
    let rule = state
        .balancers
        .iter()
        .find(|have| have.id == id)
        .ok_or_else(|| call.unknown("id", id))?;
    allow_at(state, call, rule.ip)?;
    Ok(id)
}

/// deleteLoadBalancerRule.
pub(crate) fn delete(state: &mut CloudState, call: &Call<'_>) -> Result<Reply, Fault> {
    let rule = need_rule(state, call)?;
    let work = Work::DropBalancer { rule };
    Ok(Reply::Submit {
        makes: None,
        instance: Some(("LoadBalancerRule", rule)),
        work,
    })
}

fn need_vms(state: &CloudState, call: &Call<'_>) -> Result<Vec<Uuid>, Fault> {
    let mut vms = call.ids("virtualmachineids")?;
    for record in call.params.map("vmidipmap")?.values() {
        if let Some(text) = record.get("vmid") {
            vms.push(text.parse().map_err(|_| call.unknown("vmidipmap", text))?);
        }
    }
    for vm in &vms {
        let known = state.vm(*vm).is_some_and(|vm| !vm.removed);
        if !known {
            return Err(call.unknown("virtualmachineids", vm));
        }
    }
    if vms.is_empty() {
        return Err(Fault::missing(call.command, "virtualmachineids"));
    }
    Ok(vms)
}

/// assignToLoadBalancerRule.
pub(crate) fn assign(state: &mut CloudState, call: &Call<'_>) -> Result<Reply, Fault> {
    let rule = need_rule(state, call)?;
    let vms = need_vms(state, call)?;
    let work = Work::Assign { rule, vms };
    Ok(Reply::Submit {
        makes: None,
        instance: Some(("LoadBalancerRule", rule)),
        work,
    })
}

/// removeFromLoadBalancerRule.
pub(crate) fn unassign(state: &mut CloudState, call: &Call<'_>) -> Result<Reply, Fault> {
    let rule = need_rule(state, call)?;
    let vms = need_vms(state, call)?;
    let work = Work::Unassign { rule, vms };
    Ok(Reply::Submit {
        makes: None,
        instance: Some(("LoadBalancerRule", rule)),
        work,
    })
}

/// listLoadBalancerRuleInstances.
pub(crate) fn instances(state: &CloudState, call: &Call<'_>) -> Result<Reply, Fault> {
    let id = need_rule(state, call)?;
    let admin = call.caller.is_admin();
    let vms = state
        .balancers
        .iter()
        .find(|have| have.id == id)
        .map(|rule| rule.vms.clone());
    let found = vms.unwrap_or_default().into_iter().filter_map(|vm| state.vm(vm));
    let items: Vec<_> = found.map(|vm| view::vm(state, vm, admin)).collect();
    if call.flag("lbvmips") {
        let items = items
            .into_iter()
            .map(|vm| serde_json::json!({"loadbalancerruleinstance": vm, "lbvmipaddresses": []}))
            .collect();
        return call.list(state, "lbrulevmidip", items);
    }
    call.list(state, "loadbalancerruleinstance", items)
}
