//! What each verb does to each part of a resource.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::{Method, Response};
use serde_json::{Value, json};

use super::delete::{self, DeleteOptions, Deleted};
use super::error::Status;
use super::eviction;
use super::http::{App, reply};
use super::json::{self as js, put};
use super::objects::{self, Part};
use super::patch::Patch;
use super::protobuf;
use super::request::{Ask, Shape, Target};
use super::resources::{NAMESPACE, POD, Resource, SERVICE};
use super::store::State;
use super::table::{self, Include};
use super::validate;
use super::watch;

/// Answers a request for a resource.
pub(crate) fn handle(
    app: &Arc<App>,
    ask: &Ask,
    target: &Target,
    body: &Bytes,
) -> Result<Response<Body>, Status> {
    match (&ask.method, target.name.as_deref(), target.part.as_deref()) {
        (&Method::GET, name, None) if ask.flag("watch") => watch::start(app, ask, target, name),
        (&Method::GET, None, None) => list(app, ask, target),
        (&Method::GET, Some(name), None | Some("status")) => {
            let object = app
                .store
                .with(|state| objects::get(state, target.resource, target.home(), name))?;
            Ok(show(ask, target.resource, 200, &object))
        }
        (&Method::POST, None, None) => create(app, ask, target, body),
        (&Method::POST, Some(name), Some("eviction")) if *target.resource == POD => {
            let mut eviction = read_object(ask, body)?;
            if ask.query("dryRun").is_some() {
                put(&mut eviction, "/deleteOptions/dryRun", json!(["All"]));
            }
            let query = |key: &str| ask.query(key);
            let done = app
                .store
                .with(|state| eviction::evict(state, target.home(), name, &eviction, &query))?;
            Ok(reply(ask, 201, &done))
        }
        (&Method::POST, Some(name), Some("binding")) if *target.resource == POD => {
            let binding = read_object(ask, body)?;
            let node = js::text(&binding, "/target/name").to_owned();
            app.store.with(|state| bind(state, target.home(), name, &node))?;
            Ok(reply(ask, 201, &success()))
        }
        (&Method::PUT, Some(name), part) => update(app, ask, target, name, part, body),
        (&Method::PATCH, Some(name), part) => patch(app, ask, target, name, part, body),
        (&Method::GET, Some(name), Some("scale")) if target.resource.scale => {
            let object = app
                .store
                .with(|state| objects::get(state, target.resource, target.home(), name))?;
            Ok(reply(ask, 200, &scale_of(&object)))
        }
        (&Method::DELETE, Some(name), None) => delete_one(app, ask, target, name, body),
        (&Method::DELETE, None, None) => delete_many(app, ask, target, body),
        (_, _, Some(_)) => Err(Status::no_such_path()),
        _ => Err(Status::method_not_allowed()),
    }
}

fn success() -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"})
}

/// Reads the body of a request as an object; YAML is taken too, protobuf is not.
pub(crate) fn read_object(ask: &Ask, body: &Bytes) -> Result<Value, Status> {
    let kind = ask.content_type.split(';').next().unwrap_or("").trim();
    let wrong = |error: &dyn std::fmt::Display| {
        Status::bad_request(format!(
            "the object provided is unrecognized (must be of type object): {error}"
        ))
    };
    match kind {
        "" | "application/json" => serde_json::from_slice(body).map_err(|error| wrong(&error)),
        "application/yaml" => serde_yaml_ng::from_slice(body).map_err(|error| wrong(&error)),
        _ => Err(Status::new(
            415,
            "UnsupportedMediaType",
            format!(
                "the body of the request was in an unknown format ({kind}) - accepted media types include: \
                 application/json, application/yaml; write the object to a file and use -f \
                 (kubectl create -f FILE, kubectl apply -f FILE)"
            ),
        )),
    }
}

/// One object in the shape that was asked for.
fn show(ask: &Ask, resource: &'static Resource, code: u16, object: &Arc<Value>) -> Response<Body> {
    match ask.shape() {
        Shape::Object => reply(ask, code, object),
        Shape::Metadata => reply(ask, code, &table::metadata_only(object)),
        Shape::Table => {
            let include = Include::parse(ask.query("includeObject").as_deref());
            let version = js::text(object, "/metadata/resourceVersion");
            reply(
                ask,
                code,
                &table::table(resource, std::slice::from_ref(object), version, include),
            )
        }
    }
}

