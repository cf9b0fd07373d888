//! Makes a world from a scenario.
//!
//! What this must not know: anything that runs.

mod cluster;
#[cfg(test)]
mod tests;

use uuid::Uuid;

use self::cluster::Maker;
use super::LabError;
use super::clock;
use super::cloud::model::{
    Account, AccountKind, CloudState, Domain, Iso, Offering, Project, Template, User, Zone,
};
use super::record::{Subnet, WorldRecord};
use super::scenario::Scenario;

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
