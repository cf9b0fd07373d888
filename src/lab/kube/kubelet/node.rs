//! The node that a kubelet speaks for: its registration, its status, its lease.

use serde_json::{Value, json};

use super::super::json as js;
use super::super::time;
use super::client::{Client, Failure};
use super::{KubeletSpec, Mind};

fn labels(spec: &KubeletSpec) -> Value {
    let mut labels = json!({
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": spec.node_name,
        "kubernetes.io/os": "linux",
    });
    if spec.control_plane {
        for key in [
            "node-role.kubernetes.io/control-plane",
            "node.kubernetes.io/exclude-from-external-load-balancers",
        ] {
            js::put(&mut labels, &format!("/{}", key.replace('/', "~1")), json!(""));
        }
    }
    labels
}

fn node(spec: &KubeletSpec) -> Value {
    let mut node = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": spec.node_name,
            "labels": labels(spec),
            "annotations": {
                "kubeadm.alpha.kubernetes.io/cri-socket": "unix:///run/containerd/containerd.sock",
                "node.alpha.kubernetes.io/ttl": "0",
                "volumes.kubernetes.io/controller-managed-attach-detach": "true",
            },
        },
        "spec": {},
        "status": status(spec, None),
    });
    if let Some(provider) = &spec.provider_id {
        js::put(&mut node, "/spec/providerID", json!(provider));
    }
    if spec.control_plane {
        let taints = json!([{"effect": "NoSchedule", "key": "node-role.kubernetes.io/control-plane"}]);
        js::put(&mut node, "/spec/taints", taints);
    }
    node
}

/// The conditions of a healthy node. Those that were so before keep the time since when.
fn conditions(known: Option<&Value>) -> Value {
    let now = time::stamp();
    let all = [
        (
            "MemoryPressure",
            "False",
            "KubeletHasSufficientMemory",
            "kubelet has sufficient memory available",
        ),
        (
            "DiskPressure",
            "False",
            "KubeletHasNoDiskPressure",
            "kubelet has no disk pressure",
        ),
        (
            "PIDPressure",
            "False",
            "KubeletHasSufficientPID",
            "kubelet has sufficient PID available",
        ),
        ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    ];
    let conditions: Vec<Value> = all
        .iter()
        .map(|(kind, status, reason, message)| {
            let since = known
                .and_then(|node| js::condition(node, kind))
                .filter(|old| js::text(old, "/status") == *status)
                .map_or_else(|| now.clone(), |old| js::text(old, "/lastTransitionTime").to_owned());
            json!({"lastHeartbeatTime": now, "lastTransitionTime": since, "message": message, "reason": reason,
                "status": status, "type": kind})
        })
        .collect();
    Value::Array(conditions)
}

fn status(spec: &KubeletSpec, known: Option<&Value>) -> Value {
    let resources = json!({"cpu": "4", "ephemeral-storage": "40Gi", "memory": "8Gi", "pods": "110"});
    json!({
        "addresses": [{"address": spec.address.to_string(), "type": "InternalIP"},
            {"address": spec.node_name, "type": "Hostname"}],
        "allocatable": resources,
        "capacity": resources,
        "conditions": conditions(known),
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": {
            "architecture": "amd64",
            "bootID": spec.system_uuid,
            "containerRuntimeVersion": "containerd://1.7.27",
            "kernelVersion": "6.1.0-35-amd64",
            "kubeProxyVersion": spec.kubelet_version,
            "kubeletVersion": spec.kubelet_version,
            "machineID": spec.system_uuid.replace('-', ""),
            "operatingSystem": "linux",
            "osImage": "Debian GNU/Linux 12 (bookworm)",
            "systemUUID": spec.system_uuid,
        },
    })
}

fn path(spec: &KubeletSpec) -> String {
    format!("/api/v1/nodes/{}", spec.node_name)
}

/// Makes the node, or takes over the one that is there. True once it is registered with its status and a lease.
pub(super) async fn register(client: &Client, mind: &mut Mind) -> bool {
    match client.post("/api/v1/nodes", &node(&mind.spec)).await {
        Ok(made) => mind.pods.set_range(js::text(&made, "/spec/podCIDR")),
        Err(Failure::Refused(409)) => {
            let Ok(known) = client.get(&path(&mind.spec)).await else {
                return false;
            };
            mind.pods.set_range(js::text(&known, "/spec/podCIDR"));
            let patch = json!({"metadata": {"labels": labels(&mind.spec)}});
            if client.patch(&path(&mind.spec), &patch).await.is_err()
                || !report(client, &mind.spec, &known).await
            {
                return false;
            }
        }
        Err(_) => return false,
    }
    // A server that gives nodes no status at their birth, or no pod range yet, gets and gives them now.
    if let Ok(known) = client.get(&path(&mind.spec)).await {
        mind.pods.set_range(js::text(&known, "/spec/podCIDR"));
        if !well(&mind.spec, &known) {
            report(client, &mind.spec, &known).await;
        }
        renew(client, mind, &known).await;
    }
    true
}

async fn report(client: &Client, spec: &KubeletSpec, known: &Value) -> bool {
    let patch = json!({"status": status(spec, Some(known))});
    client
        .patch(&format!("{}/status", path(spec)), &patch)
        .await
        .is_ok()
}

/// True if the API says of the node what the kubelet would say.
fn well(spec: &KubeletSpec, known: &Value) -> bool {
    js::condition_true(known, "Ready")
        && js::text(known, "/status/nodeInfo/kubeletVersion") == spec.kubelet_version
}

/// One sign of life. A node that was deleted gets none: it comes back with a restart of the kubelet only.
pub(super) async fn beat(client: &Client, mind: &mut Mind) {
    let Ok(known) = client.get(&path(&mind.spec)).await else {
        return;
    };
    mind.pods.set_range(js::text(&known, "/spec/podCIDR"));
    renew(client, mind, &known).await;
    if !well(&mind.spec, &known) {
        report(client, &mind.spec, &known).await;
    }
}

async fn renew(client: &Client, mind: &mut Mind, node: &Value) {
    const HOME: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    let name = &mind.spec.node_name;
    let now = time::micros(time::now());
    let owner = json!({"apiVersion": "v1", "kind": "Node", "name": name, "uid": js::uid(node)});
    if let Some(mut lease) = mind.lease.take() {
        js::put(&mut lease, "/spec/renewTime", json!(now));
        js::put(&mut lease, "/metadata/ownerReferences", json!([owner]));
        match client.put(&format!("{HOME}/{name}"), &lease).await {
            Ok(lease) => {
                mind.lease = Some(lease);
                return;
            }
            Err(Failure::Unreachable) => return,
            Err(Failure::Refused(_)) => {}
        }
    }
    // Unknown or changed by another: read it, or make it, and renew it next time.
    if let Ok(mut lease) = client.get(&format!("{HOME}/{name}")).await {
        js::put(&mut lease, "/spec/renewTime", json!(now));
        js::put(&mut lease, "/metadata/ownerReferences", json!([owner]));
        mind.lease = client.put(&format!("{HOME}/{name}"), &lease).await.ok();
        return;
    }
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": name, "namespace": "kube-node-lease", "ownerReferences": [owner]},
        "spec": {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": now},
    });
    mind.lease = client.post(HOME, &lease).await.ok();
}
