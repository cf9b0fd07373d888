//! Tables: what `kubectl get` prints is made here, by the server.
//!
//! What this must not know: what is stored, and who asks.

mod core;
mod pods;
mod workloads;

use std::sync::Arc;

use serde_json::{Value, json};

use super::json as js;
use super::resources::{self as res, Resource};

/// One column: its title, and whether only `-o wide` shows it.
struct Column(&'static str, bool);

const fn narrow(title: &'static str) -> Column {
    Column(title, false)
}

const fn wide(title: &'static str) -> Column {
    Column(title, true)
}

/// The columns and the cells of a resource.
struct Layout {
    columns: &'static [Column],
    cells: fn(&Value) -> Vec<Value>,
}

static PLAIN: Layout = Layout {
    columns: &[narrow("Name"), narrow("Age")],
    cells: |object| vec![json!(js::name(object)), created(object)],
};

fn layout(resource: &'static Resource) -> &'static Layout {
    let special: [(&Resource, &'static Layout); 17] = [
        (&res::NODE, &core::NODES),
        (&res::NAMESPACE, &core::NAMESPACES),
        (&res::EVENT, &core::EVENTS),
        (&res::SERVICE, &core::SERVICES),
        (&res::ENDPOINTS, &core::ENDPOINTS),
        (&res::CONFIG_MAP, &core::CONFIG_MAPS),
        (&res::SECRET, &core::SECRETS),
        (&res::SERVICE_ACCOUNT, &core::SERVICE_ACCOUNTS),
        (&res::VOLUME, &core::VOLUMES),
        (&res::CLAIM, &core::CLAIMS),
        (&res::LEASE, &core::LEASES),
        (&res::ATTACHMENT, &core::ATTACHMENTS),
        (&res::POD, &pods::PODS),
        (&res::DEPLOYMENT, &workloads::DEPLOYMENTS),
        (&res::REPLICA_SET, &workloads::REPLICA_SETS),
        (&res::DAEMON_SET, &workloads::DAEMON_SETS),
        (&res::STATEFUL_SET, &workloads::STATEFUL_SETS),
    ];
    if *resource == res::BUDGET {
        return &workloads::BUDGETS;
    }
    special
        .into_iter()
        .find(|(one, _)| *one == resource)
        .map_or(&PLAIN, |(_, layout)| layout)
}

/// How much of each object a table carries beside its cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Include {
    Nothing,
    Metadata,
    Whole,
}

impl Include {
    /// Reads `includeObject`.
    pub(crate) fn parse(text: Option<&str>) -> Self {
        match text {
            Some("None") => Self::Nothing,
            Some("Object") => Self::Whole,
            _ => Self::Metadata,
        }
    }
}

/// Makes the table of some objects. `version` is the list's resource version, or that of the one object.
pub(crate) fn table(
    resource: &'static Resource,
    objects: &[Arc<Value>],
    version: &str,
    include: Include,
) -> Value {
    let layout = layout(resource);
    let columns: Vec<Value> = layout
        .columns
        .iter()
        .map(|Column(title, only_wide)| {
            json!({"name": title, "type": "string", "format": if *title == "Name" { "name" } else { "" },
                "description": "", "priority": i32::from(*only_wide)})
        })
        .collect();
    let rows: Vec<Value> = objects
        .iter()
        .map(|object| {
            let mut row = json!({"cells": (layout.cells)(object)});
            match include {
                Include::Nothing => {}
                Include::Metadata => js::put(&mut row, "/object", metadata_only(object)),
                Include::Whole => js::put(&mut row, "/object", (**object).clone()),
            }
            row
        })
        .collect();
    json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": version},
        "columnDefinitions": columns, "rows": rows})
}

/// An object reduced to its metadata.
pub(crate) fn metadata_only(object: &Value) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
        "metadata": js::at(object, "/metadata")})
}

/// The age of an object.
fn created(object: &Value) -> Value {
    json!(super::time::age(js::text(object, "/metadata/creationTimestamp")))
}

/// A text, or a stand-in for nothing.
fn or(text: &str, absent: &str) -> Value {
    json!(if text.is_empty() { absent } else { text })
}

/// The values of a list of objects under a key, with commas.
fn joined(list: &[Value], pointer: &str) -> String {
    list.iter()
        .map(|item| js::text(item, pointer))
        .collect::<Vec<_>>()
        .join(",")
}

/// A label selector as a query would write it.
fn selector_text(selector: &Value) -> String {
    let mut parts: Vec<String> = js::object(selector, "/matchLabels")
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or("")))
        .collect();
    parts.sort();
    for item in js::items(selector, "/matchExpressions") {
        let key = js::text(item, "/key");
        let values = js::items(item, "/values")
            .iter()
            .filter_map(Value::as_str)
            .collect::<Vec<_>>()
            .join(",");
        parts.push(match js::text(item, "/operator") {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        });
    }
    if parts.is_empty() {
        "<none>".to_owned()
    } else {
        parts.join(",")
    }
}
