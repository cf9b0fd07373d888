//! Small facts for the tests of decisions.

use std::net::{IpAddr, Ipv4Addr};

use uuid::Uuid;

use crate::domain::cluster::{Member, Role};
use crate::domain::id::{NetworkId, PublicIpId, RuleId, VmId};
use crate::domain::observed::{Budget, ForwardingRule, KubeNode, Machine, MachineState, Nic, Pod};

/// The machine with this number.
pub(crate) fn vm(number: u8) -> VmId {
    VmId(Uuid::from_u128(
        0x1000_0000_0000_4000_8000_0000_0000_0000 + u128::from(number),
    ))
}

/// The address with this number.
pub(crate) fn address(number: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, number))
}

/// A worker member.
pub(crate) fn member(number: u8, name: &str) -> Member {
    Member {
        key: i64::from(number),
        vm_id: vm(number),
        vm_name: name.to_owned(),
        role: if name.starts_with("cp") {
            Role::Control
        } else {
            Role::Worker
        },
        external: false,
        manual_upgrade: false,
        node_version: Some("1.32.5".to_owned()),
        node: None,
        host_keys: vec!["ssh-ed25519 AAAA".to_owned()],
    }
}

/// Its running machine, two cores and 4 GB, address of its number.
pub(crate) fn machine(number: u8, name: &str) -> Machine {
    Machine {
        id: vm(number),
        name: name.to_owned(),
        display_name: name.to_owned(),
        state: MachineState::Running,
        account: Some("admin".to_owned()),
        domain_id: None,
        project_id: None,
        zone_id: None,
        offering_id: None,
        cpu_number: 2,
        memory_mb: 4096,
        template_id: None,
        key_pair: None,
        nics: vec![Nic {
            network_id: NetworkId(Uuid::from_u128(5)),
            address: Some(address(number)),
        }],
        iso_id: None,
        backup_offering_id: None,
        delete_protection: false,
        vm_type: None,
        created: None,
        raw: serde_json::Value::Null,
    }
}

/// A Ready node with the system UUID and the address of machine `number`.
pub(crate) fn node(name: &str, number: u8) -> KubeNode {
    KubeNode {
        name: name.to_owned(),
        unschedulable: false,
        ready: true,
        ready_since: None,
        kubelet_version: "v1.32.5".to_owned(),
        system_uuid: Some(vm(number).to_string()),
        provider_id: None,
        addresses: vec![address(number)],
        host_name: Some(name.to_owned()),
        control_plane: name.starts_with("cp"),
    }
}

/// A forwarding rule of address 9 to machine `number`.
pub(crate) fn rule(number: u8, public_port: u16, private_port: u16) -> ForwardingRule {
    ForwardingRule {
        id: RuleId(Uuid::from_u128(u128::from(public_port))),
        ip_id: PublicIpId(Uuid::from_u128(9)),
        address: address(9),
        public_port,
        public_end_port: public_port,
        private_port,
        protocol: "tcp".to_owned(),
        vm_id: Some(vm(number)),
        revoked: false,
    }
}

/// A running pod of a ReplicaSet with the label `app`.
pub(crate) fn pod(name: &str, app: &str) -> Pod {
    Pod {
        namespace: "shop".to_owned(),
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        phase: "Running".to_owned(),
        ready: true,
        deleting_since: None,
        controller: Some("ReplicaSet".to_owned()),
        mirror: false,
        empty_dir: false,
        finalizers: Vec::new(),
        labels: [("app".to_owned(), app.to_owned())].into(),
        claims: Vec::new(),
    }
}

/// A budget on the label `app` that allows `allowed` now.
pub(crate) fn budget(name: &str, app: &str, allowed: i64) -> Budget {
    Budget {
        namespace: "shop".to_owned(),
        name: name.to_owned(),
        selector: serde_json::json!({ "matchLabels": { "app": app } }),
        disruptions_allowed: allowed,
        current_healthy: 4,
        desired_healthy: 4 - allowed,
    }
}
