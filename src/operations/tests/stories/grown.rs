//! Nodes that come, and other offerings.

use std::time::Duration;

use serde_json::json;
use sqlx::PgPool;

use super::*;
use crate::domain::cluster::State;
use crate::domain::observed::MachineState;
use crate::operations::tests::world::big_offering_id;

#[sqlx::test(migrations = "./migrations")]
async fn workers_are_added(pool: PgPool) {
    let bench = Bench::new(&pool, World::new(1), State::Running).await;
    let job = size(&bench, 3).await;
    ends(&bench, job).await.unwrap();
    insta::assert_snapshot!("up_effects", sorted(trace(&bench)));
    insta::assert_snapshot!("up_end", bench.end().await);
    insta::assert_snapshot!("up_events", bench.events().await.join("\n"));
    insta::assert_snapshot!("up_keys", sorted(bench.rig.keys(job).await.unwrap()));
    sound(&bench, &[], "").await;
    let data: Vec<String> = bench.world.state().user_data.values().cloned().collect();
    assert!(
        data.iter()
            .all(|data| data.contains("PRIVATE-HOST-KEY") && data.contains("kubeadm")),
        "{data:?}"
    );
}

#[sqlx::test(migrations = "./migrations")]
async fn bl_22_those_that_never_join_are_taken_out_and_the_good_ones_stay(pool: PgPool) {
    let world = World::new(1);
    world.state().never_join.insert(1);
    let bench = Bench::new(&pool, world, State::Running).await;
    let limit = Duration::from_mins(10);
    let job = bench
        .admit(json!({ "size": 3 }), Event::ScaleUpRequested, limit)
        .await;
    let error = ends(&bench, job).await.unwrap_err();
    assert!(error.contains("1 of 2 nodes were added"), "{error}");
    let cluster = bench.cluster().await;
    assert_eq!(
        (cluster.state, cluster.node_count, cluster.cores),
        (State::Running, 2, 6)
    );
    sound(&bench, &[], &error).await;
    assert!(!bench.end().await.contains("ledger"), "{}", bench.end().await);
}

#[sqlx::test(migrations = "./migrations")]
async fn an_offering_is_changed_machine_by_machine(pool: PgPool) {
    let bench = Bench::new(&pool, World::new(2), State::Running).await;
    let request = json!({ "offering": big_offering_id() });
    let job = bench.admit(request, Event::ScaleUpRequested, HOUR).await;
    ends(&bench, job).await.unwrap();
    assert_eq!(trace(&bench), ["resize cp-1", "resize wk-1", "resize wk-2"]);
    assert_eq!(bench.cluster().await.cores, 12);
    sound(&bench, &[], "").await;
}

#[sqlx::test(migrations = "./migrations")]
async fn the_offering_of_a_stopped_cluster_is_changed_without_kubernetes(pool: PgPool) {
    let world = World::new(1);
    for machine in world.state().machines.values_mut() {
        machine.state = MachineState::Stopped;
    }
    let bench = Bench::new(&pool, world, State::Stopped).await;
    let request = json!({ "offering": big_offering_id() });
    let job = bench.admit(request, Event::ScaleUpRequested, HOUR).await;
    ends(&bench, job).await.unwrap();
    assert_eq!(trace(&bench), ["resize cp-1", "resize wk-1"]);
    let cluster = bench.cluster().await;
    assert_eq!((cluster.state, cluster.cores), (State::Stopped, 8));
}

#[sqlx::test(migrations = "./migrations")]
async fn nothing_secret_is_in_the_database_in_the_clear(pool: PgPool) {
    let bench = Bench::new(&pool, World::new(1), State::Running).await;
    let job = size(&bench, 2).await;
    ends(&bench, job).await.unwrap();
    let dump = bench.dump().await;
    for secret in ["PRIVATE-HOST-KEY", "PRIVATE-LOGIN-KEY", "abcdef.0123456789abcdef"] {
        assert!(!dump.contains(secret), "{secret}");
    }
}
