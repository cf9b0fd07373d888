//! What the API fills in when an object is created or changed, as far as clients of this lab look at it.

use base64::Engine as _;
use rand::RngExt as _;
use serde_json::{Value, json};

use super::json::{self as js, put, put_default};
use super::resources::{
    BUDGET, DAEMON_SET, DEPLOYMENT, NAMESPACE, NODE, POD, REPLICA_SET, Resource, SECRET, SERVICE,
    STATEFUL_SET,
};
use super::store::State;

/// The letters of generated names: no vowels, nothing that looks like another.
const NAME_LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// Random letters for a generated name.
pub(crate) fn suffix(length: usize) -> String {
    let mut rng = rand::rng();
    (0..length)
        .filter_map(|_| NAME_LETTERS.get(rng.random_range(0..NAME_LETTERS.len())))
        .map(|c| *c as char)
        .collect()
}

/// Letters for a generated name that depend on a text only.
pub(crate) fn letters_of(text: &str, length: usize) -> String {
    use sha2::Digest as _;
    let hash = sha2::Sha256::digest(text.as_bytes());
    hash.iter()
        .take(length)
        .filter_map(|byte| NAME_LETTERS.get(usize::from(*byte) % NAME_LETTERS.len()))
        .map(|c| *c as char)
        .collect()
}

/// Fills in what a new object of the resource lacks.
pub(crate) fn on_create(state: &State, resource: &'static Resource, object: &mut Value) {
    if *resource == POD {
        put(
            object,
            "/status",
            json!({"phase": "Pending", "qosClass": "BestEffort"}),
        );
        pod_tolerations(object);
        put_default(object, "/spec/serviceAccountName", json!("default"));
        put_default(object, "/spec/enableServiceLinks", json!(true));
        put_default(object, "/spec/priority", json!(0));
        put_default(object, "/spec/preemptionPolicy", json!("PreemptLowerPriority"));
    } else if *resource == NAMESPACE {
        let name = js::name(object).to_owned();
        put(
            object,
            "/metadata/labels/kubernetes.io~1metadata.name",
            json!(name),
        );
        put(object, "/spec/finalizers", json!(["kubernetes"]));
        put(object, "/status", json!({"phase": "Active"}));
    } else if *resource == NODE {
        let range = free_pod_range(state);
        put_default(object, "/spec/podCIDR", json!(range));
        let range = js::at(object, "/spec/podCIDR").clone();
        put_default(object, "/spec/podCIDRs", json!([range]));
        put_default(
            object,
            "/metadata/annotations/node.alpha.kubernetes.io~1ttl",
            json!("0"),
        );
    } else if *resource == SERVICE {
        service(state, object);
    } else if resource.status && *resource != super::resources::VOLUME && *resource != super::resources::CLAIM
    {
        put(object, "/status", json!({}));
    }
    always(resource, object);
}

/// Fills in what any object of the resource has, new or changed.
pub(crate) fn always(resource: &'static Resource, object: &mut Value) {
    if *resource == POD {
        pod_spec(object, "/spec");
    } else if *resource == DEPLOYMENT {
        put_default(object, "/spec/replicas", json!(1));
        put_default(object, "/spec/progressDeadlineSeconds", json!(600));
        put_default(object, "/spec/revisionHistoryLimit", json!(10));
        put_default(object, "/spec/strategy/type", json!("RollingUpdate"));
        if js::text(object, "/spec/strategy/type") == "RollingUpdate" {
            put_default(object, "/spec/strategy/rollingUpdate/maxSurge", json!("25%"));
            put_default(
                object,
                "/spec/strategy/rollingUpdate/maxUnavailable",
                json!("25%"),
            );
        }
        pod_spec(object, "/spec/template/spec");
    } else if *resource == REPLICA_SET {
        put_default(object, "/spec/replicas", json!(1));
        pod_spec(object, "/spec/template/spec");
    } else if *resource == DAEMON_SET {
        put_default(object, "/spec/revisionHistoryLimit", json!(10));
        put_default(object, "/spec/updateStrategy/type", json!("RollingUpdate"));
        if js::text(object, "/spec/updateStrategy/type") == "RollingUpdate" {
            put_default(object, "/spec/updateStrategy/rollingUpdate/maxSurge", json!(0));
            put_default(
                object,
                "/spec/updateStrategy/rollingUpdate/maxUnavailable",
                json!(1),
            );
        }
        pod_spec(object, "/spec/template/spec");
    } else if *resource == STATEFUL_SET {
        put_default(object, "/spec/replicas", json!(1));
        put_default(object, "/spec/podManagementPolicy", json!("OrderedReady"));
        put_default(object, "/spec/updateStrategy/type", json!("RollingUpdate"));
        pod_spec(object, "/spec/template/spec");
    } else if *resource == BUDGET {
        put_default(object, "/spec/selector", json!({}));
    } else if *resource == SECRET {
        put_default(object, "/type", json!("Opaque"));
        if let Some(Value::Object(plain)) = js::take(object, "/stringData") {
            for (key, value) in plain {
                let text = base64::engine::general_purpose::STANDARD.encode(value.as_str().unwrap_or(""));
                put(
                    object,
                    &format!("/data/{}", key.replace('~', "~0").replace('/', "~1")),
                    json!(text),
                );
            }
        }
    }
}

