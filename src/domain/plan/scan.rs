//! What the state scanner makes of one cluster, from one walk over all machines (`behaviour.md` 11).

use crate::domain::cluster::{Member, State};
use crate::domain::observed::{Machine, MachineState};

/// What is to be done with a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// It is as its state says, or its state is none that the scanner looks at.
    Fine,
    /// Machines are not as its state says: it goes to Alert, for this reason.
    Fault(String),
    /// In Alert with all machines Running: worth a look at its nodes.
    LookCloser,
    /// In Alert with all machines Stopped: it is Stopped.
    AllStopped,
    /// The cloud shows none of its machines; our keys may have lost sight of the owner. No state changes.
    Unknown(String),
}

/// Judges one cluster. `machines` are all that the walk found, of every cluster.
#[must_use]
pub fn judge(state: State, members: &[Member], machines: &[Machine]) -> Finding {
    if !matches!(state, State::Running | State::Stopped | State::Alert) || members.is_empty() {
        return Finding::Fine;
    }
    let seen: Vec<(&Member, Option<&Machine>)> = members
        .iter()
        .map(|member| (member, machines.iter().find(|machine| machine.id == member.vm_id)))
        .collect();
    if seen.iter().all(|(_, machine)| machine.is_none()) {
        return Finding::Unknown("the cloud shows none of its VMs to the service's keys".to_owned());
    }
    let others = |fits: fn(&MachineState) -> bool| -> Vec<String> {
        seen.iter()
            .filter(|(_, machine)| !machine.is_some_and(|machine| fits(&machine.state)))
            .map(|(member, machine)| {
                let state = machine.map_or_else(|| "gone".to_owned(), |machine| word(&machine.state));
                format!("VM {} is {state}", member.vm_name)
            })
            .collect()
    };
    let not_running = others(|state| matches!(state, MachineState::Running | MachineState::Migrating));
    let not_stopped = others(|state| *state == MachineState::Stopped);
    match state {
        State::Running if not_running.is_empty() => Finding::Fine,
        State::Running => Finding::Fault(not_running.join("; ")),
        State::Stopped if not_stopped.is_empty() => Finding::Fine,
        State::Stopped => Finding::Fault(not_stopped.join("; ")),
        _ if not_running.is_empty() => Finding::LookCloser,
        _ if not_stopped.is_empty() => Finding::AllStopped,
        _ => Finding::Fine,
    }
}

fn word(state: &MachineState) -> String {
    match state {
        MachineState::Other(word) => word.clone(),
        known => format!("{known:?}"),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::domain::plan::fixtures;

    fn world(states: &[Option<MachineState>]) -> (Vec<Member>, Vec<Machine>) {
        let names: Vec<(u8, String)> = (1..)
            .zip(states)
            .map(|(number, _)| (number, format!("wk-{number}")))
            .collect();
        let members = names
            .iter()
            .map(|(number, name)| fixtures::member(*number, name))
            .collect();
        let machines = names.iter().zip(states).filter_map(|((number, name), state)| {
            Some(Machine {
                state: state.clone()?,
                ..fixtures::machine(*number, name)
            })
        });
        (members, machines.collect())
    }

    #[rstest]
    #[case(State::Running, [Some(MachineState::Running), Some(MachineState::Migrating)], Finding::Fine)]
    #[case(State::Alert, [Some(MachineState::Running), Some(MachineState::Running)], Finding::LookCloser)]
    #[case(State::Alert, [Some(MachineState::Stopped), Some(MachineState::Stopped)], Finding::AllStopped)]
    #[case(State::Alert, [Some(MachineState::Stopped), Some(MachineState::Running)], Finding::Fine)]
    #[case(State::Stopped, [Some(MachineState::Stopped), Some(MachineState::Stopped)], Finding::Fine)]
    #[case(State::Scaling, [Some(MachineState::Stopped), None], Finding::Fine)]
    fn a_cluster_is_judged_by_its_machines(
        #[case] state: State,
        #[case] states: [Option<MachineState>; 2],
        #[case] finding: Finding,
    ) {
        let (members, machines) = world(&states);
        assert_eq!(judge(state, &members, &machines), finding);
    }

    #[test]
    fn a_fault_names_each_machine_and_its_state() {
        let (members, machines) = world(&[Some(MachineState::Stopped), None, Some(MachineState::Running)]);
        let Finding::Fault(reason) = judge(State::Running, &members, &machines) else {
            panic!("no fault")
        };
        assert!(
            reason.contains(&format!("VM {} is Stopped", members[0].vm_name)),
            "{reason}"
        );
        assert!(
            reason.contains(&format!("VM {} is gone", members[1].vm_name)),
            "{reason}"
        );
    }

    #[test]
    fn a_cloud_that_shows_nothing_changes_nothing() {
        let (members, machines) = world(&[None, None]);
        assert!(matches!(
            judge(State::Running, &members, &machines),
            Finding::Unknown(_)
        ));
    }
}
