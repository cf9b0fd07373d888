//! What the lab's cloud knows: plain records, saved as JSON after every change.
//!
//! What this must not know: the wire, and how records change.

mod rules;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

pub(crate) use self::rules::{Balancer, Firewall, Forward, RuleState};
use super::work::Work;

/// Everything in the cloud.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct CloudState {
    pub(crate) settings: CloudSettings,
    pub(crate) times: ServiceTimes,
    pub(crate) zone: Zone,
    pub(crate) domains: Vec<Domain>,
    pub(crate) accounts: Vec<Account>,
    pub(crate) users: Vec<User>,
    pub(crate) projects: Vec<Project>,
    pub(crate) offerings: Vec<Offering>,
    pub(crate) templates: Vec<Template>,
    pub(crate) isos: Vec<Iso>,
    pub(crate) key_pairs: Vec<KeyPair>,
    pub(crate) networks: Vec<Network>,
    pub(crate) ips: Vec<PublicIp>,
    pub(crate) vms: Vec<Vm>,
    pub(crate) volumes: Vec<Volume>,
    pub(crate) forwards: Vec<Forward>,
    pub(crate) firewall: Vec<Firewall>,
    pub(crate) balancers: Vec<Balancer>,
    pub(crate) tags: Vec<Tag>,
    pub(crate) jobs: Vec<Job>,
    /// Counts instance names (`i-2-<n>-VM`) and jobs.
    pub(crate) counter: u64,
}

/// Settings of the cloud that change what it answers.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct CloudSettings {
    pub(crate) version: String,
    pub(crate) page_max: u32,
    pub(crate) user_data_max: usize,
    pub(crate) allow_user_expunge: bool,
}

impl Default for CloudSettings {
    fn default() -> Self {
        Self {
            version: "4.22.0.0".to_owned(),
            page_max: 500,
            user_data_max: 32_768,
            allow_user_expunge: true,
        }
    }
}

/// How long each kind of work takes, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ServiceTimes {
    pub(crate) deploy: f64,
    pub(crate) start: f64,
    pub(crate) stop: f64,
    pub(crate) reboot: f64,
    pub(crate) resize: f64,
    pub(crate) destroy: f64,
    pub(crate) expunge: f64,
    pub(crate) iso: f64,
    pub(crate) rule: f64,
}

impl Default for ServiceTimes {
    fn default() -> Self {
        Self {
            deploy: 8.0,
            start: 6.0,
            stop: 5.0,
            reboot: 6.0,
            resize: 2.0,
            destroy: 6.0,
            expunge: 5.0,
            iso: 1.0,
            rule: 0.3,
        }
    }
}

/// The only zone.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Zone {
    pub(crate) id: Uuid,
    pub(crate) name: String,
}

/// A domain of accounts.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Domain {
    pub(crate) id: Uuid,
    pub(crate) name: String,
    /// `ROOT`, `ROOT/team`.
    pub(crate) path: String,
    pub(crate) parent: Option<Uuid>,
}

/// What an account may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum AccountKind {
    User,
    Admin,
    DomainAdmin,
}

impl AccountKind {
    /// CloudStack's number for it.
    pub(crate) fn number(self) -> u8 {
        match self {
            Self::User => 0,
            Self::Admin => 1,
            Self::DomainAdmin => 2,
        }
    }

    /// CloudStack's name of its role.
    pub(crate) fn role(self) -> &'static str {
        match self {
            Self::User => "User",
            Self::Admin => "Admin",
            Self::DomainAdmin => "DomainAdmin",
        }
    }
}

/// An account.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Account {
    pub(crate) id: Uuid,
    pub(crate) name: String,
    pub(crate) domain: Uuid,
    pub(crate) kind: AccountKind,
}

/// A user of an account, with its keys.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct User {
    pub(crate) id: Uuid,
    pub(crate) name: String,
    pub(crate) account: Uuid,
    pub(crate) api_key: String,
    pub(crate) secret_key: String,
}

/// A project.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Project {
    pub(crate) id: Uuid,
    pub(crate) name: String,
    pub(crate) domain: Uuid,
    pub(crate) members: Vec<Uuid>,
}

/// Who owns an object: an account, or a project.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Owner {
    Account(Uuid),
    Project(Uuid),
}

/// A service offering.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Offering {
    pub(crate) id: Uuid,
    pub(crate) name: String,
    pub(crate) cpu: i64,
    pub(crate) speed: i64,
    pub(crate) memory: i64,
}

