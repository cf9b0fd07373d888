//! One look at a whole cluster: cloud, nodes, Kubernetes. Reads only, and never raises a fence.
//!
//! The state scanner and `cksd check` judge by it. Operations look with their own journaled steps.
//!
//! What this must not know: operations, jobs, the wire.

use std::net::IpAddr;

use sqlx::PgPool;

use crate::db::secrets::Cipher;
use crate::db::ssh::SshIdentity;
use crate::db::{self, DbError};
use crate::domain::cluster::{Cluster, Member, Role};
use crate::domain::id::{ClusterId, InstallationId};
use crate::domain::observed::{
    FirewallRule, ForwardingRule, KubeNode, Machine, MachineState, Network, PublicIp,
};
use crate::domain::plan::resolve::{self, Facts, Reach, Resolved};
use crate::ports::Ports;
use crate::ports::cloud::{CloudError, MachineQuery};
use crate::ports::kube::Via;
use crate::ports::shell::{Fence, NodeTarget};

/// What was seen of a cluster.
#[derive(Debug)]
pub struct Observed {
    /// Its row.
    pub cluster: Cluster,
    /// Its members.
    pub members: Vec<Member>,
    /// Their machines, as far as the cloud shows them.
    pub machines: Vec<Machine>,
    /// The address on which its rules stand; none on networks where nodes are reached directly.
    pub public_ip: Option<PublicIp>,
    /// The forwarding rules on it.
    pub forwarding: Vec<ForwardingRule>,
    /// The firewall rules on it.
    pub firewall: Vec<FirewallRule>,
    /// Kubernetes, or why it could not be asked.
    pub kubernetes: Result<Kubernetes, String>,
}

/// What Kubernetes showed.
#[derive(Debug)]
pub struct Kubernetes {
    /// All nodes.
    pub nodes: Vec<KubeNode>,
    /// The members with their nodes.
    pub resolved: Vec<Resolved>,
    /// The control node that was asked.
    pub via: Via,
}

/// Why nothing can be said of a cluster.
#[derive(Debug, thiserror::Error)]
pub enum LookError {
    /// The database.
    #[error(transparent)]
    Db(#[from] DbError),
    /// The cloud.
    #[error("the cloud gave no answer: {0}")]
    Cloud(#[from] CloudError),
}

/// What a look needs.
#[derive(Clone)]
pub struct Eyes {
    /// The database.
    pub pool: PgPool,
    /// Opens the login.
    pub cipher: Cipher,
    /// The outside.
    pub ports: Ports,
    /// This installation.
    pub installation: InstallationId,
    /// Port of SSH on nodes that are reached directly.
    pub node_ssh_port: u16,
}

impl Eyes {
    /// Looks at a cluster.
    ///
    /// # Errors
    /// The database or the cloud gave no answer. Kubernetes that cannot be asked is no error but a finding.
    pub async fn look(&self, id: ClusterId) -> Result<Observed, LookError> {
        let (cluster, members, identity) = self.stored(id).await?;
        let cloud = &self.ports.cloud;
        let ids = members.iter().map(|member| member.vm_id).collect();
        let machines = cloud
            .machines(&MachineQuery {
                ids,
                ..MachineQuery::default()
            })
            .await?;
        let network = match cluster.network_id {
            Some(network) => cloud.network(network).await?,
            None => None,
        };
        let public_ip = self.public_ip(network.as_ref()).await?;
        let (forwarding, firewall) = match &public_ip {
            Some(ip) => (
                cloud.forwarding_rules(ip.id).await?,
                cloud.firewall_rules(ip.id).await?,
            ),
            None => (Vec::new(), Vec::new()),
        };
        let mut seen = Observed {
            cluster,
            members,
            machines,
            public_ip,
            forwarding,
            firewall,
            kubernetes: Err("not asked".to_owned()),
        };
        seen.kubernetes = self.kubernetes(&seen, identity).await;
        Ok(seen)
    }

    async fn stored(&self, id: ClusterId) -> Result<(Cluster, Vec<Member>, Option<SshIdentity>), DbError> {
        let mut conn = self.pool.acquire().await?;
        let cluster = db::clusters::get(&mut conn, id).await?;
        let members = db::members::list(&mut conn, cluster.key).await?;
        let identity = db::ssh::identity(&mut conn, &self.cipher, cluster.key).await?;
        Ok((cluster, members, identity))
    }

    async fn public_ip(&self, network: Option<&Network>) -> Result<Option<PublicIp>, CloudError> {
        match network {
            Some(network) if !network.routed && network.kind == "Isolated" => {
                let addresses = self.ports.cloud.public_ips(network.id).await?;
                Ok(addresses.into_iter().find(|ip| ip.source_nat))
            }
            _ => Ok(None),
        }
    }

    async fn kubernetes(&self, seen: &Observed, identity: Option<SshIdentity>) -> Result<Kubernetes, String> {
        let Some(identity) = identity else {
            return Err("no login of its nodes is known".to_owned());
        };
        let reach = seen.public_ip.as_ref().map_or(
            Reach::Direct {
                port: self.node_ssh_port,
            },
            |ip| Reach::Forwarded { address: ip.address },
        );
        let mut why = Vec::new();
        for target in control_targets(seen, &identity, reach) {
            let via = Via {
                target,
                fence: Fence {
                    installation: self.installation,
                    epoch: 0,
                },
            };
            match self.ports.kube.nodes(&via).await {
                Ok(nodes) => {
                    let facts = Facts {
                        members: &seen.members,
                        machines: &seen.machines,
                        nodes: &nodes,
                        rules: &seen.forwarding,
                        reach,
                    };
                    let resolved = resolve::resolve(facts).map_err(|error| error.to_string())?;
                    return Ok(Kubernetes { nodes, resolved, via });
                }
                Err(error) => why.push(format!("through {}: {error}", via.target.vm_name)),
            }
        }
        if why.is_empty() {
            return Err("no control node runs and can be reached".to_owned());
        }
        Err(why.join("; "))
    }
}

/// The control nodes that run and have an address, in map order.
fn control_targets(seen: &Observed, identity: &SshIdentity, reach: Reach) -> Vec<NodeTarget> {
    let mut targets = Vec::new();
    for member in seen.members.iter().filter(|member| member.role == Role::Control) {
        let machine = seen.machines.iter().find(|machine| machine.id == member.vm_id);
        let Some(machine) = machine else { continue };
        if !matches!(machine.state, MachineState::Running | MachineState::Migrating) {
            continue;
        }
        let addresses: Vec<IpAddr> = machine.nics.iter().filter_map(|nic| nic.address).collect();
        let at = match reach {
            Reach::Forwarded { address } => {
                resolve::forwarded_port(&seen.forwarding, address, member.vm_id).map(|port| (address, port))
            }
            Reach::Direct { port } => addresses.first().map(|address| (*address, port)),
        };
        let Some((address, port)) = at else { continue };
        targets.push(NodeTarget {
            vm_id: member.vm_id,
            vm_name: member.vm_name.clone(),
            host: address.to_string(),
            port,
            user: identity.user.clone(),
            private_key: identity.private_key.clone(),
            host_keys: member.host_keys.clone(),
            addresses,
        });
    }
    targets
}
