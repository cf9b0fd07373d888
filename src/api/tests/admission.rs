//! scaleKubernetesCluster: what is refused at once, what is born failed, and what becomes a job (`behaviour.md` 2).

use super::*;

type Params<'a> = &'a [(&'a str, &'a str)];

const COMMAND: &str = "scaleKubernetesCluster";
const NODE_1: &str = "00000000-0000-0000-0000-000000000102";
const NODE_2: &str = "00000000-0000-0000-0000-000000000103";
const CONTROL: &str = "00000000-0000-0000-0000-000000000101";
const LARGE: &str = "00000000-0000-0000-0000-000000000052";
const SMALL: &str = "00000000-0000-0000-0000-000000000053";

impl Service {
    /// A request that is admitted, or born failed: the job's id.
    async fn scale(&self, who: &str, params: &[(&str, &str)]) -> String {
        let body = self.ok(who, COMMAND, params).await;
        assert_eq!(body.as_object().unwrap().len(), 1, "{body}");
        body["jobid"].as_str().unwrap().to_owned()
    }

    /// A request whose job must be born failed: its text. Nothing but the job and one ERROR event is written.
    async fn born_failed(&self, id: &str, params: &[(&str, &str)]) -> String {
        let before = self.state_of(id).await;
        let mut all = vec![("id", id)];
        all.extend_from_slice(params);
        let job = self.scale("ops", &all).await;
        let reply = self.ok("ops", "queryAsyncJobResult", &[("jobid", &job)]).await;
        assert_eq!(reply["jobstatus"], 2);
        assert_eq!(reply["jobresultcode"], 530);
        assert_eq!(reply["jobresulttype"], "object");
        assert_eq!(reply["jobinstanceid"], id);
        assert!(reply["completed"].is_string());
        let result = reply["jobresult"].as_object().unwrap();
        assert_eq!((result.len(), &result["errorcode"]), (2, &Value::from(530)));
        let text = result["errortext"].as_str().unwrap().to_owned();
        assert_eq!(self.state_of(id).await, before);
        let scale_events = [("resourceid", id), ("type", "KUBERNETES.CLUSTER.SCALE")];
        let events = self.ok("ops", "listEvents", &scale_events).await;
        let newest = &events["event"][0];
        assert_eq!(
            (&newest["level"], &newest["state"]),
            (&Value::from("ERROR"), &Value::from("Completed"))
        );
        assert_eq!(newest["description"], text.as_str());
        text
    }
}

