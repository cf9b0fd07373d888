//! Commands on what machines are made of: zones, offerings, templates, ISOs, networks, key pairs, tags.

use serde_json::json;

use super::call::{Call, Reply};
use super::machines::contains;
use super::model::{CloudState, Iso, Tag};
use super::view;
use super::work::Work;
use crate::lab::clock;
use crate::protocol::{Fault, envelope};

/// Whether an object with this id and name is asked for: `id` and `name` equal, `keyword` a piece of the name.
fn matches(call: &Call<'_>, id: uuid::Uuid, name: &str) -> bool {
    call.text("id")
        .is_none_or(|wanted| wanted.eq_ignore_ascii_case(&id.to_string()))
        && call.text("name").is_none_or(|wanted| wanted == name)
        && call.text("keyword").is_none_or(|key| contains(name, key))
}

/// Refuses an `id` that nothing has.
fn check_id(call: &Call<'_>, mut is: impl FnMut(uuid::Uuid) -> bool) -> Result<(), Fault> {
    match call.id("id")? {
        Some(id) if !is(id) => Err(call.unknown("id", id)),
        _ => Ok(()),
    }
}

fn check_zone(state: &CloudState, call: &Call<'_>) -> Result<(), Fault> {
    match call.id("zoneid")? {
        Some(id) if id != state.zone.id => Err(call.unknown("zoneid", id)),
        _ => Ok(()),
    }
}

/// listZones.
pub(crate) fn zones(state: &CloudState, call: &Call<'_>) -> Result<Reply, Fault> {
    let zone = &state.zone;
    check_id(call, |id| id == zone.id)?;
    let mut items = Vec::new();
    if matches(call, zone.id, &zone.name) {
        items.push(json!({
            "id": zone.id, "name": zone.name, "networktype": "Advanced", "securitygroupsenabled": false,
            "allocationstate": "Enabled", "localstorageenabled": true, "dhcpprovider": "VirtualRouter",
            "type": "Core", "tags": [],
        }));
    }
    call.list(state, "zone", items)
}

/// listServiceOfferings.
pub(crate) fn offerings(state: &CloudState, call: &Call<'_>) -> Result<Reply, Fault> {
    check_id(call, |id| state.offering(id).is_some())?;
    check_zone(state, call)?;
    let items = state
        .offerings
        .iter()
        .filter(|have| matches(call, have.id, &have.name))
        .map(view::offering)
        .collect();
    call.list(state, "serviceoffering", items)
}

/// listTemplates; system templates are for the filter `all` of administrators, and by id.
pub(crate) fn templates(state: &CloudState, call: &Call<'_>) -> Result<Reply, Fault> {
    let filter = call.need("templatefilter")?.to_lowercase();
    if filter == "all" && !call.caller.is_admin() {
        return Err(Fault::invalid(
            "template filter all is for root administrators only",
        ));
    }
    check_id(call, |id| state.templates.iter().any(|have| have.id == id))?;
    check_zone(state, call)?;
    let items = state
        .templates
        .iter()
        .filter(|have| !have.system || filter == "all")
        .filter(|have| matches(call, have.id, &have.name))
        .map(|have| view::template(state, have))
        .collect();
    call.list(state, "template", items)
}

/// listIsos.
pub(crate) fn isos(state: &CloudState, call: &Call<'_>) -> Result<Reply, Fault> {
    check_id(call, |id| state.isos.iter().any(|have| have.id == id))?;
    check_zone(state, call)?;
    let ready = call.text("isready").map(|word| word.eq_ignore_ascii_case("true"));
    let items = state
        .isos
        .iter()
        .filter(|have| matches(call, have.id, &have.name) && ready.is_none_or(|ready| have.ready == ready))
        .map(|have| view::iso(state, have))
        .collect();
    call.list(state, "iso", items)
}

