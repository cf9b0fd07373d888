//! One cluster of a new world: its key, network, address, machines and rules.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use russh::keys::ssh_key::LineEnding;
use russh::keys::{Algorithm, HashAlg, PrivateKey};
use uuid::Uuid;

use super::{account_at, domain_at, wrong};
use crate::lab::LabError;
use crate::lab::clock;
use crate::lab::cloud::model::{
    Balancer, CloudState, Firewall, Forward, Guest, KeyPair, Network, Owner, PublicIp, RuleState, Vm,
    VmState, Volume,
};
use crate::lab::record::{API_PORT, ClusterRecord, Subnet};
use crate::lab::scenario::ClusterPlan;

/// First forwarded SSH port.
const FIRST_SSH_PORT: u16 = 2222;
/// Host numbers in the subnet: machines, public addresses, Kubernetes APIs.
const MACHINES: u8 = 10;
const PUBLIC: u8 = 101;
const APIS: u8 = 201;

/// The first part of the names of a cluster's machines, as the existing service makes it.
pub(super) fn prefix(cluster: &str) -> String {
    let lower = cluster.to_lowercase();
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let label = lower.len() <= 63
        && lower.starts_with(|c: char| c.is_ascii_alphabetic())
        && !lower.ends_with('-')
        && lower.chars().all(allowed);
    let name = if label {
        lower
    } else {
        let kept: String = lower.chars().filter(|c| allowed(*c)).collect();
        if kept.is_empty() {
            format!("k8s-{}", clock::fresh_id())
        } else {
            format!("k8s-{kept}")
        }
    };
    name.chars().take(43).collect()
}

/// Makes one cluster.
pub(super) struct Maker<'a> {
    pub(super) scenario: &'a str,
    pub(super) plan: &'a ClusterPlan,
    pub(super) subnet: Subnet,
    /// Its number among the clusters.
    pub(super) index: u8,
}

/// What the machines of a cluster have in common.
struct Common {
    owner: Owner,
    user: Uuid,
    network: Uuid,
    offering: Uuid,
    template: Uuid,
    key_pair: String,
}

