//! `behaviour.md` 4, sentence by sentence.

use super::*;
use crate::domain::plan::fixtures::{address, machine, member, node, rule, vm};

fn facts<'a>(
    members: &'a [Member],
    machines: &'a [Machine],
    nodes: &'a [KubeNode],
    rules: &'a [ForwardingRule],
) -> Facts<'a> {
    Facts {
        members,
        machines,
        nodes,
        rules,
        reach: Reach::Forwarded { address: address(9) },
    }
}

fn present(resolved: &Resolved) -> &str {
    match &resolved.node {
        NodeWitness::Present(node) => &node.name,
        other => panic!("not present: {other:?}"),
    }
}

#[test]
fn a_node_is_matched_by_the_provider_id() {
    let mut odd = node("some-name", 7);
    odd.provider_id = Some(format!("cloudstack:///{}", vm(1)));
    odd.system_uuid = None;
    let found = resolve(facts(&[member(1, "wk-1")], &[machine(1, "wk-1")], &[odd], &[])).unwrap();
    assert_eq!(present(&found[0]), "some-name");
}

#[test]
fn a_node_is_matched_by_the_system_uuid_in_any_case() {
    let mut odd = node("some-name", 7);
    odd.system_uuid = Some(vm(1).to_string().to_uppercase());
    let found = resolve(facts(&[member(1, "wk-1")], &[machine(1, "wk-1")], &[odd], &[])).unwrap();
    assert_eq!(present(&found[0]), "some-name");
}

#[test]
fn a_node_is_matched_by_an_address_though_its_hypervisor_shows_another_uuid() {
    let mut odd = node("some-name", 1);
    odd.system_uuid = Some("11111111-2222-3333-4444-555555555555".into());
    let found = resolve(facts(&[member(1, "wk-1")], &[machine(1, "wk-1")], &[odd], &[])).unwrap();
    assert_eq!(present(&found[0]), "some-name");
}

#[test]
fn an_address_that_went_to_another_member_does_not_match() {
    let mut moved = node("wk-2", 1);
    moved.system_uuid = Some(vm(2).to_string());
    let found = resolve(facts(
        &[member(1, "wk-1"), member(2, "wk-2")],
        &[machine(1, "wk-1"), machine(2, "wk-2")],
        &[moved],
        &[],
    ));
    assert!(matches!(found, Err(ResolveError::NoMatch { vm_id, .. }) if vm_id == vm(1)));
}

#[test]
fn a_name_matches_last_with_case_and_domain_folded() {
    let mut bare = node("wk-1.example.org", 7);
    bare.system_uuid = None;
    let found = resolve(facts(&[member(1, "WK-1")], &[machine(1, "WK-1")], &[bare], &[])).unwrap();
    assert_eq!(present(&found[0]), "wk-1.example.org");
}

#[test]
fn a_name_with_another_machines_id_is_an_error() {
    let mut other = node("wk-1", 7);
    other.system_uuid = Some(vm(99).to_string());
    let found = resolve(facts(&[member(1, "wk-1")], &[machine(1, "wk-1")], &[other], &[]));
    let text = found.unwrap_err().to_string();
    assert!(
        text.contains("wk-1") && text.contains(&vm(99).to_string()),
        "{text}"
    );
}

#[test]
fn two_matches_are_an_error_that_names_both() {
    let mut first = node("wk-1", 1);
    first.system_uuid = Some(vm(1).to_string());
    let mut second = node("copy", 5);
    second.provider_id = Some(format!("cloudstack:///{}", vm(1)));
    let found = resolve(facts(
        &[member(1, "wk-1")],
        &[machine(1, "wk-1")],
        &[first, second],
        &[],
    ));
    let text = found.unwrap_err().to_string();
    assert!(text.contains("wk-1, copy"), "{text}");
}

#[test]
fn one_node_never_stands_for_two_members() {
    let mut both = node("wk-1", 2);
    both.system_uuid = None;
    let found = resolve(facts(
        &[member(1, "wk-1"), member(2, "wk-2")],
        &[machine(1, "wk-1"), machine(2, "wk-2")],
        &[both],
        &[],
    ));
    assert!(matches!(found, Err(ResolveError::SharedNode { .. })), "{found:?}");
}

#[test]
fn without_a_match_a_node_is_gone_when_one_was_known() {
    let mut known = member(1, "wk-1");
    known.node = Some(MatchedNode {
        name: "wk-1".into(),
        system_uuid: None,
        provider_id: None,
    });
    let found = resolve(facts(&[known.clone()], &[machine(1, "wk-1")], &[], &[])).unwrap();
    assert_eq!(found[0].node, NodeWitness::Gone(known.node));
}

