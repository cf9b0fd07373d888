//! The API of the lab's cloud over real HTTP, with signed requests.
//!
//! What this must not know: listeners and machines.

mod refusals;

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::net::TcpListener;
use uuid::Uuid;

use super::{Cloud, Doors, door::Cut, router};
use crate::lab::record::Subnet;
use crate::lab::{clock, genesis, scenario};
use crate::protocol::params::form_encode;
use crate::protocol::signature;

struct Bench {
    cloud: Arc<Cloud>,
    url: String,
    key: String,
    secret: String,
}

/// An answer: status and the body below the envelope key.
type Answer = (u16, String, Value);

impl Bench {
    async fn start() -> Self {
        Self::start_as("admin").await
    }

    async fn start_as(user: &str) -> Self {
        // Another test may have installed it.
        rustls::crypto::ring::default_provider().install_default().ok();
        let plan = scenario::load("small").unwrap();
        let (state, _) = genesis::make("small", &plan, Subnet { a: 9, b: 9 }).unwrap();
        let cloud = Cloud::new(state, None, 0.01);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/client/api", listener.local_addr().unwrap());
        let service = router(Arc::clone(&cloud)).into_make_service_with_connect_info::<Cut>();
        tokio::spawn(async move { axum::serve(Doors(listener), service).await });
        let (key, secret) = cloud.read(|state| {
            let user = state.users.iter().find(|have| have.name == user).unwrap();
            (user.api_key.clone(), user.secret_key.clone())
        });
        Self {
            cloud,
            url,
            key,
            secret,
        }
    }

    fn signed(&self, command: &str, params: &[(&str, &str)]) -> String {
        let mut pairs: Vec<(String, String)> = [
            ("command", command),
            ("response", "json"),
            ("apiKey", self.key.as_str()),
        ]
        .iter()
        .chain(params)
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
        let sign = signature::sign(&pairs, &self.secret);
        pairs.push(("signature".to_owned(), sign));
        form_encode(&pairs)
    }

    async fn try_ask(&self, command: &str, params: &[(&str, &str)]) -> Result<Answer, reqwest::Error> {
        let form = self.signed(command, params);
        let request = reqwest::Client::new()
            .post(&self.url)
            .header("content-type", "application/x-www-form-urlencoded")
            .body(form);
        let response = request.send().await?;
        let status = response.status().as_u16();
        let body: Value = response.json().await?;
        let (root, inner) = body.as_object().unwrap().iter().next().unwrap();
        Ok((status, root.clone(), inner.clone()))
    }

    async fn ask(&self, command: &str, params: &[(&str, &str)]) -> Answer {
        self.try_ask(command, params).await.unwrap()
    }

    /// Submits, waits, and gives the finished job.
    async fn run(&self, command: &str, params: &[(&str, &str)]) -> Value {
        let (status, _, body) = self.ask(command, params).await;
        assert_eq!(status, 200, "{command}: {body}");
        self.finished(body["jobid"].as_str().unwrap()).await
    }

    async fn finished(&self, job: &str) -> Value {
        for _ in 0..2000 {
            let (_, _, body) = self.ask("queryAsyncJobResult", &[("jobid", job)]).await;
            if body["jobstatus"] != 0 {
                return body;
            }
            clock::pause(Duration::from_millis(5)).await;
        }
        panic!("job {job} does not end");
    }

    async fn vms(&self, params: &[(&str, &str)]) -> Vec<Value> {
        let mut all = vec![("listall", "true")];
        all.extend(params);
        let (status, _, body) = self.ask("listVirtualMachines", &all).await;
        assert_eq!(status, 200, "{body}");
        body["virtualmachine"].as_array().cloned().unwrap_or_default()
    }

    fn worker(&self) -> String {
        self.cloud.read(|state| {
            state
                .vms
                .iter()
                .find(|vm| !vm.guest.control)
                .unwrap()
                .id
                .to_string()
        })
    }
}

