//! What every operation must stand, whatever it does: each step twice, a stop at each record, each call of a
//! port failing in four ways, a takeover at each call.
//!
//! A scenario is a line in [`scenarios`]; nothing here knows what it does.

use serde_json::{Value, json};
use sqlx::PgPool;

use super::bench::Bench;
use super::faults::Mode;
use super::stories::{size, web};
use super::world::{World, big_offering_id};
use crate::domain::cluster::{Event, State};
use crate::domain::id::JobId;
use crate::domain::settings::DRAIN_TIMEOUT;
use crate::jobs::testing::{Stop, expire_lease};

/// A scenario: a world, and what is asked.
struct Scenario {
    name: &'static str,
    world: fn() -> World,
    ask: Ask,
}

enum Ask {
    Size(i64),
    Other(fn() -> Value, Event),
}

/// The kinds of trial for one scenario, each a test of its own so that they run side by side.
macro_rules! trials {
    ($($name:ident: $world:expr, $ask:expr;)*) => {$(
        mod $name {
            use super::*;

            fn scenario() -> Scenario {
                Scenario { name: stringify!($name), world: || $world, ask: $ask }
            }

            #[sqlx::test(migrations = "./migrations")]
            async fn every_step_twice_ends_the_same_and_does_nothing_twice(pool: PgPool) {
                every_step_twice(&pool, &scenario()).await;
            }

            #[sqlx::test(migrations = "./migrations")]
            async fn a_stop_anywhere_is_resumed_to_the_same_end(pool: PgPool) {
                a_stop_anywhere(&pool, &scenario()).await;
            }

            #[sqlx::test(migrations = "./migrations")]
            async fn each_call_fails_in_four_ways_and_the_outcome_is_declared(pool: PgPool) {
                each_call_fails(&pool, &scenario()).await;
            }

            #[sqlx::test(migrations = "./migrations")]
            async fn a_frozen_worker_that_was_taken_over_writes_nothing(pool: PgPool) {
                a_frozen_worker(&pool, &scenario()).await;
            }
        }
    )*};
}

trials! {
    down: web(1), Ask::Size(2);
    blocked: web(0), Ask::Size(2);
    up: World::new(1), Ask::Size(2);
    offering: World::new(1), Ask::Other(|| json!({ "offering": big_offering_id() }), Event::ScaleUpRequested);
}

impl Scenario {
    async fn begin(&self, pool: &PgPool) -> (Bench, JobId) {
        let bench = Bench::new(pool, (self.world)(), State::Running).await;
        bench.set(&DRAIN_TIMEOUT, "30").await;
        let job = match &self.ask {
            Ask::Size(wanted) => size(&bench, *wanted).await,
            Ask::Other(request, event) => {
                bench
                    .admit(request(), *event, std::time::Duration::from_hours(1))
                    .await
            }
        };
        (bench, job)
    }
}

/// The end of a run, with every broken invariant.
async fn end(bench: &Bench, job: JobId, done: bool) -> (String, Vec<String>) {
    let error = bench.error(job).await;
    let broken = bench.broken_invariants(&[], &error).await;
    (
        format!(
            "{}\n{}",
            if done { "succeeded" } else { "failed" },
            bench.end().await
        ),
        broken,
    )
}

/// Runs straight; returns the end, the fault points and the calls.
async fn straight(pool: &PgPool, scenario: &Scenario) -> (String, Vec<String>, Vec<String>, Vec<String>) {
    let (bench, job) = scenario.begin(pool).await;
    let done = bench.run(job, &mut |_, _| {}).await;
    let (end, broken) = end(&bench, job, done).await;
    assert!(broken.is_empty(), "{}: {broken:#?}", scenario.name);
    let points = distinct(bench.rig.options.faults.seen());
    let trace = bench.world.state().trace.clone();
    (end, points, bench.world.faults().calls().to_vec(), trace)
}

/// The points at which a stop leaves something different behind: one before a step is the same place as the
/// one after the record of the step before it.
fn distinct(seen: Vec<String>) -> Vec<String> {
    let mut points: Vec<String> = Vec::new();
    let mut last = String::new();
    for point in seen {
        let before = point.ends_with(":before") && (last.ends_with(":recorded") || last.ends_with(":after"));
        if !before && !points.contains(&point) {
            points.push(point.clone());
        }
        last = point;
    }
    points
}

/// The calls to try: what is asked again and again while it lasts is tried twice.
fn worth_trying(calls: Vec<String>) -> Vec<String> {
    let lasting = ["cloud.queryAsyncJobResult#", "kube.follow_drain#"];
    let more = |call: &String| {
        let number = lasting
            .iter()
            .find_map(|name| call.strip_prefix(name))
            .and_then(|n| n.parse::<u32>().ok());
        number.is_some_and(|number| number > 2)
    };
    calls.into_iter().filter(|call| !more(call)).collect()
}

