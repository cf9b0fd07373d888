//! What fails before the point of no return is given back.

use std::time::Duration;

use serde_json::json;
use sqlx::PgPool;

use super::*;
use crate::domain::cluster::State;
use crate::domain::observed::MachineState;
use crate::domain::settings::DRAIN_TIMEOUT;
use crate::operations::tests::faults::Mode;
use crate::operations::tests::world::fixed;

#[sqlx::test(migrations = "./migrations")]
async fn s1_a_budget_blocks_and_everything_is_given_back(pool: PgPool) {
    let world = web(0);
    world.state().nodes.get_mut("wk-3").unwrap().unschedulable = true;
    let bench = Bench::new(&pool, world, State::Running).await;
    bench.set(&DRAIN_TIMEOUT, "60").await;
    let job = size(&bench, 1).await;
    let begun = bench.world.now_secs();
    let error = ends(&bench, job).await.unwrap_err();
    assert_eq!(
        trace(&bench),
        [
            "cordon wk-3 (already)",
            "cordon wk-2",
            "drain wk-3 --timeout=60s",
            "drain wk-3 --timeout=60s",
            "drain wk-3 --timeout=60s",
            "uncordon wk-2",
        ]
    );
    // Three attempts of 60 s with two waits of 30 s, and nothing to speak of besides.
    assert!(
        (240..=242).contains(&(bench.world.now_secs() - begun)),
        "{}",
        bench.world.now_secs() - begun
    );
    for part in [
        "Scaling failed for Kubernetes cluster blue",
        "unable to drain Kubernetes node: wk-3 on VM: wk-3",
        "pod shop/web-3 is held by disruption budget shop/web (needs 4, has 4)",
        "(3 attempts)",
        "Cannot evict pod as it would violate the pod's disruption budget.",
        ". No node was removed",
        "schedulable again: wk-2",
        "let the budget allow an eviction",
    ] {
        assert!(error.contains(part), "{part} is not in: {error}");
    }
    let cluster = bench.cluster().await;
    assert_eq!((cluster.state, cluster.node_count), (State::Running, 3));
    sound(&bench, &["wk-3"], &error).await;
    insta::assert_snapshot!("s1_events", bench.events().await.join("\n"));
}

#[sqlx::test(migrations = "./migrations")]
async fn bl_02_in_alert_it_goes_back_to_alert(pool: PgPool) {
    let bench = Bench::new(&pool, web(0), State::Alert).await;
    let job = size(&bench, 1).await;
    let error = ends(&bench, job).await.unwrap_err();
    assert_eq!(bench.cluster().await.state, State::Alert);
    sound(&bench, &[], &error).await;
}

#[sqlx::test(migrations = "./migrations")]
async fn bl_12_attempts_are_cut_to_the_time_left_and_the_deadline_rolls_back(pool: PgPool) {
    let bench = Bench::new(&pool, web(0), State::Running).await;
    let job = bench
        .admit(
            json!({ "size": 2 }),
            Event::ScaleDownRequested,
            Duration::from_secs(700),
        )
        .await;
    let begun = bench.world.now_secs();
    let error = ends(&bench, job).await.unwrap_err();
    let drains: Vec<String> = trace(&bench)
        .into_iter()
        .filter(|one| one.starts_with("drain"))
        .collect();
    assert_eq!(drains.len(), 3, "{drains:?}");
    assert_eq!(
        drains[..2],
        ["drain wk-3 --timeout=300s", "drain wk-3 --timeout=300s"]
    );
    let left: u64 = drains[2]
        .trim_start_matches("drain wk-3 --timeout=")
        .trim_end_matches('s')
        .parse()
        .unwrap();
    assert!((37..=40).contains(&left), "{left}");
    assert!(bench.world.now_secs() - begun <= 701);
    assert_eq!(bench.cluster().await.state, State::Running);
    sound(&bench, &[], &error).await;
}

