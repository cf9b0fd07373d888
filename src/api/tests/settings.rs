//! Settings, the rate limit, the kubeconfig.

use super::*;
use crate::db::details;

#[sqlx::test(migrations = "./migrations", fixtures("world"))]
async fn a_setting_is_shown_changed_and_reported(pool: PgPool) {
    let service = service(pool).await;
    let name = ("name", "cloud.kubernetes.cluster.node.drain.timeout");
    let shown = service.call("admin", "listConfigurations", &[name]).await;
    assert_eq!(
        shown.body,
        r#"{"listconfigurationsresponse":{"count":1,"configuration":[{"category":"Advanced","group":"Miscellaneous","subgroup":"Others","name":"cloud.kubernetes.cluster.node.drain.timeout","value":"300","defaultvalue":"300","description":"Seconds given to one kubectl drain; values below 1 mean the default","scope":"global","isdynamic":true,"component":"cksd","displaytext":"cloud.kubernetes.cluster.node.drain.timeout","type":"Number"}]}}"#
    );
    let changed = service
        .ok("admin", "updateConfiguration", &[name, ("value", " 20 ")])
        .await;
    assert_eq!(changed["configuration"]["value"], "20");
    let again = service
        .ok("admin", "updateConfiguration", &[name, ("value", "20")])
        .await;
    assert_eq!(again["configuration"]["value"], "20");
    let events = service
        .ok("admin", "listEvents", &[("type", "CONFIGURATION.VALUE.EDIT")])
        .await;
    assert_eq!(events["count"], 1, "only a change is an event");
    assert_eq!(
        events["event"][0]["description"],
        "changed setting cloud.kubernetes.cluster.node.drain.timeout from 300 to 20"
    );
    assert_eq!(events["event"][0]["level"], "INFO");
}

#[sqlx::test(migrations = "./migrations", fixtures("world"))]
async fn a_value_out_of_range_changes_nothing(pool: PgPool) {
    let service = service(pool).await;
    let refused = |params: &'static [(&str, &str)]| service.refused("admin", "updateConfiguration", params);
    assert_eq!(
        refused(&[("name", "cloud.kubernetes.cluster.max.size"), ("value", "0")]).await,
        (
            431,
            4350,
            "the value of cloud.kubernetes.cluster.max.size must be a whole number from 1 to 10000, not 0"
                .to_owned()
        )
    );
    assert_eq!(
        refused(&[("name", "no.such.setting"), ("value", "0")]).await,
        (431, 4350, "there is no setting no.such.setting".to_owned())
    );
    assert_eq!(
        refused(&[("name", "default.page.size")]).await,
        (
            431,
            9999,
            "Unable to execute API command updateconfiguration due to missing parameter value".to_owned()
        )
    );
    let shown = service
        .ok(
            "admin",
            "listConfigurations",
            &[("name", "cloud.kubernetes.cluster.max.size")],
        )
        .await;
    assert_eq!(shown["configuration"][0]["value"], "10");
    let all = service.ok("admin", "listConfigurations", &[]).await;
    assert_eq!(
        all["count"]
            .as_u64()
            .and_then(|n| usize::try_from(n).ok())
            .unwrap(),
        crate::domain::settings::ALL.len()
    );
    assert_eq!(
        service
            .call("admin", "listConfigurations", &[("category", "Network")])
            .await
            .body,
        r#"{"listconfigurationsresponse":{}}"#
    );
}

#[sqlx::test(migrations = "./migrations", fixtures("world"))]
async fn an_account_is_limited_and_an_administrator_is_not(pool: PgPool) {
    let service = service(pool).await;
    for (name, value) in [
        ("api.throttling.max", "2"),
        ("api.throttling.interval", "60"),
        ("api.throttling.enabled", "true"),
    ] {
        service
            .ok(
                "admin",
                "updateConfiguration",
                &[("name", name), ("value", value)],
            )
            .await;
    }
    for _ in 0..2 {
        assert_eq!(service.call("ops", "listCapabilities", &[]).await.status, 200);
    }
    let third = service.call("ops", "listCapabilities", &[]).await;
    assert_eq!(
        (third.status, third.body.as_str()),
        (
            429,
            r#"{"listcapabilitiesresponse":{"uuidList":[],"errorcode":429,"cserrorcode":9999,"errortext":"The given user has reached his/her account api limit, please retry after [60000] ms."}}"#
        )
    );
    assert!(!third.headers.contains_key("retry-after"));
    for _ in 0..5 {
        service.ok("admin", "listCapabilities", &[]).await;
    }
    *service.clock.0.lock().unwrap() = "2026-01-02T03:05:05Z".parse().unwrap();
    let later = service.ok("ops", "listCapabilities", &[]).await;
    assert_eq!(later["capability"]["apilimitmax"], 2);
    assert_eq!(later["capability"]["apilimitinterval"], 60);
}

#[sqlx::test(migrations = "./migrations", fixtures("world"))]
async fn the_kubeconfig_is_sealed_and_only_its_owner_reads_it(pool: PgPool) {
    let service = service(pool).await;
    assert_eq!(
        service
            .refused("ops", "getKubernetesClusterConfig", &[("id", WEB)])
            .await,
        (530, 4250, format!("cluster web ({WEB}) has no stored kubeconfig"))
    );
    let key: i64 = {
        let mut conn = service.pool.acquire().await.unwrap();
        let cluster = crate::db::clusters::get(&mut conn, WEB.parse().unwrap())
            .await
            .unwrap();
        let config = SecretString::from("apiVersion: v1 # planted");
        details::set_sealed(
            &mut conn,
            &service.cipher,
            cluster.key,
            details::KUBECONFIG,
            &config,
        )
        .await
        .unwrap();
        cluster.key
    };
    assert!(key > 0);
    let reply = service
        .call("ops", "getKubernetesClusterConfig", &[("id", WEB)])
        .await;
    assert_eq!(
        reply.body,
        format!(
            r#"{{"getkubernetesclusterconfigresponse":{{"clusterconfig":{{"id":"{WEB}","name":"web","configdata":"apiVersion: v1 # planted"}}}}}}"#
        )
    );
    assert_eq!(
        service
            .call("other", "getKubernetesClusterConfig", &[("id", WEB)])
            .await
            .status,
        431
    );
}