async fn every_step_twice(pool: &PgPool, scenario: &Scenario) {
    {
        let (wanted, points, _, trace) = straight(pool, scenario).await;
        let (bench, job) = scenario.begin(pool).await;
        // Each step is stopped after its work and before its record, so each is run twice.
        let mut twice: Vec<String> = points
            .into_iter()
            .filter(|point| point.ends_with(":worked"))
            .collect();
        twice.reverse();
        let mut armed: Option<String> = None;
        let done = bench
            .run(job, &mut |bench, _| {
                let faults = &bench.rig.options.faults;
                if !faults.disarm() {
                    armed = twice.pop();
                }
                if let Some(point) = &armed {
                    faults.arm(point, 1);
                }
            })
            .await;
        let (found, broken) = end(&bench, job, done).await;
        assert_eq!(found, wanted, "{}", scenario.name);
        assert!(broken.is_empty(), "{}: {broken:#?}", scenario.name);
        let effects: Vec<String> = bench
            .world
            .state()
            .trace
            .iter()
            .filter(|one| !one.ends_with("(already)"))
            .cloned()
            .collect();
        assert_eq!(effects, trace, "{}: no effect beyond the first", scenario.name);
    }
}

async fn a_stop_anywhere(pool: &PgPool, scenario: &Scenario) {
    let mut wrong = Vec::new();
    {
        let (wanted, points, ..) = straight(pool, scenario).await;
        for point in points {
            let (bench, job) = scenario.begin(pool).await;
            bench.rig.options.faults.arm(&point, 1);
            let done = bench.run(job, &mut |_, _| {}).await;
            assert!(
                !bench.rig.options.faults.disarm(),
                "{}: {point} was not passed",
                scenario.name
            );
            let (found, broken) = end(&bench, job, done).await;
            if found != wanted || !broken.is_empty() {
                wrong.push(format!("{} at {point}: {broken:?}\n{found}", scenario.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

async fn each_call_fails(pool: &PgPool, scenario: &Scenario) {
    let mut wrong = Vec::new();
    {
        let (wanted, _, calls, _) = straight(pool, scenario).await;
        let mut declared = Vec::new();
        for call in worth_trying(calls) {
            let mut outcomes = Vec::new();
            for mode in Mode::ALL {
                let (bench, job) = scenario.begin(pool).await;
                bench.world.faults().fail_once(&call, mode);
                let done = bench.run(job, &mut |_, _| {}).await;
                assert!(
                    bench.world.faults().calls().contains(&call),
                    "{}: {call} was not made",
                    scenario.name
                );
                let (found, broken) = end(&bench, job, done).await;
                if !broken.is_empty() {
                    wrong.push(format!("{} {call} {mode:?}: {broken:?}\n{found}", scenario.name));
                }
                let state = bench.cluster().await.state;
                outcomes.push(if found == wanted {
                    "same".to_owned()
                } else {
                    format!("{} {state}", if done { "done otherwise" } else { "failed" })
                });
            }
            declared.push(format!("{call}: {}", outcomes.join(", ")));
        }
        insta::assert_snapshot!(format!("calls_{}", scenario.name), declared.join("\n"));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

async fn a_frozen_worker(pool: &PgPool, scenario: &Scenario) {
    let mut wrong = Vec::new();
    {
        let (wanted, _, calls, _) = straight(pool, scenario).await;
        for call in worth_trying(calls) {
            let (bench, job) = scenario.begin(pool).await;
            let gate = bench.world.hold(&call);
            // The first worker stands still in the middle of this call; the second one finishes the job.
            let frozen = async {
                loop {
                    match bench.rig.run_job(job).await.unwrap() {
                        Some(Stop::Parked { after, .. }) => bench.world.advance(after),
                        other => return other,
                    }
                }
            };
            let second = async {
                gate.reached.notified().await;
                expire_lease(&bench.pool, job).await.unwrap();
                let other = bench.other();
                let done = other.run(job, &mut |_, _| {}).await;
                let found = end(&other, job, done).await;
                gate.open.notify_one();
                found
            };
            let both = async { tokio::join!(frozen, second) };
            let limit = std::time::Duration::from_mins(2);
            let Ok((stop, (found, broken))) = tokio::time::timeout(limit, Box::pin(both)).await else {
                panic!("{} {call}: nobody came to the call", scenario.name)
            };
            let (after, _) = end(&bench, job, found.starts_with("succeeded")).await;
            if stop != Some(Stop::Lost) || found != wanted || !broken.is_empty() || after != found {
                wrong.push(format!(
                    "{} {call}: {stop:?} {broken:?}\n{found}\n--- after\n{after}",
                    scenario.name
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
