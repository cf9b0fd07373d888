//! Records of what hangs on public addresses.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// State of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum RuleState {
    Staged,
    Add,
    Active,
    Revoke,
}

impl RuleState {
    /// The word on the wire.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Staged => "Staged",
            Self::Add => "Add",
            Self::Active => "Active",
            Self::Revoke => "Revoke",
        }
    }
}

/// A port-forwarding rule.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Forward {
    pub(crate) id: Uuid,
    pub(crate) ip: Uuid,
    pub(crate) protocol: String,
    pub(crate) public: (u16, u16),
    pub(crate) private: (u16, u16),
    pub(crate) vm: Uuid,
    pub(crate) state: RuleState,
}

/// A firewall rule of a public address.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Firewall {
    pub(crate) id: Uuid,
    pub(crate) ip: Uuid,
    pub(crate) protocol: String,
    /// None: every port.
    pub(crate) ports: Option<(u16, u16)>,
    pub(crate) cidrs: Vec<String>,
    pub(crate) state: RuleState,
}

impl Firewall {
    /// Whether it lets TCP traffic to a port pass.
    pub(crate) fn passes(&self, ip: Uuid, port: u16) -> bool {
        self.ip == ip
            && self.state == RuleState::Active
            && matches!(self.protocol.as_str(), "tcp" | "all")
            && self
                .ports
                .is_none_or(|(first, last)| (first..=last).contains(&port))
    }
}

/// A load balancer rule.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Balancer {
    pub(crate) id: Uuid,
    pub(crate) name: String,
    pub(crate) ip: Uuid,
    pub(crate) algorithm: String,
    pub(crate) protocol: String,
    pub(crate) public: u16,
    pub(crate) private: u16,
    pub(crate) vms: Vec<Uuid>,
    pub(crate) state: RuleState,
}
