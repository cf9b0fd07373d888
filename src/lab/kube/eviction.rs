//! `pods/eviction`: a deletion that asks the disruption budgets first.

use std::sync::Arc;

use serde_json::{Value, json};

use super::controllers::budget;
use super::delete::{self, DeleteOptions};
use super::error::Status;
use super::json as js;
use super::objects;
use super::resources::{BUDGET, POD};
use super::selector::Labels;
use super::store::State;

const REFUSED: &str = "Cannot evict pod as it would violate the pod's disruption budget.";

/// Evicts a pod, or says which budget is against it.
pub(crate) fn evict(
    state: &mut State,
    namespace: &str,
    name: &str,
    eviction: &Value,
    query: &dyn Fn(&str) -> Option<String>,
) -> Result<Value, Status> {
    objects::in_living_namespace(state, &POD, namespace, name)?;
    let pod = objects::get(state, &POD, namespace, name)?;
    let options = DeleteOptions::read(js::at(eviction, "/deleteOptions"), query);
    if counts(&pod) {
        allowed(state, namespace, &pod)?;
    }
    delete::delete(state, &POD, namespace, name, &options)?;
    Ok(json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}))
}

/// A pod that has ended, has not begun or is going away already takes nothing from a budget.
fn counts(pod: &Value) -> bool {
    !matches!(js::text(pod, "/status/phase"), "Succeeded" | "Failed" | "Pending") && !js::deleting(pod)
}

fn allowed(state: &mut State, namespace: &str, pod: &Value) -> Result<(), Status> {
    let covering: Vec<Arc<Value>> = state
        .list(&BUDGET, Some(namespace))
        .into_iter()
        .filter(|budget| Labels::of(js::at(budget, "/spec/selector")).select(pod))
        .collect();
    let [one] = covering.as_slice() else {
        if covering.is_empty() {
            return Ok(());
        }
        let why = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
        return Err(Status::new(500, "", why));
    };
    // The status is brought up to date here and now: a real server would answer "still being processed" instead.
    let Some(budget) = budget::refresh(state, namespace, js::name(one)) else {
        return Ok(());
    };
    let (healthy, desired) = (
        js::count(&budget, "/status/currentHealthy"),
        js::count(&budget, "/status/desiredHealthy"),
    );
    if !js::condition_true(pod, "Ready") {
        let always = js::text(&budget, "/spec/unhealthyPodEvictionPolicy") == "AlwaysAllow";
        if always || (healthy >= desired && desired > 0) {
            return Ok(());
        }
    }
    if js::count(&budget, "/status/disruptionsAllowed") > 0 {
        return Ok(());
    }
    let name = js::name(&budget);
    let failed = js::condition(&budget, "DisruptionAllowed")
        .filter(|condition| js::text(condition, "/reason") == "SyncFailed")
        .map(|condition| js::text(condition, "/message"));
    let why = match failed {
        Some(reason) => format!(
            "The disruption budget {name} does not allow evicting pods currently because it failed sync: {reason}"
        ),
        None => {
            format!("The disruption budget {name} needs {desired} healthy pods and has {healthy} currently")
        }
    };
    let mut status = Status::new(429, "TooManyRequests", REFUSED);
    status.details = json!({"causes": [{"reason": "DisruptionBudget", "message": why}]});
    Err(status)
}
