//! The controllers: what a real control plane does by itself with the objects it holds.
//!
//! One task runs all of them, one after the other, whenever something changed that they care about, until nothing
//! changes any more; then it sleeps until the next change or the next moment that one of them waits for. So an idle
//! cluster takes no time, and no two controllers ever contradict each other half way.
//!
//! What this must not know: HTTP, and who asked for a change.

pub(crate) mod budget;
mod collector;
mod daemonset;
mod deployment;
mod events;
mod lifecycle;
mod namespaces;
mod placement;
mod replicaset;
mod scheduler;
mod statefulset;
mod workload;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::options::KubeTimings;
use super::store::{State, Store};

/// After so many rounds a pass ends even if things still change; the next begins at once.
const ROUNDS: usize = 50;

/// What the controllers remember between passes, and when they want to be woken.
#[derive(Debug)]
pub(crate) struct Context {
    timings: KubeTimings,
    wake: Option<Instant>,
    /// For each node the heartbeat that was last seen, and when.
    heartbeats: HashMap<String, (String, Instant)>,
    /// For each pod without a node, since when.
    homeless: HashMap<String, Instant>,
}

impl Context {
    pub(crate) fn new(timings: KubeTimings) -> Self {
        Self {
            timings,
            wake: None,
            heartbeats: HashMap::new(),
            homeless: HashMap::new(),
        }
    }

    /// Asks for another pass after a time.
    fn wake_in(&mut self, time: Duration) {
        let moment = Instant::now() + time;
        self.wake = Some(self.wake.map_or(moment, |earlier| earlier.min(moment)));
    }
}

/// One round of all controllers.
fn round(state: &mut State, context: &mut Context) {
    namespaces::run(state);
    collector::run(state, context);
    lifecycle::run(state, context);
    deployment::run(state);
    replicaset::run(state);
    statefulset::run(state);
    daemonset::run(state);
    scheduler::run(state);
    budget::run(state);
}

/// Lets the controllers act until nothing changes.
pub(crate) fn settle(store: &Store, context: &mut Context) {
    context.wake = None;
    for _ in 0..ROUNDS {
        let still = store.with(|state| {
            let before = state.work();
            round(state, context);
            state.work() == before
        });
        if still {
            return;
        }
    }
    context.wake_in(Duration::from_millis(50));
}

/// Runs the controllers until told to stop.
pub(crate) async fn run(store: Arc<Store>, timings: KubeTimings, stop: CancellationToken) {
    let mut work = store.work();
    let mut context = Context::new(timings);
    loop {
        work.mark_unchanged();
        settle(&store, &mut context);
        let wake = context.wake.map(tokio::time::Instant::from_std);
        // What the pass itself changed is settled already.
        work.mark_unchanged();
        if store.with(|state| state.work()) != *work.borrow() {
            continue;
        }
        tokio::select! {
            () = stop.cancelled() => return,
            changed = work.changed() => if changed.is_err() { return },
            () = tokio::time::sleep_until(wake.unwrap_or_else(tokio::time::Instant::now)), if wake.is_some() => {}
        }
    }
}

#[cfg(test)]
mod tests;
