//! `behaviour.md` 3, the decision on how a failed operation settles.

use uuid::Uuid;

use super::*;
use crate::domain::cluster::{ClusterType, State};
use crate::domain::id::{AccountId, ClusterId, DomainId, ZoneId};
use crate::domain::observed::{Machine, MachineState};
use crate::domain::plan::fixtures::{address, machine, member, node};
use crate::domain::plan::resolve::{Facts, Reach, resolve};

struct World {
    cluster: Cluster,
    members: Vec<Member>,
    machines: Vec<Machine>,
    nodes: Vec<KubeNode>,
    record: Option<UpgradeRecord>,
}

fn world() -> World {
    World {
        cluster: cluster(1, 2),
        members: vec![member(1, "cp-1"), member(2, "wk-1"), member(3, "wk-2")],
        machines: vec![machine(1, "cp-1"), machine(2, "wk-1"), machine(3, "wk-2")],
        nodes: vec![node("cp-1", 1), node("wk-1", 2), node("wk-2", 3)],
        record: None,
    }
}

fn cluster(control: i64, workers: i64) -> Cluster {
    Cluster {
        key: 1,
        id: ClusterId(Uuid::from_u128(1)),
        name: "blue".into(),
        description: None,
        zone_id: ZoneId(Uuid::from_u128(2)),
        version_id: None,
        semantic_version: Some("1.32.5".into()),
        service_offering_id: None,
        control_offering_id: None,
        worker_offering_id: None,
        etcd_offering_id: None,
        template_id: None,
        worker_template_id: None,
        network_id: None,
        control_count: control,
        node_count: workers,
        etcd_count: 0,
        account_id: AccountId(Uuid::from_u128(3)),
        domain_id: DomainId(Uuid::from_u128(4)),
        project_id: None,
        state: State::Scaling,
        generation: 2,
        key_pair: None,
        cores: 6,
        memory_mb: 12288,
        endpoint: None,
        cluster_type: ClusterType::CloudManaged,
        autoscaling_enabled: false,
        min_size: None,
        max_size: None,
        created: "2026-11-30T12:00:00Z".parse().unwrap(),
    }
}

impl World {
    fn judge(&self) -> Verdict {
        let resolved = resolve(Facts {
            members: &self.members,
            machines: &self.machines,
            nodes: &self.nodes,
            rules: &[],
            reach: Reach::Forwarded { address: address(9) },
        })
        .unwrap();
        let upgrade = unfinished_upgrade(
            self.record.as_ref(),
            self.cluster.semantic_version.as_deref(),
            &self.members,
            &resolved,
            &self.nodes,
        );
        judge(Evidence {
            cluster: &self.cluster,
            members: &self.members,
            resolved: &resolved,
            nodes: &self.nodes,
            unfinished_upgrade: upgrade.as_deref(),
        })
    }
}

#[test]
fn all_machines_running_all_nodes_ready_and_true_counts_mean_running() {
    let verdict = world().judge();
    assert!(verdict.healthy(), "{verdict:?}");
    assert!(verdict.reason().starts_with("by evidence"));
}

#[test]
fn a_machine_that_migrates_counts_as_running() {
    let mut world = world();
    world.machines[1].state = MachineState::Migrating;
    assert!(world.judge().healthy());
}

#[test]
fn a_machine_that_does_not_run_is_a_fault_and_named() {
    let mut world = world();
    world.machines[1].state = MachineState::Stopped;
    assert_eq!(world.judge().faults, ["VM wk-1 is Stopped"]);
}

#[test]
fn a_cordoned_node_is_no_fault_and_a_not_ready_one_is() {
    let mut world = world();
    world.nodes[1].unschedulable = true;
    assert!(world.judge().healthy());
    world.nodes[1].ready = false;
    assert_eq!(world.judge().faults, ["node wk-1 is not Ready"]);
}

#[test]
fn an_etcd_machine_needs_no_node() {
    let mut world = world();
    let mut etcd = member(5, "et-1");
    etcd.role = Role::Etcd;
    world.members.push(etcd);
    world.machines.push(machine(5, "et-1"));
    world.cluster.etcd_count = 1;
    assert!(world.judge().healthy());
}

#[test]
fn counts_that_differ_from_the_map_are_a_fault() {
    let mut world = world();
    world.cluster.node_count = 3;
    assert!(!world.judge().healthy());
}

#[test]
fn a_node_that_is_no_member_is_named_but_does_not_count() {
    let mut world = world();
    world.nodes.push(node("stranger", 77));
    let verdict = world.judge();
    assert!(verdict.healthy());
    assert_eq!(verdict.strangers, ["stranger"]);
    assert!(verdict.reason().ends_with("stranger"));
}

#[test]
fn an_upgrade_with_a_started_script_keeps_the_cluster_from_running() {
    let mut world = world();
    world.record = Some(UpgradeRecord {
        target: "1.33.1".into(),
        script_started: true,
    });
    assert!(world.judge().reason().contains("upgrade to 1.33.1 is unfinished"));
}

#[test]
fn an_upgrade_is_unfinished_when_a_managed_node_is_recorded_or_reported_at_another_version() {
    let record = Some(UpgradeRecord {
        target: "1.33.1".into(),
        script_started: false,
    });
    let mut recorded = world();
    recorded.record = record.clone();
    recorded.members[1].node_version = Some("1.33.1".into());
    assert!(!recorded.judge().healthy());
    let mut reported = world();
    reported.record = record.clone();
    reported.nodes[1].kubelet_version = "v1.33.1".into();
    assert!(!reported.judge().healthy());
    let mut by_hand = world();
    by_hand.record = record;
    by_hand.members[1].manual_upgrade = true;
    by_hand.members[1].node_version = Some("1.33.1".into());
    assert!(by_hand.judge().healthy());
}

#[test]
fn a_record_without_script_and_with_all_nodes_at_the_own_version_is_stale() {
    let mut world = world();
    world.record = Some(UpgradeRecord {
        target: "1.33.1".into(),
        script_started: false,
    });
    world.nodes[1].kubelet_version = "v1.32.5+vendor.1".into();
    assert!(world.judge().healthy());
}

#[test]
fn counts_are_per_role_and_sum_sizes() {
    let world = world();
    let counts = Counts::of(world.members.iter().map(|member| (member, (2, 4096))));
    assert_eq!(
        counts,
        Counts {
            control: 1,
            workers: 2,
            etcd: 0,
            cores: 6,
            memory_mb: 12288
        }
    );
}
