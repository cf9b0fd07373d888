//! The pods of a node: when each starts, what is said of it, when its deletion is finished.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::super::json as js;
use super::super::time;
use super::client::{Client, Failure};
use super::{KubeletSpec, News};

/// After a call that failed the next try comes after this.
const AGAIN: Duration = Duration::from_millis(500);

/// What is to be done for a pod, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Task {
    /// Say that it starts.
    Announce,
    /// Say that it runs.
    Start,
    /// Say that it ended by itself.
    End,
    /// Finish its deletion.
    Finish,
}

#[derive(Debug)]
struct Known {
    pod: Value,
    tasks: Vec<(Instant, Task)>,
    finished: bool,
    address: String,
}

/// All pods that the kubelet knows of.
#[derive(Debug, Default)]
pub(super) struct Pods {
    known: HashMap<String, Known>,
    range: String,
}

fn seconds(pod: &Value, annotation: &str) -> Option<Duration> {
    let value: f64 = js::annotation(pod, annotation).parse().ok()?;
    Duration::try_from_secs_f64(value).ok()
}

fn wants_ready(pod: &Value) -> bool {
    js::annotation(pod, "lab.cksd/ready") != "false"
}

impl Pods {
    /// From which range pods get their addresses.
    pub(super) fn set_range(&mut self, range: &str) {
        if !range.is_empty() && self.range != range {
            range.clone_into(&mut self.range);
        }
    }

    /// When there is something to do.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.known
            .values()
            .flat_map(|known| known.tasks.iter().map(|(due, _)| *due))
            .min()
    }

    /// Takes in what the watch tells.
    pub(super) fn take(&mut self, news: News, spec: &KubeletSpec) {
        match news {
            News::All(pods) => {
                self.known
                    .retain(|uid, _| pods.iter().any(|pod| js::uid(pod) == uid));
                for pod in pods {
                    self.present(pod, spec);
                }
            }
            News::Present(pod) => self.present(pod, spec),
            News::Gone(pod) => {
                self.known.remove(js::uid(&pod));
            }
        }
    }

    fn present(&mut self, pod: Value, spec: &KubeletSpec) {
        let uid = js::uid(&pod).to_owned();
        let address = js::text(&pod, "/status/podIP").to_owned();
        let known = self.known.entry(uid).or_insert_with(|| Known {
            pod: Value::Null,
            tasks: Vec::new(),
            finished: false,
            address,
        });
        known.pod = pod;
        known.plan(spec);
    }

    /// An address in the node's range that no other pod has.
    fn free_address(&self) -> String {
        let prefix = self
            .range
            .rsplit_once('.')
            .map_or("10.244.0", |(prefix, _)| prefix);
        (2..=254)
            .map(|last| format!("{prefix}.{last}"))
            .find(|address| !self.known.values().any(|known| known.address == *address))
            .unwrap_or_default()
    }

    /// Does what is due.
    pub(super) async fn act(&mut self, client: &Client, spec: &KubeletSpec) {
        let now = Instant::now();
        let due: Vec<(String, Task)> = self
            .known
            .iter()
            .flat_map(|(uid, known)| {
                known
                    .tasks
                    .iter()
                    .filter(|(due, _)| *due <= now)
                    .map(|(_, task)| (uid.clone(), *task))
            })
            .collect();
        for (uid, task) in due {
            if let Some(known) = self.known.get_mut(&uid) {
                known.tasks.retain(|(_, planned)| *planned != task);
            }
            let done = self.perform(client, spec, &uid, task).await;
            if !done && let Some(known) = self.known.get_mut(&uid) {
                known.tasks.push((Instant::now() + AGAIN, task));
            }
        }
    }

    /// Does one thing for a pod; false if it must be tried again.
    async fn perform(&mut self, client: &Client, spec: &KubeletSpec, uid: &str, task: Task) -> bool {
        let free = self.free_address();
        let Some(known) = self.known.get_mut(uid) else {
            return true;
        };
        if known.address.is_empty() && task == Task::Start {
            let own = js::flag(&known.pod, "/spec/hostNetwork");
            known.address = if own { spec.address.to_string() } else { free };
        }
        let pod = &known.pod;
        let path = format!("/api/v1/namespaces/{}/pods/{}", js::namespace(pod), js::name(pod));
        let answer = match task {
            Task::Finish => {
                known.finished = true;
                let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0,
                    "preconditions": {"uid": uid}});
                client.delete(&path, &options).await
            }
            Task::Announce => {
                client
                    .patch(&format!("{path}/status"), &starting(pod, spec))
                    .await
            }
            Task::Start => {
                client
                    .patch(&format!("{path}/status"), &running(pod, spec, &known.address))
                    .await
            }
            Task::End => client.patch(&format!("{path}/status"), &ended(pod)).await,
        };
        match answer {
            Ok(_) | Err(Failure::Refused(404 | 409)) => true,
            Err(_) => {
                known.finished = false;
                false
            }
        }
    }
}

