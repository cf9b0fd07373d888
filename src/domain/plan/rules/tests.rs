//! `behaviour.md` 6.9, BL-08, BL-05 ("a worker added later got the next free port").

use uuid::Uuid;

use super::*;
use crate::domain::plan::fixtures::{address, rule, vm};

fn firewall(protocol: &str, start: Option<u16>, end: Option<u16>) -> FirewallRule {
    FirewallRule {
        id: RuleId(Uuid::from_u128(1)),
        ip_id: PublicIpId(Uuid::from_u128(9)),
        protocol: protocol.to_owned(),
        start_port: start,
        end_port: end,
        revoked: false,
    }
}

fn own(number: u128, kind: RuleKind, vm_id: Option<VmId>, port: u16, end: u16) -> OwnRule {
    OwnRule {
        id: RuleId(Uuid::from_u128(number)),
        kind,
        vm_id,
        ssh: true,
        ip_id: PublicIpId(Uuid::from_u128(9)),
        address: address(9),
        public_port: port,
        public_end_port: end,
    }
}

#[test]
fn a_new_node_gets_the_lowest_free_port_from_2222_up() {
    let rules = [rule(1, 2222, 22), rule(2, 2223, 22), rule(3, 2225, 22)];
    assert_eq!(free_port(address(9), &rules, &BTreeSet::new()), Ok(2224));
}

#[test]
fn a_port_whose_rule_is_being_removed_is_not_free() {
    let mut revoked = rule(1, 2222, 22);
    revoked.revoked = true;
    assert_eq!(free_port(address(9), &[revoked], &BTreeSet::new()), Ok(2223));
}

#[test]
fn a_range_takes_all_its_ports_and_a_plan_gives_no_port_twice() {
    let mut range = rule(1, 2222, 22);
    range.public_end_port = 2230;
    assert_eq!(
        free_port(address(9), &[range], &BTreeSet::from([2231, 2232])),
        Ok(2233)
    );
}

#[test]
fn another_address_does_not_matter() {
    let mut other = rule(1, 2222, 22);
    other.address = address(8);
    assert_eq!(free_port(address(9), &[other], &BTreeSet::new()), Ok(2222));
}

#[test]
fn a_port_in_an_existing_range_is_open() {
    let rules = [
        firewall("tcp", Some(50000), None),
        firewall("TCP", Some(2222), Some(2224)),
    ];
    assert!(is_open(&rules, 2224));
    assert!(!is_open(&rules, 2225));
    assert!(is_open(&[firewall("all", None, None)], 2225));
    assert!(!is_open(&[firewall("udp", Some(2222), Some(2230))], 2225));
}

#[test]
fn a_firewall_rule_that_is_being_removed_lets_nothing_in() {
    let mut rule = firewall("tcp", Some(2222), Some(2230));
    rule.revoked = true;
    assert!(!is_open(&[rule], 2225));
}

#[test]
fn only_our_own_rules_of_the_machine_leave_with_it() {
    let rules = [
        own(1, RuleKind::Firewall, None, 2222, 2224),
        own(2, RuleKind::Forwarding, Some(vm(3)), 2224, 2224),
        own(3, RuleKind::Firewall, Some(vm(3)), 2224, 2224),
        own(4, RuleKind::Forwarding, Some(vm(2)), 2223, 2223),
    ];
    let ids: Vec<RuleId> = leaving_with(&rules, vm(3), Some(2222))
        .iter()
        .map(|rule| rule.id)
        .collect();
    assert_eq!(ids, [rules[1].id, rules[2].id]);
}

#[test]
fn the_rule_by_which_the_cluster_is_reached_stays() {
    let rules = [own(2, RuleKind::Forwarding, Some(vm(3)), 2222, 2222)];
    assert_eq!(leaving_with(&rules, vm(3), Some(2222)), []);
}

#[test]
fn reconciling_drops_rules_of_machines_that_left_and_finds_members_without_one() {
    let rules = [
        own(1, RuleKind::Firewall, None, 2222, 2224),
        own(2, RuleKind::Forwarding, Some(vm(9)), 2224, 2224),
        own(4, RuleKind::Forwarding, Some(vm(2)), 2223, 2223),
    ];
    let present = [rule(2, 2223, 22)];
    let wanted = reconcile(&rules, &present, &[vm(1), vm(2)]);
    assert_eq!(wanted.drop, [rules[1].clone()]);
    assert_eq!(wanted.missing, [vm(1)]);
}
