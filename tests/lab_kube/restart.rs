//! A cluster that is stopped and started again goes on where it was.

use cksd::lab::kube::{KubeOptions, KubeServer};
use serde_json::json;

use crate::world::timings;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_versions_and_credentials_outlive_a_restart() {
    let options = KubeOptions {
        timings: timings(),
        ..KubeOptions::default()
    };
    let first = KubeServer::start(options.clone()).await.unwrap();
    let made = first
        .create(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kept"}, "data": {"a": "b"}}))
        .unwrap();
    let token = first.create_join_token(std::time::Duration::from_mins(1));
    let (snapshot, pki, address) = (first.snapshot(), first.pki().clone(), first.address());
    let kubeconfig = first.kubeconfig(&first.url());
    first.stop().await;
    let pki = serde_json::from_value(serde_json::to_value(pki).unwrap()).unwrap();
    let again = KubeServer::start(KubeOptions {
        listen: address,
        pki: Some(pki),
        restore: Some(snapshot.clone()),
        ..options
    })
    .await
    .unwrap();
    assert_eq!(again.address(), address);
    assert_eq!(again.kubeconfig(&again.url()), kubeconfig);
    assert_eq!(again.get("configmaps", "default", "kept").unwrap(), made);
    assert!(again.join(&token, "n", &again.url()).is_ok());
    let version = |value: &serde_json::Value| value["resourceVersion"].as_u64().unwrap();
    assert!(version(&again.snapshot()) >= version(&snapshot));
    again.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_taken_address_and_a_broken_snapshot_are_told() {
    let first = KubeServer::start(KubeOptions::default()).await.unwrap();
    let taken = KubeOptions {
        listen: first.address(),
        ..KubeOptions::default()
    };
    let error = KubeServer::start(taken).await.unwrap_err().to_string();
    assert_eq!(
        error,
        format!(
            "cannot listen on {}: choose a free loopback address",
            first.address()
        )
    );
    let broken = KubeOptions {
        restore: Some(json!({"objects": [{"kind": "Gadget"}]})),
        ..KubeOptions::default()
    };
    let error = KubeServer::start(broken).await.unwrap_err().to_string();
    assert!(
        error.starts_with("cannot restore the saved cluster: no matches for kind \"Gadget\""),
        "{error}"
    );
    first.stop().await;
}
