//! Events: what `kubectl get events` and `kubectl describe` tell about an object.

use serde_json::{Value, json};

use super::super::json as js;
use super::super::resources::EVENT;
use super::super::store::State;
use super::super::{defaults, objects, time};

/// A cluster keeps no more than so many.
const LIMIT: usize = 2000;

/// Who speaks in an event.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Source {
    Scheduler,
    Deployments,
    ReplicaSets,
    DaemonSets,
    StatefulSets,
    Nodes,
    Taints,
}

impl Source {
    fn component(self) -> &'static str {
        match self {
            Self::Scheduler => "default-scheduler",
            Self::Deployments => "deployment-controller",
            Self::ReplicaSets => "replicaset-controller",
            Self::DaemonSets => "daemonset-controller",
            Self::StatefulSets => "statefulset-controller",
            Self::Nodes => "node-controller",
            Self::Taints => "taint-eviction-controller",
        }
    }
}

/// Tells something about an object. The same thing told again is counted.
pub(crate) fn tell(
    state: &mut State,
    about: &Value,
    source: Source,
    kind: &str,
    reason: &str,
    message: &str,
) {
    let namespace = match js::namespace(about) {
        "" => "default",
        namespace => namespace,
    };
    let now = time::stamp();
    let known = state.list(&EVENT, Some(namespace)).into_iter().find(|event| {
        js::text(event, "/involvedObject/uid") == js::uid(about)
            && js::text(event, "/reason") == reason
            && js::text(event, "/message") == message
    });
    if let Some(known) = known {
        objects::touch(state, &EVENT, namespace, js::name(&known), |event| {
            js::put(event, "/lastTimestamp", json!(now));
            js::put(event, "/count", json!(js::int(event, "/count").unwrap_or(1) + 1));
        });
        return;
    }
    forget_oldest(state);
    let event = json!({
        "metadata": {"name": format!("{}.{}", js::name(about), defaults::suffix(16)), "namespace": namespace},
        "involvedObject": {"kind": js::text(about, "/kind"), "namespace": js::namespace(about),
            "name": js::name(about), "uid": js::uid(about), "apiVersion": js::text(about, "/apiVersion"),
            "resourceVersion": js::text(about, "/metadata/resourceVersion")},
        "reason": reason, "message": message, "type": kind, "count": 1,
        "source": {"component": source.component()}, "reportingComponent": source.component(),
        "reportingInstance": "", "firstTimestamp": now, "lastTimestamp": now,
    });
    // An event that cannot be told (its namespace goes away) is lost, as in life.
    drop(objects::create(
        state,
        &EVENT,
        namespace,
        event,
        objects::Write::Keep,
    ));
}

fn forget_oldest(state: &mut State) {
    let all = state.list(&EVENT, None);
    if all.len() < LIMIT {
        return;
    }
    if let Some(oldest) = all
        .iter()
        .min_by_key(|event| js::text(event, "/lastTimestamp").to_owned())
    {
        state.remove(&EVENT, js::namespace(oldest), js::name(oldest));
    }
}