fn list(app: &App, ask: &Ask, target: &Target) -> Result<Response<Body>, Status> {
    let (labels, fields) = ask.selectors()?;
    let (mut found, version) = app.store.with(|state| {
        (
            state.list(target.resource, target.namespace.as_deref()),
            state.version().to_string(),
        )
    });
    found.retain(|object| labels.select(object) && fields.select(object));
    Ok(match ask.shape() {
        Shape::Table => {
            let include = Include::parse(ask.query("includeObject").as_deref());
            reply(
                ask,
                200,
                &table::table(target.resource, &found, &version, include),
            )
        }
        Shape::Metadata => {
            let items: Vec<Value> = found.iter().map(|object| table::metadata_only(object)).collect();
            let list = json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
                "metadata": {"resourceVersion": version}, "items": items});
            reply(ask, 200, &list)
        }
        Shape::Object => reply(ask, 200, &list_of(target.resource, &found, &version)),
    })
}

fn list_of(resource: &Resource, found: &[Arc<Value>], version: &str) -> Value {
    let items: Vec<&Value> = found.iter().map(AsRef::as_ref).collect();
    json!({"kind": format!("{}List", resource.kind), "apiVersion": resource.api_version(),
        "metadata": {"resourceVersion": version}, "items": items})
}

fn create(app: &App, ask: &Ask, target: &Target, body: &Bytes) -> Result<Response<Body>, Status> {
    if target.resource.namespaced && target.namespace.is_none() {
        return Err(Status::method_not_allowed());
    }
    let object = read_object(ask, body)?;
    if ask.strict() {
        validate::refuse_unknown_fields(target.resource, &object)?;
    }
    let made = app
        .store
        .with(|state| objects::create(state, target.resource, target.home(), object, ask.write()))?;
    Ok(show(ask, target.resource, 201, &made))
}

fn part_of(part: Option<&str>, resource: &Resource) -> Result<Part, Status> {
    match part {
        None => Ok(Part::Main),
        Some("status") if resource.status => Ok(Part::Status),
        Some(_) => Err(Status::no_such_path()),
    }
}

fn update(
    app: &App,
    ask: &Ask,
    target: &Target,
    name: &str,
    part: Option<&str>,
    body: &Bytes,
) -> Result<Response<Body>, Status> {
    let wanted = read_object(ask, body)?;
    if part == Some("scale") && target.resource.scale {
        return rescale(app, ask, target, name, &|_| Ok(wanted.clone()));
    }
    if part == Some("finalize") && *target.resource == NAMESPACE {
        let finalizers = js::items(&wanted, "/spec/finalizers").to_vec();
        let object = app.store.with(|state| {
            let old = objects::get(state, &NAMESPACE, "", name)?;
            let mut new = (*old).clone();
            put(&mut new, "/spec/finalizers", Value::Array(finalizers));
            Ok::<_, Status>(objects::settle(state, &NAMESPACE, new))
        })?;
        return Ok(reply(ask, 200, &object));
    }
    let part = part_of(part, target.resource)?;
    if ask.strict() {
        validate::refuse_unknown_fields(target.resource, &wanted)?;
    }
    let object = app.store.with(|state| {
        objects::update(
            state,
            target.resource,
            target.home(),
            name,
            part,
            wanted,
            ask.write(),
        )
    })?;
    Ok(show(ask, target.resource, 200, &object))
}

fn patch(
    app: &App,
    ask: &Ask,
    target: &Target,
    name: &str,
    part: Option<&str>,
    body: &Bytes,
) -> Result<Response<Body>, Status> {
    let patch = Patch::parse(&ask.content_type, body)?;
    if part == Some("scale") && target.resource.scale {
        return rescale(app, ask, target, name, &|scale| patch.apply(scale));
    }
    let part = part_of(part, target.resource)?;
    let object = app.store.with(|state| {
        if ask.strict()
            && let Some(old) = state.get(target.resource, target.home(), name)
        {
            validate::refuse_unknown_fields(target.resource, &patch.apply(&old)?)?;
        }
        objects::patch(
            state,
            target.resource,
            target.home(),
            name,
            part,
            &patch,
            ask.write(),
        )
    })?;
    Ok(show(ask, target.resource, 200, &object))
}

