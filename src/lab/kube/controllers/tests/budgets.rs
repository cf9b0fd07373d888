//! Disruption budgets and evictions.

use serde_json::json;

use super::*;
use crate::lab::kube::resources::{BUDGET, DEPLOYMENT, POD};

#[test]
fn a_budget_counts_in_numbers_and_percentages() {
    let cases = [
        (json!({"minAvailable": 4}), (4, 4, 0)),
        (json!({"minAvailable": 2}), (4, 2, 2)),
        (json!({"minAvailable": "50%"}), (4, 2, 2)),
        (json!({"minAvailable": "60%"}), (4, 3, 1)),
        (json!({"minAvailable": "100%"}), (4, 4, 0)),
        (json!({"maxUnavailable": 1}), (4, 3, 1)),
        (json!({"maxUnavailable": 0}), (4, 4, 0)),
        (json!({"maxUnavailable": "30%"}), (4, 2, 2)),
    ];
    for (spec, (expected, desired, allowed)) in cases {
        let mut world = World::new(&["a"]);
        world.make(&DEPLOYMENT, "shop", deployment(4));
        world.make(&BUDGET, "shop", pdb("web", spec.clone()));
        world.run();
        let status = world.get(&BUDGET, "web")["status"].clone();
        assert_eq!(status["expectedPods"], expected, "{spec}");
        assert_eq!(status["desiredHealthy"], desired, "{spec}");
        assert_eq!(status["disruptionsAllowed"], allowed, "{spec}");
        assert_eq!(status["currentHealthy"], 4, "{spec}");
        let reason = if allowed > 0 {
            "SufficientPods"
        } else {
            "InsufficientPods"
        };
        assert_eq!(status["conditions"][0]["reason"], reason, "{spec}");
    }
}

#[test]
fn an_eviction_takes_from_the_budget_until_the_replacement_serves() {
    let mut world = World::new(&["a", "b"]);
    world.make(&DEPLOYMENT, "shop", deployment(2));
    world.make(&BUDGET, "shop", pdb("web", json!({"minAvailable": 1})));
    world.run();
    let names: Vec<String> = world
        .list(&POD)
        .iter()
        .map(|pod| js::name(pod).to_owned())
        .collect();
    world.evict(&names[0]).unwrap();
    let refused = world.evict(&names[1]).unwrap_err();
    assert_eq!(
        refused.body(),
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "Cannot evict pod as it would violate the pod's disruption budget.",
            "reason": "TooManyRequests",
            "details": {"causes": [{"reason": "DisruptionBudget",
                "message": "The disruption budget web needs 1 healthy pods and has 1 currently"}]},
            "code": 429})
    );
    // One that goes away already is evicted again without asking.
    world.evict(&names[0]).unwrap();
    world.finish(&names[0]);
    world.run();
    world.evict(&names[1]).unwrap();
}

#[test]
fn two_budgets_on_a_pod_are_a_500() {
    let mut world = World::new(&["a"]);
    world.make(&DEPLOYMENT, "shop", deployment(1));
    world.make(&BUDGET, "shop", pdb("one", json!({"minAvailable": 0})));
    world.make(&BUDGET, "shop", pdb("two", json!({"minAvailable": 0})));
    world.run();
    let name = js::name(&world.list(&POD)[0]).to_owned();
    let refused = world.evict(&name).unwrap_err();
    assert_eq!(refused.code, 500);
    assert_eq!(
        refused.message,
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
    );
}

#[test]
fn an_unready_pod_is_evicted_only_if_enough_others_serve_or_always() {
    let mut world = World::new(&["a"]);
    let mut sick = deployment(2);
    js::put(
        &mut sick,
        "/spec/template/metadata/annotations",
        json!({"ready": "no"}),
    );
    world.make(&DEPLOYMENT, "shop", sick);
    world.make(&BUDGET, "shop", pdb("web", json!({"minAvailable": 1})));
    world.run();
    let name = js::name(&world.list(&POD)[0]).to_owned();
    assert_eq!(world.evict(&name).unwrap_err().code, 429);
    world.merge(
        &BUDGET,
        "web",
        json!({"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}}),
    );
    world.evict(&name).unwrap();
}
