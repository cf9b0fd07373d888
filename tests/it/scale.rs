//! Scaling in all the ways that clients ask for it.

use crate::support::{World, wait_for};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_grows_and_shrinks_by_size_and_by_id_and_repeating_changes_nothing() {
    let world = World::start("small").await;
    world.short_drains("20", "1").await;

    // Up: two more workers join with a token, get their rules, and count.
    let grown = world.scale(&[("size", "4")]).await.cluster();
    assert_eq!((&grown["state"], &grown["size"]), (&"Running".into(), &4.into()));
    assert_eq!(world.nodes().len(), 5);
    let workers = world.workers().await;
    assert_eq!(workers.len(), 4);
    let ports: std::collections::BTreeSet<String> = grown["virtualmachines"]
        .as_array()
        .unwrap()
        .iter()
        .map(|machine| machine["sshport"].to_string())
        .collect();
    assert_eq!(
        ports.len(),
        5,
        "every machine has an SSH port of its own: {ports:?}"
    );

    // The same again: success, and nothing is done.
    let before = world.lab.commands().await.len();
    let again = world.scale(&[("size", "4")]).await.cluster();
    assert_eq!(again["size"], 4);
    assert!(world.lab.changes().await.is_empty());
    assert_eq!(
        world.lab.world().await["virtualmachines"]
            .as_array()
            .unwrap()
            .len(),
        5
    );
    assert!(world.lab.commands().await.len() >= before);

    // By id, given twice: exactly that one, an old one.
    let (id, name) = workers[0].clone();
    let shrunk = world.scale(&[("nodeids", &format!("{id},{id}"))]).await.cluster();
    assert_eq!(shrunk["size"], 3);
    assert!(!world.nodes().contains(&name));
    let left: Vec<String> = world.workers().await.into_iter().map(|(_, name)| name).collect();
    assert_eq!(
        left,
        workers[1..]
            .iter()
            .map(|(_, name)| name.clone())
            .collect::<Vec<_>>()
    );
    world.invariants_hold().await;
}

/// BL-02, the variants, and BL-12: what a budget blocks is given back, in time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_kind_of_budget_that_blocks_is_given_back_within_the_deadline() {
    let world = World::start("small").await;
    world.short_drains("6", "1").await;
    world.web_is_ready();
    for budget in ["maxUnavailable: 0", "minAvailable: 100%"] {
        world.budget(budget);
        let error = world.scale(&[("size", "1")]).await.error();
        assert!(error.contains("No node was removed"), "{budget}: {error}");
        assert!(
            error.contains("budget web") || error.contains("budget default/web"),
            "{budget}: {error}"
        );
        assert_eq!(world.cordoned(), Vec::<String>::new(), "{budget}");
        assert_eq!(world.seen().await["state"], "Running", "{budget}");
    }
    // The deadline leaves room for one attempt and a bit: no attempt that cannot be used is begun.
    world.set("scale.timeout", "10").await;
    let drains = async || {
        world
            .lab
            .changes()
            .await
            .iter()
            .filter(|line| line.starts_with("drain"))
            .count()
    };
    let before = drains().await;
    let error = world.scale(&[("size", "1")]).await.error();
    assert!(error.contains("No node was removed"), "{error}");
    let attempts = drains().await - before;
    assert!(
        (1..=2).contains(&attempts),
        "{attempts} attempts in 10 s of 6 s each: {error}"
    );
    assert_eq!(world.cordoned(), Vec::<String>::new());
    world.invariants_hold().await;
}

/// BL-48: the error helps, whoever reads it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_quotes_the_end_of_a_long_output_from_the_start_of_a_line() {
    let world = World::start("small").await;
    world.short_drains("60", "0").await;
    world.set("scale.timeout", "75").await;
    world.web_is_ready();
    world.budget("minAvailable: 4");
    let answer = world.scale(&[("size", "1")]).await;
    let error = answer.error();
    let from = error
        .find("error when evicting")
        .or_else(|| error.find("evicting pod"))
        .expect("kubectl's words");
    assert!(
        error[..from].ends_with(['\n', ' ']),
        "begins at the start of a line: {error}"
    );
    assert!(error.len() < 4000, "{} characters", error.len());
    let told = world.events().await;
    let errors: Vec<_> = told.iter().filter(|(level, _, _)| level == "ERROR").collect();
    assert_eq!(errors.len(), 1);
    assert!(errors[0].2.contains(&error), "the same text in job and event");
}

/// The state scanner, as far as these flows need it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_that_stops_puts_the_cluster_into_alert_and_its_return_ends_it() {
    let world = World::start("small").await;
    let (vm, name) = world.workers().await[0].clone();
    world.lab.cloud.job("stopVirtualMachine", &[("id", &vm)]).await;
    wait_for("Alert", async || {
        (world.seen().await["state"] == "Alert").then_some(())
    })
    .await;
    let machines = world.seen().await["virtualmachines"].clone();
    let shown = machines
        .as_array()
        .unwrap()
        .iter()
        .find(|machine| machine["id"] == vm.as_str())
        .unwrap()
        .clone();
    assert_eq!(shown["state"], "Stopped", "a list shows what the scanner saw");
    let events = world.events().await;
    assert!(
        events
            .iter()
            .any(|(level, _, text)| level == "ERROR" && text.contains(&name)),
        "{events:#?}"
    );
    world.lab.cloud.job("startVirtualMachine", &[("id", &vm)]).await;
    wait_for("Running", async || {
        (world.seen().await["state"] == "Running").then_some(())
    })
    .await;
    world.invariants_hold().await;
}
