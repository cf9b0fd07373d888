//! The tables of nodes, namespaces, events, services, volumes and the other small resources.

use serde_json::{Value, json};

use super::super::json as js;
use super::super::time;
use super::{Layout, created, narrow, or, wide};

pub(super) static NODES: Layout = Layout {
    columns: &[
        narrow("Name"),
        narrow("Status"),
        narrow("Roles"),
        narrow("Age"),
        narrow("Version"),
        wide("Internal-IP"),
        wide("External-IP"),
        wide("OS-Image"),
        wide("Kernel-Version"),
        wide("Container-Runtime"),
    ],
    cells: node,
};

fn node(node: &Value) -> Vec<Value> {
    let mut status = vec![match js::condition(node, "Ready") {
        None => "Unknown",
        Some(_) if js::condition_true(node, "Ready") => "Ready",
        Some(_) => "NotReady",
    }];
    if js::flag(node, "/spec/unschedulable") {
        status.push("SchedulingDisabled");
    }
    let mut roles: Vec<&str> = js::object(node, "/metadata/labels")
        .into_iter()
        .flatten()
        .filter_map(|(key, _)| key.strip_prefix("node-role.kubernetes.io/"))
        .collect();
    roles.sort_unstable();
    let address = |kind: &str| {
        let found = js::items(node, "/status/addresses")
            .iter()
            .find(|item| js::text(item, "/type") == kind);
        or(found.map_or("", |item| js::text(item, "/address")), "<none>")
    };
    let info = |field: &str| or(js::text(node, &format!("/status/nodeInfo/{field}")), "<unknown>");
    vec![
        json!(js::name(node)),
        json!(status.join(",")),
        or(&roles.join(","), "<none>"),
        created(node),
        json!(js::text(node, "/status/nodeInfo/kubeletVersion")),
        address("InternalIP"),
        address("ExternalIP"),
        info("osImage"),
        info("kernelVersion"),
        info("containerRuntimeVersion"),
    ]
}

pub(super) static NAMESPACES: Layout = Layout {
    columns: &[narrow("Name"), narrow("Status"), narrow("Age")],
    cells: |object| {
        vec![
            json!(js::name(object)),
            json!(js::text(object, "/status/phase")),
            created(object),
        ]
    },
};

pub(super) static EVENTS: Layout = Layout {
    columns: &[
        narrow("Last Seen"),
        narrow("Type"),
        narrow("Reason"),
        narrow("Object"),
        wide("Subobject"),
        wide("Source"),
        narrow("Message"),
        wide("First Seen"),
        wide("Count"),
        wide("Name"),
    ],
    cells: |event| {
        let object = format!(
            "{}/{}",
            js::text(event, "/involvedObject/kind").to_lowercase(),
            js::text(event, "/involvedObject/name")
        );
        let source = [
            js::text(event, "/source/component"),
            js::text(event, "/source/host"),
        ];
        let source = source
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join(", ");
        vec![
            json!(time::age(js::text(event, "/lastTimestamp"))),
            json!(js::text(event, "/type")),
            json!(js::text(event, "/reason")),
            json!(object),
            json!(js::text(event, "/involvedObject/fieldPath")),
            json!(source),
            json!(js::text(event, "/message").trim()),
            json!(time::age(js::text(event, "/firstTimestamp"))),
            json!(js::int(event, "/count").unwrap_or(1).to_string()),
            json!(js::name(event)),
        ]
    },
};

pub(super) static SERVICES: Layout = Layout {
    columns: &[
        narrow("Name"),
        narrow("Type"),
        narrow("Cluster-IP"),
        narrow("External-IP"),
        narrow("Port(s)"),
        narrow("Age"),
        wide("Selector"),
    ],
    cells: |service| {
        let ports: Vec<String> = js::items(service, "/spec/ports")
            .iter()
            .map(|port| match js::int(port, "/nodePort") {
                Some(node) => format!(
                    "{}:{node}/{}",
                    js::count(port, "/port"),
                    js::text(port, "/protocol")
                ),
                None => format!("{}/{}", js::count(port, "/port"), js::text(port, "/protocol")),
            })
            .collect();
        let waits = js::text(service, "/spec/type") == "LoadBalancer";
        let mut selector: Vec<String> = js::object(service, "/spec/selector")
            .into_iter()
            .flatten()
            .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or("")))
            .collect();
        selector.sort();
        vec![
            json!(js::name(service)),
            json!(js::text(service, "/spec/type")),
            or(js::text(service, "/spec/clusterIP"), "None"),
            json!(if waits { "<pending>" } else { "<none>" }),
            or(&ports.join(","), "<none>"),
            created(service),
            or(&selector.join(","), "<none>"),
        ]
    },
};

pub(super) static ENDPOINTS: Layout = Layout {
    columns: &[narrow("Name"), narrow("Endpoints"), narrow("Age")],
    cells: |object| {
        let mut all = Vec::new();
        for subset in js::items(object, "/subsets") {
            for address in js::items(subset, "/addresses") {
                for port in js::items(subset, "/ports") {
                    all.push(format!(
                        "{}:{}",
                        js::text(address, "/ip"),
                        js::count(port, "/port")
                    ));
                }
            }
        }
        vec![
            json!(js::name(object)),
            or(&all.join(","), "<none>"),
            created(object),
        ]
    },
};