fn scale_of(object: &Value) -> Value {
    let mut metadata = json!({});
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        put(
            &mut metadata,
            &format!("/{field}"),
            js::at(object, &format!("/metadata/{field}")).clone(),
        );
    }
    json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata,
        "spec": {"replicas": js::count(object, "/spec/replicas")},
        "status": {"replicas": js::count(object, "/status/replicas")}})
}

fn rescale(
    app: &App,
    ask: &Ask,
    target: &Target,
    name: &str,
    change: &dyn Fn(&Value) -> Result<Value, Status>,
) -> Result<Response<Body>, Status> {
    let scale = app.store.with(|state| {
        let old = objects::get(state, target.resource, target.home(), name)?;
        let scale = change(&scale_of(&old))?;
        let mut new = (*old).clone();
        let version = js::at(&scale, "/metadata/resourceVersion").clone();
        put(&mut new, "/metadata/resourceVersion", version);
        put(
            &mut new,
            "/spec/replicas",
            json!(js::count(&scale, "/spec/replicas")),
        );
        let new = objects::update(
            state,
            target.resource,
            target.home(),
            name,
            Part::Main,
            new,
            ask.write(),
        )?;
        Ok::<_, Status>(scale_of(&new))
    })?;
    Ok(reply(ask, 200, &scale))
}

/// Binds a pod to a node, as a scheduler does.
pub(crate) fn bind(state: &mut State, namespace: &str, name: &str, node: &str) -> Result<(), Status> {
    let pod = objects::get(state, &POD, namespace, name)?;
    let bound = js::text(&pod, "/spec/nodeName");
    if !bound.is_empty() {
        let why = format!("pod {name} is already assigned to node \"{bound}\"");
        return Err(Status::conflict(&POD, name, &why));
    }
    objects::touch(state, &POD, namespace, name, |pod| {
        put(pod, "/spec/nodeName", json!(node));
        js::set_condition(
            pod,
            json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null,
                "lastTransitionTime": super::time::stamp()}),
        );
    });
    Ok(())
}

fn read_options(ask: &Ask, body: &Bytes) -> Result<DeleteOptions, Status> {
    let options = if body.is_empty() {
        Value::Null
    } else if let Some(options) = protobuf::delete_options(body) {
        options
    } else {
        read_object(ask, body)?
    };
    Ok(DeleteOptions::read(&options, &|key| ask.query(key)))
}

fn delete_one(
    app: &App,
    ask: &Ask,
    target: &Target,
    name: &str,
    body: &Bytes,
) -> Result<Response<Body>, Status> {
    let options = read_options(ask, body)?;
    let Deleted { object, gone } = app
        .store
        .with(|state| delete::delete(state, target.resource, target.home(), name, &options))?;
    let returned = [&POD, &SERVICE].contains(&target.resource);
    if !gone || returned {
        return Ok(show(ask, target.resource, 200, &object));
    }
    let mut answer = success();
    let mut details = json!({"name": name, "kind": target.resource.plural, "uid": js::uid(&object)});
    if !target.resource.group.is_empty() {
        put(&mut details, "/group", json!(target.resource.group));
    }
    put(&mut answer, "/details", details);
    Ok(reply(ask, 200, &answer))
}

fn delete_many(app: &App, ask: &Ask, target: &Target, body: &Bytes) -> Result<Response<Body>, Status> {
    if target.resource.namespaced && target.namespace.is_none() {
        return Err(Status::method_not_allowed());
    }
    let options = read_options(ask, body)?;
    let (labels, fields) = ask.selectors()?;
    let (found, version) = app.store.with(|state| {
        let mut found = state.list(target.resource, target.namespace.as_deref());
        found.retain(|object| labels.select(object) && fields.select(object));
        for object in &found {
            delete::delete(state, target.resource, target.home(), js::name(object), &options)?;
        }
        Ok::<_, Status>((found, state.version().to_string()))
    })?;
    Ok(reply(ask, 200, &list_of(target.resource, &found, &version)))
}
