//! Where everything is at the end, and what the invariants of `bug-reports.md` say of it.

use std::collections::BTreeSet;

use serde_json::Value;

use super::bench::Bench;
use crate::db::{ledger, members, rules};
use crate::domain::cluster::Role;

impl Bench {
    /// Where everything is at the end: rows, machines, nodes, rules.
    pub(super) async fn end(&self) -> String {
        let cluster = self.cluster().await;
        let mut lines = vec![format!(
            "cluster {} control={} workers={} cores={} memory={}",
            cluster.state, cluster.control_count, cluster.node_count, cluster.cores, cluster.memory_mb
        )];
        let mut conn = self.pool.acquire().await.unwrap();
        let map = members::list(&mut conn, self.cluster_key).await.unwrap();
        let mut names: Vec<&str> = map.iter().map(|member| member.vm_name.as_str()).collect();
        names.sort_unstable();
        lines.push(format!("map {}", names.join(" ")));
        let own = rules::list(&mut conn, self.cluster_key).await.unwrap();
        let own: Vec<String> = own.iter().map(|rule| rule.public_port.to_string()).collect();
        lines.push(format!("own rules {}", own.join(" ")));
        let owed = ledger::list(&mut conn, self.cluster_key).await.unwrap();
        let state = self.world.state();
        for row in owed {
            let name = row
                .detail
                .get("name")
                .and_then(Value::as_str)
                .unwrap_or(&row.subject)
                .to_owned();
            lines.push(format!("ledger {} {name}", row.kind));
        }
        for node in state.nodes.values() {
            let cordoned = if node.unschedulable { " cordoned" } else { "" };
            let ready = if node.ready { "" } else { " NotReady" };
            lines.push(format!("node {}{ready}{cordoned}", node.name));
        }
        for machine in state.machines.values() {
            let iso = if machine.iso_id.is_some() { " with ISO" } else { "" };
            lines.push(format!(
                "vm {} {:?} {} cores{iso}",
                machine.name, machine.state, machine.cpu_number
            ));
        }
        for rule in &state.forwards {
            let vm = rule.vm_id.map(|vm| state.name_of(vm)).unwrap_or_default();
            let revoked = if rule.revoked { " revoked" } else { "" };
            lines.push(format!("forward {} to {vm}{revoked}", rule.public_port));
        }
        for rule in &state.firewalls {
            lines.push(format!(
                "open {}-{}",
                rule.start_port.unwrap_or(0),
                rule.end_port.unwrap_or(0)
            ));
        }
        // Names of new machines hold the time, which a stop on the way moves; and those that come together
        // come in any order.
        let mut made: Vec<String> = state.made.iter().map(|vm| state.name_of(*vm)).collect();
        made.sort();
        let rename = |line: String| {
            made.iter().enumerate().fold(line, |line, (number, name)| {
                line.replace(name, &format!("new-{}", number + 1))
            })
        };
        let mut lines: Vec<String> = lines.into_iter().map(rename).collect();
        lines.sort();
        lines.join("\n")
    }

    /// Takes apart what the invariants of `bug-reports.md` ask for after every operation. `cordoned` are the
    /// nodes that an operator had cordoned before.
    pub(super) async fn broken_invariants(&self, cordoned: &[&str], error: &str) -> Vec<String> {
        let events = self.events().await;
        let mut broken = self.world.state().violations.clone();
        let cluster = self.cluster().await;
        let mut conn = self.pool.acquire().await.unwrap();
        let map = members::list(&mut conn, self.cluster_key).await.unwrap();
        if cluster.state.is_transitional() {
            broken.push(format!("I1: {} without a live job", cluster.state));
        }
        let count = |role: Role| i64::try_from(map.iter().filter(|one| one.role == role).count()).unwrap();
        if (count(Role::Control), count(Role::Worker)) != (cluster.control_count, cluster.node_count) {
            broken.push("I2: counts differ from the map".to_owned());
        }
        let rows = ledger::list(&mut conn, self.cluster_key).await.unwrap();
        let owed: BTreeSet<String> = rows.iter().map(|row| row.subject.clone()).collect();
        let state = self.world.state();
        let (cores, memory) = map
            .iter()
            .filter_map(|one| state.machines.get(&one.vm_id))
            .fold((0, 0), |(cores, memory), machine| {
                (cores + machine.cpu_number, memory + machine.memory_mb)
            });
        if (cores, memory) != (cluster.cores, cluster.memory_mb) {
            broken.push(format!("I2: {cores} cores and {memory} MB by the machines"));
        }
        for node in state.nodes.values().filter(|node| node.unschedulable) {
            if !cordoned.contains(&node.name.as_str())
                && !owed.contains(&node.name)
                && !error.contains(&node.name)
            {
                broken.push(format!("I3: {} stays cordoned and nobody says so", node.name));
            }
        }
        for machine in state.machines.values() {
            let member = map.iter().any(|one| one.vm_id == machine.id);
            let named =
                error.contains(&machine.name) || events.iter().any(|text| text.contains(&machine.name));
            if !member && !named && !owed.contains(&machine.id.to_string()) {
                broken.push(format!("I4: VM {} is left and named nowhere", machine.name));
            }
            let rule = state
                .forwards
                .iter()
                .any(|rule| rule.vm_id == Some(machine.id) && !rule.revoked);
            if !member && rule && !named {
                broken.push(format!("I4: a rule leads to VM {}", machine.name));
            }
        }
        for node in state.nodes.values() {
            if !map.iter().any(|one| one.vm_name == node.name) && !error.contains(&node.name) {
                broken.push(format!("I4: node {} is no member", node.name));
            }
        }
        broken
    }
}
