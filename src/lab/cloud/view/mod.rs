//! The objects of the cloud as they look on the wire.
//!
//! What this must not know: requests.

mod people;

use serde_json::{Map, Value, json};
use uuid::Uuid;

pub(crate) use self::people::{account, domain, key_pair, project, user};
use super::model::{
    Balancer, CloudState, Firewall, Forward, Iso, Job, Network, Offering, Owner, PublicIp, Tag, Template, Vm,
    Volume,
};
use crate::protocol::envelope::date;

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

fn put(map: &mut Map<String, Value>, key: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        map.insert(key.to_owned(), value.into());
    }
}

/// Members that say who owns an object.
fn put_owner(map: &mut Map<String, Value>, state: &CloudState, owner: Owner) {
    let domain = match owner {
        Owner::Account(id) => state.account(id).map(|account| {
            map.insert("account".to_owned(), json!(account.name));
            account.domain
        }),
        Owner::Project(id) => state.projects.iter().find(|have| have.id == id).map(|project| {
            map.insert("projectid".to_owned(), json!(project.id));
            map.insert("project".to_owned(), json!(project.name));
            project.domain
        }),
    };
    if let Some(domain) = domain.and_then(|id| state.domain(id)) {
        map.insert("domainid".to_owned(), json!(domain.id));
        map.insert("domain".to_owned(), json!(domain.name));
        map.insert("domainpath".to_owned(), json!(domain.path));
    }
}

fn put_zone(map: &mut Map<String, Value>, state: &CloudState) {
    map.insert("zoneid".to_owned(), json!(state.zone.id));
    map.insert("zonename".to_owned(), json!(state.zone.name));
}

fn tags(state: &CloudState, resource: Uuid) -> Vec<Value> {
    state
        .tags
        .iter()
        .filter(|have| have.resource == resource)
        .map(tag)
        .collect()
}

/// A tag.
pub(crate) fn tag(tag: &Tag) -> Value {
    json!({"key": tag.key, "value": tag.value, "resourcetype": tag.resource_type, "resourceid": tag.resource})
}

/// A machine.
pub(crate) fn vm(state: &CloudState, vm: &Vm, admin: bool) -> Value {
    let mut map = object(json!({"id": vm.id, "name": vm.name, "displayname": vm.display_name}));
    put_owner(&mut map, state, vm.owner);
    map.insert("userid".to_owned(), json!(vm.user));
    put(
        &mut map,
        "username",
        state.user(vm.user).map(|user| user.name.clone()),
    );
    map.insert("created".to_owned(), json!(date(vm.created)));
    map.insert("state".to_owned(), json!(vm.state.word()));
    map.insert("haenable".to_owned(), json!(false));
    put_zone(&mut map, state);
    if let Some(template) = state.templates.iter().find(|have| have.id == vm.template) {
        map.insert("templateid".to_owned(), json!(template.id));
        map.insert("templatename".to_owned(), json!(template.name));
        map.insert("templatedisplaytext".to_owned(), json!(template.name));
    }
    if let Some(iso) = vm.iso.and_then(|id| state.isos.iter().find(|have| have.id == id)) {
        map.insert("isoid".to_owned(), json!(iso.id));
        map.insert("isoname".to_owned(), json!(iso.name));
        map.insert("isodisplaytext".to_owned(), json!(iso.name));
    }
    if let Some(offering) = state.offering(vm.offering) {
        map.insert("serviceofferingid".to_owned(), json!(offering.id));
        map.insert("serviceofferingname".to_owned(), json!(offering.name));
        map.insert("cpunumber".to_owned(), json!(offering.cpu));
        map.insert("cpuspeed".to_owned(), json!(offering.speed));
        map.insert("memory".to_owned(), json!(offering.memory));
    }
    map.insert("securitygroup".to_owned(), json!([]));
    map.insert("nic".to_owned(), json!([nic(state, vm)]));
    map.insert("hypervisor".to_owned(), json!("Simulator"));
    if admin {
        map.insert("instancename".to_owned(), json!(vm.instance_name));
        if vm.state.is_on() {
            map.insert("hostname".to_owned(), json!("lab-host-1"));
        }
    }
    map.insert("details".to_owned(), json!(vm.details));
    map.insert("affinitygroup".to_owned(), json!([]));
    map.insert("tags".to_owned(), json!(tags(state, vm.id)));
    map.insert("displayvm".to_owned(), json!(true));
    map.insert("isdynamicallyscalable".to_owned(), json!(false));
    put(&mut map, "keypairs", vm.key_pair.clone());
    map.insert("vmtype".to_owned(), json!(vm.kind));
    map.insert("deleteprotection".to_owned(), json!(vm.delete_protection));
    if let Some(backup) = vm.backup_offering {
        map.insert("backupofferingid".to_owned(), json!(backup));
        map.insert("backupofferingname".to_owned(), json!("lab backups"));
    }
    put_pending(&mut map, state, vm.id);
    Value::Object(map)
}