#[test]
fn without_a_match_a_node_is_gone_when_the_cloud_has_no_such_machine() {
    let found = resolve(facts(
        &[member(1, "wk-1"), member(2, "wk-2")],
        &[machine(2, "wk-2")],
        &[node("wk-2", 2)],
        &[],
    ))
    .unwrap();
    assert_eq!(found[0].node, NodeWitness::Gone(None));
    assert_eq!(found[0].machine, MachineWitness::NoSuchMachine);
}

#[test]
fn without_a_match_and_never_seen_it_is_an_error() {
    let found = resolve(facts(&[member(1, "wk-1")], &[machine(1, "wk-1")], &[], &[]));
    assert!(matches!(found, Err(ResolveError::NoMatch { .. })));
}

#[test]
fn a_cloud_that_shows_no_member_at_all_is_no_witness() {
    let found = resolve(facts(&[member(1, "wk-1")], &[], &[node("wk-1", 1)], &[])).unwrap();
    assert_eq!(found[0].machine, MachineWitness::Unknown);
    assert!(!found[0].machine.off());
}

#[test]
fn an_etcd_machine_has_no_node() {
    let mut etcd = member(1, "et-1");
    etcd.role = Role::Etcd;
    let found = resolve(facts(&[etcd], &[machine(1, "et-1")], &[], &[rule(1, 50000, 22)])).unwrap();
    assert_eq!(found[0].node, NodeWitness::NotExpected);
    assert_eq!(found[0].endpoint.unwrap().port, 50000);
}

#[test]
fn the_endpoint_is_the_machines_own_rule_not_its_place_in_the_list() {
    let members = [member(1, "cp-1"), member(2, "cp-2"), member(3, "wk-1")];
    let machines = [machine(1, "cp-1"), machine(2, "cp-2"), machine(3, "wk-1")];
    let nodes = [node("cp-1", 1), node("cp-2", 2), node("wk-1", 3)];
    let rules = [
        rule(1, 2222, 22),
        rule(2, 2224, 22),
        rule(3, 2223, 22),
        rule(3, 30000, 80),
    ];
    let found = resolve(facts(&members, &machines, &nodes, &rules)).unwrap();
    let ports: Vec<u16> = found.iter().map(|one| one.endpoint.unwrap().port).collect();
    assert_eq!(ports, [2222, 2224, 2223]);
    assert!(found.iter().all(|one| !one.endpoint.unwrap().guess));
}

#[test]
fn a_rule_that_is_being_revoked_is_ignored_and_the_place_in_the_list_is_only_a_guess() {
    let mut revoked = rule(2, 2300, 22);
    revoked.revoked = true;
    let members = [member(1, "cp-1"), member(2, "wk-1")];
    let machines = [machine(1, "cp-1"), machine(2, "wk-1")];
    let nodes = [node("cp-1", 1), node("wk-1", 2)];
    let found = resolve(facts(&members, &machines, &nodes, &[rule(1, 2222, 22), revoked])).unwrap();
    assert_eq!(
        found[1].endpoint,
        Some(Endpoint {
            address: address(9),
            port: 2223,
            guess: true
        })
    );
}

#[test]
fn a_guess_never_falls_on_another_machines_rule() {
    let members = [member(1, "cp-1"), member(2, "wk-1")];
    let machines = [machine(1, "cp-1"), machine(2, "wk-1")];
    let nodes = [node("cp-1", 1), node("wk-1", 2)];
    let found = resolve(facts(&members, &machines, &nodes, &[rule(1, 2223, 22)])).unwrap();
    assert_eq!(found[1].endpoint, None);
}

#[test]
fn a_rule_on_another_address_or_of_udp_does_not_count() {
    let mut elsewhere = rule(1, 2230, 22);
    elsewhere.address = address(8);
    let mut udp = rule(1, 2231, 22);
    udp.protocol = "udp".into();
    assert_eq!(forwarded_port(&[elsewhere, udp], address(9), vm(1)), None);
}

#[test]
fn shared_and_routed_networks_use_the_private_address_and_the_nodes_port() {
    let members = [member(1, "wk-1")];
    let machines = [machine(1, "wk-1")];
    let nodes = [node("wk-1", 1)];
    let mut facts = facts(&members, &machines, &nodes, &[]);
    facts.reach = Reach::Direct { port: 2022 };
    let found = resolve(facts).unwrap();
    assert_eq!(
        found[0].endpoint,
        Some(Endpoint {
            address: address(1),
            port: 2022,
            guess: false
        })
    );
}