#[sqlx::test(migrations = "./migrations")]
async fn bl_12_a_drain_that_hangs_is_stopped_before_the_next(pool: PgPool) {
    let world = web(1);
    world.state().hanging.insert("wk-3".into());
    let bench = Bench::new(&pool, world, State::Running).await;
    let job = size(&bench, 2).await;
    let error = ends(&bench, job).await.unwrap_err();
    let drains = trace(&bench)
        .iter()
        .filter(|one| one.starts_with("drain"))
        .count();
    assert_eq!(drains, 3);
    sound(&bench, &[], &error).await;
}

#[sqlx::test(migrations = "./migrations")]
async fn bl_13_when_the_one_that_is_up_cannot_be_drained_not_even_the_dead_one_goes(pool: PgPool) {
    let world = web(0);
    {
        let mut state = world.state();
        let vm = state.named("wk-2");
        state.machines.get_mut(&vm).unwrap().state = MachineState::Stopped;
        state.nodes.get_mut("wk-2").unwrap().ready = false;
    }
    let bench = Bench::new(&pool, world, State::Alert).await;
    let job = size(&bench, 1).await;
    let error = ends(&bench, job).await.unwrap_err();
    assert!(
        !trace(&bench).iter().any(|one| one.starts_with("delete")),
        "{:?}",
        trace(&bench)
    );
    assert_eq!(bench.cluster().await.state, State::Alert);
    sound(&bench, &[], &error).await;
}

#[sqlx::test(migrations = "./migrations")]
async fn bl_36_a_bare_pod_ends_the_attempts_at_once(pool: PgPool) {
    let world = web(1);
    let mut bare = pod("bare", "x");
    bare.controller = None;
    world.state().pods.push(("wk-3".into(), bare));
    let bench = Bench::new(&pool, world, State::Running).await;
    let job = size(&bench, 2).await;
    let error = ends(&bench, job).await.unwrap_err();
    assert!(
        error.contains("shop/bare") && error.contains("(1 attempt)"),
        "{error}"
    );
    sound(&bench, &[], &error).await;
}

#[sqlx::test(migrations = "./migrations")]
async fn kubernetes_away_refuses_and_nothing_is_touched(pool: PgPool) {
    let bench = Bench::new(&pool, web(1), State::Running).await;
    bench.world.faults().fail_always("kube.nodes", Mode::TimedOut);
    let job = size(&bench, 1).await;
    let error = ends(&bench, job).await.unwrap_err();
    assert!(error.ends_with("Nothing was changed"), "{error}");
    assert_eq!(trace(&bench), Vec::<String>::new());
    assert_eq!(bench.cluster().await.state, State::Running);
    let errors = bench
        .events()
        .await
        .iter()
        .filter(|one| one.starts_with("ERROR"))
        .count();
    assert_eq!(errors, 1);
}

#[sqlx::test(migrations = "./migrations")]
async fn preflight_finds_everything_at_once(pool: PgPool) {
    let world = web(1);
    {
        let mut state = world.state();
        let (two, three) = (state.named("wk-2"), state.named("wk-3"));
        state.machines.get_mut(&two).unwrap().delete_protection = true;
        state.machines.get_mut(&three).unwrap().backup_offering_id = Some(fixed(5));
    }
    let bench = Bench::new(&pool, world, State::Running).await;
    let job = size(&bench, 1).await;
    let error = ends(&bench, job).await.unwrap_err();
    assert!(
        error.contains("wk-3") && error.contains("backup offering"),
        "{error}"
    );
    assert!(
        error.contains("wk-2") && error.contains("delete protection"),
        "{error}"
    );
    assert_eq!(trace(&bench), Vec::<String>::new());
}

#[sqlx::test(migrations = "./migrations")]
async fn a_cancel_stops_the_drain_and_gives_everything_back(pool: PgPool) {
    let world = web(1);
    world.state().hanging.insert("wk-3".into());
    let bench = Bench::new(&pool, world, State::Running).await;
    let job = size(&bench, 2).await;
    bench.cancel(job).await;
    let error = ends(&bench, job).await.unwrap_err();
    assert!(error.contains("cancelled"), "{error}");
    assert_eq!(bench.cluster().await.state, State::Running);
    sound(&bench, &[], &error).await;
}
