//! `behaviour.md` 6.1, BL-13 and BL-31.

use super::*;
use crate::domain::cluster::Member;
use crate::domain::observed::{ForwardingRule, Machine, MachineState};
use crate::domain::plan::fixtures::{address, machine, member, node, vm};
use crate::domain::plan::resolve::{Facts, Reach, resolve};

/// `c1+w3`: `cp-1` is machine 1, `wk-1` to `wk-3` are 2 to 4, oldest first.
struct World {
    members: Vec<Member>,
    machines: Vec<Machine>,
    nodes: Vec<KubeNode>,
    drained: Vec<u8>,
}

fn world() -> World {
    let names = ["cp-1", "wk-1", "wk-2", "wk-3"];
    let numbered = || names.iter().zip(1u8..);
    World {
        members: numbered().map(|(name, number)| member(number, name)).collect(),
        machines: numbered().map(|(name, number)| machine(number, name)).collect(),
        nodes: numbered().map(|(name, number)| node(name, number)).collect(),
        drained: Vec::new(),
    }
}

impl World {
    fn off(mut self, number: u8, state: MachineState) -> Self {
        self.machines
            .iter_mut()
            .find(|machine| machine.id == vm(number))
            .unwrap()
            .state = state;
        self
    }

    fn not_ready(mut self, name: &str) -> Self {
        self.nodes
            .iter_mut()
            .find(|node| node.name == name)
            .unwrap()
            .ready = false;
        self
    }

    fn choose(&self, wanted: &Wanted) -> Result<Choice, ChoiceError> {
        let rules: &[ForwardingRule] = &[];
        let resolved = resolve(Facts {
            members: &self.members,
            machines: &self.machines,
            nodes: &self.nodes,
            rules,
            reach: Reach::Forwarded { address: address(9) },
        })
        .unwrap();
        let candidates: Vec<Candidate<'_>> = resolved
            .iter()
            .map(|member| Candidate {
                member,
                node: self
                    .nodes
                    .iter()
                    .find(|node| Some(node.name.as_str()) == member.node.name()),
                drained: self.drained.iter().any(|number| vm(*number) == member.vm_id),
            })
            .collect();
        choose(&candidates, wanted)
    }

    fn leaving(&self, size: i64) -> Vec<(VmId, Reason)> {
        let choice = self.choose(&Wanted::Size(size)).unwrap();
        choice
            .leaving
            .into_iter()
            .map(|one| (one.vm_id, one.reason))
            .collect()
    }
}

#[test]
fn by_size_the_newest_workers_leave_first() {
    assert_eq!(
        world().leaving(1),
        [(vm(4), Reason::Newest), (vm(3), Reason::Newest)]
    );
}

#[test]
fn by_size_control_nodes_never_leave() {
    assert_eq!(world().leaving(0).len(), 3);
}

#[test]
fn a_worker_that_is_down_leaves_before_all_others() {
    let world = world()
        .off(2, MachineState::Stopped)
        .not_ready("wk-1")
        .not_ready("wk-2");
    assert_eq!(
        world.leaving(0),
        [
            (vm(2), Reason::Down),
            (vm(3), Reason::NotReady),
            (vm(4), Reason::Newest)
        ]
    );
}

#[test]
fn a_worker_that_is_drained_already_leaves_before_a_newer_one_that_works() {
    let mut world = world();
    world.drained = vec![2];
    assert_eq!(world.leaving(2), [(vm(2), Reason::Drained)]);
}

#[test]
fn each_state_that_is_surely_off_counts_and_no_other() {
    for state in [
        MachineState::Stopped,
        MachineState::Destroyed,
        MachineState::Expunging,
    ] {
        assert_eq!(
            world().off(2, state).not_ready("wk-1").leaving(2),
            [(vm(2), Reason::Down)]
        );
    }
    for state in [
        MachineState::Starting,
        MachineState::Stopping,
        MachineState::Migrating,
        MachineState::Error,
        MachineState::Other("Shutdown".into()),
    ] {
        assert_eq!(
            world().off(2, state).not_ready("wk-1").leaving(2),
            [(vm(2), Reason::NotReady)]
        );
    }
}

