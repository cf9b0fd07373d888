//! Domains, accounts, users, projects and key pairs on the wire.

use serde_json::{Value, json};

use super::super::model::{Account, CloudState, Domain, KeyPair, Owner, Project, User};
use super::{object, put, put_owner};

/// A domain.
pub(crate) fn domain(state: &CloudState, domain: &Domain) -> Value {
    let level = domain.path.matches('/').count();
    let mut map = object(json!({
        "id": domain.id, "name": domain.name, "path": domain.path, "level": level, "state": "Active",
        "haschild": state.domains.iter().any(|other| other.parent == Some(domain.id)),
    }));
    put(&mut map, "parentdomainid", domain.parent.map(|id| id.to_string()));
    Value::Object(map)
}

/// An account with its users.
pub(crate) fn account(state: &CloudState, account: &Account) -> Value {
    let users: Vec<Value> = state
        .users
        .iter()
        .filter(|user| user.account == account.id)
        .map(|one| user(state, one))
        .collect();
    let mut map = object(json!({
        "id": account.id, "name": account.name, "accounttype": account.kind.number(),
        "rolename": account.kind.role(), "roletype": account.kind.role(), "state": "enabled",
        "cpuavailable": "Unlimited", "memoryavailable": "Unlimited", "vmavailable": "Unlimited",
        "user": users, "groups": [],
    }));
    put_owner(&mut map, state, Owner::Account(account.id));
    map.remove("account");
    Value::Object(map)
}

/// A user, without its secret.
pub(crate) fn user(state: &CloudState, user: &User) -> Value {
    let mut map = object(json!({
        "id": user.id, "username": user.name, "firstname": user.name, "lastname": "lab", "state": "enabled",
        "accountid": user.account, "apikey": user.api_key, "iscallerchilddomain": false, "isdefault": false,
    }));
    if let Some(account) = state.account(user.account) {
        map.insert("accounttype".to_owned(), json!(account.kind.number()));
        map.insert("rolename".to_owned(), json!(account.kind.role()));
        map.insert("roletype".to_owned(), json!(account.kind.role()));
    }
    put_owner(&mut map, state, Owner::Account(user.account));
    Value::Object(map)
}

/// A project.
pub(crate) fn project(state: &CloudState, project: &Project) -> Value {
    let mut map = object(json!({
        "id": project.id, "name": project.name, "displaytext": project.name, "state": "Active", "tags": [],
    }));
    if let Some(domain) = state.domain(project.domain) {
        map.insert("domainid".to_owned(), json!(domain.id));
        map.insert("domain".to_owned(), json!(domain.name));
    }
    Value::Object(map)
}

/// A key pair.
pub(crate) fn key_pair(state: &CloudState, pair: &KeyPair) -> Value {
    let mut map = object(json!({"name": pair.name, "fingerprint": pair.fingerprint}));
    put_owner(&mut map, state, Owner::Account(pair.account));
    Value::Object(map)
}