#[sqlx::test(migrations = "./migrations", fixtures("world"))]
async fn what_is_refused_at_once_makes_no_job(pool: PgPool) {
    let service = service(pool).await;
    let unknown = |name: &str, value: &str| {
        format!(
            "Unable to execute API command scalekubernetescluster due to invalid value. Invalid parameter {name} value={value} due to incorrect long value format, or entity does not exist or due to incorrect parameter annotation for the field in api cmd class."
        )
    };
    let (theirs, their_node) = (
        "00000000-0000-0000-0000-0000000000c3",
        "00000000-0000-0000-0000-000000000301",
    );
    let nothing = "00000000-0000-0000-0000-00000000dead";
    let cases: &[(Params, i64, String)] = &[
        (&[("size", "2")], 9999, "Unable to execute API command scalekubernetescluster due to missing parameter id".into()),
        (&[("id", WEB), ("size", "two")], 9999, "Unable to execute API command scalekubernetescluster due to invalid value two for parameter size".into()),
        (&[("id", WEB)], 4350, "nothing to change: give size, nodeids, serviceofferingid or nodeofferings".into()),
        (&[("id", WEB), ("size", "0")], 4350, "size must be at least 1, not 0".into()),
        (&[("id", WEB), ("size", "1"), ("nodeids", NODE_1)], 4350, "size and nodeids cannot be given together: nodeids names the nodes to remove, size leaves the choice to the service".into()),
        (&[("id", WEB), ("nodeids", ",")], 4350, "nodeids is empty: name the virtual machines of the nodes to remove, or leave it out".into()),
        (&[("id", WEB), ("autoscalingenabled", "true"), ("minsize", "1"), ("maxsize", "3")], 4350, "autoscalingenabled is not supported yet: autoscaling cannot be changed by this service".into()),
        (&[("id", WEB), ("maxsize", "3")], 4350, "maxsize is not supported yet: autoscaling cannot be changed by this service".into()),
        (&[("id", WEB), ("nodeofferings[0].node", "worker")], 4350, "nodeofferings needs both fields in each record: nodeofferings[i].node and nodeofferings[i].offering".into()),
        (&[("id", WEB), ("nodeofferings[0].node", "king"), ("nodeofferings[0].offering", LARGE)], 4350, "nodeofferings names the role king: worker, control and etcd have offerings".into()),
        (&[("id", nothing), ("size", "1")], 9999, unknown("id", nothing)),
        (&[("id", theirs), ("size", "1")], 9999, unknown("id", theirs)),
        (&[("id", "seven"), ("size", "1")], 9999, unknown("id", "seven")),
        (&[("id", WEB), ("nodeids", "seven")], 9999, unknown("nodeids", "seven")),
        (&[("id", WEB), ("nodeids", nothing)], 9999, unknown("nodeids", nothing)),
        (&[("id", WEB), ("nodeids", their_node)], 9999, unknown("nodeids", their_node)),
        (&[("id", WEB), ("serviceofferingid", nothing)], 9999, unknown("serviceofferingid", nothing)),
        (&[("id", WEB), ("nodeofferings[0].node", "worker"), ("nodeofferings[0].offering", nothing)], 9999, unknown("nodeofferings", nothing)),
    ];
    for (params, class, text) in cases {
        assert_eq!(
            service.refused("ops", COMMAND, params).await,
            (431, *class, text.clone()),
            "{params:?}"
        );
    }
    assert_eq!(
        service
            .refused("other", COMMAND, &[("id", WEB), ("size", "1")])
            .await
            .2,
        unknown("id", WEB)
    );
    let jobs = service.ok("ops", "listAsyncJobs", &[("keyword", "scale")]).await;
    assert_eq!(jobs, serde_json::json!({}), "no job was made");
    assert_eq!(service.state_of(WEB).await, ("Running".to_owned(), 1));
}

#[sqlx::test(migrations = "./migrations", fixtures("world"))]
async fn what_is_born_failed(pool: PgPool) {
    let service = service(pool).await;
    let (db, linked) = (
        "00000000-0000-0000-0000-0000000000c2",
        "00000000-0000-0000-0000-0000000000c7",
    );
    let busy = "00000000-0000-0000-0000-0000000000c8";
    let web = format!("cluster web ({WEB})");
    let db_node = "00000000-0000-0000-0000-000000000202";
    let both_nodes = format!("{NODE_1},{NODE_2}");
    let cases: &[(&str, Params, String)] = &[
        (busy, &[("size", "1")], format!("cluster busy ({busy}) is Upgrading: job 00000000-0000-0000-0000-000000000701 (upgradeKubernetesCluster) is in the way, wait for it to end")),
        (db, &[("size", "2")], format!("cluster db ({db}) is Stopped: only its offering can change now, start it to change its size")),
        (linked, &[("size", "2")], format!("cluster linked ({linked}) is ExternalManaged: only clusters that this service runs can be scaled")),
        (WEB, &[("size", "10")], format!("{web} cannot have 10 workers: with its 1 control nodes that is more than the 10 nodes that cloud.kubernetes.cluster.max.size allows")),
        (WEB, &[("nodeids", db_node)], format!("virtual machine {db_node} is no node of {web}")),
        (WEB, &[("nodeids", CONTROL)], format!("web-control-1 of {web} cannot be removed: etcd membership is not managed, so only workers can be named")),
        (WEB, &[("nodeids", &both_nodes)], format!("nodeids names all workers of {web}: one must be left")),
        (WEB, &[("nodeids", NODE_1), ("serviceofferingid", LARGE)], "nodeids cannot be given together with an offering for workers: remove the nodes first, then change the offering".into()),
        (WEB, &[("serviceofferingid", SMALL)], format!("service offering small ({SMALL}) has less memory than medium, which the worker nodes of {web} have: a cluster can change to a smaller offering only while it is Stopped")),
    ];
    for (id, params, text) in cases {
        assert_eq!(&service.born_failed(id, params).await, text, "{params:?}");
    }
}

