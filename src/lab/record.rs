//! What the lab remembers of itself beside the cloud's records: its subnet, its clusters, their keys.

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::scenario::KubeTimes;

/// The file `world/lab.json`; written when the world is made, and never changed.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct WorldRecord {
    pub(crate) scenario: String,
    pub(crate) subnet: Subnet,
    pub(crate) kube: KubeTimes,
    pub(crate) clusters: Vec<ClusterRecord>,
}

/// The 127.a.b.0/24 that a lab has for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Subnet {
    pub(crate) a: u8,
    pub(crate) b: u8,
}

impl Subnet {
    /// An address in it.
    pub(crate) fn host(self, host: u8) -> Ipv4Addr {
        Ipv4Addr::new(127, self.a, self.b, host)
    }
}

/// A cluster that was there from the start.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct ClusterRecord {
    pub(crate) name: String,
    pub(crate) id: Uuid,
    pub(crate) account: String,
    pub(crate) domain: String,
    pub(crate) project: Option<String>,
    pub(crate) version: String,
    pub(crate) network: Uuid,
    pub(crate) public_ip: Ipv4Addr,
    pub(crate) kube_address: Ipv4Addr,
    pub(crate) template: Uuid,
    pub(crate) ssh_user: String,
    /// OpenSSH's private form.
    pub(crate) ssh_key: String,
    /// OpenSSH's public form.
    pub(crate) ssh_public: String,
    pub(crate) manifests: String,
}

/// The port of a cluster's Kubernetes API, inside and outside.
pub(crate) const API_PORT: u16 = 6443;
