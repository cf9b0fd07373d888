//! kill -9 in the middle, and two at once.

use crate::support::{World, wait_for};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_killed_while_a_node_drains_goes_on_where_it_was() {
    let mut world = World::start("small").await;
    world.short_drains("30", "1").await;
    world.web_is_ready();
    world.budget("minAvailable: 2");
    let cluster = world.cluster.clone();
    let job = world
        .api
        .submit("scaleKubernetesCluster", &[("id", &cluster), ("size", "1")])
        .await;
    wait_for("a drain", async || {
        world
            .lab
            .changes()
            .await
            .iter()
            .any(|line| line.starts_with("drain"))
            .then_some(())
    })
    .await;
    world.kill();
    world.up().await;
    // The budget is relaxed while the first drain still runs on the node: that drain must be the one that ends.
    world.budget("minAvailable: 1");
    let answer = world.api.follow(&job).await;
    assert_eq!(answer.cluster()["size"], 1);
    let drains = world
        .lab
        .changes()
        .await
        .iter()
        .filter(|line| line.starts_with("drain"))
        .count();
    assert_eq!(
        drains, 1,
        "the drain of before the crash is asked for, not run twice"
    );
    assert_eq!(world.nodes().len(), 2);
    world.invariants_hold().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_killed_during_a_removal_finishes_it() {
    let mut world = World::start("seed-c").await;
    let cluster = world.cluster.clone();
    let job = world
        .api
        .submit("scaleKubernetesCluster", &[("id", &cluster), ("size", "1")])
        .await;
    wait_for("the node to be deleted", async || {
        world
            .lab
            .changes()
            .await
            .iter()
            .any(|line| line.starts_with("delete node"))
            .then_some(())
    })
    .await;
    world.kill();
    world.up().await;
    assert_eq!(world.api.follow(&job).await.cluster()["size"], 1);
    assert_eq!(world.seen().await["state"], "Running");
    assert_eq!(world.nodes().len(), 2);
    world.invariants_hold().await;
}

/// BL-03: exactly one of two requests that arrive together changes the state; the other names the winner's job.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_requests_at_once_one_wins_and_the_other_names_its_job() {
    let world = World::start("small").await;
    let (cluster, api) = (world.cluster.clone(), world.api.clone());
    let submit = async |size: &str| {
        api.submit("scaleKubernetesCluster", &[("id", &cluster), ("size", size)])
            .await
    };
    let (one, two) = tokio::join!(submit("1"), submit("1"));
    let (one_ended, two_ended) = (api.follow(&one).await, api.follow(&two).await);
    let (winner, loser) = if one_ended.succeeded() {
        (&one, &two_ended)
    } else {
        (&two, &one_ended)
    };
    assert_ne!(one_ended.succeeded(), two_ended.succeeded());
    assert!(
        loser.error().contains(winner.as_str()),
        "names the job in the way: {}",
        loser.error()
    );
    assert_eq!(world.seen().await["size"], 1);
    world.invariants_hold().await;
}