#[sqlx::test(migrations = "./migrations", fixtures("world"))]
async fn the_cloud_away_is_a_born_failed_job_unless_nothing_is_asked_of_it(pool: PgPool) {
    let service = service(pool).await;
    service.cloud.away.store(true, Ordering::SeqCst);
    let text = service.born_failed(WEB, &[("size", "3")]).await;
    assert_eq!(
        text,
        format!(
            "cluster web ({WEB}) cannot be scaled now, as the cloud does not answer: listTemplates: connection refused"
        )
    );
    // What the rows forbid is said first.
    let too_large = service.born_failed(WEB, &[("size", "10")]).await;
    assert!(too_large.contains("cloud.kubernetes.cluster.max.size"));
    let asked = service.cloud_calls();
    service.scale("ops", &[("id", WEB), ("size", "1")]).await;
    assert_eq!(
        service.cloud_calls(),
        asked,
        "a scale-down asks nothing of the cloud"
    );
}

#[sqlx::test(migrations = "./migrations", fixtures("world"))]
async fn a_cached_fact_may_admit_but_never_refuses(pool: PgPool) {
    let service = service(pool).await;
    let template = TemplateId(Uuid::from_u128(0x7e));
    let set_ready = |ready| {
        service
            .cloud
            .templates
            .lock()
            .unwrap()
            .get_mut(&template)
            .unwrap()
            .ready = ready;
    };
    set_ready(false);
    let text = service.born_failed(WEB, &[("size", "3")]).await;
    assert_eq!(
        text,
        format!("cluster web ({WEB}) cannot grow: template node is not ready in its zone")
    );
    // The refusal is in the cache now. It is asked anew before it refuses again.
    set_ready(true);
    service.scale("ops", &[("id", WEB), ("size", "3")]).await;
    assert_eq!(service.state_of(WEB).await.0, "Scaling");
}

#[sqlx::test(migrations = "./migrations", fixtures("world"))]
async fn a_young_fact_saves_the_question(pool: PgPool) {
    let service = service(pool).await;
    service.cloud.away.store(false, Ordering::SeqCst);
    service.scale("ops", &[("id", WEB), ("size", "3")]).await;
    assert_eq!(service.cloud_calls(), 1);
    let shared = "00000000-0000-0000-0000-0000000000c5";
    service.scale("ops", &[("id", shared), ("size", "2")]).await;
    assert_eq!(service.cloud_calls(), 1, "the template was seen a moment ago");
    *service.clock.0.lock().unwrap() = "2026-01-02T03:06:00Z".parse().unwrap();
    service
        .scale(
            "hand",
            &[("id", "00000000-0000-0000-0000-0000000000c4"), ("size", "2")],
        )
        .await;
    assert_eq!(service.cloud_calls(), 2, "after a minute it is asked again");
}