#[test]
fn a_machine_that_the_cloud_does_not_have_counts_as_off() {
    let mut world = world().not_ready("wk-1");
    world.machines.retain(|machine| machine.id != vm(2));
    assert_eq!(world.leaving(2), [(vm(2), Reason::Down)]);
}

#[test]
fn a_cloud_that_shows_nothing_at_all_calls_no_machine_off() {
    let mut world = world().not_ready("wk-1");
    world.machines.clear();
    assert_eq!(world.leaving(2), [(vm(2), Reason::NotReady)]);
}

#[test]
fn a_disagreement_is_passed_over_by_size_and_named() {
    let world = world().off(4, MachineState::Stopped);
    let choice = world.choose(&Wanted::Size(2)).unwrap();
    assert_eq!(
        choice.leaving,
        [Leaving {
            vm_id: vm(3),
            reason: Reason::Newest
        }]
    );
    assert_eq!(
        choice.passed_over,
        ["VM wk-3 is Stopped in the cloud but its node wk-3 is Ready"]
    );
}

#[test]
fn a_disagreement_refuses_by_size_only_when_too_few_others_are_left() {
    let error = world()
        .off(4, MachineState::Stopped)
        .choose(&Wanted::Size(0))
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "3 workers would have to leave but only 2 can: the cloud and Kubernetes disagree about VM wk-3 is \
         Stopped in the cloud but its node wk-3 is Ready"
    );
}

#[test]
fn a_disagreement_refuses_by_id_with_both_named() {
    let error = world()
        .off(4, MachineState::Stopped)
        .choose(&Wanted::Nodes(vec![vm(4)]))
        .unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("VM wk-3 is Stopped") && text.contains("node wk-3 is Ready"),
        "{text}"
    );
}

#[test]
fn by_id_exactly_those_leave_and_a_doubled_id_counts_once() {
    let choice = world().choose(&Wanted::Nodes(vec![vm(2), vm(3), vm(2)])).unwrap();
    let ids: Vec<VmId> = choice.leaving.iter().map(|one| one.vm_id).collect();
    assert_eq!(ids, [vm(3), vm(2)]);
}

#[test]
fn by_id_the_whole_list_is_checked_and_the_offender_named() {
    let world = world();
    let refused = |ids: Vec<VmId>| world.choose(&Wanted::Nodes(ids)).unwrap_err();
    assert_eq!(refused(vec![vm(2), vm(77)]), ChoiceError::NotAMember(vm(77)));
    assert!(
        refused(vec![vm(2), vm(1)])
            .to_string()
            .contains("etcd membership is not managed")
    );
    assert_eq!(refused(vec![vm(2), vm(3), vm(4)]), ChoiceError::AllWorkers);
}

#[test]
fn an_external_worker_is_never_chosen_and_refused_by_id() {
    let mut world = world();
    world.members[3].external = true;
    assert_eq!(world.leaving(2), [(vm(3), Reason::Newest)]);
    let refused = world.choose(&Wanted::Nodes(vec![vm(4)])).unwrap_err();
    assert!(matches!(refused, ChoiceError::ExternalNode { .. }));
    let error = world.choose(&Wanted::Size(0)).unwrap_err();
    assert!(
        error.to_string().ends_with("the others are external nodes"),
        "{error}"
    );
}

#[test]
fn nothing_leaves_when_the_size_is_reached_already() {
    assert_eq!(world().leaving(3), []);
}

#[test]
fn a_worker_whose_node_is_gone_leaves_before_one_that_works() {
    let mut world = world();
    world.members[1].node = Some(crate::domain::cluster::MatchedNode {
        name: "wk-1".into(),
        system_uuid: None,
        provider_id: None,
    });
    world.nodes.retain(|node| node.name != "wk-1");
    assert_eq!(world.leaving(2), [(vm(2), Reason::NotReady)]);
}
