//! Nodes that leave, and what may go wrong behind the point of no return.

use serde_json::json;
use sqlx::PgPool;

use super::*;
use crate::domain::cluster::State;
use crate::domain::observed::MachineState;
use crate::domain::settings::EXPUNGE_WAIT;
use crate::operations::tests::faults::Mode;

#[sqlx::test(migrations = "./migrations")]
async fn s2_all_are_cordoned_first_then_drained_then_deleted(pool: PgPool) {
    let bench = Bench::new(&pool, web(1), State::Running).await;
    let job = size(&bench, 1).await;
    ends(&bench, job).await.unwrap();
    // The first machine goes alone until it is destroyed; what follows overlaps.
    assert_eq!(
        trace(&bench)[..6],
        [
            "cordon wk-3",
            "cordon wk-2",
            "drain wk-3 --timeout=300s",
            "drain wk-2 --timeout=300s",
            "delete node wk-3",
            "destroy wk-3"
        ]
    );
    insta::assert_snapshot!("s2_effects", sorted(trace(&bench)));
    insta::assert_snapshot!("s2_end", bench.end().await);
    insta::assert_snapshot!("s2_events", bench.events().await.join("\n"));
    insta::assert_snapshot!("s2_keys", sorted(bench.rig.keys(job).await.unwrap()));
    sound(&bench, &[], "").await;
    // The same request again succeeds and does nothing outside.
    let before = trace(&bench);
    let job = size(&bench, 1).await;
    ends(&bench, job).await.unwrap();
    assert_eq!(trace(&bench), before);
}

#[sqlx::test(migrations = "./migrations")]
async fn bl_13_a_machine_that_is_off_is_removed_without_a_drain(pool: PgPool) {
    let world = web(1);
    {
        let mut state = world.state();
        let vm = state.named("wk-2");
        state.machines.get_mut(&vm).unwrap().state = MachineState::Stopped;
        state.nodes.get_mut("wk-2").unwrap().ready = false;
        state.pods.retain(|(on, _)| on != "wk-2");
    }
    let vm = world.state().named("wk-2");
    let bench = Bench::new(&pool, world, State::Alert).await;
    let job = bench
        .admit(json!({ "node_ids": [vm] }), Event::ScaleDownRequested, HOUR)
        .await;
    ends(&bench, job).await.unwrap();
    assert_eq!(trace(&bench)[..2], ["delete node wk-2", "destroy wk-2"]);
    assert_eq!(
        bench.cluster().await.state,
        State::Running,
        "what is left is healthy"
    );
    sound(&bench, &[], "").await;
}

#[sqlx::test(migrations = "./migrations")]
async fn e_an_expunge_that_is_stuck_is_left_to_the_background(pool: PgPool) {
    let world = web(1);
    let vm = world.state().named("wk-3");
    world.state().stuck.insert(vm);
    let bench = Bench::new(&pool, world, State::Running).await;
    let job = size(&bench, 2).await;
    ends(&bench, job).await.unwrap();
    let events = bench.events().await;
    assert!(
        events.iter().any(|one| one.starts_with("INFO Completed VM wk-3")),
        "{events:#?}"
    );
    let end = bench.end().await;
    assert!(
        end.contains("ledger expunge wk-3") && !end.contains("forward 2225"),
        "{end}"
    );
    sound(&bench, &[], "").await;
}

#[sqlx::test(migrations = "./migrations")]
async fn e_after_the_longest_wait_a_stuck_expunge_is_a_warning(pool: PgPool) {
    let world = web(1);
    let vm = world.state().named("wk-3");
    world.state().stuck.insert(vm);
    let bench = Bench::new(&pool, world, State::Running).await;
    bench.set(&EXPUNGE_WAIT, "600").await;
    let job = size(&bench, 2).await;
    let begun = bench.world.now_secs();
    ends(&bench, job).await.unwrap();
    assert!((300..320).contains(&(bench.world.now_secs() - begun)));
    let events = bench.events().await;
    assert!(
        events
            .iter()
            .any(|one| one.starts_with("WARN Completed Unable to expunge VM wk-3")),
        "{events:#?}"
    );
    sound(&bench, &[], "").await;
}