#[sqlx::test(migrations = "./migrations", fixtures("world"))]
async fn an_admitted_scale(pool: PgPool) {
    let service = service(pool).await;
    let query = {
        let nodes = format!("{NODE_2},{NODE_2}");
        let mut pairs = owned(&[
            ("command", COMMAND),
            ("response", "json"),
            ("apikey", "AK-ops"),
            ("id", WEB),
        ]);
        pairs.push(("nodeids".to_owned(), nodes));
        signed(&pairs, "SK-ops")
    };
    let mut request = post("/client/api", query);
    request
        .headers_mut()
        .insert("x-request-id", "req-1".parse().unwrap());
    let reply = service.send(request).await;
    let job = reply.json()["scalekubernetesclusterresponse"]["jobid"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(
        reply.body,
        format!(r#"{{"scalekubernetesclusterresponse":{{"jobid":"{job}"}}}}"#)
    );
    assert_eq!(service.state_of(WEB).await, ("Scaling".to_owned(), 2));
    let row = sqlx::query!(
        r#"select request, request_id, from_state, phase, extract(epoch from deadline)::bigint as "deadline!" from async_job where id = $1"#,
        job.parse::<Uuid>().unwrap()
    )
    .fetch_one(&service.pool)
    .await
    .unwrap();
    assert_eq!(
        row.request,
        serde_json::json!({"node_ids": [NODE_2]}),
        "doubled nodes count once"
    );
    assert_eq!(row.request_id.as_deref(), Some("req-1"));
    assert_eq!(
        (row.from_state.as_deref(), row.phase.as_str()),
        (Some("Running"), "queued")
    );
    let now = service.clock.0.lock().unwrap().as_second();
    assert_eq!(row.deadline, now + 3600);
    let events = service
        .ok(
            "ops",
            "listEvents",
            &[("resourceid", WEB), ("type", "KUBERNETES.CLUSTER.SCALE")],
        )
        .await;
    assert_eq!(
        (&events["count"], &events["event"][0]["state"]),
        (&Value::from(1), &Value::from("Scheduled"))
    );
    assert_eq!(
        events["event"][0]["description"],
        format!("scaling cluster web ({WEB}) removing 1 nodes: {NODE_2}")
    );
    let pending = service.ok("ops", "queryAsyncJobResult", &[("jobid", &job)]).await;
    assert_eq!(
        (&pending["jobstatus"], pending.get("jobresult")),
        (&Value::from(0), None)
    );
}

#[sqlx::test(migrations = "./migrations", fixtures("world"))]
async fn of_two_at_once_the_loser_names_the_winner(pool: PgPool) {
    let service = service(pool).await;
    let one = service.scale("ops", &[("id", WEB), ("size", "1")]);
    let two = service.scale("admin", &[("id", WEB), ("size", "1")]);
    let jobs = tokio::join!(one, two);
    let mut winners = vec![];
    let mut losers = vec![];
    for job in [&jobs.0, &jobs.1] {
        let reply = service
            .ok("admin", "queryAsyncJobResult", &[("jobid", job)])
            .await;
        match reply["jobstatus"].as_i64() {
            Some(0) => winners.push(job.clone()),
            _ => losers.push(reply["jobresult"]["errortext"].as_str().unwrap().to_owned()),
        }
    }
    assert_eq!((winners.len(), losers.len()), (1, 1));
    assert_eq!(
        losers[0],
        format!(
            "cluster web ({WEB}) is Scaling: job {} (scaleKubernetesCluster) is in the way, wait for it to end",
            winners[0]
        )
    );
    assert_eq!(
        service.state_of(WEB).await,
        ("Scaling".to_owned(), 2),
        "moved once"
    );
}

#[sqlx::test(migrations = "./migrations", fixtures("world"))]
async fn the_result_of_a_job_is_the_cluster_with_its_operation(pool: PgPool) {
    use crate::jobs::ResultView as _;
    let service = service(pool).await;
    let mut conn = service.pool.acquire().await.unwrap();
    let cluster = crate::db::clusters::get(&mut conn, WEB.parse().unwrap())
        .await
        .unwrap();
    let operation = serde_json::json!({"step": "remove", "nodesdone": ["web-node-2"]});
    let result = crate::api::views::result::Results
        .cluster(&mut conn, cluster.key, &operation)
        .await
        .unwrap();
    assert_eq!(result.as_object().unwrap().len(), 1);
    let object = &result["kubernetescluster"];
    assert_eq!(
        (&object["id"], &object["operation"]),
        (&Value::from(WEB), &operation)
    );
    assert!(object.get("jobid").is_none());
    assert!(
        !result.to_string().contains("host-1"),
        "a result shows what everybody may see"
    );
}

#[sqlx::test(migrations = "./migrations", fixtures("world"))]
async fn a_node_that_an_earlier_scale_removed_is_gone_already(pool: PgPool) {
    let service = service(pool).await;
    let theirs = "00000000-0000-0000-0000-0000000000c3";
    let removed = "00000000-0000-0000-0000-000000000309";
    let job = service
        .scale("other", &[("id", theirs), ("nodeids", removed)])
        .await;
    let pending = service
        .ok("other", "queryAsyncJobResult", &[("jobid", &job)])
        .await;
    assert_eq!(pending["jobstatus"], 0);
    assert_eq!(service.state_of(theirs).await.0, "Scaling");
    // For any other cluster it is unknown.
    let elsewhere = service
        .refused("ops", COMMAND, &[("id", WEB), ("nodeids", removed)])
        .await;
    assert_eq!((elsewhere.0, elsewhere.1), (431, 9999));
}
