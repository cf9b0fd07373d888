//! The table of pods, with the many ways in which a pod's state is put in one word.

use serde_json::{Value, json};

use super::super::json as js;
use super::{Layout, created, narrow, or, wide};

pub(super) static PODS: Layout = Layout {
    columns: &[
        narrow("Name"),
        narrow("Ready"),
        narrow("Status"),
        narrow("Restarts"),
        narrow("Age"),
        wide("IP"),
        wide("Node"),
        wide("Nominated Node"),
        wide("Readiness Gates"),
    ],
    cells: |pod| {
        let containers = js::items(pod, "/status/containerStatuses");
        let ready = containers.iter().filter(|item| js::flag(item, "/ready")).count();
        let restarts: i64 = containers
            .iter()
            .map(|item| js::count(item, "/restartCount"))
            .sum();
        vec![
            json!(js::name(pod)),
            json!(format!("{ready}/{}", js::items(pod, "/spec/containers").len())),
            json!(word(pod)),
            json!(restarts.to_string()),
            created(pod),
            or(js::text(pod, "/status/podIP"), "<none>"),
            or(js::text(pod, "/spec/nodeName"), "<none>"),
            or(js::text(pod, "/status/nominatedNodeName"), "<none>"),
            json!("<none>"),
        ]
    },
};

/// The state of a pod in one word.
fn word(pod: &Value) -> String {
    let phase = js::text(pod, "/status/phase");
    let mut word = match js::text(pod, "/status/reason") {
        "" => phase,
        reason => reason,
    };
    for container in js::items(pod, "/status/containerStatuses") {
        for state in ["/state/waiting/reason", "/state/terminated/reason"] {
            let reason = js::text(container, state);
            if !reason.is_empty() {
                word = reason;
            }
        }
    }
    if js::deleting(pod) && phase != "Succeeded" && phase != "Failed" {
        word = if js::text(pod, "/status/reason") == "NodeLost" {
            "Unknown"
        } else {
            "Terminating"
        };
    }
    word.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_says_its_state_in_one_word() {
        let running = json!({"status": {"phase": "Running"}});
        let starting = json!({"status": {"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": "ContainerCreating"}}}]}});
        let ending = json!({"metadata": {"deletionTimestamp": "x"}, "status": {"phase": "Running"}});
        let ended = json!({"status": {"phase": "Succeeded", "containerStatuses": [{"state": {"terminated": {"reason": "Completed"}}}]}});
        for (pod, expected) in [
            (running, "Running"),
            (starting, "ContainerCreating"),
            (ending, "Terminating"),
            (ended, "Completed"),
        ] {
            assert_eq!(word(&pod), expected);
        }
    }
}