fn fields(object: &Value, pointers: &[&str]) -> usize {
    pointers
        .iter()
        .map(|pointer| js::object(object, pointer).map_or(0, serde_json::Map::len))
        .sum()
}

pub(super) static CONFIG_MAPS: Layout = Layout {
    columns: &[narrow("Name"), narrow("Data"), narrow("Age")],
    cells: |object| {
        vec![
            json!(js::name(object)),
            json!(fields(object, &["/data", "/binaryData"]).to_string()),
            created(object),
        ]
    },
};

pub(super) static SECRETS: Layout = Layout {
    columns: &[narrow("Name"), narrow("Type"), narrow("Data"), narrow("Age")],
    cells: |object| {
        vec![
            json!(js::name(object)),
            json!(js::text(object, "/type")),
            json!(fields(object, &["/data"]).to_string()),
            created(object),
        ]
    },
};

pub(super) static SERVICE_ACCOUNTS: Layout = Layout {
    columns: &[narrow("Name"), narrow("Secrets"), narrow("Age")],
    cells: |object| {
        vec![
            json!(js::name(object)),
            json!(js::items(object, "/secrets").len().to_string()),
            created(object),
        ]
    },
};

fn modes(object: &Value, pointer: &str) -> String {
    let short = |mode: &Value| match mode.as_str() {
        Some("ReadWriteOnce") => "RWO",
        Some("ReadOnlyMany") => "ROX",
        Some("ReadWriteMany") => "RWX",
        Some("ReadWriteOncePod") => "RWOP",
        _ => "?",
    };
    js::items(object, pointer)
        .iter()
        .map(short)
        .collect::<Vec<_>>()
        .join(",")
}

pub(super) static VOLUMES: Layout = Layout {
    columns: &[
        narrow("Name"),
        narrow("Capacity"),
        narrow("Access Modes"),
        narrow("Reclaim Policy"),
        narrow("Status"),
        narrow("Claim"),
        narrow("StorageClass"),
        narrow("VolumeAttributesClass"),
        narrow("Reason"),
        narrow("Age"),
        wide("VolumeMode"),
    ],
    cells: |object| {
        let claim = match js::text(object, "/spec/claimRef/name") {
            "" => String::new(),
            name => format!("{}/{name}", js::text(object, "/spec/claimRef/namespace")),
        };
        vec![
            json!(js::name(object)),
            json!(js::text(object, "/spec/capacity/storage")),
            json!(modes(object, "/spec/accessModes")),
            or(js::text(object, "/spec/persistentVolumeReclaimPolicy"), "Retain"),
            or(js::text(object, "/status/phase"), "Available"),
            json!(claim),
            json!(js::text(object, "/spec/storageClassName")),
            or(js::text(object, "/spec/volumeAttributesClassName"), "<unset>"),
            json!(js::text(object, "/status/reason")),
            created(object),
            or(js::text(object, "/spec/volumeMode"), "Filesystem"),
        ]
    },
};

pub(super) static CLAIMS: Layout = Layout {
    columns: &[
        narrow("Name"),
        narrow("Status"),
        narrow("Volume"),
        narrow("Capacity"),
        narrow("Access Modes"),
        narrow("StorageClass"),
        narrow("VolumeAttributesClass"),
        narrow("Age"),
        wide("VolumeMode"),
    ],
    cells: |object| {
        vec![
            json!(js::name(object)),
            or(js::text(object, "/status/phase"), "Pending"),
            json!(js::text(object, "/spec/volumeName")),
            json!(js::text(object, "/status/capacity/storage")),
            json!(modes(object, "/status/accessModes")),
            json!(js::text(object, "/spec/storageClassName")),
            or(js::text(object, "/spec/volumeAttributesClassName"), "<unset>"),
            created(object),
            or(js::text(object, "/spec/volumeMode"), "Filesystem"),
        ]
    },
};

pub(super) static LEASES: Layout = Layout {
    columns: &[narrow("Name"), narrow("Holder"), narrow("Age")],
    cells: |object| {
        vec![
            json!(js::name(object)),
            json!(js::text(object, "/spec/holderIdentity")),
            created(object),
        ]
    },
};

pub(super) static ATTACHMENTS: Layout = Layout {
    columns: &[
        narrow("Name"),
        narrow("Attacher"),
        narrow("PV"),
        narrow("Node"),
        narrow("Attached"),
        narrow("Age"),
    ],
    cells: |object| {
        vec![
            json!(js::name(object)),
            json!(js::text(object, "/spec/attacher")),
            json!(js::text(object, "/spec/source/persistentVolumeName")),
            json!(js::text(object, "/spec/nodeName")),
            json!(js::flag(object, "/status/attached").to_string()),
            created(object),
        ]
    },
};
