//! The cloud in the service's words. One implementation: the client of the CloudStack API.
//!
//! Every mutating call *submits*: it returns the cloud's job, which the caller asks for with [`Cloud::job`].

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::fault::{Effect, Retry};
use crate::domain::id::{
    CloudJobId, DomainId, IsoId, NetworkId, OfferingId, ProjectId, PublicIpId, RuleId, TemplateId, VmId,
    ZoneId,
};
pub use crate::domain::observed::{
    DataDisk, FirewallRule, ForwardingRule, Machine, MachineState, Network, Nic, PublicIp,
};

/// Which machines to list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MachineQuery {
    /// Only these; an id that the cloud does not know is left out of the answer.
    pub ids: Vec<VmId>,
    /// Only those with this exact name.
    pub name: Option<String>,
    /// Only those with a card on this network.
    pub network_id: Option<NetworkId>,
}

/// A machine to deploy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineSpec {
    /// Name and display name.
    pub name: String,
    /// Zone.
    pub zone_id: ZoneId,
    /// Offering.
    pub offering_id: OfferingId,
    /// Template.
    pub template_id: TemplateId,
    /// Network.
    pub network_id: NetworkId,
    /// Key pair name.
    pub key_pair: Option<String>,
    /// cloud-init user data, plain; the adapter compresses and encodes it (`api-protocol.md` 5.2).
    pub user_data: String,
    /// Owner: account name with domain, when no project owns it.
    pub account: Option<(String, DomainId)>,
    /// Owner: project.
    pub project_id: Option<ProjectId>,
}

/// What a submit answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Submitted<T> {
    /// The object that is being made.
    pub id: T,
    /// The job that makes it.
    pub job: CloudJobId,
}

/// How far a job of the cloud is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum CloudJob {
    /// Not ended.
    Pending,
    /// Ended well.
    Succeeded,
    /// Ended badly, with CloudStack's code and text.
    Failed {
        /// The error code (`api-protocol.md` 2.4).
        code: i64,
        /// The error text.
        text: String,
    },
    /// The cloud does not know it (purged or restarted): look at the object itself.
    Unknown,
}

/// A service offering.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offering {
    /// Its id.
    pub id: OfferingId,
    /// Its name.
    pub name: String,
    /// CPU cores; absent when customised.
    pub cpu_number: Option<i64>,
    /// MHz per core.
    pub cpu_speed: Option<i64>,
    /// Memory in MB; absent when customised.
    pub memory_mb: Option<i64>,
    /// Whether the user chooses the size.
    pub customized: bool,
}

/// A template.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Template {
    /// Its id.
    pub id: TemplateId,
    /// Its name.
    pub name: String,
    /// Whether machines can be made from it.
    pub ready: bool,
}

/// An ISO.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Iso {
    /// Its id.
    pub id: IsoId,
    /// Its name.
    pub name: String,
    /// Whether it can be attached.
    pub ready: bool,
    /// Size in bytes.
    pub size_bytes: Option<i64>,
}

/// A zone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Zone {
    /// Its id.
    pub id: ZoneId,
    /// Its name.
    pub name: String,
}

/// What the keys that we use may do and see.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CloudIdentity {
    /// User name.
    pub user: String,
    /// Account name.
    pub account: String,
    /// The commands that the keys may call.
    pub commands: BTreeSet<String>,
}

/// A failed call to the cloud.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{command}: {text}")]
pub struct CloudError {
    /// The command of the CloudStack API.
    pub command: String,
    /// What went wrong, in the cloud's words or the network's.
    pub text: String,
    /// What kind of failure it is.
    pub kind: CloudErrorKind,
    /// Whether the effect may have happened.
    pub effect: Effect,
    /// Whether to ask again.
    pub retry: Retry,
}

/// Kinds of failed calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CloudErrorKind {
    /// Not reached, or no answer in time.
    Away,
    /// The keys were refused (401) or lack a right (432, 531).
    Refused,
    /// The object does not exist or is not visible.
    NotFound,
    /// Anything else, with CloudStack's code.
    Answer(i64),
    /// An answer that cannot be read.
    Unreadable,
}

