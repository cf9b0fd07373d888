//! Authentication, envelopes, formats, headers (`api-protocol.md` 6, items 1, 2, 7, 8 and 9).

use super::*;

const REFUSED: &str = r#"{"uuidList":[],"errorcode":401,"errortext":"unable to verify user credentials and/or request signature"}"#;

fn apis(extra: &[(&str, &str)]) -> Vec<(String, String)> {
    let mut pairs = owned(&[
        ("command", "listCapabilities"),
        ("response", "json"),
        ("apiKey", "AK-ops"),
    ]);
    pairs.extend(owned(extra));
    pairs
}

const CAPABILITY: &str = r#"{"listcapabilitiesresponse":{"capability":{"cloudstackversion":"4.22.1.0","kubernetesserviceenabled":true,"kubernetesclusterexperimentalfeaturesenabled":false,"allowuserexpungerecovervm":false,"defaultuipagesize":500}}}"#;

#[sqlx::test(migrations = "./migrations", fixtures("world"))]
async fn every_way_to_sign_is_accepted(pool: PgPool) {
    let service = service(pool).await;
    let odd = [
        ("name", "a b*~+/[x]\u{e9},"),
        ("Keyword", ""),
        ("details[0].key", "v"),
    ];
    let v3 = |expires| [("signatureVersion", "3"), ("expires", expires)];
    for extra in [
        &odd[..],
        &v3("2026-01-02T03:14:05+0000")[..],
        &v3("2026-01-02T03:14:05Z")[..],
        &[("_", "1"), ("listall", "true"), ("filter", "name")][..],
    ] {
        let query = signed(&apis(extra), "SK-ops");
        for target in ["/client/api", "/client/api/"] {
            let got = service.get(&format!("{target}?{query}")).await;
            assert_eq!((got.status, got.body.as_str()), (200, CAPABILITY), "{extra:?}");
            let posted = service.send(post(target, query.clone())).await;
            assert_eq!(
                (posted.status, posted.body.as_str()),
                (200, CAPABILITY),
                "{extra:?}"
            );
        }
    }
}

#[sqlx::test(migrations = "./migrations", fixtures("world"))]
async fn a_request_may_be_split_over_query_and_body(pool: PgPool) {
    let service = service(pool).await;
    let pairs = apis(&[]);
    let (in_query, in_body) = pairs.split_at(1);
    let mut rest = in_body.to_vec();
    rest.push(("signature".to_owned(), sign(&pairs, "SK-ops")));
    // The query wins over the body; the first of two in the body counts.
    let body = format!("{}&command=listApis&response=xml", form_encode(&rest));
    let reply = service
        .send(post(&format!("/client/api?{}", form_encode(in_query)), body))
        .await;
    assert_eq!((reply.status, reply.body.as_str()), (200, CAPABILITY));
}