/// registerIso answers at once with a list of one.
pub(crate) fn register_iso(state: &mut CloudState, call: &Call<'_>) -> Result<Reply, Fault> {
    let name = call.need("name")?.to_owned();
    let url = call.need("url")?.to_owned();
    call.need("displaytext")?;
    call.need("zoneid")?;
    check_zone(state, call)?;
    if call.flag_or("bootable", true) && call.text("ostypeid").is_none() {
        return Err(Fault::missing(call.command, "ostypeid"));
    }
    let iso = Iso {
        id: clock::fresh_id(),
        name,
        url,
        bytes: 700 << 20,
        ready: true,
        created: clock::now(),
    };
    let shown = view::iso(state, &iso);
    state.isos.push(iso);
    Ok(Reply::Body(envelope::list_body("iso", 1, vec![shown])))
}

/// listNetworks.
pub(crate) fn networks(state: &CloudState, call: &Call<'_>) -> Result<Reply, Fault> {
    let scope = call.scope(state)?;
    check_id(call, |id| state.network(id).is_some())?;
    check_zone(state, call)?;
    let by_id = call.id("id")?.is_some();
    let items = state
        .networks
        .iter()
        .filter(|have| matches(call, have.id, &have.name) && scope.shows(state, have.owner, by_id))
        .map(|have| view::network(state, have))
        .collect();
    call.list(state, "network", items)
}

/// listSSHKeyPairs.
pub(crate) fn key_pairs(state: &CloudState, call: &Call<'_>) -> Result<Reply, Fault> {
    let scope = call.scope(state)?;
    let name = call.text("name");
    let items = state
        .key_pairs
        .iter()
        .filter(|pair| name.is_none_or(|name| pair.name == name))
        .filter(|pair| scope.shows(state, super::model::Owner::Account(pair.account), false))
        .map(|pair| view::key_pair(state, pair))
        .collect();
    call.list(state, "sshkeypair", items)
}

/// listTags.
pub(crate) fn tags(state: &CloudState, call: &Call<'_>) -> Result<Reply, Fault> {
    let (resource, kind) = (call.id("resourceid")?, call.text("resourcetype"));
    let (key, value) = (call.text("key"), call.text("value"));
    let items = state
        .tags
        .iter()
        .filter(|tag| resource.is_none_or(|id| tag.resource == id))
        .filter(|tag| kind.is_none_or(|kind| tag.resource_type.eq_ignore_ascii_case(kind)))
        .filter(|tag| key.is_none_or(|key| tag.key == key) && value.is_none_or(|value| tag.value == value))
        .map(view::tag)
        .collect();
    call.list(state, "tag", items)
}

fn given_tags(call: &Call<'_>) -> Result<Vec<Tag>, Fault> {
    let kind = call.need("resourcetype")?;
    call.need("resourceids")?;
    let records = call.params.map("tags")?;
    let mut tags = Vec::new();
    for resource in call.ids("resourceids")? {
        for record in records.values() {
            let key = record
                .get("key")
                .ok_or_else(|| Fault::missing(call.command, "tags"))?;
            tags.push(Tag {
                resource,
                resource_type: kind.to_owned(),
                key: key.clone(),
                value: record.get("value").cloned().unwrap_or_default(),
            });
        }
    }
    if tags.is_empty() {
        return Err(Fault::missing(call.command, "tags"));
    }
    Ok(tags)
}

/// createTags.
pub(crate) fn create_tags(_state: &mut CloudState, call: &Call<'_>) -> Result<Reply, Fault> {
    let work = Work::AddTags {
        tags: given_tags(call)?,
    };
    Ok(Reply::Submit {
        makes: None,
        instance: None,
        work,
    })
}

/// deleteTags.
pub(crate) fn delete_tags(_state: &mut CloudState, call: &Call<'_>) -> Result<Reply, Fault> {
    let work = Work::DropTags {
        tags: given_tags(call)?,
    };
    Ok(Reply::Submit {
        makes: None,
        instance: None,
        work,
    })
}