#[tokio::test]
async fn a_machine_goes_through_its_life() {
    let bench = Bench::start().await;
    let worker = bench.worker();
    assert_eq!(bench.vms(&[]).await.len(), 3);
    let job = bench.run("stopVirtualMachine", &[("id", &worker)]).await;
    assert_eq!(job["jobresult"]["virtualmachine"]["state"], "Stopped");
    assert!(job["jobresult"]["virtualmachine"].get("jobid").is_none());
    let job = bench.run("startVirtualMachine", &[("id", &worker)]).await;
    assert_eq!(job["jobresult"]["virtualmachine"]["state"], "Running");
    let job = bench.run("expungeVirtualMachine", &[("id", &worker)]).await;
    assert_eq!(
        (&job["jobstatus"], &job["jobresult"]["errorcode"]),
        (&2.into(), &530.into())
    );
    let job = bench.run("destroyVirtualMachine", &[("id", &worker)]).await;
    assert_eq!(job["jobresult"]["virtualmachine"]["state"], "Destroyed");
    let forwards = ("listPortForwardingRules", [("listall", "true")]);
    assert_eq!(bench.ask(forwards.0, &forwards.1).await.2["count"], 3);
    let job = bench.run("expungeVirtualMachine", &[("id", &worker)]).await;
    assert_eq!(job["jobresult"]["success"], true);
    assert_eq!(
        bench.ask(forwards.0, &forwards.1).await.2["count"],
        2,
        "its rule went with it"
    );
    // The id of what is gone resolves to nothing; an id that never was is an error.
    assert_eq!(
        bench.ask("listVirtualMachines", &[("id", &worker)]).await.2,
        serde_json::json!({})
    );
    let (status, _, body) = bench.ask("destroyVirtualMachine", &[("id", &worker)]).await;
    assert_eq!(status, 431);
    let text = format!(
        "Invalid parameter id value={worker} due to incorrect long value format, or entity does not exist"
    );
    assert!(body["errortext"].as_str().unwrap().contains(&text), "{body}");
    let never = Uuid::nil().to_string();
    assert_eq!(bench.ask("listVirtualMachines", &[("id", &never)]).await.0, 431);
}

#[tokio::test]
async fn destroy_with_expunge_goes_all_the_way() {
    let bench = Bench::start().await;
    let worker = bench.worker();
    let job = bench
        .run("destroyVirtualMachine", &[("id", &worker), ("expunge", "true")])
        .await;
    assert_eq!(job["jobstatus"], 1);
    assert!(bench.vms(&[("ids", &worker)]).await.is_empty());
}

#[tokio::test]
async fn what_protects_a_machine_stops_its_destroy() {
    let bench = Bench::start().await;
    let worker = bench.worker();
    bench
        .ask(
            "updateVirtualMachine",
            &[("id", &worker), ("deleteprotection", "true")],
        )
        .await;
    let job = bench.run("destroyVirtualMachine", &[("id", &worker)]).await;
    assert_eq!(job["jobresultcode"], 530);
    assert_eq!(bench.vms(&[("id", &worker)]).await[0]["state"], "Running");
    bench
        .ask(
            "updateVirtualMachine",
            &[("id", &worker), ("deleteprotection", "false")],
        )
        .await;
    bench.cloud.change(|state| {
        let vm = state
            .vms
            .iter_mut()
            .find(|vm| vm.id.to_string() == worker)
            .unwrap();
        vm.backup_offering = Some(Uuid::nil());
        vm.backups = 1;
    });
    let job = bench.run("destroyVirtualMachine", &[("id", &worker)]).await;
    assert_eq!(job["jobstatus"], 2);
    assert_eq!(
        bench.vms(&[("id", &worker)]).await[0]["state"],
        "Stopped",
        "as in the report"
    );
}