/// A template.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Template {
    pub(crate) id: Uuid,
    pub(crate) name: String,
    /// A system template: no user may deploy from it.
    pub(crate) system: bool,
}

/// An ISO.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Iso {
    pub(crate) id: Uuid,
    pub(crate) name: String,
    pub(crate) url: String,
    pub(crate) bytes: i64,
    pub(crate) ready: bool,
    pub(crate) created: Timestamp,
}

/// A key pair; only its public half is known here.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct KeyPair {
    pub(crate) name: String,
    pub(crate) account: Uuid,
    pub(crate) public_key: String,
    pub(crate) fingerprint: String,
}

/// A guest network.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Network {
    pub(crate) id: Uuid,
    pub(crate) name: String,
    pub(crate) owner: Owner,
    pub(crate) created: Timestamp,
}

/// A public address, all of them source NAT of their network.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct PublicIp {
    pub(crate) id: Uuid,
    pub(crate) address: Ipv4Addr,
    pub(crate) network: Uuid,
    pub(crate) owner: Owner,
    pub(crate) allocated: Timestamp,
}

/// State of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum VmState {
    Starting,
    Running,
    Stopping,
    Stopped,
    Migrating,
    Destroyed,
    Expunging,
    Error,
}

impl VmState {
    /// The word on the wire.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Starting => "Starting",
            Self::Running => "Running",
            Self::Stopping => "Stopping",
            Self::Stopped => "Stopped",
            Self::Migrating => "Migrating",
            Self::Destroyed => "Destroyed",
            Self::Expunging => "Expunging",
            Self::Error => "Error",
        }
    }

    /// Whether the machine is on.
    pub(crate) fn is_on(self) -> bool {
        matches!(self, Self::Running | Self::Migrating)
    }
}

/// A virtual machine.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Vm {
    pub(crate) id: Uuid,
    pub(crate) name: String,
    pub(crate) display_name: String,
    pub(crate) instance_name: String,
    pub(crate) owner: Owner,
    pub(crate) user: Uuid,
    pub(crate) created: Timestamp,
    pub(crate) state: VmState,
    /// Expunged: no list shows it, its id still resolves to nothing.
    pub(crate) removed: bool,
    pub(crate) offering: Uuid,
    pub(crate) template: Uuid,
    pub(crate) network: Uuid,
    pub(crate) nic: Uuid,
    pub(crate) address: Ipv4Addr,
    pub(crate) key_pair: Option<String>,
    pub(crate) iso: Option<Uuid>,
    /// As the caller sent it: base64.
    pub(crate) user_data: Option<String>,
    pub(crate) details: BTreeMap<String, String>,
    pub(crate) backup_offering: Option<Uuid>,
    /// With a backup offering and backups, a destroy is refused.
    pub(crate) backups: u32,
    pub(crate) delete_protection: bool,
    /// `User`, or `CKS_NODE` when CloudStack's own Kubernetes plug-in made it.
    pub(crate) kind: String,
    pub(crate) guest: Guest,
}

/// What runs in a machine, as far as the lab must remember it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Guest {
    /// The Kubernetes cluster that it has joined.
    pub(crate) cluster: Option<String>,
    /// Whether it is a control node of that cluster.
    pub(crate) control: bool,
    /// The kubelet's way to the API.
    pub(crate) kubeconfig: Option<String>,
    /// Whether the kubelet is to run while the machine is on.
    pub(crate) kubelet: bool,
    pub(crate) kubelet_version: String,
    /// Its node was seen in the cluster since the machine was switched on.
    pub(crate) registered: bool,
}

/// A disk.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Volume {
    pub(crate) id: Uuid,
    pub(crate) name: String,
    pub(crate) data: bool,
    pub(crate) vm: Option<Uuid>,
    pub(crate) owner: Owner,
    pub(crate) bytes: i64,
    pub(crate) created: Timestamp,
}

/// A tag on an object.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Tag {
    pub(crate) resource: Uuid,
    pub(crate) resource_type: String,
    pub(crate) key: String,
    pub(crate) value: String,
}

/// An async job.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) id: Uuid,
    pub(crate) seq: u64,
    pub(crate) command: String,
    pub(crate) user: Uuid,
    pub(crate) instance: Option<(String, Uuid)>,
    pub(crate) work: Work,
    pub(crate) created: Timestamp,
    /// When the stage that runs now is over; none: not begun.
    pub(crate) due: Option<Timestamp>,
    /// 0, 1 or 2.
    pub(crate) status: u8,
    pub(crate) code: u16,
    pub(crate) result: Option<Value>,
    pub(crate) completed: Option<Timestamp>,
}
