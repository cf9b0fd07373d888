//! The reports S1, S2, R, E and D, and the bug reports, on the doubles.
//!
//! What this must not know: how the engine stops and resumes a job; that is the harness's.

mod given_back;
mod grown;
mod removed;

use std::time::Duration;

use serde_json::json;

use super::bench::Bench;
use super::things::{budget, pod};
use super::world::World;
use crate::domain::cluster::Event;
use crate::domain::id::JobId;

pub(super) const HOUR: Duration = Duration::from_hours(1);

/// `c1+w3` with a 4-replica deployment and a budget that allows `allowed` evictions.
pub(in crate::operations::tests) fn web(allowed: i64) -> World {
    let world = World::new(3);
    {
        let mut state = world.state();
        for (name, node) in [
            ("web-1", "wk-1"),
            ("web-2", "wk-2"),
            ("web-3", "wk-3"),
            ("web-4", "wk-3"),
        ] {
            state.pods.push((node.to_owned(), pod(name, "web")));
        }
        state.budgets.push(budget("web", allowed));
    }
    world
}

pub(in crate::operations::tests) async fn size(bench: &Bench, size: i64) -> JobId {
    let event = if size > bench.cluster().await.node_count {
        Event::ScaleUpRequested
    } else {
        Event::ScaleDownRequested
    };
    bench.admit(json!({ "size": size }), event, HOUR).await
}

pub(super) async fn ends(bench: &Bench, job: JobId) -> Result<(), String> {
    if bench.run(job, &mut |_, _| {}).await {
        Ok(())
    } else {
        Err(bench.error(job).await)
    }
}

pub(super) async fn sound(bench: &Bench, cordoned: &[&str], error: &str) {
    let broken = bench.broken_invariants(cordoned, error).await;
    assert!(broken.is_empty(), "{broken:#?}\n{}\n{error}", bench.end().await);
}

pub(super) fn trace(bench: &Bench) -> Vec<String> {
    bench.world.state().trace.clone()
}

/// In an order of its own: sequences that overlap are recorded as they come.
pub(super) fn sorted(mut lines: Vec<String>) -> String {
    lines.sort();
    lines.join("\n")
}
