//! What the doubles share: machines, nodes, pods, budgets, rules, and a trace of every effect.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::Notify;
use uuid::Uuid;

use super::faults::{Faults, Mode};
use super::things::{machine, node};
use crate::domain::id::{
    CloudJobId, IsoId, NetworkId, OfferingId, PublicIpId, RuleId, TemplateId, VmId, ZoneId,
};
use crate::domain::observed::{
    Budget, FirewallRule, ForwardingRule, KubeNode, Machine, Pod, VolumeAttachment,
};
use crate::ports::clock::{Clock, HostKey, Ids};
use crate::ports::shell::{RunKey, RunState};

/// The public address of the cluster.
pub(super) const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(203, 0, 113, 1));
/// Calls until a job of the cloud ends.
const JOB_CALLS: u32 = 2;

pub(super) fn fixed(number: u128) -> Uuid {
    Uuid::from_u128(0x2000_0000_0000_4000_8000_0000_0000_0000 + number)
}

pub(super) fn ip_id() -> PublicIpId {
    fixed(0xa1).into()
}
pub(super) fn network_id() -> NetworkId {
    fixed(0xa2).into()
}
pub(super) fn zone_id() -> ZoneId {
    fixed(0xa3).into()
}
pub(super) fn offering_id() -> OfferingId {
    fixed(0xa4).into()
}
pub(super) fn big_offering_id() -> OfferingId {
    fixed(0xa5).into()
}
pub(super) fn template_id() -> TemplateId {
    fixed(0xa6).into()
}
pub(super) fn iso_id() -> IsoId {
    fixed(0xa7).into()
}

/// What a job of the cloud does when it ends.
#[derive(Debug, Clone)]
pub(super) enum Doing {
    Deploy(VmId),
    Destroy(VmId),
    Expunge(VmId),
    Stop(VmId),
    Start(VmId),
    Resize(VmId, OfferingId),
    Iso(VmId, Option<IsoId>),
    Forward,
    Unforward(RuleId),
    Firewall,
    Unfirewall(RuleId),
}

#[derive(Debug, Clone)]
pub(super) struct CloudWork {
    pub(super) left: u32,
    pub(super) doing: Doing,
    pub(super) ended: Option<Result<(), String>>,
}

/// A drain on a node.
#[derive(Debug, Clone)]
pub(super) struct Run {
    pub(super) node: String,
    pub(super) state: RunState,
    pub(super) takes: Duration,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) machines: BTreeMap<VmId, Machine>,
    pub(super) user_data: BTreeMap<VmId, String>,
    /// Machines that were made, in order.
    pub(super) made: Vec<VmId>,
    pub(super) work: BTreeMap<CloudJobId, CloudWork>,
    pub(super) forwards: Vec<ForwardingRule>,
    pub(super) firewalls: Vec<FirewallRule>,
    pub(super) nodes: BTreeMap<String, KubeNode>,
    /// Pods with the node that each is on; an empty name is a pod without a place.
    pub(super) pods: Vec<(String, Pod)>,
    pub(super) budgets: Vec<Budget>,
    pub(super) attachments: Vec<VolumeAttachment>,
    pub(super) runs: BTreeMap<String, Run>,
    /// Nodes whose drain never ends by itself.
    pub(super) hanging: BTreeSet<String>,
    /// Which of the machines made here, by number, boot but never join.
    pub(super) never_join: BTreeSet<usize>,
    /// Doings that the cloud's job ends badly with, by word and machine name.
    pub(super) bad_jobs: BTreeMap<(String, String), String>,
    /// Machines whose expunge never ends.
    pub(super) stuck: BTreeSet<VmId>,
    /// The highest epoch that any node has seen.
    pub(super) epoch: i64,
    /// Every effect in order, by names.
    pub(super) trace: Vec<String>,
    /// Things that must never happen.
    pub(super) violations: Vec<String>,
    counter: u128,
}

/// The world. Everything that the doubles know.
pub(super) struct World {
    state: Mutex<State>,
    faults: Mutex<Faults>,
    /// Microseconds since the beginning of the world: time stands still unless somebody waits.
    passed: AtomicI64,
    ids: AtomicU64,
    gate: Mutex<Option<Gate>>,
}

/// A call that is held back: the worker that makes it stands still, as if its process were frozen.
#[derive(Clone)]
pub(super) struct Gate {
    call: String,
    pub(super) reached: Arc<Notify>,
    pub(super) open: Arc<Notify>,
}