impl Known {
    /// Decides what is to be done, from how the pod stands now.
    fn plan(&mut self, spec: &KubeletSpec) {
        let phase = js::text(&self.pod, "/status/phase").to_owned();
        let phase = phase.as_str();
        if js::deleting(&self.pod) {
            self.plan_end(phase);
            return;
        }
        if matches!(phase, "Succeeded" | "Failed") {
            return;
        }
        if phase == "Running" {
            let said = js::condition_true(&self.pod, "Ready");
            if said != wants_ready(&self.pod) && !self.planned(Task::Start) {
                self.tasks.push((Instant::now(), Task::Start));
            }
            if let Some(time) = seconds(&self.pod, "lab.cksd/run-seconds")
                && !self.planned(Task::End)
            {
                self.tasks.push((Instant::now() + time, Task::End));
            }
        } else if !self.planned(Task::Start) {
            let delay = seconds(&self.pod, "lab.cksd/start-seconds").unwrap_or(spec.pod_start_delay);
            if delay >= AGAIN {
                self.tasks.push((Instant::now(), Task::Announce));
            }
            self.tasks.push((Instant::now() + delay, Task::Start));
        }
    }

    fn planned(&self, task: Task) -> bool {
        self.tasks.iter().any(|(_, planned)| *planned == task)
    }

    /// A deletion is finished after the grace period; a pod that has not begun, at once.
    fn plan_end(&mut self, phase: &str) {
        if self.finished {
            return;
        }
        let grace = Duration::from_secs(
            js::count(&self.pod, "/metadata/deletionGracePeriodSeconds")
                .max(0)
                .unsigned_abs(),
        );
        let stop = seconds(&self.pod, "lab.cksd/stop-seconds").map_or(grace, |stop| stop.min(grace));
        let stop = if phase == "Running" { stop } else { Duration::ZERO };
        let due = Instant::now() + stop;
        let sooner = self
            .tasks
            .iter()
            .filter(|(_, task)| *task == Task::Finish)
            .all(|(planned, _)| due < *planned);
        if sooner {
            self.tasks.clear();
            self.tasks.push((due, Task::Finish));
        }
    }
}

fn condition(pod: &Value, kind: &str, holds: bool) -> Value {
    let status = if holds { "True" } else { "False" };
    let since = js::condition(pod, kind)
        .filter(|old| js::text(old, "/status") == status)
        .map_or_else(time::stamp, |old| js::text(old, "/lastTransitionTime").to_owned());
    let mut condition =
        json!({"type": kind, "status": status, "lastProbeTime": null, "lastTransitionTime": since});
    if !holds && kind != "PodReadyToStartContainers" {
        js::put(&mut condition, "/reason", json!("ContainersNotReady"));
        js::put(
            &mut condition,
            "/message",
            json!("containers with unready status"),
        );
    } else {
        js::put(&mut condition, "/reason", Value::Null);
        js::put(&mut condition, "/message", Value::Null);
    }
    condition
}

fn containers(pod: &Value, ready: bool, started: bool, state: &Value) -> Value {
    let all: Vec<Value> = js::items(pod, "/spec/containers")
        .iter()
        .map(|container| {
            json!({"name": js::text(container, "/name"), "image": js::text(container, "/image"), "imageID": "",
                "ready": ready, "started": started, "restartCount": 0, "lastState": {}, "state": state})
        })
        .collect();
    Value::Array(all)
}

fn conditions(pod: &Value, started: bool, ready: bool) -> Value {
    json!([
        condition(pod, "PodReadyToStartContainers", started),
        condition(pod, "Initialized", true),
        condition(pod, "Ready", ready),
        condition(pod, "ContainersReady", ready),
    ])
}

fn since(pod: &Value) -> String {
    match js::text(pod, "/status/startTime") {
        "" => time::stamp(),
        known => known.to_owned(),
    }
}

fn starting(pod: &Value, spec: &KubeletSpec) -> Value {
    let waiting = json!({"waiting": {"reason": "ContainerCreating"}});
    json!({"status": {
        "phase": "Pending", "conditions": conditions(pod, false, false), "startTime": since(pod),
        "hostIP": spec.address.to_string(), "hostIPs": [{"ip": spec.address.to_string()}],
        "containerStatuses": containers(pod, false, false, &waiting),
    }})
}

fn running(pod: &Value, spec: &KubeletSpec, address: &str) -> Value {
    let ready = wants_ready(pod);
    let began = json!({"running": {"startedAt": since(pod)}});
    json!({"status": {
        "phase": "Running", "conditions": conditions(pod, true, ready), "startTime": since(pod),
        "hostIP": spec.address.to_string(), "hostIPs": [{"ip": spec.address.to_string()}],
        "podIP": address, "podIPs": [{"ip": address}],
        "containerStatuses": containers(pod, ready, true, &began),
    }})
}

fn ended(pod: &Value) -> Value {
    let state = json!({"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": since(pod),
        "finishedAt": time::stamp()}});
    json!({"status": {
        "phase": "Succeeded", "conditions": conditions(pod, false, false),
        "containerStatuses": containers(pod, false, false, &state),
    }})
}
