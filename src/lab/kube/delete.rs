//! Deleting: grace periods, finalizers, preconditions, and what becomes of the things that an object owns.

use std::sync::Arc;

use serde_json::{Value, json};

use super::error::Status;
use super::json::{self as js, put};
use super::objects;
use super::resources::{self, NAMESPACE, POD, Resource};
use super::store::State;
use super::time;

/// The finalizer of a deletion that waits for what the object owns.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";

/// What becomes of the things that a deleted object owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Propagation {
    /// They go after it.
    #[default]
    Background,
    /// They go before it.
    Foreground,
    /// They stay.
    Orphan,
}

/// `DeleteOptions`.
#[derive(Debug, Clone, Default)]
pub(crate) struct DeleteOptions {
    pub(crate) grace: Option<i64>,
    pub(crate) propagation: Propagation,
    pub(crate) uid: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) dry_run: bool,
}

impl DeleteOptions {
    /// No grace at all.
    pub(crate) fn now() -> Self {
        Self {
            grace: Some(0),
            ..Self::default()
        }
    }

    /// Reads the body of a DELETE (may be null) with what the query says.
    pub(crate) fn read(body: &Value, query: &dyn Fn(&str) -> Option<String>) -> Self {
        let word = |pointer: &str, key: &str| {
            let text = js::text(body, pointer);
            if text.is_empty() {
                query(key)
            } else {
                Some(text.to_owned())
            }
        };
        let propagation = match word("/propagationPolicy", "propagationPolicy").as_deref() {
            Some("Foreground") => Propagation::Foreground,
            Some("Orphan") => Propagation::Orphan,
            _ => Propagation::Background,
        };
        let own = |pointer: &str| Some(js::text(body, pointer).to_owned()).filter(|text| !text.is_empty());
        Self {
            grace: js::int(body, "/gracePeriodSeconds")
                .or_else(|| query("gracePeriodSeconds").and_then(|text| text.parse().ok())),
            propagation,
            uid: own("/preconditions/uid"),
            version: own("/preconditions/resourceVersion"),
            dry_run: js::items(body, "/dryRun").iter().any(|item| item == "All")
                || query("dryRun").as_deref() == Some("All"),
        }
    }
}

/// What a deletion came to.
#[derive(Debug)]
pub(crate) struct Deleted {
    pub(crate) object: Arc<Value>,
    pub(crate) gone: bool,
}

/// Deletes an object, or begins to.
pub(crate) fn delete(
    state: &mut State,
    resource: &'static Resource,
    namespace: &str,
    name: &str,
    options: &DeleteOptions,
) -> Result<Deleted, Status> {
    let old = objects::get(state, resource, namespace, name)?;
    precondition(resource, name, "UID", options.uid.as_deref(), js::uid(&old))?;
    let version = js::text(&old, "/metadata/resourceVersion");
    precondition(
        resource,
        name,
        "ResourceVersion",
        options.version.as_deref(),
        version,
    )?;
    if options.dry_run {
        return Ok(Deleted {
            object: old,
            gone: true,
        });
    }
    if options.propagation == Propagation::Orphan {
        orphan(state, js::uid(&old));
    }
    let mut new = (*old).clone();
    if *resource == NAMESPACE {
        put(&mut new, "/status/phase", json!("Terminating"));
    }
    if options.propagation == Propagation::Foreground {
        let mut finalizers = js::items(&old, "/metadata/finalizers").to_vec();
        if !finalizers.iter().any(|item| item == FOREGROUND) {
            finalizers.push(json!(FOREGROUND));
        }
        put(&mut new, "/metadata/finalizers", Value::Array(finalizers));
    }
    let grace = grace(resource, &old, options.grace);
    let sooner = js::int(&old, "/metadata/deletionGracePeriodSeconds").is_none_or(|running| grace < running);
    if !js::deleting(&old) || sooner {
        let end = time::now() + std::time::Duration::from_secs(grace.unsigned_abs());
        put(&mut new, "/metadata/deletionTimestamp", json!(time::seconds(end)));
        put(&mut new, "/metadata/deletionGracePeriodSeconds", json!(grace));
        if resource.generation {
            put(
                &mut new,
                "/metadata/generation",
                json!(js::count(&old, "/metadata/generation") + 1),
            );
        }
    }
    if new == *old {
        return Ok(Deleted {
            object: old,
            gone: false,
        });
    }
    let object = objects::settle(state, resource, new);
    let gone = state.get(resource, namespace, name).is_none();
    Ok(Deleted { object, gone })
}

fn precondition(
    resource: &Resource,
    name: &str,
    what: &str,
    wanted: Option<&str>,
    found: &str,
) -> Result<(), Status> {
    match wanted {
        Some(wanted) if wanted != found => {
            let why = format!(
                "Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}"
            );
            Err(Status::conflict(resource, name, &why))
        }
        _ => Ok(()),
    }
}

/// How long a deletion waits: only a pod that runs on a node waits at all.
fn grace(resource: &'static Resource, object: &Value, asked: Option<i64>) -> i64 {
    if *resource != POD {
        return 0;
    }
    let phase = js::text(object, "/status/phase");
    if js::text(object, "/spec/nodeName").is_empty() || phase == "Succeeded" || phase == "Failed" {
        return 0;
    }
    let own = js::int(object, "/spec/terminationGracePeriodSeconds").unwrap_or(30);
    asked.filter(|seconds| *seconds >= 0).unwrap_or(own).max(0)
}

/// Takes an owner off everything that it owns.
fn orphan(state: &mut State, owner: &str) {
    for (resource, object) in owned(state, owner) {
        objects::touch(
            state,
            resource,
            js::namespace(&object),
            js::name(&object),
            |object| {
                let rest: Vec<Value> = js::items(object, "/metadata/ownerReferences")
                    .iter()
                    .filter(|item| js::text(item, "/uid") != owner)
                    .cloned()
                    .collect();
                if rest.is_empty() {
                    js::take(object, "/metadata/ownerReferences");
                } else {
                    put(object, "/metadata/ownerReferences", Value::Array(rest));
                }
            },
        );
    }
}

/// Everything that an object owns.
pub(crate) fn owned(state: &State, owner: &str) -> Vec<(&'static Resource, Arc<Value>)> {
    state
        .all()
        .filter(|object| {
            js::items(object, "/metadata/ownerReferences")
                .iter()
                .any(|item| js::text(item, "/uid") == owner)
        })
        .filter_map(|object| {
            let resource = resources::by_kind(js::text(object, "/apiVersion"), js::text(object, "/kind"))?;
            Some((resource, object.clone()))
        })
        .collect()
}