impl Maker<'_> {
    pub(super) fn cluster(&self, state: &mut CloudState) -> Result<ClusterRecord, LabError> {
        let plan = self.plan;
        let (ssh_key, ssh_public, fingerprint) = key_pair(self.scenario)?;
        let common = self.common(state)?;
        let account = account_at(
            self.scenario,
            state,
            &plan.account,
            domain_at(self.scenario, state, &plan.domain)?,
        )?;
        state.key_pairs.push(KeyPair {
            name: common.key_pair.clone(),
            account,
            public_key: ssh_public.clone(),
            fingerprint,
        });
        // Machines are an hour old and more, one minute apart, so that "newest first" has an order.
        let start = clock::now()
            .checked_sub(Duration::from_hours(2))
            .unwrap_or_default();
        state.networks.push(Network {
            id: common.network,
            name: format!("{}-network", plan.name),
            owner: common.owner,
            created: start,
        });
        let public_ip = self.subnet.host(PUBLIC + self.index);
        let ip = clock::fresh_id();
        state.ips.push(PublicIp {
            id: ip,
            address: public_ip,
            network: common.network,
            owner: common.owner,
            allocated: start,
        });
        let mut members = Vec::new();
        for number in 0..plan.controls + plan.workers {
            let age = Duration::from_millis(61_003 * u64::from(number));
            let created = start.checked_add(age).unwrap_or(start);
            members.push(self.machine(state, &common, number < plan.controls, created));
        }
        self.rules(state, ip, &members);
        Ok(ClusterRecord {
            name: plan.name.clone(),
            id: clock::fresh_id(),
            account: plan.account.clone(),
            domain: plan.domain.clone(),
            project: plan.project.clone(),
            version: plan.version.clone(),
            network: common.network,
            public_ip,
            kube_address: self.subnet.host(APIS + self.index),
            template: common.template,
            ssh_user: "cloud".to_owned(),
            ssh_key,
            ssh_public,
            manifests: plan.manifests.clone(),
        })
    }

    fn common(&self, state: &CloudState) -> Result<Common, LabError> {
        let plan = self.plan;
        let missing = |what: &str, name: &str| wrong(self.scenario, format!("there is no {what} {name:?}"));
        let domain = domain_at(self.scenario, state, &plan.domain)?;
        let account = account_at(self.scenario, state, &plan.account, domain)?;
        let owner = match &plan.project {
            None => Owner::Account(account),
            Some(name) => {
                let found = state
                    .projects
                    .iter()
                    .find(|have| have.name == *name && have.domain == domain);
                Owner::Project(found.ok_or_else(|| missing("project", name))?.id)
            }
        };
        let user = state.users.iter().find(|user| user.account == account);
        let offering = state.offerings.iter().find(|have| have.name == plan.offering);
        let template = state.templates.iter().find(|have| have.name == plan.template);
        Ok(Common {
            owner,
            user: user.ok_or_else(|| missing("user of account", &plan.account))?.id,
            network: clock::fresh_id(),
            offering: offering.ok_or_else(|| missing("offering", &plan.offering))?.id,
            template: template.ok_or_else(|| missing("template", &plan.template))?.id,
            key_pair: format!("{}-key", plan.name),
        })
    }

    fn machine(&self, state: &mut CloudState, common: &Common, control: bool, created: Timestamp) -> Uuid {
        let role = if control { "control" } else { "node" };
        let name = format!(
            "{}-{role}-{:x}",
            prefix(&self.plan.name),
            created.as_millisecond()
        );
        let number = state.next_number();
        let taken = u8::try_from(state.vms.len()).unwrap_or(u8::MAX);
        let id = clock::fresh_id();
        let mut details = BTreeMap::new();
        if control {
            details.insert("controlNodeLoginUser".to_owned(), "cloud".to_owned());
        }
        state.vms.push(Vm {
            id,
            name: name.clone(),
            display_name: name,
            instance_name: format!("i-2-{number}-VM"),
            owner: common.owner,
            user: common.user,
            created,
            state: VmState::Running,
            removed: false,
            offering: common.offering,
            template: common.template,
            network: common.network,
            nic: clock::fresh_id(),
            address: self.subnet.host(MACHINES.saturating_add(taken)),
            key_pair: Some(common.key_pair.clone()),
            iso: None,
            user_data: None,
            details,
            backup_offering: None,
            backups: 0,
            delete_protection: false,
            kind: "User".to_owned(),
            guest: Guest {
                cluster: Some(self.plan.name.clone()),
                control,
                kubeconfig: None,
                kubelet: true,
                kubelet_version: format!("v{}", self.plan.version),
                registered: false,
            },
        });
        state.volumes.push(Volume {
            id: clock::fresh_id(),
            name: format!("ROOT-{number}"),
            data: false,
            vm: Some(id),
            owner: common.owner,
            bytes: 8 << 30,
            created,
        });
        id
    }

    /// The rules of an isolated network (`cks-facts.md` 7): 6443 and the SSH range open, one forward a machine.
    fn rules(&self, state: &mut CloudState, ip: Uuid, members: &[Uuid]) {
        let count = self.plan.controls + self.plan.workers;
        let last = FIRST_SSH_PORT + count.saturating_sub(1);
        for ports in [(API_PORT, API_PORT), (FIRST_SSH_PORT, last)] {
            state.firewall.push(Firewall {
                id: clock::fresh_id(),
                ip,
                protocol: "tcp".to_owned(),
                ports: Some(ports),
                cidrs: vec!["0.0.0.0/0".to_owned()],
                state: RuleState::Active,
            });
        }
        for (port, vm) in (FIRST_SSH_PORT..).zip(members) {
            state.forwards.push(Forward {
                id: clock::fresh_id(),
                ip,
                protocol: "tcp".to_owned(),
                public: (port, port),
                private: (22, 22),
                vm: *vm,
                state: RuleState::Active,
            });
        }
        state.balancers.push(Balancer {
            id: clock::fresh_id(),
            name: "api-lb".to_owned(),
            ip,
            algorithm: "roundrobin".to_owned(),
            protocol: "tcp".to_owned(),
            public: API_PORT,
            private: API_PORT,
            vms: members
                .iter()
                .take(usize::from(self.plan.controls))
                .copied()
                .collect(),
            state: RuleState::Active,
        });
    }
}

/// A new SSH key: private form, public form, fingerprint.
fn key_pair(scenario: &str) -> Result<(String, String, String), LabError> {
    let failed =
        |error: &dyn std::fmt::Display| wrong(scenario, format!("no SSH key could be made: {error}"));
    let key = PrivateKey::random(&mut rand::rng(), Algorithm::Ed25519).map_err(|error| failed(&error))?;
    let private = key.to_openssh(LineEnding::LF).map_err(|error| failed(&error))?;
    let public = key.public_key().to_openssh().map_err(|error| failed(&error))?;
    let fingerprint = key.public_key().fingerprint(HashAlg::Sha256).to_string();
    Ok((private.to_string(), public, fingerprint))
}
