//! The live reports S1, S2 and R, played again: the same order of commands, counts, events and final states.

use crate::support::World;

/// The reports S1 and S2 on one cluster, as they were made.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blocked_scale_down_is_given_back_and_the_same_call_succeeds_once_the_budget_is_relaxed() {
    let world = World::start("seed-a").await;
    world.short_drains("6", "1").await;
    world.web_is_ready();
    let workers = world.workers().await;
    let (b, c) = (workers[1].1.clone(), workers[2].1.clone());
    let vm_c = workers[2].0.clone();

    // S1: a budget that allows nothing, and an operator's cordon on the newest worker.
    world.kubectl(&["cordon", &c]);
    world.budget("minAvailable: 4");
    let answer = world.scale(&[("size", "1")]).await;
    let error = answer.error();
    assert_eq!(
        world.lab.changes().await,
        [
            format!("cordon {c}"),
            format!("cordon {b}"),
            format!("drain {c}"),
            format!("drain {c}"),
            format!("drain {c}"),
            format!("uncordon {b}"),
        ],
        "{error}"
    );
    for part in [
        c.as_str(),
        vm_c.as_str(),
        "unable to drain Kubernetes node",
        "Cannot evict pod as it would violate the pod's disruption budget",
        "global timeout reached: 6s",
        "No node was removed",
        "3 attempts",
    ] {
        assert!(error.contains(part), "`{part}` is missing in: {error}");
    }
    let seen = world.seen().await;
    assert_eq!((&seen["state"], &seen["size"]), (&"Running".into(), &3.into()));
    assert_eq!(
        world.cordoned(),
        vec![c.clone()],
        "the operator's cordon stays, ours goes"
    );
    assert_eq!(world.nodes().len(), 6);
    let drain = format!("drain {c} --ignore-daemonsets --delete-emptydir-data --timeout=6s");
    let commands = world.lab.commands().await;
    assert!(
        commands
            .iter()
            .any(|entry| entry.text == format!("/opt/bin/kubectl {drain}")),
        "{commands:#?}"
    );
    world.invariants_hold().await;

    // S2: the same call once the budget allows it.
    world.kubectl(&["uncordon", &c]);
    world.budget("minAvailable: 2");
    let before = world.lab.changes().await.len();
    let cluster = world.scale(&[("size", "1")]).await.cluster();
    assert_eq!(
        world.lab.changes().await[before..],
        [
            format!("cordon {c}"),
            format!("cordon {b}"),
            format!("drain {c}"),
            format!("drain {b}"),
            format!("delete node {c}"),
            format!("delete node {b}"),
        ]
    );
    assert_eq!(
        (&cluster["state"], &cluster["size"]),
        (&"Running".into(), &1.into())
    );
    assert_eq!(world.nodes().len(), 4);
    world.web_is_ready();
    world.invariants_hold().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scale_down_removes_the_last_worker_with_its_machine_rule_and_counts() {
    let world = World::start("seed-c").await;
    let before = world.seen().await;
    assert_eq!(
        (&before["size"], &before["cpunumber"], &before["memory"]),
        (&2.into(), &"6".into(), &"12288".into())
    );
    assert_eq!(before["virtualmachines"].as_array().unwrap().len(), 3);
    assert_eq!(world.nodes().len(), 3);
    let last = world.workers().await[1].clone();

    let cluster = world.scale(&[("size", "1")]).await.cluster();

    assert_eq!(
        (
            &cluster["state"],
            &cluster["size"],
            &cluster["cpunumber"],
            &cluster["memory"]
        ),
        (&"Running".into(), &1.into(), &"4".into(), &"8192".into())
    );
    assert_eq!(cluster["virtualmachines"].as_array().unwrap().len(), 2);
    assert_eq!(world.nodes().len(), 2);
    let lab = world.lab.world().await;
    let names = |list: &str, key: &str| -> Vec<String> {
        let all = lab[list].as_array().unwrap();
        all.iter()
            .filter_map(|one| one[key].as_str().map(str::to_owned))
            .collect()
    };
    assert!(
        !names("virtualmachines", "id").contains(&last.0),
        "the machine is expunged"
    );
    assert!(
        !names("portforwardingrules", "virtualmachineid").contains(&last.0),
        "its rule is gone"
    );
    let events: Vec<(String, String)> = world
        .events()
        .await
        .into_iter()
        .map(|(level, state, _)| (level, state))
        .collect();
    let expected = ["Scheduled", "Started", "Completed"].map(|state| ("INFO".to_owned(), state.to_owned()));
    assert_eq!(events, expected);
    // One login to the control node, through which kubectl runs, and one to nobody else twice.
    for (_, name) in world.workers().await {
        let logins = world.lab.journal().await;
        let count = logins
            .iter()
            .filter(|entry| entry.machine == name && entry.kind.eq_ignore_ascii_case("login"))
            .count();
        assert!(count <= 1, "{count} logins on {name}");
    }
    world.invariants_hold().await;
}
