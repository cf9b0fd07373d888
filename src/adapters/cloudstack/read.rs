//! The cloud's objects in the service's words. Members that are missing are absent; a number may come as text.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::str::FromStr;

use jiff::Timestamp;
use serde_json::Value;

use crate::ports::cloud::{
    CloudJob, DataDisk, FirewallRule, ForwardingRule, Iso, Machine, MachineState, Network, Nic, Offering,
    PublicIp, Template, Zone,
};

pub(super) fn text(object: &Value, name: &str) -> Option<String> {
    match object.get(name)? {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// A member as a type that is read from text.
pub(super) fn parsed<T: FromStr>(object: &Value, name: &str) -> Option<T> {
    text(object, name)?.parse().ok()
}

fn flag(object: &Value, name: &str) -> bool {
    match object.get(name) {
        Some(Value::Bool(flag)) => *flag,
        Some(Value::String(text)) => text.eq_ignore_ascii_case("true"),
        _ => false,
    }
}

fn named(object: &Value) -> String {
    text(object, "name").unwrap_or_default()
}

/// CloudStack's date, `2026-01-02T03:04:05+0000`; newer servers may write RFC 3339.
fn date(object: &Value, name: &str) -> Option<Timestamp> {
    let text = text(object, name)?;
    Timestamp::strptime("%Y-%m-%dT%H:%M:%S%z", &text)
        .or_else(|_| text.parse())
        .ok()
}

fn list<'a>(object: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    object.get(name).and_then(Value::as_array).into_iter().flatten()
}

fn state(word: &str) -> MachineState {
    match word {
        "Starting" => MachineState::Starting,
        "Running" => MachineState::Running,
        "Stopping" => MachineState::Stopping,
        "Stopped" | "Shutdown" => MachineState::Stopped,
        "Migrating" => MachineState::Migrating,
        "Destroyed" => MachineState::Destroyed,
        "Expunging" => MachineState::Expunging,
        "Error" => MachineState::Error,
        other => MachineState::Other(other.to_owned()),
    }
}

pub(super) fn machine(raw: Value) -> Option<Machine> {
    let mut nics: Vec<(bool, Nic)> = list(&raw, "nic")
        .filter_map(|nic| {
            let card = Nic {
                network_id: parsed(nic, "networkid")?,
                address: parsed(nic, "ipaddress"),
            };
            Some((flag(nic, "isdefault"), card))
        })
        .collect();
    // Stable: the others keep the cloud's order.
    nics.sort_by_key(|(is_default, _)| !is_default);
    let name = named(&raw);
    Some(Machine {
        id: parsed(&raw, "id")?,
        display_name: text(&raw, "displayname").unwrap_or_else(|| name.clone()),
        name,
        state: state(&text(&raw, "state").unwrap_or_default()),
        account: text(&raw, "account").filter(|_| raw.get("projectid").is_none()),
        domain_id: parsed(&raw, "domainid"),
        project_id: parsed(&raw, "projectid"),
        zone_id: parsed(&raw, "zoneid"),
        offering_id: parsed(&raw, "serviceofferingid"),
        cpu_number: parsed(&raw, "cpunumber").unwrap_or(0),
        memory_mb: parsed(&raw, "memory").unwrap_or(0),
        template_id: parsed(&raw, "templateid"),
        key_pair: text(&raw, "keypair")
            .or_else(|| text(&raw, "keypairs").and_then(|all| all.split(',').next().map(str::to_owned))),
        nics: nics.into_iter().map(|(_, nic)| nic).collect(),
        iso_id: parsed(&raw, "isoid"),
        backup_offering_id: parsed(&raw, "backupofferingid"),
        delete_protection: flag(&raw, "deleteprotection"),
        vm_type: text(&raw, "vmtype"),
        created: date(&raw, "created"),
        raw,
    })
}

/// The details of a machine; values that are no text are written as JSON.
pub(super) fn details(raw: &Value) -> BTreeMap<String, String> {
    let details = raw.get("details").and_then(Value::as_object);
    details
        .into_iter()
        .flatten()
        .map(|(name, value)| {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            (name.clone(), value)
        })
        .collect()
}

fn revoked(raw: &Value) -> bool {
    matches!(text(raw, "state").as_deref(), Some("Revoke" | "Deleting"))
}

pub(super) fn forwarding_rule(raw: &Value) -> Option<ForwardingRule> {
    let public_port = parsed(raw, "publicport")?;
    Some(ForwardingRule {
        id: parsed(raw, "id")?,
        ip_id: parsed(raw, "ipaddressid")?,
        address: parsed::<IpAddr>(raw, "ipaddress")?,
        public_port,
        public_end_port: parsed(raw, "publicendport").unwrap_or(public_port),
        private_port: parsed(raw, "privateport")?,
        protocol: text(raw, "protocol").unwrap_or_default().to_ascii_lowercase(),
        vm_id: parsed(raw, "virtualmachineid"),
        revoked: revoked(raw),
    })
}

pub(super) fn firewall_rule(raw: &Value) -> Option<FirewallRule> {
    Some(FirewallRule {
        id: parsed(raw, "id")?,
        ip_id: parsed(raw, "ipaddressid")?,
        protocol: text(raw, "protocol").unwrap_or_default().to_ascii_lowercase(),
        start_port: parsed(raw, "startport"),
        end_port: parsed(raw, "endport"),
        revoked: revoked(raw),
    })
}

pub(super) fn public_ip(raw: &Value) -> Option<PublicIp> {
    Some(PublicIp {
        id: parsed(raw, "id")?,
        address: parsed(raw, "ipaddress")?,
        source_nat: flag(raw, "issourcenat"),
    })
}

pub(super) fn network(raw: &Value) -> Option<Network> {
    Some(Network {
        id: parsed(raw, "id")?,
        name: named(raw),
        kind: text(raw, "type").unwrap_or_default(),
        vpc_id: parsed(raw, "vpcid"),
        routed: raw.get("ip4routing").is_some(),
    })
}

pub(super) fn offering(raw: &Value) -> Option<Offering> {
    Some(Offering {
        id: parsed(raw, "id")?,
        name: named(raw),
        cpu_number: parsed(raw, "cpunumber"),
        cpu_speed: parsed(raw, "cpuspeed"),
        memory_mb: parsed(raw, "memory"),
        customized: flag(raw, "iscustomized"),
    })
}

pub(super) fn template(raw: &Value) -> Option<Template> {
    Some(Template {
        id: parsed(raw, "id")?,
        name: named(raw),
        ready: flag(raw, "isready"),
    })
}

pub(super) fn iso(raw: &Value) -> Option<Iso> {
    Some(Iso {
        id: parsed(raw, "id")?,
        name: named(raw),
        ready: flag(raw, "isready"),
        size_bytes: parsed(raw, "size"),
    })
}

pub(super) fn zone(raw: &Value) -> Option<Zone> {
    Some(Zone {
        id: parsed(raw, "id")?,
        name: named(raw),
    })
}

pub(super) fn data_disk(raw: &Value) -> Option<DataDisk> {
    Some(DataDisk {
        id: parsed(raw, "id")?,
        name: named(raw),
    })
}

/// What `queryAsyncJobResult` says. Status 3 is a cancelled job, which nobody will finish.
pub(super) fn job(raw: &Value) -> Option<CloudJob> {
    Some(match parsed::<i64>(raw, "jobstatus")? {
        0 => CloudJob::Pending,
        1 => CloudJob::Succeeded,
        _ => {
            let result = raw.get("jobresult").unwrap_or(&Value::Null);
            CloudJob::Failed {
                code: parsed(result, "errorcode")
                    .or_else(|| parsed(raw, "jobresultcode"))
                    .unwrap_or(530),
                text: text(result, "errortext").unwrap_or_else(|| "the cloud gives no reason".to_owned()),
            }
        }
    })
}
