//! Commands on who is who and on what the cloud can do, and the jobs.

use serde_json::{Value, json};

use super::call::{Call, Reply};
use super::fault::permission;
use super::machines::contains;
use super::model::{CloudState, Owner};
use super::{registry, view};
use crate::protocol::Fault;

/// listDomains.
pub(crate) fn domains(state: &CloudState, call: &Call<'_>) -> Result<Reply, Fault> {
    let id = call.id("id")?;
    if let Some(id) = id {
        state.domain(id).ok_or_else(|| call.unknown("id", id))?;
    }
    let name = call.text("name");
    let items = state
        .domains
        .iter()
        .filter(|have| id.is_none_or(|id| have.id == id) && name.is_none_or(|name| have.name == name))
        .filter(|have| call.caller.is_admin() || state.within(have.id, call.caller.domain))
        .map(|have| view::domain(state, have))
        .collect();
    call.list(state, "domain", items)
}

/// listAccounts.
pub(crate) fn accounts(state: &CloudState, call: &Call<'_>) -> Result<Reply, Fault> {
    let id = call.id("id")?;
    let name = call.text("name");
    let domain = call.id("domainid")?;
    let all = call.flag("listall") || id.is_some() || domain.is_some() || name.is_some();
    let items = state
        .accounts
        .iter()
        .filter(|have| id.is_none_or(|id| have.id == id) && name.is_none_or(|name| have.name == name))
        .filter(|have| domain.is_none_or(|domain| have.domain == domain))
        .filter(|have| have.id == call.caller.account || all)
        .filter(|have| state.may_use(call.caller.account, Owner::Account(have.id)))
        .map(|have| view::account(state, have))
        .collect();
    call.list(state, "account", items)
}

/// listUsers.
pub(crate) fn users(state: &CloudState, call: &Call<'_>) -> Result<Reply, Fault> {
    let id = call.id("id")?;
    let name = call.text("username");
    let all = call.flag("listall") || id.is_some() || name.is_some();
    let items = state
        .users
        .iter()
        .filter(|have| id.is_none_or(|id| have.id == id) && name.is_none_or(|name| have.name == name))
        .filter(|have| have.account == call.caller.account || all)
        .filter(|have| state.may_use(call.caller.account, Owner::Account(have.account)))
        .map(|have| view::user(state, have))
        .collect();
    call.list(state, "user", items)
}

/// listProjects.
pub(crate) fn projects(state: &CloudState, call: &Call<'_>) -> Result<Reply, Fault> {
    let id = call.id("id")?;
    let (name, keyword) = (call.text("name"), call.text("keyword"));
    let items = state
        .projects
        .iter()
        .filter(|have| id.is_none_or(|id| have.id == id) && name.is_none_or(|name| have.name == name))
        .filter(|have| keyword.is_none_or(|key| contains(&have.name, key)))
        .filter(|have| state.may_use(call.caller.account, Owner::Project(have.id)))
        .map(|have| view::project(state, have))
        .collect();
    call.list(state, "project", items)
}

/// getUser: the user of an API key.
pub(crate) fn get_user(state: &CloudState, call: &Call<'_>) -> Result<Reply, Fault> {
    let key = call.need("userapikey")?;
    let user = state.users.iter().find(|have| have.api_key == key);
    let user = user.ok_or_else(|| Fault::invalid("no user has this API key"))?;
    call.allow(state, Owner::Account(user.account))?;
    Ok(Reply::object("user", view::user(state, user)))
}

/// getUserKeys.
pub(crate) fn get_user_keys(state: &CloudState, call: &Call<'_>) -> Result<Reply, Fault> {
    let id = call.need_id("id")?;
    let user = state.user(id).ok_or_else(|| call.unknown("id", id))?;
    call.allow(state, Owner::Account(user.account))?;
    Ok(Reply::object(
        "userkeys",
        json!({"apikey": user.api_key, "secretkey": user.secret_key}),
    ))
}

/// listApis: what the caller's role may use.
pub(crate) fn apis(_state: &CloudState, call: &Call<'_>) -> Result<Reply, Fault> {
    let name = call.text("name");
    let items: Vec<Value> = registry::COMMANDS
        .iter()
        .filter(|command| name.is_none_or(|name| command.name == name))
        .filter(|command| call.caller.is_admin() || !command.admin)
        .map(|command| {
            json!({
                "name": command.name, "description": command.about, "isasync": command.is_async,
                "related": "", "params": [], "response": [],
            })
        })
        .collect();
    if items.is_empty() {
        return Err(super::fault::internal(
            "no such command, or none that the caller may use",
        ));
    }
    let total = items.len();
    Ok(Reply::Body(crate::protocol::envelope::list_body(
        "api", total, items,
    )))
}

/// listCapabilities.
#[expect(clippy::unnecessary_wraps, reason = "every handler has this shape")]
pub(crate) fn capabilities(state: &CloudState, _call: &Call<'_>) -> Result<Reply, Fault> {
    Ok(Reply::object(
        "capability",
        json!({
            "cloudstackversion": state.settings.version, "kubernetesserviceenabled": false,
            "kubernetesclusterexperimentalfeaturesenabled": false,
            "allowuserexpungerecovervm": state.settings.allow_user_expunge,
            "allowuserviewdestroyedvm": true, "securitygroupsenabled": false,
            "defaultuipagesize": state.settings.page_max, "projectinviterequired": false,
        }),
    ))
}

/// queryAsyncJobResult.
pub(crate) fn job(state: &CloudState, call: &Call<'_>) -> Result<Reply, Fault> {
    let id = call.need_id("jobid")?;
    let job = state
        .jobs
        .iter()
        .find(|have| have.id == id)
        .ok_or_else(|| call.unknown("jobid", id))?;
    let account = state.user(job.user).map(|user| user.account);
    let own = account.is_some_and(|id| state.may_use(call.caller.account, Owner::Account(id)));
    if !own {
        return Err(permission("the job belongs to another account"));
    }
    Ok(Reply::Body(view::job(state, job)))
}

/// listAsyncJobs.
pub(crate) fn jobs(state: &CloudState, call: &Call<'_>) -> Result<Reply, Fault> {
    let scope = call.scope(state)?;
    let keyword = call.text("keyword");
    let items = state
        .jobs
        .iter()
        .filter(|job| keyword.is_none_or(|key| contains(&job.command, key)))
        .filter(|job| {
            let account = state.user(job.user).map(|user| user.account);
            account.is_some_and(|id| scope.shows(state, Owner::Account(id), false))
        })
        .map(|job| view::job(state, job))
        .collect();
    call.list(state, "asyncjobs", items)
}
