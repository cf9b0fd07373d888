//! Every scenario makes a world, named as the existing service names things.

use super::cluster::prefix;
use super::make;
use crate::lab::record::Subnet;
use crate::lab::scenario;

#[test]
fn every_scenario_makes_a_world() {
    for name in scenario::names() {
        let plan = scenario::load(name).unwrap();
        let (state, record) = make(name, &plan, Subnet { a: 77, b: 1 }).unwrap();
        let members: u16 = plan
            .cluster
            .iter()
            .map(|cluster| cluster.controls + cluster.workers)
            .sum();
        assert_eq!(state.vms.len(), usize::from(members), "{name}");
        assert_eq!(state.forwards.len(), state.vms.len());
        assert_eq!(record.clusters.len(), plan.cluster.len());
        let one_33_1 = state.isos.iter().filter(|iso| iso.name.contains("v1.33.1"));
        assert_eq!(one_33_1.count(), 3, "1.33.1 twice and 1.33.13");
    }
}

#[test]
fn machines_are_named_as_the_existing_service_names_them() {
    let plan = scenario::load("seed-a").unwrap();
    let (state, _) = make("seed-a", &plan, Subnet { a: 77, b: 1 }).unwrap();
    for vm in &state.vms {
        let hex = format!("{:x}", vm.created.as_millisecond());
        let role = if vm.guest.control { "control" } else { "node" };
        assert_eq!(vm.name, format!("cluster-a-{role}-{hex}"));
    }
    assert_eq!(prefix("My Cluster"), "k8s-mycluster");
    assert_eq!(prefix(&"a".repeat(60)).len(), 43);
}
