//! Nothing secret in a log, an event, an error, a job result or a command on a node.

use crate::support::World;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_secret_is_ever_shown() {
    let world = World::start("small").await;
    world.short_drains("6", "1").await;
    world.web_is_ready();
    world.budget("minAvailable: 4");
    let failed = world.scale(&[("size", "1")]).await;
    world.kubectl(&["delete", "pdb", "web"]);
    let grown = world.scale(&[("size", "3")]).await;

    // What must not be seen: the keys of service and cloud, the SSH key, the token of the kubeconfig.
    let mut secrets = vec![world.api.secret.clone(), world.lab.cloud.secret.clone()];
    let mut kubeconfig_token = None;
    for entry in std::fs::read_dir(world.data.join("lab")).unwrap() {
        let path = entry.unwrap().path();
        let Ok(text) = std::fs::read_to_string(&path) else {
            continue;
        };
        if text.contains("PRIVATE KEY") {
            let body: Vec<&str> = text.lines().filter(|line| !line.contains("-----")).collect();
            secrets.extend(body.get(1).map(|line| (*line).to_owned()));
        }
        if let Some((_, token)) = text.split_once("token: ") {
            kubeconfig_token = token.split_whitespace().next().map(str::to_owned);
        }
    }
    secrets.push(kubeconfig_token.expect("a kubeconfig with a token"));
    assert!(secrets.iter().all(|secret| secret.len() > 8), "{}", secrets.len());

    let mut shown = vec![
        ("log", world.log()),
        ("failed job", failed.job.to_string()),
        ("grown job", grown.job.to_string()),
        ("events", format!("{:?}", world.events().await)),
        ("cluster", world.seen().await.to_string()),
        (
            "jobs",
            world
                .api
                .ok("listAsyncJobs", &[("listall", "true")])
                .await
                .to_string(),
        ),
        (
            "settings",
            world.api.ok("listConfigurations", &[]).await.to_string(),
        ),
    ];
    shown.push(("journals", format!("{:?}", world.lab.commands().await)));
    for (place, text) in &shown {
        for secret in &secrets {
            assert!(
                !text.contains(secret.as_str()),
                "a secret of {} characters is in the {place}",
                secret.len()
            );
        }
        let (_, join) = text.split_once("kubeadm join").unwrap_or_default();
        assert!(!join.contains("--token"), "a join token is in the {place}");
    }
    // At rest: sealed in the database's files.
    let config = world
        .api
        .ok("getKubernetesClusterConfig", &[("id", &world.cluster)])
        .await;
    assert!(
        config["clusterconfig"]["configdata"]
            .as_str()
            .unwrap()
            .contains("apiVersion")
    );
}