/// `jobid` and `jobstatus` of an object on which a job is pending.
fn put_pending(map: &mut Map<String, Value>, state: &CloudState, id: Uuid) {
    let pending =
        state.jobs.iter().rev().find(|job| {
            job.status == 0 && job.instance.as_ref().is_some_and(|(_, instance)| *instance == id)
        });
    if let Some(job) = pending {
        map.insert("jobid".to_owned(), json!(job.id));
        map.insert("jobstatus".to_owned(), json!(0));
    }
}

fn nic(state: &CloudState, vm: &Vm) -> Value {
    let network = state.network(vm.network);
    let octets = vm.address.octets();
    let (a, b, c, d) = octets.into();
    json!({
        "id": vm.nic,
        "networkid": vm.network,
        "networkname": network.map(|network| network.name.clone()).unwrap_or_default(),
        "netmask": "255.255.255.0",
        "gateway": format!("{a}.{b}.{c}.1"),
        "ipaddress": vm.address.to_string(),
        "traffictype": "Guest",
        "type": "Isolated",
        "isdefault": true,
        "macaddress": format!("02:01:{a:02x}:{b:02x}:{c:02x}:{d:02x}"),
        "secondaryip": [],
        "extradhcpoption": [],
    })
}

/// A network.
pub(crate) fn network(state: &CloudState, network: &Network) -> Value {
    let octets = state
        .ips
        .iter()
        .find(|ip| ip.network == network.id)
        .map(|ip| ip.address.octets());
    let (a, b, c, _) = octets.unwrap_or([127, 0, 0, 0]).into();
    let mut map = object(json!({
        "id": network.id, "name": network.name, "displaytext": network.name,
        "broadcastdomaintype": "Vlan", "traffictype": "Guest",
        "gateway": format!("{a}.{b}.{c}.1"), "netmask": "255.255.255.0", "cidr": format!("{a}.{b}.{c}.0/24"),
        "networkofferingname": "DefaultNetworkOfferingforKubernetesService",
        "networkofferingdisplaytext": "Isolated network with source NAT", "networkofferingconservemode": true,
        "networkofferingavailability": "Required", "issystem": false, "state": "Implemented",
        "type": "Isolated", "acltype": "Account", "subdomainaccess": true, "restartrequired": false,
        "specifyipranges": false, "canusefordeploy": true, "ispersistent": false, "displaynetwork": true,
        "strechedl2subnet": false, "redundantrouter": false, "egressdefaultpolicy": true,
        "created": date(network.created),
    }));
    let services = [
        "Dhcp",
        "Dns",
        "Firewall",
        "Lb",
        "PortForwarding",
        "SourceNat",
        "StaticNat",
        "UserData",
    ];
    let services: Vec<Value> = services
        .iter()
        .map(|name| json!({"name": name, "capability": []}))
        .collect();
    map.insert("service".to_owned(), json!(services));
    put_owner(&mut map, state, network.owner);
    put_zone(&mut map, state);
    map.insert("tags".to_owned(), json!(tags(state, network.id)));
    Value::Object(map)
}

/// A public address.
pub(crate) fn ip(state: &CloudState, ip: &PublicIp) -> Value {
    let mut map = object(json!({
        "id": ip.id, "ipaddress": ip.address.to_string(), "allocated": date(ip.allocated), "state": "Allocated",
        "issourcenat": true, "isstaticnat": false, "issystem": false, "forvirtualnetwork": true,
        "associatednetworkid": ip.network, "networkid": ip.network, "fordisplay": true, "isportable": false,
    }));
    put(
        &mut map,
        "associatednetworkname",
        state.network(ip.network).map(|network| network.name.clone()),
    );
    put_owner(&mut map, state, ip.owner);
    put_zone(&mut map, state);
    map.insert("tags".to_owned(), json!(tags(state, ip.id)));
    Value::Object(map)
}

fn put_ip(map: &mut Map<String, Value>, state: &CloudState, id: Uuid, id_key: &str, key: &str) {
    map.insert(id_key.to_owned(), json!(id));
    if let Some(ip) = state.ip(id) {
        map.insert(key.to_owned(), json!(ip.address.to_string()));
        map.insert("networkid".to_owned(), json!(ip.network));
    }
}

/// A port-forwarding rule; ports are strings.
pub(crate) fn forward(state: &CloudState, rule: &Forward) -> Value {
    let mut map = object(json!({
        "id": rule.id, "protocol": rule.protocol, "cidrlist": "",
        "publicport": rule.public.0.to_string(), "publicendport": rule.public.1.to_string(),
        "privateport": rule.private.0.to_string(), "privateendport": rule.private.1.to_string(),
        "state": rule.state.word(), "virtualmachineid": rule.vm, "fordisplay": true,
    }));
    if let Some(vm) = state.vm(rule.vm) {
        map.insert("virtualmachinename".to_owned(), json!(vm.name));
        map.insert("virtualmachinedisplayname".to_owned(), json!(vm.display_name));
        map.insert("vmguestip".to_owned(), json!(vm.address.to_string()));
    }
    put_ip(&mut map, state, rule.ip, "ipaddressid", "ipaddress");
    map.insert("tags".to_owned(), json!(tags(state, rule.id)));
    Value::Object(map)
}

