//! What the API refuses in an object. A small part of what a real one refuses: the mistakes that people make.

use serde_json::Value;

use super::error::{FieldFault, Status};
use super::json as js;
use super::resources::{BUDGET, DAEMON_SET, DEPLOYMENT, POD, REPLICA_SET, Resource, STATEFUL_SET};
use super::selector::Labels;

const TOP_FIELDS: [&str; 5] = ["apiVersion", "kind", "metadata", "spec", "status"];

const POD_FIELDS: [&str; 40] = [
    "volumes",
    "initContainers",
    "containers",
    "ephemeralContainers",
    "restartPolicy",
    "terminationGracePeriodSeconds",
    "activeDeadlineSeconds",
    "dnsPolicy",
    "nodeSelector",
    "serviceAccountName",
    "serviceAccount",
    "automountServiceAccountToken",
    "nodeName",
    "hostNetwork",
    "hostPID",
    "hostIPC",
    "shareProcessNamespace",
    "securityContext",
    "imagePullSecrets",
    "hostname",
    "subdomain",
    "affinity",
    "schedulerName",
    "tolerations",
    "hostAliases",
    "priorityClassName",
    "priority",
    "dnsConfig",
    "readinessGates",
    "runtimeClassName",
    "enableServiceLinks",
    "preemptionPolicy",
    "overhead",
    "topologySpreadConstraints",
    "setHostnameAsFQDN",
    "os",
    "hostUsers",
    "schedulingGates",
    "resourceClaims",
    "resources",
];

const CONTAINER_FIELDS: [&str; 24] = [
    "name",
    "image",
    "command",
    "args",
    "workingDir",
    "ports",
    "envFrom",
    "env",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "volumeMounts",
    "volumeDevices",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "imagePullPolicy",
    "securityContext",
    "stdin",
    "stdinOnce",
    "tty",
];

/// Fields that the API does not know, by their path (`fieldValidation=Strict`).
pub(crate) fn unknown_fields(resource: &Resource, object: &Value) -> Vec<String> {
    let mut found = Vec::new();
    if resource.spec_fields.is_empty() && *resource != POD {
        return found;
    }
    foreign(object, "", &TOP_FIELDS, &mut found);
    let template = if *resource == POD {
        "/spec"
    } else {
        foreign(js::at(object, "/spec"), "spec.", resource.spec_fields, &mut found);
        "/spec/template/spec"
    };
    let spec = js::at(object, template);
    let prefix = format!("{}.", template.trim_start_matches('/').replace('/', "."));
    foreign(spec, &prefix, &POD_FIELDS, &mut found);
    for (index, container) in js::items(spec, "/containers").iter().enumerate() {
        foreign(
            container,
            &format!("{prefix}containers[{index}]."),
            &CONTAINER_FIELDS,
            &mut found,
        );
    }
    found
}

fn foreign(object: &Value, prefix: &str, known: &[&str], found: &mut Vec<String>) {
    let keys = object.as_object().into_iter().flatten().map(|(key, _)| key);
    found.extend(
        keys.filter(|key| !known.contains(&key.as_str()))
            .map(|key| format!("{prefix}{key}")),
    );
}

/// The answer to unknown fields.
pub(crate) fn refuse_unknown_fields(resource: &Resource, object: &Value) -> Result<(), Status> {
    let unknown: Vec<String> = unknown_fields(resource, object)
        .iter()
        .map(|field| format!("unknown field \"{field}\""))
        .collect();
    if unknown.is_empty() {
        return Ok(());
    }
    Err(Status::bad_request(format!(
        "{kind} in version \"{version}\" cannot be handled as a {kind}: strict decoding error: {}",
        unknown.join(", "),
        kind = resource.kind,
        version = resource.version,
    )))
}

/// True for what may be the name of an object.
pub(crate) fn is_name(name: &str) -> bool {
    let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    name.len() <= 253
        && name.split('.').all(|part| {
            part.starts_with(edge) && part.ends_with(edge) && part.chars().all(|c| edge(c) || c == '-')
        })
}

/// Refuses an object that cannot be.
pub(crate) fn check(resource: &'static Resource, object: &Value) -> Result<(), Status> {
    let name = js::name(object);
    if name.is_empty() {
        let why = "name or generateName is required";
        return Err(Status::invalid(
            resource,
            name,
            "metadata.name",
            FieldFault::Required,
            why,
        ));
    }
    if !is_name(name) {
        let why = format!(
            "\"{name}\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or \
             '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for \
             validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
        );
        return Err(Status::invalid(
            resource,
            name,
            "metadata.name",
            FieldFault::Invalid,
            &why,
        ));
    }
    if *resource == POD {
        containers(resource, object, "/spec", "spec")
    } else if [&DEPLOYMENT, &REPLICA_SET, &DAEMON_SET, &STATEFUL_SET].contains(&resource) {
        workload(resource, object)
    } else if *resource == BUDGET {
        budget(object)
    } else {
        Ok(())
    }
}

fn containers(resource: &Resource, object: &Value, at: &str, field: &str) -> Result<(), Status> {
    if js::items(js::at(object, at), "/containers").is_empty() {
        let field = format!("{field}.containers");
        return Err(Status::invalid(
            resource,
            js::name(object),
            &field,
            FieldFault::Required,
            "",
        ));
    }
    Ok(())
}

fn workload(resource: &Resource, object: &Value) -> Result<(), Status> {
    let name = js::name(object);
    if !js::has(object, "/spec/selector") {
        return Err(Status::invalid(
            resource,
            name,
            "spec.selector",
            FieldFault::Required,
            "",
        ));
    }
    if !Labels::of(js::at(object, "/spec/selector")).select(js::at(object, "/spec/template")) {
        let labels = js::at(object, "/spec/template/metadata/labels");
        let why = format!("{labels}: `selector` does not match template `labels`");
        return Err(Status::invalid(
            resource,
            name,
            "spec.template.metadata.labels",
            FieldFault::Invalid,
            &why,
        ));
    }
    if js::int(object, "/spec/replicas").is_some_and(|replicas| replicas < 0) {
        let why = format!(
            "{}: must be greater than or equal to 0",
            js::at(object, "/spec/replicas")
        );
        return Err(Status::invalid(
            resource,
            name,
            "spec.replicas",
            FieldFault::Invalid,
            &why,
        ));
    }
    containers(resource, object, "/spec/template/spec", "spec.template.spec")
}

fn budget(object: &Value) -> Result<(), Status> {
    let name = js::name(object);
    let (minimum, maximum) = (
        js::at(object, "/spec/minAvailable"),
        js::at(object, "/spec/maxUnavailable"),
    );
    if !minimum.is_null() && !maximum.is_null() {
        let why = "minAvailable and maxUnavailable cannot be both set";
        return Err(Status::invalid(&BUDGET, name, "spec", FieldFault::Invalid, why));
    }
    for (field, value) in [("spec.minAvailable", minimum), ("spec.maxUnavailable", maximum)] {
        let good = match value {
            Value::Null => true,
            Value::Number(number) => number.as_i64().is_some_and(|number| number >= 0),
            Value::String(text) => text
                .strip_suffix('%')
                .and_then(|part| part.parse::<u32>().ok())
                .is_some_and(|part| part <= 100),
            _ => false,
        };
        if !good {
            let why = format!("{value}: must be a non-negative number or a percentage up to 100%");
            return Err(Status::invalid(&BUDGET, name, field, FieldFault::Invalid, &why));
        }
    }
    Ok(())
}
