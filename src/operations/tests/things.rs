//! Machines, nodes, pods and budgets as a world begins with them.

use std::net::{IpAddr, Ipv4Addr};

use super::world::{fixed, network_id, offering_id, template_id, zone_id};
use crate::domain::observed::{Budget, KubeNode, Machine, MachineState, Nic, Pod};

/// A machine of two cores and 4 GB.
pub(super) fn machine(number: u8, name: &str) -> Machine {
    Machine {
        id: fixed(u128::from(number)).into(),
        name: name.to_owned(),
        display_name: name.to_owned(),
        state: MachineState::Running,
        account: Some("admin".into()),
        domain_id: None,
        project_id: None,
        zone_id: Some(zone_id()),
        offering_id: Some(offering_id()),
        cpu_number: 2,
        memory_mb: 4096,
        template_id: Some(template_id()),
        key_pair: None,
        nics: vec![Nic {
            network_id: network_id(),
            address: Some(IpAddr::V4(Ipv4Addr::new(10, 1, 1, number))),
        }],
        iso_id: None,
        backup_offering_id: None,
        delete_protection: false,
        vm_type: None,
        created: None,
        raw: serde_json::json!({ "id": fixed(u128::from(number)), "name": name }),
    }
}

/// The Ready node of a machine.
pub(super) fn node(machine: &Machine) -> KubeNode {
    KubeNode {
        name: machine.name.clone(),
        unschedulable: false,
        ready: true,
        ready_since: None,
        kubelet_version: "v1.32.5".into(),
        system_uuid: Some(machine.id.to_string()),
        provider_id: None,
        addresses: machine.nics.iter().filter_map(|nic| nic.address).collect(),
        host_name: Some(machine.name.clone()),
        control_plane: machine.name.starts_with("cp"),
    }
}

/// A running pod with the label `app`.
pub(super) fn pod(name: &str, app: &str) -> Pod {
    Pod {
        namespace: "shop".into(),
        name: name.into(),
        uid: format!("uid-{name}"),
        phase: "Running".into(),
        ready: true,
        deleting_since: None,
        controller: Some("ReplicaSet".into()),
        mirror: false,
        empty_dir: false,
        finalizers: Vec::new(),
        labels: [("app".to_owned(), app.to_owned())].into(),
        claims: Vec::new(),
    }
}

/// A budget on the label `app`.
pub(super) fn budget(app: &str, allowed: i64) -> Budget {
    Budget {
        namespace: "shop".into(),
        name: app.into(),
        selector: serde_json::json!({ "matchLabels": { "app": app } }),
        disruptions_allowed: allowed,
        current_healthy: 4,
        desired_healthy: 4 - allowed,
    }
}
