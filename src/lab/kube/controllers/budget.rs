//! Disruption budgets: how many pods of each may be missing right now.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::super::json::{self as js, put};
use super::super::objects;
use super::super::resources::{BUDGET, DEPLOYMENT, POD, REPLICA_SET, STATEFUL_SET};
use super::super::selector::Labels;
use super::super::store::State;
use super::super::time;
use super::workload::{self, scaled};

pub(super) fn run(state: &mut State) {
    for budget in state.list(&BUDGET, None) {
        refresh(state, js::namespace(&budget), js::name(&budget));
    }
}

/// Brings the status of a budget up to date and returns the budget.
pub(crate) fn refresh(state: &mut State, namespace: &str, name: &str) -> Option<Arc<Value>> {
    let budget = state.get(&BUDGET, namespace, name)?;
    let labels = Labels::of(js::at(&budget, "/spec/selector"));
    let mut pods = state.list(&POD, Some(namespace));
    pods.retain(|pod| labels.select(pod));
    let healthy = pods
        .iter()
        .filter(|pod| !js::deleting(pod) && js::condition_true(pod, "Ready"))
        .count();
    let healthy = i64::try_from(healthy).unwrap_or(0);
    let (numbers, reason, message) = match demand(state, &budget, &pods) {
        Ok((expected, desired)) => {
            let allowed = if expected > 0 {
                (healthy - desired).max(0)
            } else {
                0
            };
            let reason = if allowed > 0 {
                "SufficientPods"
            } else {
                "InsufficientPods"
            };
            (Some((expected, desired, allowed)), reason, String::new())
        }
        Err(why) => (None, "SyncFailed", why),
    };
    let generation = js::at(&budget, "/metadata/generation").clone();
    objects::touch(state, &BUDGET, namespace, name, |budget| {
        if let Some((expected, desired, allowed)) = numbers {
            put(budget, "/status/currentHealthy", json!(healthy));
            put(budget, "/status/desiredHealthy", json!(desired));
            put(budget, "/status/disruptionsAllowed", json!(allowed));
            put(budget, "/status/expectedPods", json!(expected));
        } else {
            // The numbers of the last good time stay, but nothing is allowed.
            for field in ["currentHealthy", "desiredHealthy", "expectedPods"] {
                js::put_default(budget, &format!("/status/{field}"), json!(0));
            }
            put(budget, "/status/disruptionsAllowed", json!(0));
        }
        put(budget, "/status/observedGeneration", generation.clone());
        condition(budget, reason, &message, &generation);
    });
    state.get(&BUDGET, namespace, name)
}

/// How many pods there should be, and how many of them must be healthy.
fn demand(state: &State, budget: &Value, pods: &[Arc<Value>]) -> Result<(i64, i64), String> {
    let maximum = js::at(budget, "/spec/maxUnavailable");
    if !maximum.is_null() {
        let expected = expected(state, pods)?;
        return Ok((expected, (expected - scaled(maximum, expected, true)).max(0)));
    }
    match js::at(budget, "/spec/minAvailable") {
        Value::Number(number) => Ok((workload::count_of(pods), number.as_i64().unwrap_or(0))),
        percentage @ Value::String(_) => {
            let expected = expected(state, pods)?;
            Ok((expected, scaled(percentage, expected, true)))
        }
        // Neither is set: one must stay.
        _ => Ok((workload::count_of(pods), 1)),
    }
}

/// The sum of what the owners of the pods are scaled to. Pods without an owner do not count.
fn expected(state: &State, pods: &[Arc<Value>]) -> Result<i64, String> {
    let mut owners: BTreeMap<String, i64> = BTreeMap::new();
    for pod in pods {
        let Some(owner) = js::controller(pod) else {
            continue;
        };
        let (uid, scale) = scale_of(state, pod, owner)?;
        owners.insert(uid, scale);
    }
    Ok(owners.values().sum())
}

fn scale_of(state: &State, pod: &Value, owner: &Value) -> Result<(String, i64), String> {
    let (namespace, name) = (js::namespace(pod), js::text(owner, "/name"));
    let resource = match js::text(owner, "/kind") {
        "ReplicaSet" => &REPLICA_SET,
        "StatefulSet" => &STATEFUL_SET,
        kind => {
            return Err(format!(
                "{} does not implement the scale subresource",
                kind.to_lowercase() + "s.apps"
            ));
        }
    };
    let Some(set) = state
        .get(resource, namespace, name)
        .filter(|set| js::uid(set) == js::text(owner, "/uid"))
    else {
        return Err(format!("found no controllers for pod \"{}\"", js::name(pod)));
    };
    if let Some(above) = js::controller(&set).filter(|above| js::text(above, "/kind") == "Deployment")
        && let Some(deployment) = state.get(&DEPLOYMENT, namespace, js::text(above, "/name"))
    {
        return Ok((
            js::uid(&deployment).to_owned(),
            js::count(&deployment, "/spec/replicas"),
        ));
    }
    Ok((js::uid(&set).to_owned(), js::count(&set, "/spec/replicas")))
}

fn condition(budget: &mut Value, reason: &str, message: &str, generation: &Value) {
    let status = if reason == "SufficientPods" {
        "True"
    } else {
        "False"
    };
    let old = js::condition(budget, "DisruptionAllowed");
    let since = old
        .filter(|old| js::text(old, "/status") == status)
        .map_or_else(time::stamp, |old| js::text(old, "/lastTransitionTime").to_owned());
    let new = json!({"lastTransitionTime": since, "message": message, "observedGeneration": generation,
        "reason": reason, "status": status, "type": "DisruptionAllowed"});
    if old != Some(&new) {
        js::set_condition(budget, new);
    }
}
