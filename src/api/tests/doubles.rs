//! Stand-ins for the ports: a cloud that knows offerings and templates, a clock that stands, ids that count.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use async_trait::async_trait;
use jiff::Timestamp;
use uuid::Uuid;

use crate::domain::id::*;
use crate::ports::clock::{Clock, Ids};
use crate::ports::cloud::*;
use crate::ports::fault::{Effect, Retry};

pub(super) struct StandingClock(pub(super) Mutex<Timestamp>);

impl Clock for StandingClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap()
    }
}

#[derive(Default)]
pub(super) struct CountingIds(AtomicU64);

impl Ids for CountingIds {
    fn random(&self) -> Uuid {
        self.ordered()
    }
    fn ordered(&self) -> Uuid {
        Uuid::from_u128(0xffff_0000 + u128::from(self.0.fetch_add(1, Ordering::SeqCst)))
    }
}

/// A cloud with some offerings and templates; away, it answers nothing.
#[derive(Default)]
pub(super) struct FewFacts {
    pub(super) offerings: Mutex<BTreeMap<OfferingId, Offering>>,
    pub(super) templates: Mutex<BTreeMap<TemplateId, Template>>,
    pub(super) away: std::sync::atomic::AtomicBool,
    pub(super) calls: AtomicUsize,
}

impl FewFacts {
    fn answer<T>(&self, command: &str, value: T) -> Result<T, CloudError> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        if self.away.load(Ordering::SeqCst) {
            return away(command);
        }
        Ok(value)
    }
}

fn away<T>(command: &str) -> Result<T, CloudError> {
    Err(CloudError {
        command: command.to_owned(),
        text: "connection refused".to_owned(),
        kind: CloudErrorKind::Away,
        effect: Effect::DidNotHappen,
        retry: Retry::Soon,
    })
}

#[async_trait]
impl Cloud for FewFacts {
    async fn offering(&self, id: OfferingId) -> Result<Option<Offering>, CloudError> {
        let found = self.offerings.lock().unwrap().get(&id).cloned();
        self.answer("listServiceOfferings", found)
    }
    async fn template(&self, id: TemplateId) -> Result<Option<Template>, CloudError> {
        let found = self.templates.lock().unwrap().get(&id).cloned();
        self.answer("listTemplates", found)
    }
    async fn machines(&self, _: &MachineQuery) -> Result<Vec<Machine>, CloudError> {
        away("unexpected")
    }
    async fn deploy(&self, _: &MachineSpec) -> Result<Submitted<VmId>, CloudError> {
        away("unexpected")
    }
    async fn start(&self, _: VmId) -> Result<CloudJobId, CloudError> {
        away("unexpected")
    }
    async fn stop(&self, _: VmId) -> Result<CloudJobId, CloudError> {
        away("unexpected")
    }
    async fn destroy(&self, _: VmId) -> Result<CloudJobId, CloudError> {
        away("unexpected")
    }
    async fn expunge(&self, _: VmId) -> Result<CloudJobId, CloudError> {
        away("unexpected")
    }
    async fn resize(&self, _: VmId, _: OfferingId) -> Result<CloudJobId, CloudError> {
        away("unexpected")
    }
    async fn attach_iso(&self, _: VmId, _: IsoId) -> Result<CloudJobId, CloudError> {
        away("unexpected")
    }
    async fn detach_iso(&self, _: VmId) -> Result<CloudJobId, CloudError> {
        away("unexpected")
    }
    async fn job(&self, _: CloudJobId) -> Result<CloudJob, CloudError> {
        away("unexpected")
    }
    async fn data_disks(&self, _: VmId) -> Result<Vec<DataDisk>, CloudError> {
        away("unexpected")
    }
    async fn public_ips(&self, _: NetworkId) -> Result<Vec<PublicIp>, CloudError> {
        away("unexpected")
    }
    async fn forwarding_rules(&self, _: PublicIpId) -> Result<Vec<ForwardingRule>, CloudError> {
        away("unexpected")
    }
    async fn create_forwarding_rule(
        &self,
        _: PublicIpId,
        _: u16,
        _: VmId,
        _: u16,
    ) -> Result<Submitted<RuleId>, CloudError> {
        away("unexpected")
    }
    async fn delete_forwarding_rule(&self, _: RuleId) -> Result<CloudJobId, CloudError> {
        away("unexpected")
    }
    async fn firewall_rules(&self, _: PublicIpId) -> Result<Vec<FirewallRule>, CloudError> {
        away("unexpected")
    }
    async fn create_firewall_rule(
        &self,
        _: PublicIpId,
        _: u16,
        _: u16,
    ) -> Result<Submitted<RuleId>, CloudError> {
        away("unexpected")
    }
    async fn delete_firewall_rule(&self, _: RuleId) -> Result<CloudJobId, CloudError> {
        away("unexpected")
    }
    async fn network(&self, _: NetworkId) -> Result<Option<Network>, CloudError> {
        away("unexpected")
    }
    async fn iso(&self, _: IsoId) -> Result<Option<Iso>, CloudError> {
        away("unexpected")
    }
    async fn zone(&self, _: ZoneId) -> Result<Option<Zone>, CloudError> {
        away("unexpected")
    }
    async fn identity(&self) -> Result<CloudIdentity, CloudError> {
        away("unexpected")
    }
    async fn details(&self, _: VmId) -> Result<BTreeMap<String, String>, CloudError> {
        away("unexpected")
    }
}
