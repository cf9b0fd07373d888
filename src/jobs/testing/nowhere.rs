//! Ports that lead nowhere, and a clock and ids that a test moves: for tests of the engine itself, whose
//! operations touch nothing outside.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use secrecy::SecretString;
use uuid::Uuid;

use crate::domain::id::{
    CloudJobId, IsoId, NetworkId, OfferingId, PublicIpId, RuleId, TemplateId, VmId, ZoneId,
};
use crate::ports::Ports;
use crate::ports::clock::{Clock, Ids};
use crate::ports::cloud::{
    Cloud, CloudError, CloudErrorKind, CloudIdentity, CloudJob, DataDisk, FirewallRule, ForwardingRule, Iso,
    Machine, MachineQuery, MachineSpec, Network, Offering, PublicIp, Submitted, Template, Zone,
};
use crate::ports::fault::{Effect, Retry};
use crate::ports::kube::{
    Budget, Eviction, Kube, KubeError, KubeErrorKind, KubeNode, Pod, Via, VolumeAttachment,
};
use crate::ports::shell::{
    Access, Command, Fence, NodeShell, NodeTarget, Output, RunKey, RunState, Scan, ShellError, ShellErrorKind,
};

/// An outside that answers nothing.
#[derive(Debug, Clone, Copy)]
pub struct Nowhere;

/// A clock that stands until it is moved.
#[derive(Debug)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    /// A clock that stands at `start`.
    #[must_use]
    pub fn new(start: Timestamp) -> Arc<Self> {
        Arc::new(Self(AtomicI64::new(start.as_microsecond())))
    }

    /// Moves it on.
    pub fn advance(&self, by: Duration) {
        self.0.fetch_add(
            i64::try_from(by.as_micros()).unwrap_or(i64::MAX / 2),
            Ordering::Relaxed,
        );
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_microsecond(self.0.load(Ordering::Relaxed)).unwrap_or(Timestamp::MAX)
    }
}

/// Ids that count.
#[derive(Debug)]
pub struct CountingIds {
    prefix: u64,
    next: AtomicU64,
}

impl CountingIds {
    /// Ids that begin with `prefix`; makers with different prefixes never make the same one.
    #[must_use]
    pub fn new(prefix: u64) -> Arc<Self> {
        Arc::new(Self {
            prefix,
            next: AtomicU64::new(1),
        })
    }
}

impl Ids for CountingIds {
    fn random(&self) -> Uuid {
        Uuid::from_u64_pair(self.prefix, self.next.fetch_add(1, Ordering::Relaxed))
    }

    fn ordered(&self) -> Uuid {
        self.random()
    }
}

/// Ports that lead nowhere, with this clock and these ids.
#[must_use]
pub fn nowhere(clock: Arc<dyn Clock>, ids: Arc<dyn Ids>) -> Ports {
    let nowhere = Arc::new(Nowhere);
    Ports {
        cloud: nowhere.clone(),
        kube: nowhere.clone(),
        shell: nowhere,
        clock,
        ids,
    }
}

fn cloud(command: &str) -> CloudError {
    CloudError {
        command: command.to_owned(),
        text: "there is no cloud here".to_owned(),
        kind: CloudErrorKind::Away,
        effect: Effect::DidNotHappen,
        retry: Retry::Later,
    }
}

fn kube(call: &str) -> KubeError {
    KubeError {
        text: format!("{call}: there is no cluster here"),
        kind: KubeErrorKind::ApiAway,
        effect: Effect::DidNotHappen,
        retry: Retry::Later,
    }
}

fn shell(call: &str) -> ShellError {
    ShellError {
        text: format!("{call}: there is no node here"),
        kind: ShellErrorKind::Away,
        effect: Effect::DidNotHappen,
        retry: Retry::Later,
    }
}