#[sqlx::test(migrations = "./migrations")]
async fn d_a_destroy_that_is_refused_drops_the_entry_and_names_the_machine(pool: PgPool) {
    let world = web(1);
    world.state().bad_jobs.insert(
        ("destroy".into(), "wk-3".into()),
        "has a Backup Offering with 1 backups".into(),
    );
    let bench = Bench::new(&pool, world, State::Running).await;
    let job = size(&bench, 1).await;
    let error = ends(&bench, job).await.unwrap_err();
    for part in [
        "unable to destroy VM wk-3",
        "left in state Running",
        "1 backups",
        "has to be destroyed manually",
    ] {
        assert!(error.contains(part), "{part} is not in: {error}");
    }
    let cluster = bench.cluster().await;
    assert_eq!(
        (cluster.state, cluster.node_count, cluster.cores),
        (State::Running, 2, 6)
    );
    assert!(trace(&bench).contains(&"uncordon wk-2".to_owned()));
    assert!(trace(&bench).contains(&"wk-3: sudo systemctl disable --now kubelet".to_owned()));
    sound(&bench, &[], &error).await;
    // The retry goes on with what is left.
    let job = size(&bench, 2).await;
    ends(&bench, job).await.unwrap();
}

#[sqlx::test(migrations = "./migrations")]
async fn a_node_that_cannot_be_deleted_keeps_its_entry(pool: PgPool) {
    let bench = Bench::new(&pool, web(1), State::Running).await;
    bench
        .world
        .faults()
        .fail_always("kube.delete_node wk-3", Mode::Before);
    let job = size(&bench, 2).await;
    let error = ends(&bench, job).await.unwrap_err();
    assert!(
        error.contains("unable to delete Kubernetes node: wk-3"),
        "{error}"
    );
    let cluster = bench.cluster().await;
    assert_eq!((cluster.state, cluster.node_count), (State::Running, 3));
    assert!(trace(&bench).contains(&"uncordon wk-3".to_owned()));
    sound(&bench, &[], &error).await;
}

#[sqlx::test(migrations = "./migrations")]
async fn bl_08_a_rule_that_cannot_be_removed_fails_the_scale_and_the_repeat_repairs_it(pool: PgPool) {
    let world = web(1);
    let vm = world.state().named("wk-3");
    world.state().stuck.insert(vm);
    let bench = Bench::new(&pool, world, State::Running).await;
    bench
        .world
        .faults()
        .fail_always("cloud.deletePortForwardingRule", Mode::Before);
    let job = size(&bench, 2).await;
    let error = ends(&bench, job).await.unwrap_err();
    assert!(
        error.contains("rule on public port 2225 could not be removed"),
        "{error}"
    );
    assert_eq!(bench.cluster().await.node_count, 2);
    bench.world.faults().relent();
    let job = size(&bench, 2).await;
    ends(&bench, job).await.unwrap();
    assert!(
        !bench.end().await.contains("forward 2225"),
        "{}",
        bench.end().await
    );
}

#[sqlx::test(migrations = "./migrations")]
async fn an_operator_who_makes_a_drained_node_schedulable_again_gets_it_drained_again(pool: PgPool) {
    let bench = Bench::new(&pool, web(1), State::Running).await;
    let job = size(&bench, 2).await;
    let done = bench
        .run(job, &mut |bench, _| {
            if bench
                .rig
                .options
                .faults
                .seen()
                .iter()
                .any(|point| point == "step:may_remove/:recorded")
            {
                bench.rig.options.faults.forget();
                bench.world.state().nodes.get_mut("wk-3").unwrap().unschedulable = false;
                bench.world.state().pods[0].0 = "wk-3".into();
            } else {
                bench.rig.options.faults.arm("step:may_remove/:recorded", 1);
            }
        })
        .await;
    assert!(done, "{}", bench.error(job).await);
    let drains = trace(&bench)
        .iter()
        .filter(|one| one.starts_with("drain wk-3"))
        .count();
    assert_eq!(drains, 2, "{:?}", trace(&bench));
    sound(&bench, &[], "").await;
}
