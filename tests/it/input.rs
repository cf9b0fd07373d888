//! Bad input: answered with a clear error, without any lasting change (I10).

use serde_json::json;

use crate::support::World;

const UNKNOWN: &str = "11111111-2222-4333-8444-555555555555";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_requests_are_refused_by_name_and_change_nothing() {
    let world = World::start("small").await;
    let id = world.cluster.as_str();
    let before = world.seen().await;
    let control = before["virtualmachines"][0]["id"].as_str().unwrap().to_owned();
    let workers: Vec<String> = world.workers().await.into_iter().map(|(id, _)| id).collect();
    let both = workers.join(",");

    let at_once: &[(&[(&str, &str)], &str)] = &[
        (&[("size", "1")], "id"),
        (&[("id", id)], "size"),
        (&[("id", id), ("size", "0")], "size"),
        (&[("id", id), ("size", "-1")], "size"),
        (&[("id", id), ("size", "two")], "size"),
        (&[("id", id), ("size", "1"), ("nodeids", &control)], "nodeids"),
        (&[("id", id), ("nodeids", "")], "nodeids"),
        (&[("id", UNKNOWN), ("size", "1")], UNKNOWN),
        (&[("id", "no-uuid"), ("size", "1")], "no-uuid"),
        (
            &[("id", id), ("autoscalingenabled", "true")],
            "autoscalingenabled",
        ),
        (&[("id", id), ("minsize", "1")], "minsize"),
    ];
    for (parameters, named) in at_once {
        let (status, text) = world.api.refused("scaleKubernetesCluster", parameters).await;
        assert_eq!(status, 431, "{parameters:?}: {text}");
        assert!(text.contains(named), "{parameters:?} names {named}: {text}");
    }
    let born_failed: &[(&[(&str, &str)], &str)] = &[
        (&[("id", id), ("size", "100")], "max"),
        (&[("id", id), ("nodeids", &control)], "control"),
        (&[("id", id), ("nodeids", &both)], "worker"),
    ];
    for (parameters, named) in born_failed {
        let error = world.api.job("scaleKubernetesCluster", parameters).await.error();
        assert!(error.contains(named), "{parameters:?} names {named}: {error}");
    }
    assert_eq!(world.lab.changes().await, Vec::<String>::new());
    let after = world.seen().await;
    for key in ["state", "size", "cpunumber", "memory", "virtualmachines"] {
        assert_eq!(after[key], before[key], "{key}");
    }
    world.invariants_hold().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_preflight_finds_and_a_cloud_that_is_away_are_refused_before_anything_is_touched() {
    let world = World::start("small").await;
    let newest = world.workers().await.last().unwrap().clone();
    world.lab.back_up(&newest.0).await;
    let error = world.scale(&[("size", "1")]).await.error();
    assert!(error.contains(&newest.1) && error.contains("backup"), "{error}");
    assert_eq!(world.lab.changes().await, Vec::<String>::new());
    assert_eq!(world.seen().await["state"], "Running");

    world
        .lab
        .fault(json!({ "command": "listVirtualMachines", "point": "request", "kind": "drop-before" }))
        .await;
    let error = world.scale(&[("size", "1")]).await.error();
    assert!(error.to_lowercase().contains("cloud"), "{error}");
    assert_eq!(world.lab.changes().await, Vec::<String>::new());
    assert_eq!(world.seen().await["state"], "Running");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signature_that_is_wrong_says_nothing_of_what_exists() {
    let world = World::start("small").await;
    let mut stranger = world.api.clone();
    stranger.secret.push('x');
    let (status, text) = stranger.refused("listKubernetesClusters", &[]).await;
    assert_eq!(
        (status, text.as_str()),
        (401, "unable to verify user credentials and/or request signature")
    );
    stranger.key = "nobody".to_owned();
    let (status, other) = stranger.refused("listKubernetesClusters", &[]).await;
    assert_eq!((status, other), (401, text));
}
