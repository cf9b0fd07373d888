//! Refused requests, faults that are put in, and a job over a restart.

use std::sync::Arc;
use std::time::Duration;

use super::super::Cloud;
use super::super::model::Owner;
use super::Bench;
use crate::lab::clock;
use crate::lab::faults::{FaultKind, FaultRule};

#[tokio::test]
async fn requests_are_refused_as_the_real_one_refuses() {
    let bench = Bench::start_as("demo").await;
    bench.cloud.change(|state| {
        let demo = state
            .accounts
            .iter()
            .find(|account| account.name == "demo")
            .unwrap()
            .id;
        state
            .vms
            .iter_mut()
            .for_each(|vm| vm.owner = Owner::Account(demo));
    });
    let mut wrong = Bench {
        secret: "x".to_owned(),
        cloud: Arc::clone(&bench.cloud),
        ..bench
    };
    let (status, root, body) = wrong.ask("listZones", &[]).await;
    assert_eq!((status, root.as_str()), (401, "listzonesresponse"));
    assert!(body.get("cserrorcode").is_none());
    wrong.secret = wrong.cloud.read(|state| {
        state
            .users
            .iter()
            .find(|user| user.name == "demo")
            .unwrap()
            .secret_key
            .clone()
    });
    let bench = wrong;
    let (status, root, _) = bench.ask("createKubernetesCluster", &[]).await;
    assert_eq!((status, root.as_str()), (401, "errorresponse"));
    let (status, root, _) = bench.ask("getUserKeys", &[]).await;
    assert_eq!((status, root.as_str()), (432, "errorresponse"));
    let (status, _, body) = bench.ask("startVirtualMachine", &[]).await;
    assert_eq!((status, &body["cserrorcode"]), (431, &9999.into()));
    let page = bench
        .ask("listVirtualMachines", &[("page", "2"), ("pagesize", "2")])
        .await
        .2;
    assert_eq!(page["count"], 3);
    assert_eq!(page["virtualmachine"].as_array().unwrap().len(), 1);
    assert!(
        page["virtualmachine"][0].get("instancename").is_none(),
        "for administrators only"
    );
    assert_eq!(
        bench.ask("listVirtualMachines", &[("pagesize", "2")]).await.0,
        431
    );
}

#[tokio::test]
async fn faults_strike_before_and_after_the_effect() {
    let bench = Bench::start().await;
    let worker = bench.worker();
    let stop = ("stopVirtualMachine", [("id", worker.as_str())]);
    bench
        .cloud
        .faults
        .add(FaultRule::once(stop.0, FaultKind::DropBefore));
    assert!(bench.try_ask(stop.0, &stop.1).await.is_err());
    assert!(
        bench.cloud.read(|state| state.jobs.is_empty()),
        "nothing was done"
    );
    bench
        .cloud
        .faults
        .add(FaultRule::once(stop.0, FaultKind::DropAfter));
    assert!(bench.try_ask(stop.0, &stop.1).await.is_err());
    let job = bench.cloud.read(|state| state.jobs[0].id.to_string());
    assert_eq!(bench.finished(&job).await["jobstatus"], 1, "it was done");
    let kind = FaultKind::FailAfter {
        code: 534,
        text: "agent lost".to_owned(),
    };
    bench
        .cloud
        .faults
        .add(FaultRule::once("startVirtualMachine", kind).in_job());
    let job = bench.run("startVirtualMachine", &[("id", &worker)]).await;
    assert_eq!(
        job["jobresult"],
        serde_json::json!({"errorcode": 534, "errortext": "agent lost"})
    );
    assert_eq!(bench.vms(&[("id", &worker)]).await[0]["state"], "Running");
}

#[tokio::test]
async fn a_job_goes_on_after_a_restart() {
    let bench = Bench::start().await;
    let worker = bench.worker();
    let (_, _, body) = bench
        .ask("destroyVirtualMachine", &[("id", &worker), ("expunge", "true")])
        .await;
    let job = body["jobid"].as_str().unwrap().to_owned();
    bench.cloud.close().await;
    let saved = bench.cloud.read(|state| serde_json::to_value(state).unwrap());
    let again = Cloud::new(serde_json::from_value(saved).unwrap(), None, 0.01);
    again.resume_jobs();
    for _ in 0..2000 {
        let status = again.read(|state| {
            state
                .jobs
                .iter()
                .find(|have| have.id.to_string() == job)
                .map(|job| job.status)
        });
        if status == Some(1) {
            assert!(again.read(|state| state.vms.iter().any(|vm| vm.removed)));
            return;
        }
        clock::pause(Duration::from_millis(5)).await;
    }
    panic!("the job does not end");
}