impl World {
    /// `c1+w<workers>`, all running and Ready, with rules 2222 and up.
    pub(super) fn new(workers: u8) -> Self {
        let mut state = State::default();
        let names = std::iter::once("cp-1".to_owned()).chain((1..=workers).map(|n| format!("wk-{n}")));
        for (name, number) in names.zip(1u8..) {
            let machine = machine(number, &name);
            state.nodes.insert(name.clone(), node(&machine));
            state.forwards.push(ForwardingRule {
                id: fixed(u128::from(number) + 0x100).into(),
                ip_id: ip_id(),
                address: ADDRESS,
                public_port: 2221 + u16::from(number),
                public_end_port: 2221 + u16::from(number),
                private_port: 22,
                protocol: "tcp".into(),
                vm_id: Some(machine.id),
                revoked: false,
            });
            state.machines.insert(machine.id, machine);
        }
        state.firewalls.push(FirewallRule {
            id: fixed(0x1f0).into(),
            ip_id: ip_id(),
            protocol: "tcp".into(),
            start_port: Some(2222),
            end_port: Some(2222 + u16::from(workers)),
            revoked: false,
        });
        state.counter = 0x1000;
        Self {
            state: Mutex::new(state),
            faults: Mutex::default(),
            passed: AtomicI64::new(0),
            ids: AtomicU64::new(1),
            gate: Mutex::default(),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(super) fn faults(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().unwrap()
    }

    /// Seconds of the world's clock.
    pub(super) fn now_secs(&self) -> i64 {
        self.now().as_second()
    }

    /// Lets time pass at once.
    pub(super) fn advance(&self, time: Duration) {
        self.passed
            .fetch_add(time.as_micros().try_into().unwrap(), Ordering::Relaxed);
    }

    /// Holds the next call of this name back.
    pub(super) fn hold(&self, call: &str) -> Gate {
        let gate = Gate {
            call: call.to_owned(),
            reached: Arc::default(),
            open: Arc::default(),
        };
        *self.gate.lock().unwrap() = Some(gate.clone());
        gate
    }

    /// Stands still if this call is held back. Only the first that comes is.
    pub(super) async fn pass(&self, call: &str) {
        let held = {
            let mut gate = self.gate.lock().unwrap();
            let numbered = format!("{call}#{}", self.faults().count(call) + 1);
            if gate.as_ref().is_some_and(|gate| gate.call == numbered) {
                gate.take()
            } else {
                None
            }
        };
        if let Some(gate) = held {
            gate.reached.notify_one();
            gate.open.notified().await;
        }
    }

    /// One call of a port: counted, failed as told, applied unless it fails before.
    pub(super) fn call<T, E>(
        &self,
        name: &str,
        apply: impl FnOnce(&mut State) -> Result<T, E>,
        error: impl FnOnce(Mode) -> E,
    ) -> Result<T, E> {
        let mode = self.faults().hit(name);
        let mut state = self.state();
        state.tick();
        match mode {
            None => apply(&mut state),
            Some(mode) => {
                if mode.happens() {
                    apply(&mut state)?;
                }
                Err(error(mode))
            }
        }
    }
}

impl State {
    pub(super) fn new_id(&mut self) -> Uuid {
        self.counter += 1;
        fixed(self.counter)
    }

    pub(super) fn name_of(&self, vm: VmId) -> String {
        self.machines
            .get(&vm)
            .map_or_else(|| format!("unknown {vm}"), |machine| machine.name.clone())
    }

    pub(super) fn named(&self, name: &str) -> VmId {
        self.machines
            .values()
            .find(|machine| machine.name == name)
            .map(|machine| machine.id)
            .unwrap()
    }

    pub(super) fn did(&mut self, what: impl Into<String>) {
        self.trace.push(what.into());
    }

    /// Puts a job of the cloud in hand.
    pub(super) fn submit(&mut self, doing: Doing) -> CloudJobId {
        let id = CloudJobId(self.new_id());
        let work = CloudWork {
            left: JOB_CALLS,
            doing,
            ended: None,
        };
        self.work.insert(id, work);
        id
    }

    /// The other side lives: with each call it gets a little further.
    fn tick(&mut self) {
        let due: Vec<CloudJobId> = self
            .work
            .iter_mut()
            .filter(|(_, work)| work.ended.is_none())
            .filter_map(|(id, work)| {
                work.left = work.left.saturating_sub(1);
                (work.left == 0).then_some(*id)
            })
            .collect();
        for id in due {
            let doing = self.work[&id].doing.clone();
            if matches!(&doing, Doing::Expunge(vm) if self.stuck.contains(vm)) {
                continue;
            }
            let ended = super::cloud_work::finish(self, &doing);
            self.work.get_mut(&id).unwrap().ended = Some(ended);
        }
    }

    /// Moves a pod to any node that takes it.
    pub(super) fn reschedule(&mut self, index: usize) {
        let place = self
            .nodes
            .values()
            .find(|node| node.ready && !node.unschedulable && !node.control_plane);
        let place = place.map(|node| node.name.clone()).unwrap_or_default();
        self.pods[index].0 = place;
    }
}

/// The key of a run as it is stored.
pub(super) fn run_name(key: &RunKey) -> String {
    key.0.clone()
}

impl Clock for World {
    fn now(&self) -> Timestamp {
        let begin = Timestamp::constant(1_796_000_000, 0);
        begin + jiff::SignedDuration::from_micros(self.passed.load(Ordering::Relaxed))
    }
}

impl Ids for World {
    fn random(&self) -> Uuid {
        self.ordered()
    }

    fn ordered(&self) -> Uuid {
        fixed(0xf_0000 + u128::from(self.ids.fetch_add(1, Ordering::Relaxed)))
    }

    fn host_key(&self) -> Option<HostKey> {
        let number = self.ids.fetch_add(1, Ordering::Relaxed);
        Some(HostKey {
            public: format!("ssh-ed25519 PUBLIC{number}"),
            private: format!("PRIVATE-HOST-KEY-{number}").into(),
        })
    }
}
