//! Creating and changing objects by the rules of the API: names, versions, generations, subresources, finalizers.
//!
//! Everything here runs under the lock of the store, so a decision and its write are one.

use std::sync::Arc;

use serde_json::{Value, json};

use super::error::{FieldFault, Status};
use super::json::{self as js, put, put_default, take};
use super::patch::Patch;
use super::resources::{NAMESPACE, POD, Resource};
use super::store::State;
use super::{defaults, time, validate};

/// Whether a write is to be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Write {
    Keep,
    /// `dryRun=All`: everything is checked, nothing stored.
    Try,
}

/// Which part of an object a write is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Main,
    Status,
}

/// Creates an object in a namespace ("" for a resource without).
pub(crate) fn create(
    state: &mut State,
    resource: &'static Resource,
    namespace: &str,
    mut object: Value,
    write: Write,
) -> Result<Arc<Value>, Status> {
    identify(resource, namespace, &mut object)?;
    if resource.namespaced {
        in_living_namespace(state, resource, namespace, js::name(&object))?;
    }
    if js::name(&object).is_empty() {
        let prefix = js::text(&object, "/metadata/generateName");
        if !prefix.is_empty() {
            let name = format!("{prefix}{}", defaults::suffix(5));
            put(&mut object, "/metadata/name", json!(name));
        }
    }
    if !js::name(&object).is_empty() && state.get(resource, namespace, js::name(&object)).is_some() {
        return Err(Status::already_exists(resource, js::name(&object)));
    }
    put(&mut object, "/metadata/uid", json!(time::fresh_uid()));
    put(&mut object, "/metadata/creationTimestamp", json!(time::stamp()));
    for field in [
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "managedFields",
        "generation",
        "resourceVersion",
    ] {
        take(&mut object, &format!("/metadata/{field}"));
    }
    if resource.generation {
        put(&mut object, "/metadata/generation", json!(1));
    }
    defaults::on_create(state, resource, &mut object);
    validate::check(resource, &object)?;
    Ok(match write {
        Write::Keep => state.put(resource, object),
        Write::Try => Arc::new(object),
    })
}