#[sqlx::test(migrations = "./migrations", fixtures("world"))]
async fn whatever_is_wrong_with_the_caller_has_one_answer(pool: PgPool) {
    let service = service(pool).await;
    let refused = format!(r#"{{"listcapabilitiesresponse":{REFUSED}}}"#);
    let v3 = |expires| {
        signed(
            &apis(&[("signatureVersion", "3"), ("expires", expires)]),
            "SK-ops",
        )
    };
    let mut unknown = apis(&[]);
    unknown[2].1 = "AK-nobody".to_owned();
    let mut tampered = apis(&[("name", "a")]);
    let signature = sign(&tampered, "SK-ops");
    tampered[3].1 = "b".to_owned();
    tampered.push(("signature".to_owned(), signature));
    for query in [
        signed(&apis(&[]), "SK-other"),
        signed(&unknown, "SK-ops"),
        form_encode(&tampered),
        form_encode(&apis(&[])),
        v3("2026-01-02T03:04:04+0000"),
        v3("soon"),
        signed(&apis(&[("signatureVersion", "3")]), "SK-ops"),
    ] {
        let reply = service.get(&format!("/client/api?{query}")).await;
        assert_eq!(
            (reply.status, reply.body.as_str()),
            (401, refused.as_str()),
            "{query}"
        );
        assert!(!reply.headers.contains_key("x-description"));
    }
    let user = UserId(Uuid::from_u128(0xb2));
    let mut conn = service.pool.acquire().await.unwrap();
    accounts::set_user_state(&mut conn, user, accounts::UserState::Disabled)
        .await
        .unwrap();
    let reply = service
        .get(&format!("/client/api?{}", signed(&apis(&[]), "SK-ops")))
        .await;
    assert_eq!((reply.status, reply.body), (401, refused));
}

#[sqlx::test(migrations = "./migrations", fixtures("world"))]
async fn without_a_command_or_with_an_unknown_one(pool: PgPool) {
    let service = service(pool).await;
    let refused = format!(r#"{{"errorresponse":{REFUSED}}}"#);
    for target in [
        "/client/api?response=json".to_owned(),
        "/client/api?response=json&command=noSuchCommand".to_owned(),
        "/client/api?response=json&command=listapis".to_owned(),
    ] {
        let reply = service.get(&target).await;
        assert_eq!(
            (reply.status, reply.body.as_str()),
            (401, refused.as_str()),
            "{target}"
        );
    }
    let signed_in = service.call("ops", "listZones", &[]).await;
    assert_eq!(
        (signed_in.status, signed_in.body.as_str()),
        (
            432,
            r#"{"errorresponse":{"uuidList":[],"errorcode":432,"cserrorcode":4555,"errortext":"The API [listZones] does not exist or is not available for the account ops."}}"#
        )
    );
    // A command that the role may not use is no matter of authentication.
    let forbidden = service
        .call("ops", "updateConfiguration", &[("name", "x"), ("value", "y")])
        .await;
    assert_eq!(
        (forbidden.status, forbidden.body.as_str()),
        (
            432,
            r#"{"errorresponse":{"uuidList":[],"errorcode":432,"cserrorcode":4555,"errortext":"The API [updateConfiguration] does not exist or is not available for the account ops."}}"#
        )
    );
}

#[sqlx::test(migrations = "./migrations", fixtures("world"))]
async fn errors_inside_a_command(pool: PgPool) {
    let service = service(pool).await;
    let missing = service.call("ops", "queryAsyncJobResult", &[]).await;
    let text = "Unable to execute API command queryasyncjobresult due to missing parameter jobid";
    assert_eq!(
        (missing.status, missing.body),
        (
            431,
            format!(
                r#"{{"queryasyncjobresultresponse":{{"uuidList":[],"errorcode":431,"cserrorcode":9999,"errortext":"{text}"}}}}"#
            )
        )
    );
    assert_eq!(missing.headers["x-description"], text);
    assert_eq!(missing.headers["content-type"], "application/json; charset=UTF-8");
    assert_eq!(missing.headers["x-content-type-options"], "nosniff");
    assert_eq!(missing.headers["x-xss-protection"], "1;mode=block");
    let refused = |pairs: &'static [(&str, &str)]| service.refused("ops", "listKubernetesClusters", pairs);
    assert_eq!(
        refused(&[("name", "a\tb")]).await,
        (
            431,
            9999,
            "Received value containing illegal ASCII non-printable characters for parameter name".to_owned()
        )
    );
    let (code, _, text) = refused(&[("m[x].y", "1")]).await;
    assert_eq!(code, 430);
    assert!(text.starts_with("Unable to decode parameter m[x].y; if specifying an object array, "));
}

#[sqlx::test(migrations = "./migrations", fixtures("world"))]
async fn xml_is_the_default_and_has_the_same_members(pool: PgPool) {
    let service = service(pool).await;
    let pairs = owned(&[("command", "listCapabilities"), ("apiKey", "AK-ops")]);
    let reply = service
        .get(&format!("/client/api?{}", signed(&pairs, "SK-ops")))
        .await;
    assert_eq!(reply.headers["content-type"], "text/xml; charset=UTF-8");
    assert_eq!(
        reply.body,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?><listcapabilitiesresponse cloud-stack-version=\"4.22.1.0\"><capability><cloudstackversion>4.22.1.0</cloudstackversion><kubernetesserviceenabled>true</kubernetesserviceenabled><kubernetesclusterexperimentalfeaturesenabled>false</kubernetesclusterexperimentalfeaturesenabled><allowuserexpungerecovervm>false</allowuserexpungerecovervm><defaultuipagesize>500</defaultuipagesize></capability></listcapabilitiesresponse>"
    );
    let refused = service.get("/client/api").await;
    assert_eq!(
        refused.body,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?><errorresponse cloud-stack-version=\"4.22.1.0\"><errorcode>401</errorcode><errortext>unable to verify user credentials and/or request signature</errortext></errorresponse>"
    );
}

#[sqlx::test(migrations = "./migrations", fixtures("world"))]
async fn the_alias_has_the_command_in_the_path_and_signs_it(pool: PgPool) {
    let service = service(pool).await;
    let mut pairs = owned(&[("apikey", "AK-ops"), ("command", "listCapabilities")]);
    let signature = sign(&pairs, "SK-ops");
    pairs.truncate(1);
    pairs.push(("signature".to_owned(), signature));
    let query = form_encode(&pairs);
    let reply = service
        .get(&format!("/client/api/listCapabilities?{query}"))
        .await;
    assert_eq!((reply.status, reply.body.as_str()), (200, CAPABILITY));
    // A signature for one command serves no other.
    let other = service.get(&format!("/client/api/listApis?{query}")).await;
    assert_eq!(other.status, 401);
    let both = service
        .get(&format!("/client/api/listApis?{}", signed(&apis(&[]), "SK-ops")))
        .await;
    assert_eq!(both.status, 430);
}

#[sqlx::test(migrations = "./migrations", fixtures("world"))]
async fn list_apis_is_complete_for_the_role_and_for_picky_clients(pool: PgPool) {
    let service = service(pool).await;
    let names = |body: &Value| -> Vec<String> {
        let items = body["api"].as_array().unwrap();
        assert_eq!(
            body["count"]
                .as_u64()
                .and_then(|n| usize::try_from(n).ok())
                .unwrap(),
            items.len()
        );
        items
            .iter()
            .map(|item| {
                assert!(item["description"].is_string() && item["isasync"].is_boolean());
                for param in item["params"].as_array().unwrap() {
                    assert!(param["name"].is_string() && param["type"].is_string());
                    assert!(param["description"].is_string() && param["required"].is_boolean());
                }
                assert!(item["response"].is_array());
                item["name"].as_str().unwrap().to_owned()
            })
            .collect()
    };
    let admin = names(&service.ok("admin", "listApis", &[("listall", "true")]).await);
    assert_eq!(admin.len(), crate::api::commands::ALL.len());
    let user = names(&service.ok("ops", "listApis", &[]).await);
    assert!(!user.contains(&"updateConfiguration".to_owned()));
    assert!(user.contains(&"scaleKubernetesCluster".to_owned()));
    let one = service
        .ok("ops", "listApis", &[("name", "scaleKubernetesCluster")])
        .await;
    assert_eq!(one["api"][0]["isasync"], true);
    assert_eq!(
        one["api"][0]["params"][0].to_string(),
        r#"{"name":"id","description":"the cluster","type":"uuid","length":255,"required":true}"#
    );
    assert_eq!(
        service.refused("ops", "listApis", &[("name", "nothing")]).await,
        (
            530,
            4250,
            "there is no command nothing, or not for account ops".to_owned()
        )
    );
}

#[sqlx::test(migrations = "./migrations", fixtures("world"))]
async fn a_request_has_an_id(pool: PgPool) {
    let service = service(pool).await;
    let call = |id: &'static str| {
        let query = signed(&apis(&[]), "SK-ops");
        Request::get(format!("/client/api?{query}"))
            .header("x-request-id", id)
            .body(Body::empty())
            .unwrap()
    };
    assert_eq!(service.send(call("abc-1")).await.headers["x-request-id"], "abc-1");
    let made = service.send(call("not fit")).await.headers["x-request-id"].clone();
    assert!(made.to_str().unwrap().parse::<Uuid>().is_ok());
}

#[sqlx::test(migrations = "./migrations", fixtures("world"))]
async fn a_large_body_is_taken(pool: PgPool) {
    let service = service(pool).await;
    let padding = "x".repeat(1024 * 1024);
    let body = signed(&apis(&[("userdata", &padding)]), "SK-ops");
    assert_eq!(service.send(post("/client/api", body)).await.status, 200);
    let too_large = service
        .send(post("/client/api", "y".repeat(5 * 1024 * 1024)))
        .await;
    assert_eq!(too_large.status, 430);
}

#[sqlx::test(migrations = "./migrations", fixtures("world"))]
async fn without_the_database_it_is_503(pool: PgPool) {
    let service = service(pool).await;
    assert_eq!(service.get("/readyz").await.status, 200);
    service.pool.close().await;
    let reply = service.call("ops", "listCapabilities", &[]).await;
    assert_eq!(
        (reply.status, reply.body.as_str()),
        (
            503,
            r#"{"listcapabilitiesresponse":{"uuidList":[],"errorcode":503,"cserrorcode":9999,"errortext":"the service cannot reach its database now: try again"}}"#
        )
    );
    assert_eq!(service.get("/readyz").await.status, 503);
    assert_eq!(service.get("/healthz").await.status, 200);
    assert_eq!(service.get("/metrics").await.status, 404);
}

#[sqlx::test(migrations = "./migrations", fixtures("world"))]
async fn a_service_that_is_switched_off_or_stopping(pool: PgPool) {
    let off = ApiOptions {
        service_enabled: false,
        ..ApiOptions::default()
    };
    let service = service_with(pool.clone(), off).await;
    let (code, _, text) = service.refused("admin", "listKubernetesClusters", &[]).await;
    assert_eq!(
        (code, text.as_str()),
        (
            432,
            "The API [listKubernetesClusters] does not exist or is not available for the account admin."
        )
    );
    assert_eq!(
        service.ok("admin", "listCapabilities", &[]).await["capability"]["kubernetesserviceenabled"],
        false
    );
    let stopping = ApiOptions::default();
    stopping.stopping.cancel();
    let service = service_with(pool, stopping).await;
    assert_eq!(service.get("/readyz").await.status, 503);
    let scale = service
        .refused("ops", "scaleKubernetesCluster", &[("id", WEB), ("size", "1")])
        .await;
    assert_eq!(scale.0, 503);
    assert_eq!(
        service.call("ops", "listKubernetesClusters", &[]).await.status,
        200
    );
}