/// The defaults of a pod's spec, in a pod or in a template.
fn pod_spec(object: &mut Value, at: &str) {
    let Some(spec) = object.pointer_mut(at).filter(|spec| spec.is_object()) else {
        return;
    };
    put_default(spec, "/restartPolicy", json!("Always"));
    put_default(spec, "/terminationGracePeriodSeconds", json!(30));
    put_default(spec, "/dnsPolicy", json!("ClusterFirst"));
    put_default(spec, "/schedulerName", json!("default-scheduler"));
    put_default(spec, "/securityContext", json!({}));
    for list in ["containers", "initContainers"] {
        let Some(containers) = spec.get_mut(list).and_then(Value::as_array_mut) else {
            continue;
        };
        for container in containers {
            let image = js::text(container, "/image").to_owned();
            let latest = image.ends_with(":latest") || !image.rsplit('/').next().unwrap_or("").contains(':');
            put_default(
                container,
                "/imagePullPolicy",
                json!(if latest { "Always" } else { "IfNotPresent" }),
            );
            put_default(container, "/resources", json!({}));
            put_default(
                container,
                "/terminationMessagePath",
                json!("/dev/termination-log"),
            );
            put_default(container, "/terminationMessagePolicy", json!("File"));
            if let Some(ports) = container.get_mut("ports").and_then(Value::as_array_mut) {
                for port in ports {
                    put_default(port, "/protocol", json!("TCP"));
                }
            }
        }
    }
}

/// A pod outlives a short absence of its node unless it says otherwise.
fn pod_tolerations(pod: &mut Value) {
    let mut all = js::items(pod, "/spec/tolerations").to_vec();
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let known = all.iter().any(|item| {
            let (item_key, effect) = (js::text(item, "/key"), js::text(item, "/effect"));
            (item_key == key || item_key.is_empty()) && (effect == "NoExecute" || effect.is_empty())
        });
        if !known {
            all.push(
                json!({"effect": "NoExecute", "key": key, "operator": "Exists", "tolerationSeconds": 300}),
            );
        }
    }
    put(pod, "/spec/tolerations", Value::Array(all));
}

/// The first 10.244.x.0/24 that no node has.
fn free_pod_range(state: &State) -> String {
    let taken: Vec<String> = state
        .list(&NODE, None)
        .iter()
        .map(|node| js::text(node, "/spec/podCIDR").to_owned())
        .collect();
    (0..=255)
        .map(|third| format!("10.244.{third}.0/24"))
        .find(|range| !taken.contains(range))
        .unwrap_or_else(|| "10.245.0.0/24".to_owned())
}

fn service(state: &State, object: &mut Value) {
    put_default(object, "/spec/type", json!("ClusterIP"));
    put_default(object, "/spec/sessionAffinity", json!("None"));
    put_default(object, "/spec/internalTrafficPolicy", json!("Cluster"));
    if js::text(object, "/spec/type") != "ExternalName" {
        let taken = state.list(&SERVICE, None);
        let free = (1..=65_000_u32)
            .map(|number| format!("10.96.{}.{}", number / 256, number % 256))
            .find(|ip| !taken.iter().any(|one| js::text(one, "/spec/clusterIP") == ip));
        put_default(object, "/spec/clusterIP", json!(free));
    }
    if let Some(ports) = object.pointer_mut("/spec/ports").and_then(Value::as_array_mut) {
        for port in ports {
            let number = js::at(port, "/port").clone();
            put_default(port, "/protocol", json!("TCP"));
            put_default(port, "/targetPort", number);
        }
    }
    put(object, "/status", json!({"loadBalancer": {}}));
}
