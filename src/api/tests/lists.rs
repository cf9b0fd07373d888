//! Lists: the whole cluster object, filters, paging, visibility, jobs and events (`api-protocol.md` 6, items 3 to 6).

use super::*;

const UNKNOWN: &str = "00000000-0000-0000-0000-00000000dead";

fn names(body: &Value, key: &str) -> Vec<String> {
    body.get(key)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .map(|item| item["name"].as_str().unwrap().to_owned())
        .collect()
}

impl Service {
    async fn clusters(&self, who: &str, params: &[(&str, &str)]) -> Vec<String> {
        names(
            &self.ok(who, "listKubernetesClusters", params).await,
            "kubernetescluster",
        )
    }
}

#[sqlx::test(migrations = "./migrations", fixtures("world"))]
async fn the_whole_cluster_object(pool: PgPool) {
    let service = service(pool).await;
    let reply = service
        .call("ops", "listKubernetesClusters", &[("id", WEB)])
        .await;
    let never_seen = |n: &str, name: &str| {
        format!(
            r#"{{"id":"00000000-0000-0000-0000-00000000010{n}","name":"{name}","displayname":"{name}","nic":[],"tags":[],"securitygroup":[],"affinitygroup":[],"isexternalnode":false,"isetcdnode":false,"kubernetesnodeversion":"1.32.5"}}"#
        )
    };
    let expected = format!(
        r#"{{"listkubernetesclustersresponse":{{"count":1,"kubernetescluster":[{{"id":"{WEB}","name":"web","description":"the web","zoneid":"00000000-0000-0000-0000-000000000020","zonename":"z1","serviceofferingid":"00000000-0000-0000-0000-000000000051","serviceofferingname":"medium","templateid":"00000000-0000-0000-0000-00000000007e","networkid":"00000000-0000-0000-0000-0000000000e0","associatednetworkname":"net","kubernetesversionid":"00000000-0000-0000-0000-0000000000f1","kubernetesversionname":"v1.32.5","account":"ops","domainid":"00000000-0000-0000-0000-0000000000d1","domain":"ROOT","domainpath":"ROOT","keypair":"kp","masternodes":1,"controlnodes":1,"etcdnodes":0,"size":2,"state":"Running","cpunumber":"6","memory":"12288","endpoint":"https://192.0.2.1:6443/","ipaddress":"192.0.2.1","ipaddressid":"00000000-0000-0000-0000-000000000601","virtualmachines":[{{"id":"00000000-0000-0000-0000-000000000101","name":"web-control-1","displayname":"web-control-1","state":"Running","cpunumber":2,"memory":4096,"securitygroup":[],"nic":[{{"id":"n","ipaddress":"10.1.1.1","isdefault":true}}],"affinitygroup":[],"tags":[],"isexternalnode":false,"isetcdnode":false,"kubernetesnodeversion":"1.32.5","sshport":2222}},{},{}],"autoscalingenabled":false,"clustertype":"CloudManaged","csienabled":false,"created":"2026-01-02T03:04:05+0000","hasannotations":false}}]}}}}"#,
        never_seen("2", "web-node-1"),
        never_seen("3", "web-node-2"),
    );
    assert_eq!(reply.body, expected);
    assert_eq!(service.cloud_calls(), 0, "a list asks nothing of the cloud");
    let full = service
        .call("admin", "listKubernetesClusters", &[("id", WEB)])
        .await;
    assert!(full.body.contains(r#""hostname":"host-1""#));
    assert!(!full.body.contains("planted-secret"));
    let busy = service
        .ok("ops", "listKubernetesClusters", &[("name", "busy")])
        .await;
    assert_eq!(
        busy["kubernetescluster"][0]["jobid"],
        "00000000-0000-0000-0000-000000000701"
    );
    assert_eq!(busy["kubernetescluster"][0]["jobstatus"], 0);
}

#[sqlx::test(migrations = "./migrations", fixtures("world"))]
async fn every_role_sees_its_own(pool: PgPool) {
    let service = service(pool).await;
    let own = ["web", "db", "linked", "busy"];
    assert_eq!(service.clusters("ops", &[]).await, own);
    assert_eq!(service.clusters("ops", &[("listall", "true")]).await, own);
    assert_eq!(service.clusters("head", &[]).await, [""; 0]);
    assert_eq!(service.clusters("head", &[("listall", "true")]).await, ["lower"]);
    assert_eq!(service.clusters("admin", &[]).await, [""; 0]);
    let all = ["web", "db", "theirs", "lower", "linked", "busy"];
    assert_eq!(service.clusters("admin", &[("listall", "true")]).await, all);
    let account = |name| [("account", name)];
    assert_eq!(service.clusters("admin", &account("other")).await, ["theirs"]);
    let root = ("domainid", "00000000-0000-0000-0000-0000000000d1");
    assert_eq!(
        service.clusters("admin", &[root]).await,
        ["web", "db", "theirs", "linked", "busy"]
    );
    assert_eq!(
        service.clusters("admin", &[root, ("isrecursive", "true")]).await,
        all
    );
    let refused = service
        .refused("ops", "listKubernetesClusters", &account("other"))
        .await;
    assert_eq!(
        refused,
        (
            431,
            4350,
            "could not find account other in domain 00000000-0000-0000-0000-0000000000d1".to_owned()
        )
    );
}

#[sqlx::test(migrations = "./migrations", fixtures("world"))]
async fn projects_are_shown_when_they_are_asked_for(pool: PgPool) {
    let service = service(pool).await;
    let project = ("projectid", "00000000-0000-0000-0000-0000000000e1");
    assert_eq!(service.clusters("ops", &[project]).await, ["shared"]);
    assert_eq!(service.clusters("ops", &[("projectid", "-1")]).await, ["shared"]);
    // The autoscaler knows the id alone.
    let id = ("id", "00000000-0000-0000-0000-0000000000c5");
    let shared = service.ok("ops", "listKubernetesClusters", &[id]).await;
    assert_eq!(shared["kubernetescluster"][0]["project"], "p");
    assert!(shared["kubernetescluster"][0].get("account").is_none());
    assert_eq!(
        service
            .refused("other", "listKubernetesClusters", &[project])
            .await
            .0,
        531
    );
    assert_eq!(
        service
            .refused("ops", "listKubernetesClusters", &[project, ("account", "ops")])
            .await,
        (
            431,
            4350,
            "Account and projectId can't be specified together".to_owned()
        )
    );
}

#[sqlx::test(migrations = "./migrations", fixtures("world"))]
async fn filters_and_pages(pool: PgPool) {
    let service = service(pool).await;
    let list = |params: &'static [(&str, &str)]| service.clusters("ops", params);
    assert_eq!(list(&[("name", "web")]).await, ["web"]);
    assert_eq!(list(&[("name", "we")]).await, [""; 0]);
    assert_eq!(list(&[("keyword", "B")]).await, ["web", "db", "busy"]);
    assert_eq!(list(&[("keyword", "%")]).await, [""; 0]);
    assert_eq!(list(&[("state", "Stopped")]).await, ["db"]);
    assert_eq!(list(&[("state", "Nonsense")]).await, [""; 0]);
    assert_eq!(list(&[("clustertype", "ExternalManaged")]).await, ["linked"]);
    assert_eq!(
        service
            .refused("ops", "listKubernetesClusters", &[("clustertype", "x")])
            .await,
        (
            431,
            4350,
            "clustertype must be CloudManaged or ExternalManaged, not x".to_owned()
        )
    );
    let none = service
        .call("ops", "listKubernetesClusters", &[("name", "nothing")])
        .await;
    assert_eq!(none.body, r#"{"listkubernetesclustersresponse":{}}"#);
    let second = service
        .ok(
            "ops",
            "listKubernetesClusters",
            &[("page", "2"), ("pagesize", "3")],
        )
        .await;
    assert_eq!(second["count"], 4);
    assert_eq!(names(&second, "kubernetescluster"), ["busy"]);
    let past = service
        .call(
            "ops",
            "listKubernetesClusters",
            &[("page", "9"), ("pagesize", "3")],
        )
        .await;
    assert_eq!(past.body, r#"{"listkubernetesclustersresponse":{"count":4}}"#);
    assert_eq!(list(&[("pagesize", "-1")]).await.len(), 4);
    let text = |params: &'static [(&str, &str)]| service.refused("ops", "listKubernetesClusters", params);
    assert_eq!(
        text(&[("page", "1")]).await,
        (
            431,
            9999,
            "\"pagesize\" parameter is required when \"page\" is specified".to_owned()
        )
    );
    assert_eq!(
        text(&[("page", "1"), ("pagesize", "501")]).await,
        (
            431,
            9999,
            "Page size can't exceed max allowed page size value: 500".to_owned()
        )
    );
}

#[sqlx::test(migrations = "./migrations", fixtures("world"))]
async fn unknown_ids_are_errors_and_deleted_ones_empty_lists(pool: PgPool) {
    let service = service(pool).await;
    let unknown = |command: &str, name: &str, value: &str| {
        (
            431,
            9999,
            format!(
                "Unable to execute API command {} due to invalid value. Invalid parameter {name} value={value} due to incorrect long value format, or entity does not exist or due to incorrect parameter annotation for the field in api cmd class.",
                command.to_lowercase()
            ),
        )
    };
    let (gone, theirs) = (
        "00000000-0000-0000-0000-0000000000c6",
        "00000000-0000-0000-0000-0000000000c3",
    );
    for id in [UNKNOWN, theirs, "7"] {
        let command = "listKubernetesClusters";
        assert_eq!(
            service.refused("ops", command, &[("id", id)]).await,
            unknown(command, "id", id)
        );
    }
    let deleted = service
        .call("ops", "listKubernetesClusters", &[("id", gone)])
        .await;
    assert_eq!(deleted.body, r#"{"listkubernetesclustersresponse":{}}"#);
    for id in [UNKNOWN, theirs, gone] {
        let command = "getKubernetesClusterConfig";
        assert_eq!(
            service.refused("ops", command, &[("id", id)]).await,
            unknown(command, "id", id)
        );
    }
    let command = "listKubernetesSupportedVersions";
    assert_eq!(
        service.refused("ops", command, &[("id", UNKNOWN)]).await,
        unknown(command, "id", UNKNOWN)
    );
    let old = service
        .call("ops", command, &[("id", "00000000-0000-0000-0000-0000000000f3")])
        .await;
    assert_eq!(old.body, r#"{"listkubernetessupportedversionsresponse":{}}"#);
    let command = "queryAsyncJobResult";
    for (who, job) in [
        ("ops", UNKNOWN),
        ("other", "00000000-0000-0000-0000-000000000701"),
    ] {
        assert_eq!(
            service.refused(who, command, &[("jobid", job)]).await,
            unknown(command, "jobid", job)
        );
    }
}

#[sqlx::test(migrations = "./migrations", fixtures("world"))]
async fn versions(pool: PgPool) {
    let service = service(pool).await;
    let command = "listKubernetesSupportedVersions";
    let first = service.call("ops", command, &[("keyword", "1.32")]).await;
    assert_eq!(
        first.body,
        r#"{"listkubernetessupportedversionsresponse":{"count":1,"kubernetessupportedversion":[{"id":"00000000-0000-0000-0000-0000000000f1","name":"v1.32.5","semanticversion":"1.32.5","isoid":"00000000-0000-0000-0000-000000000150","isoname":"v1.32.5-iso","isostate":"Ready","supportsha":true,"supportsautoscaling":true,"state":"Enabled","mincpunumber":2,"minmemory":2048,"directdownload":false,"arch":"x86_64","created":"2026-01-01T00:00:00+0000"}]}}"#
    );
    let from = service
        .ok("ops", command, &[("minimumsemanticversion", "1.33.0")])
        .await;
    assert_eq!(
        (&from["count"], names(&from, "kubernetessupportedversion")),
        (&Value::from(1), vec!["v1.33.1".to_owned()])
    );
    let of = service
        .ok(
            "ops",
            command,
            &[(
                "minimumkubernetesversionid",
                "00000000-0000-0000-0000-0000000000f1",
            )],
        )
        .await;
    assert_eq!(of["count"], 2);
    assert_eq!(
        service
            .refused("ops", command, &[("minimumsemanticversion", "x")])
            .await
            .0,
        431
    );
}

#[sqlx::test(migrations = "./migrations", fixtures("world"))]
async fn a_job_under_way_shows_its_operation(pool: PgPool) {
    let service = service(pool).await;
    let job = ("jobid", "00000000-0000-0000-0000-000000000701");
    let reply = service.call("ops", "queryAsyncJobResult", &[job]).await;
    assert_eq!(
        reply.body,
        r#"{"queryasyncjobresultresponse":{"accountid":"00000000-0000-0000-0000-0000000000a2","account":"ops","domainid":"00000000-0000-0000-0000-0000000000d1","domainpath":"ROOT","userid":"00000000-0000-0000-0000-0000000000b2","cmd":"org.apache.cloudstack.api.command.user.kubernetes.cluster.UpgradeKubernetesClusterCmd","jobstatus":0,"jobprocstatus":0,"jobresultcode":0,"jobinstancetype":"KubernetesCluster","jobinstanceid":"00000000-0000-0000-0000-0000000000c8","created":"2026-01-02T03:04:05+0000","jobid":"00000000-0000-0000-0000-000000000701","operation":{"step":"drain","node":"busy-node-1","attempt":2,"deadline":"2026-01-02T04:04:05+0000","nodesdone":[],"nodesskipped":[]}}}"#
    );
    let listed = service
        .ok("ops", "listAsyncJobs", &[("keyword", "upgrade")])
        .await;
    assert_eq!(listed["count"], 1);
    assert_eq!(listed["asyncjobs"][0]["operation"]["node"], "busy-node-1");
    let later = service
        .call("ops", "listAsyncJobs", &[("startdate", "2026-01-03")])
        .await;
    assert_eq!(later.body, r#"{"listasyncjobsresponse":{}}"#);
    let past = service
        .call("ops", "listAsyncJobs", &[("page", "2"), ("pagesize", "5")])
        .await;
    assert_eq!(past.body, r#"{"listasyncjobsresponse":{"count":1}}"#);
    assert_eq!(
        service.ok("hand", "listAsyncJobs", &[("listall", "true")]).await,
        serde_json::json!({})
    );
}

#[sqlx::test(migrations = "./migrations", fixtures("world"))]
async fn events(pool: PgPool) {
    let service = service(pool).await;
    let reply = service
        .call(
            "ops",
            "listEvents",
            &[("resourceid", "00000000-0000-0000-0000-0000000000c8")],
        )
        .await;
    assert_eq!(
        reply.body,
        r#"{"listeventsresponse":{"count":1,"event":[{"id":"00000000-0000-0000-0000-000000000801","username":"ops","type":"KUBERNETES.CLUSTER.UPGRADE","level":"INFO","description":"upgrading cluster busy","account":"ops","domainid":"00000000-0000-0000-0000-0000000000d1","domain":"ROOT","domainpath":"ROOT","resourceid":"00000000-0000-0000-0000-0000000000c8","resourcetype":"KubernetesCluster","resourcename":"busy","created":"2026-01-02T03:04:05+0000","state":"Scheduled","archived":false}]}}"#
    );
    for (name, value, count) in [
        ("level", "warn", None),
        ("type", "KUBERNETES.CLUSTER.UPGRADE", Some(1)),
        ("startdate", "2026-01-02 03:04:06", None),
        ("enddate", "2026-01-02", Some(1)),
        ("archived", "true", None),
        ("keyword", "BUSY", Some(1)),
    ] {
        let body = service.ok("ops", "listEvents", &[(name, value)]).await;
        assert_eq!(body.get("count").and_then(Value::as_i64), count, "{name}");
    }
    assert_eq!(
        service.ok("other", "listEvents", &[("listall", "true")]).await,
        serde_json::json!({})
    );
}

#[sqlx::test(migrations = "./migrations", fixtures("world"))]
async fn a_finished_job_has_a_result_with_one_key(pool: PgPool) {
    let service = service(pool).await;
    let job = ("jobid", "00000000-0000-0000-0000-000000000702");
    let reply = service.call("other", "queryAsyncJobResult", &[job]).await;
    assert_eq!(
        reply.body,
        r#"{"queryasyncjobresultresponse":{"accountid":"00000000-0000-0000-0000-0000000000a3","account":"other","domainid":"00000000-0000-0000-0000-0000000000d1","domainpath":"ROOT","userid":"00000000-0000-0000-0000-0000000000b3","cmd":"org.apache.cloudstack.api.command.user.kubernetes.cluster.ScaleKubernetesClusterCmd","jobstatus":1,"jobprocstatus":0,"jobresultcode":0,"jobresulttype":"object","jobresult":{"kubernetescluster":{"id":"00000000-0000-0000-0000-0000000000c3"}},"jobinstancetype":"KubernetesCluster","jobinstanceid":"00000000-0000-0000-0000-0000000000c3","created":"2026-01-02T03:04:05+0000","completed":"2026-01-02T03:05:05+0000","jobid":"00000000-0000-0000-0000-000000000702"}}"#
    );
}
