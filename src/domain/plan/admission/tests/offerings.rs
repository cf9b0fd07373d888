//! Tests of the rules for offerings.

use super::*;

#[test]
fn offerings_are_judged_by_role() {
    let mut world = world();
    assert_eq!(
        world.decide(&to_offering(0x52)).map(|admitted| admitted.event),
        Ok(Event::ScaleUpRequested)
    );
    world.refuses(
        &to_offering(0x54),
        "service offering any (00000000-0000-0000-0000-000000000054) leaves its size to the user, so it cannot be used for Kubernetes nodes",
    );
    world.refuses(
        &to_offering(0x53),
        "service offering tiny (00000000-0000-0000-0000-000000000053) has 1 CPU cores and 8192 MB of memory: the worker nodes need at least 2 cores and 2048 MB",
    );
    let less = |name: &str, n: u128, what: &str, role: &str, present: &str| {
        format!(
            "service offering {name} ({}) has less {what} than {present}, which the {role} nodes of {LABEL} have: a cluster can change to a smaller offering only while it is Stopped",
            id(n)
        )
    };
    world.refuses(
        &to_offering(0x55),
        &less("lean", 0x55, "memory", "worker", "medium"),
    );
    world.refuses(&to_offering(0x56), &less("slow", 0x56, "CPU", "worker", "medium"));
    // each role is compared with its own offering
    world.cluster.control_offering_id = Some(OfferingId(id(0x52)));
    let only_control = ScaleRequest {
        role_offerings: BTreeMap::from([(Role::Control, OfferingId(id(0x51)))]),
        ..ScaleRequest::default()
    };
    world.refuses(&only_control, &less("medium", 0x51, "memory", "control", "large"));
    world.version = Some(VersionNeeds {
        min_cpu: 4,
        min_memory_mb: 4096,
    });
    world.refuses(
        &to_offering(0x51),
        "service offering medium (00000000-0000-0000-0000-000000000051) has 2 CPU cores and 4096 MB of memory: the worker nodes need at least 4 cores and 4096 MB",
    );
}
