//! What the doubles share: machines, nodes, pods, budgets, rules, and a trace of every effect.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use jiff::Timestamp;
use uuid::Uuid;

use super::faults::{Faults, Mode};
use crate::domain::id::{
    CloudJobId, IsoId, NetworkId, OfferingId, PublicIpId, RuleId, TemplateId, VmId, ZoneId,
};
use crate::domain::observed::{
    Budget, FirewallRule, ForwardingRule, KubeNode, Machine, MachineState, Nic, Pod, VolumeAttachment,
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
    Forward(RuleId),
    Unforward(RuleId),
    Firewall(RuleId),
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
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) machines: BTreeMap<VmId, Machine>,
    pub(super) user_data: BTreeMap<VmId, String>,
    pub(super) work: BTreeMap<CloudJobId, CloudWork>,
    pub(super) forwards: Vec<ForwardingRule>,
    pub(super) firewalls: Vec<FirewallRule>,
    pub(super) nodes: BTreeMap<String, KubeNode>,
    /// Pods with the node that each is on; an empty name is a pod without a place.
    pub(super) pods: Vec<(String, Pod)>,
    pub(super) budgets: Vec<Budget>,
    pub(super) attachments: Vec<VolumeAttachment>,
    pub(super) runs: BTreeMap<String, Run>,
    /// Machines that boot but never join.
    pub(super) never_join: BTreeSet<String>,
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
    /// Added to the time of day, so that a test need not wait.
    ahead_ms: AtomicI64,
    ids: AtomicU64,
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
            ahead_ms: AtomicI64::new(0),
            ids: AtomicU64::new(1),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(super) fn faults(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().unwrap()
    }

    /// Lets time pass at once.
    pub(super) fn advance(&self, time: Duration) {
        self.ahead_ms
            .fetch_add(time.as_millis().try_into().unwrap(), Ordering::Relaxed);
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
            let ended = super::cloud::finish(self, &doing);
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

/// The key of a run as it is stored.
pub(super) fn run_name(key: &RunKey) -> String {
    key.0.clone()
}

impl Clock for World {
    #[expect(clippy::disallowed_methods, reason = "the double of the clock")]
    fn now(&self) -> Timestamp {
        let ahead = jiff::SignedDuration::from_millis(self.ahead_ms.load(Ordering::Relaxed));
        let now = Timestamp::now() + ahead;
        Timestamp::from_microsecond(now.as_microsecond()).unwrap()
    }
}

impl Ids for World {
    fn random(&self) -> Uuid {
        self.ordered()
    }

    fn ordered(&self) -> Uuid {
        let number = self.ids.fetch_add(1, Ordering::Relaxed);
        // Rows of several worlds share tables, so the time makes the ids of each world its own.
        Uuid::from_u128((u128::from(self.now().as_microsecond().unsigned_abs()) << 64) | u128::from(number))
    }

    fn host_key(&self) -> Option<HostKey> {
        let number = self.ids.fetch_add(1, Ordering::Relaxed);
        Some(HostKey {
            public: format!("ssh-ed25519 PUBLIC{number}"),
            private: format!("PRIVATE-HOST-KEY-{number}").into(),
        })
    }
}