/// The cloud.
#[async_trait]
pub trait Cloud: Send + Sync {
    /// Machines, all pages, of every account and project that the keys see.
    async fn machines(&self, query: &MachineQuery) -> Result<Vec<Machine>, CloudError>;
    /// Submits a deployment.
    async fn deploy(&self, spec: &MachineSpec) -> Result<Submitted<VmId>, CloudError>;
    /// Submits a start.
    async fn start(&self, id: VmId) -> Result<CloudJobId, CloudError>;
    /// Submits a stop.
    async fn stop(&self, id: VmId) -> Result<CloudJobId, CloudError>;
    /// Submits a destroy, without expunge and without volumes.
    async fn destroy(&self, id: VmId) -> Result<CloudJobId, CloudError>;
    /// Submits an expunge of a destroyed machine.
    async fn expunge(&self, id: VmId) -> Result<CloudJobId, CloudError>;
    /// Submits a change of offering.
    async fn resize(&self, id: VmId, offering: OfferingId) -> Result<CloudJobId, CloudError>;
    /// Submits the attachment of an ISO, never forced.
    async fn attach_iso(&self, id: VmId, iso: IsoId) -> Result<CloudJobId, CloudError>;
    /// Submits the detachment of the ISO in the drive.
    async fn detach_iso(&self, id: VmId) -> Result<CloudJobId, CloudError>;
    /// How far a job is.
    async fn job(&self, id: CloudJobId) -> Result<CloudJob, CloudError>;
    /// The data disks of a machine.
    async fn data_disks(&self, id: VmId) -> Result<Vec<DataDisk>, CloudError>;
    /// The public addresses of a network.
    async fn public_ips(&self, network: NetworkId) -> Result<Vec<PublicIp>, CloudError>;
    /// The forwarding rules on an address.
    async fn forwarding_rules(&self, ip: PublicIpId) -> Result<Vec<ForwardingRule>, CloudError>;
    /// Submits a TCP forwarding rule of one port, without a firewall rule.
    async fn create_forwarding_rule(
        &self,
        ip: PublicIpId,
        public_port: u16,
        vm: VmId,
        private_port: u16,
    ) -> Result<Submitted<RuleId>, CloudError>;
    /// Submits the removal of a forwarding rule.
    async fn delete_forwarding_rule(&self, id: RuleId) -> Result<CloudJobId, CloudError>;
    /// The firewall rules of an address.
    async fn firewall_rules(&self, ip: PublicIpId) -> Result<Vec<FirewallRule>, CloudError>;
    /// Submits a TCP firewall rule from anywhere.
    async fn create_firewall_rule(
        &self,
        ip: PublicIpId,
        start_port: u16,
        end_port: u16,
    ) -> Result<Submitted<RuleId>, CloudError>;
    /// Submits the removal of a firewall rule.
    async fn delete_firewall_rule(&self, id: RuleId) -> Result<CloudJobId, CloudError>;
    /// A network.
    async fn network(&self, id: NetworkId) -> Result<Option<Network>, CloudError>;
    /// A service offering.
    async fn offering(&self, id: OfferingId) -> Result<Option<Offering>, CloudError>;
    /// A template.
    async fn template(&self, id: TemplateId) -> Result<Option<Template>, CloudError>;
    /// An ISO.
    async fn iso(&self, id: IsoId) -> Result<Option<Iso>, CloudError>;
    /// A zone.
    async fn zone(&self, id: ZoneId) -> Result<Option<Zone>, CloudError>;
    /// Who we are, and what we may call.
    async fn identity(&self) -> Result<CloudIdentity, CloudError>;
    /// Details of a machine that only a full listing shows, by key (for `controlNodeLoginUser`).
    async fn details(&self, id: VmId) -> Result<BTreeMap<String, String>, CloudError>;
}