#[tokio::test]
async fn a_machine_is_deployed_listable_at_once_and_refused_with_reasons() {
    let bench = Bench::start().await;
    let (offering, template, system, zone, network) = bench.cloud.read(|state| {
        (
            state.offerings[1].id.to_string(),
            state.templates[0].id.to_string(),
            state.templates[1].id.to_string(),
            state.zone.id.to_string(),
            state.networks[0].id.to_string(),
        )
    });
    let base = [
        ("serviceofferingid", offering.as_str()),
        ("zoneid", &zone),
        ("networkids", &network),
    ];
    let with = |more: &[(&'static str, &'static str)], template: &'_ str| {
        let mut all: Vec<(String, String)> = base
            .iter()
            .chain(more)
            .map(|(n, v)| ((*n).to_owned(), (*v).to_owned()))
            .collect();
        all.push(("templateid".to_owned(), template.to_owned()));
        all
    };
    let refused = [
        (with(&[("name", "a")], &system), "system template"),
        (with(&[("name", "a b")], &template), "no host name"),
        (with(&[("name", "a"), ("userdata", "?")], &template), "not base64"),
        (
            with(&[("name", "a"), ("keypair", "none")], &template),
            "no key pair",
        ),
        (with(&[("name", "a")], "7"), "Invalid parameter templateid"),
    ];
    for (params, text) in refused {
        let params: Vec<(&str, &str)> = params.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        let (status, _, body) = bench.ask("deployVirtualMachine", &params).await;
        assert_eq!(status, 431, "{body}");
        assert!(body["errortext"].as_str().unwrap().contains(text), "{body}");
    }
    let params = with(
        &[("name", "fresh-1"), ("userdata", "I2Nsb3VkLWNvbmZpZwo=")],
        &template,
    );
    let params: Vec<(&str, &str)> = params.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
    let (_, _, body) = bench.ask("deployVirtualMachine", &params).await;
    let id = body["id"].as_str().unwrap();
    assert_eq!(bench.vms(&[("id", id)]).await.len(), 1);
    assert_eq!(bench.vms(&[("name", "fresh-1")]).await.len(), 1);
    let job = bench.finished(body["jobid"].as_str().unwrap()).await;
    assert_eq!(job["jobresult"]["virtualmachine"]["state"], "Running");
    assert_eq!(job["jobinstanceid"], id);
    let (status, _, _) = bench.ask("deployVirtualMachine", &params).await;
    assert_eq!(status, 431, "the name is taken");
}

#[tokio::test]
async fn rules_are_made_conflict_and_go() {
    let bench = Bench::start().await;
    let worker = bench.worker();
    let ip = bench.cloud.read(|state| state.ips[0].id.to_string());
    let make = [
        ("ipaddressid", ip.as_str()),
        ("protocol", "tcp"),
        ("publicport", "2300"),
        ("privateport", "22"),
        ("virtualmachineid", &worker),
    ];
    let job = bench.run("createPortForwardingRule", &make).await;
    let rule = &job["jobresult"]["portforwardingrule"];
    assert_eq!(
        (&rule["state"], &rule["publicport"]),
        (&"Active".into(), &"2300".into())
    );
    let (status, _, body) = bench.ask("createPortForwardingRule", &make).await;
    assert_eq!(status, 537);
    assert!(
        body["errortext"]
            .as_str()
            .unwrap()
            .contains("conflicts with rule")
    );
    let id = rule["id"].as_str().unwrap();
    assert_eq!(
        bench.run("deletePortForwardingRule", &[("id", id)]).await["jobresult"]["success"],
        true
    );
    assert_eq!(bench.ask("deletePortForwardingRule", &[("id", id)]).await.0, 431);
    let open = [
        ("ipaddressid", ip.as_str()),
        ("protocol", "tcp"),
        ("startport", "2300"),
    ];
    let job = bench.run("createFirewallRule", &open).await;
    assert_eq!(job["jobresult"]["firewallrule"]["endport"], 2300);
    assert_eq!(bench.ask("createFirewallRule", &open).await.0, 537);
}
