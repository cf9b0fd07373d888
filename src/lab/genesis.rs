//! Makes a world from a scenario.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use russh::keys::ssh_key::LineEnding;
use russh::keys::{Algorithm, HashAlg, PrivateKey};
use uuid::Uuid;

use super::LabError;
use super::clock;
use super::cloud::model::{
    Account, AccountKind, Balancer, CloudState, Domain, Firewall, Forward, Guest, Iso, KeyPair, Network,
    Offering, Owner, Project, PublicIp, RuleState, Template, User, Vm, VmState, Volume, Zone,
};
use super::record::{API_PORT, ClusterRecord, Subnet, WorldRecord};
use super::scenario::{ClusterPlan, Scenario};

/// First forwarded SSH port.
const FIRST_SSH_PORT: u16 = 2222;
/// Host numbers in the subnet: machines, public addresses, Kubernetes APIs.
const MACHINES: u8 = 10;
const PUBLIC: u8 = 101;
const APIS: u8 = 201;

/// Makes the cloud's records and the lab's.
pub(crate) fn make(
    name: &str,
    scenario: &Scenario,
    subnet: Subnet,
) -> Result<(CloudState, WorldRecord), LabError> {
    let mut state = foundations(scenario);
    people(name, scenario, &mut state)?;
    let mut clusters = Vec::new();
    for (index, plan) in (0u8..).zip(&scenario.cluster) {
        clusters.push(
            Maker {
                scenario: name,
                plan,
                subnet,
                index,
            }
            .cluster(&mut state)?,
        );
    }
    let record = WorldRecord {
        scenario: name.to_owned(),
        subnet,
        kube: scenario.kube,
        clusters,
    };
    Ok((state, record))
}

fn foundations(scenario: &Scenario) -> CloudState {
    let fresh = clock::fresh_id;
    let created = clock::now();
    let offering = |plan: &super::scenario::OfferingPlan| Offering {
        id: fresh(),
        name: plan.name.clone(),
        cpu: plan.cpu,
        speed: plan.speed,
        memory: plan.memory,
    };
    let iso = |plan: &super::scenario::IsoPlan| Iso {
        id: fresh(),
        name: plan.name.clone(),
        url: format!(
            "http://isos.lab/{}.iso",
            plan.name.to_lowercase().replace(' ', "-")
        ),
        bytes: 700 << 20,
        ready: true,
        created,
    };
    CloudState {
        settings: scenario.settings.clone(),
        times: scenario.times,
        zone: Zone {
            id: fresh(),
            name: scenario.zone.clone(),
        },
        domains: vec![Domain {
            id: fresh(),
            name: "ROOT".into(),
            path: "ROOT".into(),
            parent: None,
        }],
        accounts: Vec::new(),
        users: Vec::new(),
        projects: Vec::new(),
        offerings: scenario.offering.iter().map(offering).collect(),
        templates: scenario
            .template
            .iter()
            .map(|plan| Template {
                id: fresh(),
                name: plan.name.clone(),
                system: plan.system,
            })
            .collect(),
        isos: scenario.iso.iter().map(iso).collect(),
        key_pairs: Vec::new(),
        networks: Vec::new(),
        ips: Vec::new(),
        vms: Vec::new(),
        volumes: Vec::new(),
        forwards: Vec::new(),
        firewall: Vec::new(),
        balancers: Vec::new(),
        tags: Vec::new(),
        jobs: Vec::new(),
        counter: 0,
    }
}

fn wrong(name: &str, problem: String) -> LabError {
    LabError::Scenario {
        name: name.to_owned(),
        problem,
    }
}

fn people(name: &str, scenario: &Scenario, state: &mut CloudState) -> Result<(), LabError> {
    for plan in &scenario.domain {
        let (above, last) = plan.path.rsplit_once('/').unwrap_or(("", &plan.path));
        let parent = domain_at(name, state, above)?;
        state.domains.push(Domain {
            id: clock::fresh_id(),
            name: last.to_owned(),
            path: plan.path.clone(),
            parent: Some(parent),
        });
    }
    let root = domain_at(name, state, "ROOT")?;
    add_account(state, "admin", root, AccountKind::Admin);
    for plan in &scenario.account {
        let domain = domain_at(name, state, &plan.domain)?;
        add_account(state, &plan.name, domain, plan.kind);
    }
    for plan in &scenario.project {
        let domain = domain_at(name, state, &plan.domain)?;
        let mut members = Vec::new();
        for member in &plan.members {
            members.push(account_at(name, state, member, domain)?);
        }
        state.projects.push(Project {
            id: clock::fresh_id(),
            name: plan.name.clone(),
            domain,
            members,
        });
    }
    Ok(())
}

fn domain_at(name: &str, state: &CloudState, path: &str) -> Result<Uuid, LabError> {
    let found = state.domains.iter().find(|domain| domain.path == path);
    found
        .map(|domain| domain.id)
        .ok_or_else(|| wrong(name, format!("there is no domain {path:?}")))
}

fn account_at(name: &str, state: &CloudState, account: &str, domain: Uuid) -> Result<Uuid, LabError> {
    let found = state.account_named(account, domain);
    found
        .map(|have| have.id)
        .ok_or_else(|| wrong(name, format!("there is no account {account:?}")))
}

fn add_account(state: &mut CloudState, name: &str, domain: Uuid, kind: AccountKind) {
    let account = Account {
        id: clock::fresh_id(),
        name: name.to_owned(),
        domain,
        kind,
    };
    state.users.push(User {
        id: clock::fresh_id(),
        name: name.to_owned(),
        account: account.id,
        api_key: key_text(),
        secret_key: key_text(),
    });
    state.accounts.push(account);
}

fn key_text() -> String {
    format!("{}{}", clock::fresh_id().simple(), clock::fresh_id().simple())
}

/// The first part of the names of a cluster's machines, as the existing service makes it.
fn prefix(cluster: &str) -> String {
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
struct Maker<'a> {
    scenario: &'a str,
    plan: &'a ClusterPlan,
    subnet: Subnet,
    index: u8,
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
    fn cluster(&self, state: &mut CloudState) -> Result<ClusterRecord, LabError> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::scenario;

    #[test]
    fn every_scenario_makes_a_world() {
        for name in scenario::names() {
            let plan = scenario::load(name).unwrap();
            let (state, record) = make(name, &plan, Subnet { a: 77, b: 1 }).unwrap();
            let members: u16 = plan
                .cluster
                .iter()
                .map(|cluster| cluster.controls + cluster.workers)
                .sum();
            assert_eq!(state.vms.len(), usize::from(members), "{name}");
            assert_eq!(state.forwards.len(), state.vms.len());
            assert_eq!(record.clusters.len(), plan.cluster.len());
            let one_33_1 = state.isos.iter().filter(|iso| iso.name.contains("v1.33.1"));
            assert_eq!(one_33_1.count(), 3, "1.33.1 twice and 1.33.13");
        }
    }

    #[test]
    fn machines_are_named_as_the_existing_service_names_them() {
        let plan = scenario::load("seed-a").unwrap();
        let (state, _) = make("seed-a", &plan, Subnet { a: 77, b: 1 }).unwrap();
        for vm in &state.vms {
            let hex = format!("{:x}", vm.created.as_millisecond());
            let role = if vm.guest.control { "control" } else { "node" };
            assert_eq!(vm.name, format!("cluster-a-{role}-{hex}"));
        }
        assert_eq!(prefix("My Cluster"), "k8s-mycluster");
        assert_eq!(prefix(&"a".repeat(60)).len(), 43);
    }
}
