//! The state machine of a cluster. Read this first.
//!
//! Sources: `cks-facts.md` 2.1 to 2.3 (the service that we mirror) and `behaviour.md` 3 (what we add).
//! **Invariant:** the column `state` changes only by an event of this table, with compare-and-set on the
//! old state and the generation (`db::clusters::transition`).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The state of a cluster as clients see it. Names are CloudStack's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum State {
    /// Only a row exists.
    Created,
    /// Resources are being made or started.
    Starting,
    /// Usable.
    Running,
    /// Machines are being stopped.
    Stopping,
    /// All machines are off.
    Stopped,
    /// Size or offering of a running cluster is being changed.
    Scaling,
    /// The offering of a stopped cluster is being changed.
    ScalingStoppedCluster,
    /// Nodes are being moved to another Kubernetes version.
    Upgrading,
    /// External nodes are being added.
    Importing,
    /// External nodes are being removed.
    RemovingNodes,
    /// Not as desired.
    Alert,
    /// Leaving Alert.
    Recovering,
    /// Clean-up runs, or waits to be tried again.
    Destroying,
    /// The end.
    Destroyed,
    /// Creation failed.
    Error,
}

/// What happens to a cluster: a request, or a fact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Event {
    /// A start was admitted.
    StartRequested,
    /// A stop was admitted.
    StopRequested,
    /// A delete was admitted.
    DestroyRequested,
    /// The scanner saw evidence that an Alert is over.
    RecoveryRequested,
    /// Autoscaling is being switched.
    AutoscaleRequested,
    /// A growth, or a change of offering, was admitted.
    ScaleUpRequested,
    /// A shrink was admitted.
    ScaleDownRequested,
    /// Adding external nodes was admitted.
    AddNodeRequested,
    /// Removing external nodes was admitted.
    RemoveNodeRequested,
    /// An upgrade was admitted.
    UpgradeRequested,
    /// The operation reached its aim, or the evidence shows a healthy cluster.
    OperationSucceeded,
    /// The operation failed and left the cluster not as desired.
    OperationFailed,
    /// Creation failed.
    CreateFailed,
    /// Machines are not as the state says.
    FaultsDetected,
}

/// Every transition there is. Docs, tests and the database derive from it.
///
/// `GivenBack` (`behaviour.md` 3) is no row here: its target is the from-state stored with the job, see
/// [`State::given_back`].
pub const TRANSITIONS: &[(State, Event, State)] = {
    use Event::*;
    use State::*;
    &[
        (Created, StartRequested, Starting),
        (Created, DestroyRequested, Destroying),
        (Starting, OperationSucceeded, Running),
        (Starting, OperationFailed, Alert),
        (Starting, CreateFailed, Error),
        (Starting, StopRequested, Stopping),
        (Starting, FaultsDetected, Alert),
        (Running, StopRequested, Stopping),
        (Running, FaultsDetected, Alert),
        (Running, AutoscaleRequested, Scaling),
        (Running, ScaleUpRequested, Scaling),
        (Running, ScaleDownRequested, Scaling),
        (Running, UpgradeRequested, Upgrading),
        (Running, AddNodeRequested, Importing),
        (Running, RemoveNodeRequested, RemovingNodes),
        (Running, DestroyRequested, Destroying),
        (Stopping, OperationSucceeded, Stopped),
        (Stopping, OperationFailed, Alert),
        (Stopped, StartRequested, Starting),
        (Stopped, ScaleUpRequested, ScalingStoppedCluster),
        (Stopped, FaultsDetected, Alert),
        (Stopped, DestroyRequested, Destroying),
        (Scaling, OperationSucceeded, Running),
        (Scaling, OperationFailed, Alert),
        (ScalingStoppedCluster, OperationSucceeded, Stopped),
        (ScalingStoppedCluster, OperationFailed, Alert),
        (Upgrading, OperationSucceeded, Running),
        (Upgrading, OperationFailed, Alert),
        (Importing, OperationSucceeded, Running),
        (Importing, OperationFailed, Alert),
        (RemovingNodes, OperationSucceeded, Running),
        (RemovingNodes, OperationFailed, Alert),
        (Alert, OperationSucceeded, Running),
        (Alert, StartRequested, Starting),
        (Alert, StopRequested, Stopping),
        (Alert, ScaleUpRequested, Scaling),
        (Alert, ScaleDownRequested, Scaling),
        (Alert, UpgradeRequested, Upgrading),
        (Alert, AddNodeRequested, Importing),
        (Alert, RemoveNodeRequested, RemovingNodes),
        (Alert, RecoveryRequested, Recovering),
        (Alert, DestroyRequested, Destroying),
        (Recovering, OperationSucceeded, Running),
        (Recovering, OperationFailed, Alert),
        (Error, DestroyRequested, Destroying),
        (Destroying, DestroyRequested, Destroying),
        (Destroying, OperationSucceeded, Destroyed),
    ]
};

/// An event that has no meaning in a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a cluster that is {from} cannot take {event}")]
pub struct IllegalTransition {
    /// The state that was found.
    pub from: State,
    /// The event that it does not take.
    pub event: Event,
}

impl State {
    /// All states, in the order of the enum.
    pub const ALL: &[State] = &[
        State::Created,
        State::Starting,
        State::Running,
        State::Stopping,
        State::Stopped,
        State::Scaling,
        State::ScalingStoppedCluster,
        State::Upgrading,
        State::Importing,
        State::RemovingNodes,
        State::Alert,
        State::Recovering,
        State::Destroying,
        State::Destroyed,
        State::Error,
    ];