#[async_trait]
impl Cloud for Nowhere {
    async fn machines(&self, _: &MachineQuery) -> Result<Vec<Machine>, CloudError> {
        Err(cloud("machines"))
    }
    async fn deploy(&self, _: &MachineSpec) -> Result<Submitted<VmId>, CloudError> {
        Err(cloud("deploy"))
    }
    async fn start(&self, _: VmId) -> Result<CloudJobId, CloudError> {
        Err(cloud("start"))
    }
    async fn stop(&self, _: VmId) -> Result<CloudJobId, CloudError> {
        Err(cloud("stop"))
    }
    async fn destroy(&self, _: VmId) -> Result<CloudJobId, CloudError> {
        Err(cloud("destroy"))
    }
    async fn expunge(&self, _: VmId) -> Result<CloudJobId, CloudError> {
        Err(cloud("expunge"))
    }
    async fn resize(&self, _: VmId, _: OfferingId) -> Result<CloudJobId, CloudError> {
        Err(cloud("resize"))
    }
    async fn attach_iso(&self, _: VmId, _: IsoId) -> Result<CloudJobId, CloudError> {
        Err(cloud("attach_iso"))
    }
    async fn detach_iso(&self, _: VmId) -> Result<CloudJobId, CloudError> {
        Err(cloud("detach_iso"))
    }
    async fn job(&self, _: CloudJobId) -> Result<CloudJob, CloudError> {
        Err(cloud("job"))
    }
    async fn data_disks(&self, _: VmId) -> Result<Vec<DataDisk>, CloudError> {
        Err(cloud("data_disks"))
    }
    async fn public_ips(&self, _: NetworkId) -> Result<Vec<PublicIp>, CloudError> {
        Err(cloud("public_ips"))
    }
    async fn forwarding_rules(&self, _: PublicIpId) -> Result<Vec<ForwardingRule>, CloudError> {
        Err(cloud("forwarding_rules"))
    }
    async fn create_forwarding_rule(
        &self,
        _: PublicIpId,
        _: u16,
        _: VmId,
        _: u16,
    ) -> Result<Submitted<RuleId>, CloudError> {
        Err(cloud("create_forwarding_rule"))
    }
    async fn delete_forwarding_rule(&self, _: RuleId) -> Result<CloudJobId, CloudError> {
        Err(cloud("delete_forwarding_rule"))
    }
    async fn firewall_rules(&self, _: PublicIpId) -> Result<Vec<FirewallRule>, CloudError> {
        Err(cloud("firewall_rules"))
    }
    async fn create_firewall_rule(
        &self,
        _: PublicIpId,
        _: u16,
        _: u16,
    ) -> Result<Submitted<RuleId>, CloudError> {
        Err(cloud("create_firewall_rule"))
    }
    async fn delete_firewall_rule(&self, _: RuleId) -> Result<CloudJobId, CloudError> {
        Err(cloud("delete_firewall_rule"))
    }
    async fn network(&self, _: NetworkId) -> Result<Option<Network>, CloudError> {
        Err(cloud("network"))
    }
    async fn offering(&self, _: OfferingId) -> Result<Option<Offering>, CloudError> {
        Err(cloud("offering"))
    }
    async fn template(&self, _: TemplateId) -> Result<Option<Template>, CloudError> {
        Err(cloud("template"))
    }
    async fn iso(&self, _: IsoId) -> Result<Option<Iso>, CloudError> {
        Err(cloud("iso"))
    }
    async fn zone(&self, _: ZoneId) -> Result<Option<Zone>, CloudError> {
        Err(cloud("zone"))
    }
    async fn identity(&self) -> Result<CloudIdentity, CloudError> {
        Err(cloud("identity"))
    }
    async fn details(&self, _: VmId) -> Result<BTreeMap<String, String>, CloudError> {
        Err(cloud("details"))
    }
}

#[async_trait]
impl Kube for Nowhere {
    async fn nodes(&self, _: &Via) -> Result<Vec<KubeNode>, KubeError> {
        Err(kube("nodes"))
    }
    async fn pods_on(&self, _: &Via, _: &str) -> Result<Vec<Pod>, KubeError> {
        Err(kube("pods_on"))
    }
    async fn budgets(&self, _: &Via) -> Result<Vec<Budget>, KubeError> {
        Err(kube("budgets"))
    }
    async fn volume_attachments(&self, _: &Via) -> Result<Vec<VolumeAttachment>, KubeError> {
        Err(kube("volume_attachments"))
    }
    async fn cordon(&self, _: &Via, _: &str) -> Result<(), KubeError> {
        Err(kube("cordon"))
    }
    async fn uncordon(&self, _: &Via, _: &str) -> Result<(), KubeError> {
        Err(kube("uncordon"))
    }
    async fn start_drain(&self, _: &Via, _: &RunKey, _: &str, _: u64) -> Result<RunState, KubeError> {
        Err(kube("start_drain"))
    }
    async fn ask_drain(&self, _: &Via, _: &RunKey) -> Result<RunState, KubeError> {
        Err(kube("ask_drain"))
    }
    async fn follow_drain(&self, _: &Via, _: &RunKey, _: Duration) -> Result<RunState, KubeError> {
        Err(kube("follow_drain"))
    }
    async fn stop_drain(&self, _: &Via, _: &RunKey) -> Result<RunState, KubeError> {
        Err(kube("stop_drain"))
    }
    async fn evict(&self, _: &Via, _: &str, _: &str) -> Result<Eviction, KubeError> {
        Err(kube("evict"))
    }
    async fn delete_node(&self, _: &Via, _: &str) -> Result<(), KubeError> {
        Err(kube("delete_node"))
    }
    async fn join_command(&self, _: &Via) -> Result<SecretString, KubeError> {
        Err(kube("join_command"))
    }
    async fn kubeconfig(&self, _: &Via) -> Result<SecretString, KubeError> {
        Err(kube("kubeconfig"))
    }
}

#[async_trait]
impl NodeShell for Nowhere {
    async fn prove(&self, _: &NodeTarget) -> Result<(), ShellError> {
        Err(shell("prove"))
    }
    async fn exec(
        &self,
        _: &NodeTarget,
        _: Fence,
        _: Access,
        _: &Command,
        _: Duration,
    ) -> Result<Output, ShellError> {
        Err(shell("exec"))
    }
    async fn run(&self, _: &NodeTarget, _: Fence, _: &RunKey, _: &Command) -> Result<RunState, ShellError> {
        Err(shell("run"))
    }
    async fn ask(&self, _: &NodeTarget, _: Fence, _: &RunKey) -> Result<RunState, ShellError> {
        Err(shell("ask"))
    }
    async fn follow(
        &self,
        _: &NodeTarget,
        _: Fence,
        _: &RunKey,
        _: Duration,
    ) -> Result<RunState, ShellError> {
        Err(shell("follow"))
    }
    async fn stop(&self, _: &NodeTarget, _: Fence, _: &RunKey) -> Result<RunState, ShellError> {
        Err(shell("stop"))
    }
    async fn fence(&self, _: &NodeTarget) -> Result<Option<Fence>, ShellError> {
        Err(shell("fence"))
    }
    async fn take_over(&self, _: &NodeTarget, _: Fence) -> Result<(), ShellError> {
        Err(shell("take_over"))
    }
    async fn scan(&self, _: &str, _: u16) -> Result<Scan, ShellError> {
        Err(shell("scan"))
    }
}