/// A firewall rule; its ports are numbers, absent when it has none.
pub(crate) fn firewall(state: &CloudState, rule: &Firewall) -> Value {
    let mut map = object(json!({
        "id": rule.id, "protocol": rule.protocol, "state": rule.state.word(),
        "cidrlist": rule.cidrs.join(","), "fordisplay": true,
    }));
    put(&mut map, "startport", rule.ports.map(|ports| ports.0));
    put(&mut map, "endport", rule.ports.map(|ports| ports.1));
    put_ip(&mut map, state, rule.ip, "ipaddressid", "ipaddress");
    map.insert("tags".to_owned(), json!(tags(state, rule.id)));
    Value::Object(map)
}

/// A load balancer rule; ports are strings.
pub(crate) fn balancer(state: &CloudState, rule: &Balancer) -> Value {
    let mut map = object(json!({
        "id": rule.id, "name": rule.name, "algorithm": rule.algorithm, "protocol": rule.protocol,
        "publicport": rule.public.to_string(), "privateport": rule.private.to_string(),
        "state": rule.state.word(), "cidrlist": "", "fordisplay": true,
    }));
    put_ip(&mut map, state, rule.ip, "publicipid", "publicip");
    if let Some(ip) = state.ip(rule.ip) {
        put_owner(&mut map, state, ip.owner);
    }
    put_zone(&mut map, state);
    map.insert("tags".to_owned(), json!(tags(state, rule.id)));
    Value::Object(map)
}

/// A disk.
pub(crate) fn volume(state: &CloudState, disk: &Volume) -> Value {
    let mut map = object(json!({
        "id": disk.id, "name": disk.name, "type": if disk.data { "DATADISK" } else { "ROOT" },
        "size": disk.bytes, "state": "Ready", "created": date(disk.created),
    }));
    if let Some(vm) = disk.vm.and_then(|id| state.vm(id)) {
        map.insert("virtualmachineid".to_owned(), json!(vm.id));
        map.insert("vmname".to_owned(), json!(vm.name));
        map.insert("vmstate".to_owned(), json!(vm.state.word()));
    }
    put_owner(&mut map, state, disk.owner);
    put_zone(&mut map, state);
    Value::Object(map)
}

/// A service offering.
pub(crate) fn offering(offering: &Offering) -> Value {
    json!({
        "id": offering.id, "name": offering.name, "displaytext": offering.name, "cpunumber": offering.cpu,
        "cpuspeed": offering.speed, "memory": offering.memory, "iscustomized": false, "issystem": false,
        "offerha": false, "limitcpuuse": false, "isvolatile": false, "defaultuse": false, "state": "Active",
        "storagetype": "shared",
    })
}

/// A template.
pub(crate) fn template(state: &CloudState, template: &Template) -> Value {
    let mut map = object(json!({
        "id": template.id, "name": template.name, "displaytext": template.name, "isready": true,
        "ispublic": !template.system, "isfeatured": !template.system, "isextractable": false,
        "crossZones": true, "hypervisor": "Simulator", "format": "QCOW2", "arch": "x86_64", "forcks": !template.system,
        "templatetype": if template.system { "SYSTEM" } else { "USER" }, "status": "Download Complete",
        "account": "admin", "passwordenabled": false, "isdynamicallyscalable": false, "tags": [],
    }));
    put_zone(&mut map, state);
    Value::Object(map)
}

/// An ISO.
pub(crate) fn iso(state: &CloudState, iso: &Iso) -> Value {
    let mut map = object(json!({
        "id": iso.id, "name": iso.name, "displaytext": iso.name, "isready": iso.ready, "ispublic": true,
        "isfeatured": false, "bootable": false, "isextractable": false, "url": iso.url, "size": iso.bytes,
        "status": if iso.ready { "Successfully Installed" } else { "Not ready" }, "created": date(iso.created),
        "account": "admin", "arch": "x86_64", "tags": [],
    }));
    put_zone(&mut map, state);
    Value::Object(map)
}

/// A job, as `queryAsyncJobResult` shows it.
pub(crate) fn job(state: &CloudState, job: &Job) -> Value {
    let mut map = object(json!({"jobid": job.id, "userid": job.user}));
    if let Some(user) = state.user(job.user) {
        map.insert("accountid".to_owned(), json!(user.account));
        put_owner(&mut map, state, Owner::Account(user.account));
    }
    map.insert("cmd".to_owned(), json!(format!("lab.cloud.{}", job.command)));
    map.insert("jobstatus".to_owned(), json!(job.status));
    map.insert("jobprocstatus".to_owned(), json!(0));
    map.insert("jobresultcode".to_owned(), json!(job.code));
    if let Some(result) = &job.result {
        map.insert("jobresulttype".to_owned(), json!("object"));
        map.insert("jobresult".to_owned(), result.clone());
    }
    if let Some((kind, id)) = &job.instance {
        map.insert("jobinstancetype".to_owned(), json!(kind));
        map.insert("jobinstanceid".to_owned(), json!(id));
    }
    map.insert("created".to_owned(), json!(date(job.created)));
    put(&mut map, "completed", job.completed.map(date));
    Value::Object(map)
}