    /// The states in which a live job must own the cluster (invariant I1). Destroying rests between tries
    /// (`behaviour.md` 3), so it is not one of them.
    pub const TRANSITIONAL: &[State] = &[
        State::Starting,
        State::Stopping,
        State::Scaling,
        State::ScalingStoppedCluster,
        State::Upgrading,
        State::Importing,
        State::RemovingNodes,
        State::Recovering,
    ];

    /// The state after `event`.
    ///
    /// # Errors
    /// [`IllegalTransition`] when the table has no such row.
    pub fn on(self, event: Event) -> Result<State, IllegalTransition> {
        TRANSITIONS
            .iter()
            .find(|(from, on, _)| *from == self && *on == event)
            .map(|(_, _, to)| *to)
            .ok_or(IllegalTransition { from: self, event })
    }

    /// The state to which an operation that started in `from` gives the cluster back, or nothing if the
    /// operation's own state cannot be left that way.
    #[must_use]
    pub fn given_back(self, from: State) -> Option<State> {
        let rests = matches!(from, State::Running | State::Alert | State::Stopped);
        (self.is_transitional() && rests).then_some(from)
    }

    /// Whether a live job must own a cluster in this state.
    #[must_use]
    pub fn is_transitional(self) -> bool {
        Self::TRANSITIONAL.contains(&self)
    }

    /// The name as stored and shown.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            State::Created => "Created",
            State::Starting => "Starting",
            State::Running => "Running",
            State::Stopping => "Stopping",
            State::Stopped => "Stopped",
            State::Scaling => "Scaling",
            State::ScalingStoppedCluster => "ScalingStoppedCluster",
            State::Upgrading => "Upgrading",
            State::Importing => "Importing",
            State::RemovingNodes => "RemovingNodes",
            State::Alert => "Alert",
            State::Recovering => "Recovering",
            State::Destroying => "Destroying",
            State::Destroyed => "Destroyed",
            State::Error => "Error",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// A text that names no state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no state of a cluster")]
pub struct UnknownState(pub String);

impl FromStr for State {
    type Err = UnknownState;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .iter()
            .find(|state| state.name() == text)
            .copied()
            .ok_or_else(|| UnknownState(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_state_takes_an_event_in_two_ways() {
        let pairs: BTreeSet<_> = TRANSITIONS.iter().map(|(from, event, _)| (from, event)).collect();
        assert_eq!(pairs.len(), TRANSITIONS.len());
    }

    #[test]
    fn every_transitional_state_can_end_well_and_badly() {
        for state in State::TRANSITIONAL {
            assert!(state.on(Event::OperationSucceeded).is_ok(), "{state}");
            assert_eq!(state.on(Event::OperationFailed), Ok(State::Alert), "{state}");
        }
    }

    #[test]
    fn every_state_is_reached_from_created_and_destroyed_is_the_end() {
        let mut reached = BTreeSet::from([State::Created]);
        for _ in State::ALL {
            for (from, _, to) in TRANSITIONS {
                if reached.contains(from) {
                    reached.insert(*to);
                }
            }
        }
        assert_eq!(reached.len(), State::ALL.len());
        assert!(TRANSITIONS.iter().all(|(from, _, _)| *from != State::Destroyed));
    }

    #[test]
    fn a_resting_state_that_is_not_the_end_takes_a_delete() {
        for state in State::ALL
            .iter()
            .filter(|state| !state.is_transitional() && **state != State::Destroyed)
        {
            assert_eq!(
                state.on(Event::DestroyRequested),
                Ok(State::Destroying),
                "{state}"
            );
        }
    }

    #[test]
    fn only_an_operation_gives_back_and_only_to_a_resting_state() {
        assert_eq!(State::Scaling.given_back(State::Alert), Some(State::Alert));
        assert_eq!(State::Upgrading.given_back(State::Running), Some(State::Running));
        assert_eq!(
            State::ScalingStoppedCluster.given_back(State::Stopped),
            Some(State::Stopped)
        );
        assert_eq!(State::Running.given_back(State::Alert), None);
        assert_eq!(State::Destroying.given_back(State::Running), None);
        assert_eq!(State::Scaling.given_back(State::Upgrading), None);
    }

    #[test]
    fn an_alert_takes_what_repairs_it() {
        use Event::*;
        for event in [
            StartRequested,
            StopRequested,
            ScaleUpRequested,
            ScaleDownRequested,
            UpgradeRequested,
        ] {
            assert!(State::Alert.on(event).is_ok(), "{event}");
        }
        let refused = State::Scaling.on(ScaleUpRequested).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "a cluster that is Scaling cannot take ScaleUpRequested"
        );
    }

    #[test]
    fn names_are_read_back_and_the_database_allows_exactly_them() {
        let schema = include_str!("../../../migrations/0001_schema.sql");
        let list = schema
            .split("check (state in (")
            .find(|part| part.contains("'Scaling'"))
            .unwrap();
        let allowed: BTreeSet<&str> = list
            .split("))")
            .next()
            .unwrap()
            .split('\'')
            .skip(1)
            .step_by(2)
            .collect();
        let names: BTreeSet<&str> = State::ALL.iter().map(|state| state.name()).collect();
        assert_eq!(allowed, names);
        for state in State::ALL {
            assert_eq!(state.name().parse::<State>(), Ok(*state));
        }
        assert_eq!("running".parse::<State>(), Err(UnknownState("running".into())));
    }
}