/// Checks and completes what an object says of its own type and place.
fn identify(resource: &'static Resource, namespace: &str, object: &mut Value) -> Result<(), Status> {
    if !object.is_object() {
        return Err(Status::bad_request("the body of the request is not an object"));
    }
    put_default(object, "/apiVersion", json!(resource.api_version()));
    put_default(object, "/kind", json!(resource.kind));
    if js::text(object, "/kind") != resource.kind || js::text(object, "/apiVersion") != resource.api_version()
    {
        return Err(Status::bad_request(format!(
            "{}, Kind={} is not what {} of {} takes",
            js::text(object, "/apiVersion"),
            js::text(object, "/kind"),
            resource.plural,
            resource.api_version()
        )));
    }
    if resource.namespaced {
        put_default(object, "/metadata/namespace", json!(namespace));
        if js::namespace(object) != namespace {
            return Err(Status::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
    } else {
        take(object, "/metadata/namespace");
    }
    put_default(object, "/metadata", json!({}));
    Ok(())
}

/// Nothing is made in a namespace that is not there or that goes away.
pub(crate) fn in_living_namespace(
    state: &State,
    resource: &'static Resource,
    namespace: &str,
    name: &str,
) -> Result<(), Status> {
    let Some(home) = state.get(&NAMESPACE, "", namespace) else {
        return Err(Status::not_found(&NAMESPACE, namespace));
    };
    if js::deleting(&home) {
        return Err(Status::terminating_namespace(resource, name, namespace));
    }
    Ok(())
}

/// Reads an object or says that it is not there.
pub(crate) fn get(
    state: &State,
    resource: &'static Resource,
    namespace: &str,
    name: &str,
) -> Result<Arc<Value>, Status> {
    state
        .get(resource, namespace, name)
        .ok_or_else(|| Status::not_found(resource, name))
}

/// Replaces an object, or its status.
pub(crate) fn update(
    state: &mut State,
    resource: &'static Resource,
    namespace: &str,
    name: &str,
    part: Part,
    mut wanted: Value,
    write: Write,
) -> Result<Arc<Value>, Status> {
    let old = get(state, resource, namespace, name)?;
    identify(resource, namespace, &mut wanted)?;
    if js::name(&wanted) != name {
        return Err(Status::bad_request(
            "the name of the object does not match the name on the URL",
        ));
    }
    let version = js::text(&wanted, "/metadata/resourceVersion");
    if !version.is_empty() && version != js::text(&old, "/metadata/resourceVersion") {
        return Err(Status::modified(resource, name));
    }
    if !js::uid(&wanted).is_empty() && js::uid(&wanted) != js::uid(&old) {
        let why = format!(
            "Precondition failed: UID in precondition: {}, UID in object meta: {}",
            js::uid(&wanted),
            js::uid(&old)
        );
        return Err(Status::conflict(resource, name, &why));
    }
    let new = compose(resource, &old, wanted, part)?;
    if new == *old {
        return Ok(old);
    }
    if write == Write::Try {
        return Ok(Arc::new(new));
    }
    Ok(settle(state, resource, new))
}

/// The object as it becomes: what a client may not change stays as it was.
fn compose(resource: &'static Resource, old: &Value, mut wanted: Value, part: Part) -> Result<Value, Status> {
    let mut new = match part {
        Part::Status => {
            let mut new = old.clone();
            put(
                &mut new,
                "/status",
                take(&mut wanted, "/status").unwrap_or_else(|| json!({})),
            );
            return Ok(new);
        }
        Part::Main => wanted,
    };
    if resource.status {
        match old.get("status") {
            Some(status) => put(&mut new, "/status", status.clone()),
            None => {
                take(&mut new, "/status");
            }
        }
    }
    take(&mut new, "/metadata/managedFields");
    for field in [
        "uid",
        "creationTimestamp",
        "resourceVersion",
        "generation",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ] {
        let pointer = format!("/metadata/{field}");
        match js::at(old, &pointer) {
            Value::Null => {
                take(&mut new, &pointer);
            }
            value => put(&mut new, &pointer, value.clone()),
        }
    }
    drop_empty(&mut new);
    defaults::always(resource, &mut new);
    if *resource == POD && js::has(old, "/spec/nodeName") {
        let node = js::at(old, "/spec/nodeName").clone();
        put(&mut new, "/spec/nodeName", node);
    }
    validate::check(resource, &new)?;
    if resource.spec_fields.contains(&"template")
        && js::at(old, "/spec/selector") != js::at(&new, "/spec/selector")
    {
        let why = format!("{}: field is immutable", js::at(&new, "/spec/selector"));
        return Err(Status::invalid(
            resource,
            js::name(&new),
            "spec.selector",
            FieldFault::Invalid,
            &why,
        ));
    }
    if resource.generation && js::at(old, "/spec") != js::at(&new, "/spec") {
        put(
            &mut new,
            "/metadata/generation",
            json!(js::count(old, "/metadata/generation") + 1),
        );
    }
    Ok(new)
}

/// An API type leaves out what is empty.
fn drop_empty(object: &mut Value) {
    for pointer in [
        "/metadata/finalizers",
        "/metadata/labels",
        "/metadata/annotations",
        "/spec/taints",
    ] {
        let empty = match js::at(object, pointer) {
            Value::Array(list) => list.is_empty(),
            Value::Object(map) => map.is_empty(),
            _ => false,
        };
        if empty {
            take(object, pointer);
        }
    }
    if js::at(object, "/spec/unschedulable") == &json!(false) {
        take(object, "/spec/unschedulable");
    }
}

/// Patches an object, or its status.
pub(crate) fn patch(
    state: &mut State,
    resource: &'static Resource,
    namespace: &str,
    name: &str,
    part: Part,
    patch: &Patch,
    write: Write,
) -> Result<Arc<Value>, Status> {
    let Some(old) = state.get(resource, namespace, name) else {
        return match patch {
            Patch::Apply(object) => {
                let mut object = object.clone();
                put_default(&mut object, "/metadata/name", json!(name));
                create(state, resource, namespace, object, write)
            }
            _ => Err(Status::not_found(resource, name)),
        };
    };
    update(state, resource, namespace, name, part, patch.apply(&old)?, write)
}

/// Stores an object, or removes it if nothing holds up its deletion any more.
pub(crate) fn settle(state: &mut State, resource: &'static Resource, object: Value) -> Arc<Value> {
    if js::deleting(&object) && !held(resource, &object) {
        let (namespace, name) = (js::namespace(&object).to_owned(), js::name(&object).to_owned());
        state.remove(resource, &namespace, &name);
        return Arc::new(object);
    }
    state.put(resource, object)
}

/// Whether an object that is being deleted must still stay.
fn held(resource: &'static Resource, object: &Value) -> bool {
    !js::items(object, "/metadata/finalizers").is_empty()
        || (*resource == NAMESPACE && !js::items(object, "/spec/finalizers").is_empty())
        || js::count(object, "/metadata/deletionGracePeriodSeconds") > 0
}

/// Changes an object from inside (controllers): no checks, no write if nothing changed.
pub(crate) fn touch(
    state: &mut State,
    resource: &'static Resource,
    namespace: &str,
    name: &str,
    change: impl FnOnce(&mut Value),
) {
    let Some(old) = state.get(resource, namespace, name) else {
        return;
    };
    let mut new = (*old).clone();
    change(&mut new);
    if new != *old {
        settle(state, resource, new);
    }
}
