//! kubectl's JSON, cut down from what real ones print.

use crate::adapters::kube::read;

#[test]
fn a_node_is_read() {
    let json = r#"{"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": [
      {"apiVersion": "v1", "kind": "Node",
       "metadata": {"name": "control-1", "labels": {"node-role.kubernetes.io/control-plane": "", "kubernetes.io/os": "linux"},
                    "creationTimestamp": "2026-11-30T17:41:12Z", "uid": "bd71"},
       "spec": {"podCIDR": "10.244.2.0/24", "providerID": "external-cloudstack://1f2e", "taints": [{"effect": "NoSchedule", "key": "x"}]},
       "status": {
         "addresses": [{"address": "10.1.1.11", "type": "InternalIP"}, {"address": "fd00::11", "type": "InternalIP"},
                       {"address": "192.0.2.7", "type": "ExternalIP"}, {"address": "control-1", "type": "Hostname"},
                       {"address": "c.example", "type": "InternalDNS"}],
         "conditions": [
           {"lastTransitionTime": "2026-11-30T17:41:12Z", "status": "False", "type": "DiskPressure"},
           {"lastHeartbeatTime": "2026-11-30T18:00:00Z", "lastTransitionTime": "2026-11-30T17:41:30Z", "reason": "KubeletReady", "status": "True", "type": "Ready"}],
         "nodeInfo": {"kubeletVersion": "v1.32.5", "systemUUID": "f8b1156719752ca6", "architecture": "amd64"}}},
      {"metadata": {"name": "node-1"},
       "spec": {"unschedulable": true, "taints": [{"effect": "NoSchedule", "key": "node.kubernetes.io/unschedulable", "timeAdded": "2026-11-30T17:43:54Z"}]},
       "status": {"conditions": [{"lastTransitionTime": "2026-11-30T17:50:00Z", "status": "Unknown", "type": "Ready"}],
                  "nodeInfo": {"kubeletVersion": "v1.33.1", "systemUUID": ""}}},
      {"metadata": {"name": "node-2", "labels": null}}]}"#;
    let nodes = read::nodes(json).unwrap();
    let [control, worker, new] = nodes.as_slice() else {
        panic!("{nodes:?}")
    };
    assert_eq!(
        (control.ready, control.unschedulable, control.control_plane),
        (true, false, true)
    );
    assert_eq!(control.ready_since.unwrap().to_string(), "2026-11-30T17:41:30Z");
    assert_eq!(control.kubelet_version, "v1.32.5");
    assert_eq!(control.system_uuid.as_deref(), Some("f8b1156719752ca6"));
    assert_eq!(control.provider_id.as_deref(), Some("external-cloudstack://1f2e"));
    let addresses: Vec<String> = control.addresses.iter().map(ToString::to_string).collect();
    assert_eq!(addresses, ["10.1.1.11", "fd00::11", "192.0.2.7"]);
    assert_eq!(control.host_name.as_deref(), Some("control-1"));
    assert_eq!(
        (worker.ready, worker.unschedulable, worker.control_plane),
        (false, true, false),
        "Unknown is not ready"
    );
    assert_eq!(
        (worker.system_uuid.as_deref(), worker.provider_id.as_deref()),
        (None, None)
    );
    assert_eq!(
        (new.ready, new.ready_since, new.kubelet_version.as_str()),
        (false, None, ""),
        "just registered"
    );
}

#[test]
fn a_pod_is_read() {
    let json = r#"{"items": [
      {"metadata": {"name": "web-1", "namespace": "shop", "uid": "u-1", "labels": {"app": "web"},
        "ownerReferences": [{"kind": "Other", "name": "o", "uid": "1"}, {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "2", "controller": true, "blockOwnerDeletion": true}]},
       "spec": {"nodeName": "n-1", "volumes": [
          {"name": "cache", "emptyDir": {}}, {"name": "data", "persistentVolumeClaim": {"claimName": "data-0"}},
          {"name": "token", "projected": {"sources": []}}]},
       "status": {"phase": "Running", "conditions": [{"type": "Initialized", "status": "True", "lastTransitionTime": null}, {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-30T17:41:12Z"}]}},
      {"metadata": {"name": "bare", "namespace": "misc", "uid": "u-2", "finalizers": ["example.com/wait"],
        "deletionTimestamp": "2026-11-30T17:41:12Z", "deletionGracePeriodSeconds": 30},
       "spec": {}, "status": {"phase": "Pending"}},
      {"metadata": {"name": "kube-apiserver-c", "namespace": "kube-system", "uid": "u-3",
        "annotations": {"kubernetes.io/config.mirror": "abc", "kubernetes.io/config.source": "file"},
        "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "c", "uid": "9", "controller": true}]},
       "spec": {}, "status": {"phase": "Running"}}]}"#;
    let pods = read::pods(json).unwrap();
    let [web, bare, mirror] = pods.as_slice() else {
        panic!("{pods:?}")
    };
    assert_eq!(
        (web.namespace.as_str(), web.name.as_str(), web.uid.as_str()),
        ("shop", "web-1", "u-1")
    );
    assert_eq!(
        (web.phase.as_str(), web.ready, web.empty_dir, web.mirror),
        ("Running", true, true, false)
    );
    assert_eq!(web.controller.as_deref(), Some("ReplicaSet"));
    assert_eq!(web.claims, ["data-0"]);
    assert_eq!(web.labels.get("app").map(String::as_str), Some("web"));
    assert_eq!(
        (bare.controller.as_deref(), bare.ready, bare.empty_dir),
        (None, false, false)
    );
    assert_eq!(bare.finalizers, ["example.com/wait"]);
    assert!(bare.deleting_since.is_some());
    assert!(mirror.mirror);
}

#[test]
fn a_budget_is_read() {
    let json = r#"{"items": [
      {"metadata": {"name": "web", "namespace": "shop"},
       "spec": {"minAvailable": 4, "selector": {"matchLabels": {"app": "web"}}},
       "status": {"currentHealthy": 4, "desiredHealthy": 4, "disruptionsAllowed": 0, "expectedPods": 4, "observedGeneration": 1}},
      {"metadata": {"name": "all", "namespace": "shop"}, "spec": {"maxUnavailable": "25%", "selector": {}}},
      {"metadata": {"name": "none", "namespace": "shop"}, "spec": {"maxUnavailable": 1}}]}"#;
    let budgets = read::budgets(json).unwrap();
    let [web, all, none] = budgets.as_slice() else {
        panic!("{budgets:?}")
    };
    assert_eq!(
        (web.disruptions_allowed, web.current_healthy, web.desired_healthy),
        (0, 4, 4)
    );
    assert_eq!(web.selector, serde_json::json!({"matchLabels": {"app": "web"}}));
    assert_eq!(all.selector, serde_json::json!({}));
    assert!(none.selector.is_null());
}

#[test]
fn what_is_no_list_is_an_error() {
    assert!(read::nodes("{}").is_err());
    assert!(read::nodes("null").is_err());
    assert!(
        read::pods(r#"{"items": [{"metadata": {}}]}"#).is_err(),
        "a pod without a name"
    );
    assert!(read::budgets(r#"{"items": null}"#).is_err());
}
