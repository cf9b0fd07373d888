//! Who may ask, and what the server says of itself.

use crate::world::World;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_token_and_an_unknown_authority_are_told_as_such() {
    let world = World::start(0).await;
    let empty = "{\n    \"apiVersion\": \"v1\",\n    \"items\": [],\n    \"kind\": \"List\",\n    \"metadata\": {\n        \
                 \"resourceVersion\": \"\"\n    }\n}\n";
    let common = |extra: &str| -> Vec<String> {
        let mut words = vec![
            "--kubeconfig=/dev/null".to_owned(),
            format!("--server={}", world.kubectl_server),
        ];
        words.extend(extra.split_whitespace().map(str::to_owned));
        words.extend(["get", "nodes", "-o", "json"].map(str::to_owned));
        words
    };
    let wrong_token = common(&format!(
        "--certificate-authority={} --token=wrong",
        world.file("ca.pem")
    ));
    // Before anything is known of the server, it is discovery that fails.
    let answer = world.bare(&wrong_token, "").await;
    assert_eq!(answer.code, 1);
    assert!(
        answer.err.ends_with("error: You must be logged in to the server (the server has asked for the client to provide credentials)\n"),
        "{answer:?}"
    );
    assert_eq!(world.kubectl("get nodes").await.code, 0);
    let answer = world.bare(&wrong_token, "").await;
    assert_eq!(
        (answer.code, answer.out.as_str(), answer.err.as_str()),
        (
            1,
            empty,
            "error: You must be logged in to the server (Unauthorized)\n"
        )
    );
    let token = world.server.pki().admin_token.clone();
    let answer = world.bare(&common(&format!("--token={token}")), "").await;
    assert_eq!(
        (answer.code, answer.out.as_str(), answer.err.as_str()),
        (
            1,
            empty,
            "Unable to connect to the server: tls: failed to verify certificate: x509: certificate signed by \
             unknown authority\n"
        )
    );
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_server_tells_its_version_its_health_and_where_it_is() {
    let world = World::start(0).await;
    let version = world.kubectl("version").await;
    assert_eq!(version.code, 0);
    // Until 1.27 a version is shown with all its parts.
    assert!(
        version.out.contains("Server Version: v1.32.5") || version.out.contains("GitVersion:\"v1.32.5\""),
        "{}",
        version.out
    );
    let info = world.kubectl("cluster-info").await;
    let plain = info
        .out
        .replace("\u{1b}[0;32m", "")
        .replace("\u{1b}[0;33m", "")
        .replace("\u{1b}[0m", "");
    assert_eq!(
        (info.code, plain),
        (
            0,
            format!(
                "Kubernetes control plane is running at {}\n\nTo further debug and diagnose cluster problems, use \
                 'kubectl cluster-info dump'.\n",
                world.kubectl_server
            )
        )
    );
    let ready = world.kubectl("get --raw /readyz?verbose").await;
    assert_eq!(ready.code, 0);
    assert!(
        ready
            .out
            .starts_with("[+]ping ok\n[+]log ok\n[+]informer-sync ok\n"),
        "{}",
        ready.out
    );
    assert!(
        ready.out.ends_with("[+]shutdown ok\nreadyz check passed\n"),
        "{}",
        ready.out
    );
    assert_eq!(ready.out.lines().count(), 33);
    assert_eq!(world.kubectl("get --raw /livez").await.out, "ok");
    let missing = world.kubectl("get --raw /apis/nothing/v1").await;
    assert_eq!(
        (missing.code, missing.err.as_str()),
        (
            1,
            "Error from server (NotFound): the server could not find the requested resource\n"
        )
    );
    let unknown = world.kubectl("get gadgets").await;
    assert_eq!(
        (unknown.code, unknown.err.as_str()),
        (1, "error: the server doesn't have a resource type \"gadgets\"\n")
    );
    assert_eq!(world.kubectl("auth can-i delete nodes").await.out, "yes\n");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hung_server_is_given_up_by_the_clients_own_limit() {
    let world = World::start(0).await;
    world.server.set_hung(true);
    let answer = world.kubectl("get nodes --request-timeout=1s").await;
    assert_eq!(answer.code, 1);
    assert!(
        answer.err.contains("Unable to connect to the server"),
        "{}",
        answer.err
    );
    world.server.set_hung(false);
    assert_eq!(world.kubectl("get nodes").await.code, 0);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_join_needs_a_token_that_is_known_and_has_not_expired() {
    let world = World::start(0).await;
    let join = |token: &str| {
        world
            .server
            .join(token, "n", "https://127.0.0.1:1")
            .map_err(|error| error.to_string())
    };
    let expired = world.server.create_join_token(std::time::Duration::ZERO);
    let id = expired.split('.').next().unwrap().to_owned();
    world
        .wait_for("the token has expired", |_| join(&expired).is_err())
        .await;
    assert_eq!(
        join(&expired).unwrap_err(),
        format!("join token {id} has expired: make a new one")
    );
    let good = world.server.create_join_token(std::time::Duration::from_mins(1));
    assert!(join(&good).unwrap().contains("https://127.0.0.1:1"));
    let guessed = format!("{}.0000000000000000", good.split('.').next().unwrap());
    assert!(join(&guessed).unwrap_err().contains("is unknown"));
    assert!(join("nonsense").unwrap_err().contains("is unknown"));
    assert_eq!(good.len(), 23);
    assert!(world.server.ca_cert_hash().starts_with("sha256:"));
    world.stop().await;
}
