//! Each call of the port: its parameters, and its answer read from literal bytes.

use super::{cloud, id};
use crate::domain::id::{DomainId, ProjectId, VmId};
use crate::ports::cloud::{CloudErrorKind, CloudJob, MachineQuery, MachineSpec, MachineState};
use crate::ports::fault::{Effect, Retry};

const JOB: &str = "7c2b9f0e-0000-4000-8000-000000000001";

fn spec() -> MachineSpec {
    MachineSpec {
        name: "seed-node-17a".into(),
        zone_id: id(1),
        offering_id: id(2),
        template_id: id(3),
        network_id: id(4),
        key_pair: Some("my key".into()),
        user_data: "#cloud-config\n".into(),
        account: Some(("acme ~*".into(), id::<DomainId>(5))),
        project_id: None,
    }
}

#[tokio::test]
async fn a_deployment_is_posted_with_an_owner() {
    let (cloud, world) = cloud(|_| {
        let id = uuid::Uuid::from_u128(9);
        (
            200,
            format!(r#"{{"deployvirtualmachineresponse":{{"id":"{id}","jobid":"{JOB}"}}}}"#),
        )
    })
    .await;
    let made = cloud.deploy(&spec()).await.unwrap();
    assert_eq!((made.id, made.job.to_string().as_str()), (id::<VmId>(9), JOB));
    let seen = world.one();
    assert_eq!(
        (seen.method.as_str(), seen.get("command")),
        ("POST", "deployVirtualMachine")
    );
    assert_eq!(
        (seen.get("name"), seen.get("displayname")),
        ("seed-node-17a", "seed-node-17a")
    );
    assert_eq!(
        (seen.get("account"), seen.get("domainid")),
        ("acme ~*", id::<DomainId>(5).to_string().as_str())
    );
    assert_eq!(
        (seen.get("keypair"), seen.get("signatureversion")),
        ("my key", "3")
    );
    assert!(seen.get("userdata").starts_with("H4sI"), "gzip in base64");
    assert!(!seen.has("projectid"));
    let project = MachineSpec {
        project_id: Some(id::<ProjectId>(6)),
        ..spec()
    };
    cloud.deploy(&project).await.unwrap();
    let seen = world.seen().pop().unwrap();
    assert!(
        seen.has("projectid") && !seen.has("account") && !seen.has("domainid"),
        "the two exclude one another"
    );
}

#[tokio::test]
async fn user_data_that_is_too_long_is_refused_before_anything_is_sent() {
    let (cloud, world) = cloud(|_| (200, "{}".into())).await;
    let numbers = (0..6000_u64).map(|n| n.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_string());
    let noise: String = numbers.collect();
    let error = cloud
        .deploy(&MachineSpec {
            user_data: noise,
            ..spec()
        })
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind, error.effect, error.retry),
        (CloudErrorKind::Answer(431), Effect::DidNotHappen, Retry::Never)
    );
    assert!(world.seen().is_empty());
}

#[tokio::test]
async fn the_submits_send_what_they_must_and_nothing_else() {
    let (cloud, world) = cloud(|seen| {
        let root = format!("{}response", seen.get("command").to_lowercase());
        (200, format!(r#"{{"{root}":{{"id":"{JOB}","jobid":"{JOB}"}}}}"#))
    })
    .await;
    cloud.start(id(1)).await.unwrap();
    cloud.stop(id(1)).await.unwrap();
    cloud.destroy(id(1)).await.unwrap();
    cloud.expunge(id(1)).await.unwrap();
    cloud.resize(id(1), id(2)).await.unwrap();
    cloud.attach_iso(id(1), id(3)).await.unwrap();
    cloud.detach_iso(id(1)).await.unwrap();
    cloud
        .create_forwarding_rule(id(4), 2223, id(1), 22)
        .await
        .unwrap();
    cloud.delete_forwarding_rule(id(5)).await.unwrap();
    cloud.create_firewall_rule(id(4), 2222, 2225).await.unwrap();
    cloud.delete_firewall_rule(id(6)).await.unwrap();
    let standing = [
        "command",
        "response",
        "apiKey",
        "signatureVersion",
        "expires",
        "signature",
    ];
    let short = |text: &str| text.replace("00000000-0000-0000-0000-00000000000", "#");
    let sent: Vec<String> = world
        .seen()
        .iter()
        .map(|seen| {
            assert_eq!(seen.method.as_str(), "POST");
            let own = seen
                .params
                .pairs()
                .iter()
                .filter(|(name, _)| !standing.contains(&name.as_str()));
            let own: Vec<String> = own
                .map(|(name, value)| format!(" {name}={}", short(value)))
                .collect();
            format!("{}{}", seen.get("command"), own.concat())
        })
        .collect();
    assert_eq!(
        sent,
        [
            "startVirtualMachine id=#1",
            "stopVirtualMachine id=#1",
            "destroyVirtualMachine id=#1",
            "expungeVirtualMachine id=#1",
            "scaleVirtualMachine id=#1 serviceofferingid=#2",
            "attachIso id=#3 virtualmachineid=#1",
            "detachIso virtualmachineid=#1",
            "createPortForwardingRule ipaddressid=#4 protocol=tcp publicport=2223 privateport=22 virtualmachineid=#1 openfirewall=false",
            "deletePortForwardingRule id=#5",
            "createFirewallRule ipaddressid=#4 protocol=tcp startport=2222 endport=2225 cidrlist=0.0.0.0/0",
            "deleteFirewallRule id=#6",
        ]
    );
}

#[tokio::test]
async fn a_job_is_told_in_its_four_states() {
    let answers = [
        r#"{"queryasyncjobresultresponse":{"jobstatus":0,"jobid":"x","jobprocstatus":0}}"#,
        r#"{"queryasyncjobresultresponse":{"jobstatus":1,"jobresult":{"virtualmachine":{"id":"x"}},"jobresultcode":0}}"#,
        r#"{"queryasyncjobresultresponse":{"jobstatus":2,"jobresultcode":530,"jobresult":{"errorcode":533,"errortext":"Unable to orchestrate"}}}"#,
        r#"{"queryasyncjobresultresponse":{"jobstatus":3,"jobresultcode":0}}"#,
    ];
    let next = std::sync::atomic::AtomicUsize::new(0);
    let (cloud, world) = cloud(move |_| {
        let n = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        match answers.get(n) {
            Some(text) => (200, (*text).to_owned()),
            None => (431, r#"{"queryasyncjobresultresponse":{"uuidList":[],"errorcode":431,"cserrorcode":9999,"errortext":"Invalid parameter jobid value=x due to incorrect long value format, or entity does not exist or due to incorrect parameter annotation for the field in api cmd class."}}"#.to_owned()),
        }
    })
    .await;
    assert_eq!(cloud.job(id(1)).await.unwrap(), CloudJob::Pending);
    assert_eq!(cloud.job(id(1)).await.unwrap(), CloudJob::Succeeded);
    assert_eq!(
        cloud.job(id(1)).await.unwrap(),
        CloudJob::Failed {
            code: 533,
            text: "Unable to orchestrate".into()
        }
    );
    assert!(
        matches!(cloud.job(id(1)).await.unwrap(), CloudJob::Failed { .. }),
        "cancelled"
    );
    assert_eq!(cloud.job(id(1)).await.unwrap(), CloudJob::Unknown);
    assert_eq!(world.seen()[0].method.as_str(), "GET");
}

#[tokio::test]
async fn a_machine_is_read_from_a_whole_answer() {
    let (cloud, _) = cloud(|seen| {
        if seen.has("projectid") {
            return (200, r#"{"listvirtualmachinesresponse":{}}"#.into());
        }
        (200, r#"{"listvirtualmachinesresponse":{"count":1,"virtualmachine":[{
            "id":"0b9a1c2d-0000-4000-8000-0123456789ab","name":"seed-node-1","displayname":"seed-node-1","account":"acme",
            "domainid":"00000000-0000-0000-0000-000000000005","domain":"ROOT","created":"2026-01-02T03:04:05+0100","state":"Running",
            "haenable":false,"zoneid":"00000000-0000-0000-0000-000000000001","zonename":"z","templateid":"00000000-0000-0000-0000-000000000003",
            "serviceofferingid":"00000000-0000-0000-0000-000000000002","cpunumber":2,"cpuspeed":1000,"memory":2048,"keypairs":"one,two",
            "isoid":"00000000-0000-0000-0000-000000000007","backupofferingid":"00000000-0000-0000-0000-000000000008","deleteprotection":true,
            "vmtype":"CKS_NODE","details":{"controlNodeLoginUser":"cloud"},
            "nic":[{"id":"a","networkid":"00000000-0000-0000-0000-00000000000b","ipaddress":"10.2.0.3","isdefault":false},
                   {"id":"b","networkid":"00000000-0000-0000-0000-00000000000a","ipaddress":"10.1.1.3","isdefault":true}],
            "tags":[],"securitygroup":[],"affinitygroup":[]}]}}"#.into())
    })
    .await;
    let machines = cloud.machines(&MachineQuery::default()).await.unwrap();
    let [machine] = machines.as_slice() else {
        panic!("{machines:?}")
    };
    assert_eq!(machine.id.to_string(), "0b9a1c2d-0000-4000-8000-0123456789ab");
    assert_eq!(
        (machine.state.clone(), machine.cpu_number, machine.memory_mb),
        (MachineState::Running, 2, 2048)
    );
    assert_eq!(machine.created.unwrap().to_string(), "2026-01-02T02:04:05Z");
    assert_eq!(
        (machine.account.as_deref(), machine.project_id),
        (Some("acme"), None)
    );
    let addresses: Vec<_> = machine
        .nics
        .iter()
        .map(|nic| nic.address.unwrap().to_string())
        .collect();
    assert_eq!(addresses, ["10.1.1.3", "10.2.0.3"], "the default card first");
    assert_eq!(
        (machine.key_pair.as_deref(), machine.vm_type.as_deref()),
        (Some("one"), Some("CKS_NODE"))
    );
    assert!(
        machine.delete_protection && machine.backup_offering_id.is_some() && machine.iso_id == Some(id(7))
    );
    assert_eq!(machine.raw["cpuspeed"], 1000);
    let details = cloud.details(machine.id).await.unwrap();
    assert_eq!(
        details.get("controlNodeLoginUser").map(String::as_str),
        Some("cloud")
    );
}

#[tokio::test]
async fn rules_are_read_with_ports_as_text_or_numbers() {
    let (cloud, _) = cloud(|seen| {
        let text = match seen.get("command") {
            "listPortForwardingRules" => r#"{"listportforwardingrulesresponse":{"count":2,"portforwardingrule":[
                {"id":"00000000-0000-0000-0000-000000000001","privateport":"22","privateendport":"22","protocol":"TCP","publicport":"2222","publicendport":"2222",
                 "virtualmachineid":"00000000-0000-0000-0000-000000000009","ipaddressid":"00000000-0000-0000-0000-000000000004","ipaddress":"127.1.2.3","state":"Active","cidrlist":"","tags":[]},
                {"id":"00000000-0000-0000-0000-000000000002","privateport":6443,"protocol":"tcp","publicport":6443,"ipaddressid":"00000000-0000-0000-0000-000000000004","ipaddress":"127.1.2.3","state":"Revoke"}]}}"#,
            _ => r#"{"listfirewallrulesresponse":{"count":2,"firewallrule":[
                {"id":"00000000-0000-0000-0000-000000000001","protocol":"tcp","startport":2222,"endport":"2225","ipaddressid":"00000000-0000-0000-0000-000000000004","ipaddress":"127.1.2.3","state":"Active"},
                {"id":"00000000-0000-0000-0000-000000000002","protocol":"icmp","icmptype":-1,"icmpcode":-1,"ipaddressid":"00000000-0000-0000-0000-000000000004","state":"Deleting"}]}}"#,
        };
        (200, text.to_owned())
    })
    .await;
    let rules = cloud.forwarding_rules(id(4)).await.unwrap();
    assert_eq!(
        (
            rules[0].public_port,
            rules[0].public_end_port,
            rules[0].private_port
        ),
        (2222, 2222, 22)
    );
    assert_eq!(
        (rules[0].protocol.as_str(), rules[0].vm_id, rules[0].revoked),
        ("tcp", Some(id(9)), false)
    );
    assert_eq!(
        (rules[1].public_end_port, rules[1].vm_id, rules[1].revoked),
        (6443, None, true)
    );
    let rules = cloud.firewall_rules(id(4)).await.unwrap();
    assert_eq!(
        (rules[0].start_port, rules[0].end_port, rules[0].revoked),
        (Some(2222), Some(2225), false)
    );
    assert_eq!(
        (rules[1].start_port, rules[1].end_port, rules[1].revoked),
        (None, None, true)
    );
}

#[tokio::test]
async fn who_we_are_is_found_with_or_without_the_right_to_ask() {
    let apis =
        r#"{"listapisresponse":{"count":2,"api":[{"name":"listZones"},{"name":"deployVirtualMachine"}]}}"#;
    let user = r#"{"id":"x","username":"kube","account":"acme"}"#;
    let (allowed, _) = cloud(move |seen| match seen.get("command") {
        "listApis" => (200, apis.to_owned()),
        _ => (200, format!(r#"{{"getuserresponse":{{"user":{user}}}}}"#)),
    })
    .await;
    let (plain, _) = cloud(move |seen| match seen.get("command") {
        "listApis" => (200, apis.to_owned()),
        "listUsers" => (200, format!(r#"{{"listusersresponse":{{"count":1,"user":[{user}]}}}}"#)),
        _ => (432, r#"{"errorresponse":{"uuidList":[],"errorcode":432,"errortext":"The API [getUser] does not exist or is not available for the account acme."}}"#.to_owned()),
    })
    .await;
    for cloud in [allowed, plain] {
        let identity = cloud.identity().await.unwrap();
        assert_eq!(
            (identity.user.as_str(), identity.account.as_str()),
            ("kube", "acme")
        );
        assert!(identity.commands.contains("deployVirtualMachine") && identity.commands.len() == 2);
    }
}

#[tokio::test]
async fn single_objects_are_there_or_not() {
    let (cloud, world) = cloud(|seen| {
        let text = match (seen.get("command"), seen.get("id")) {
            ("listNetworks", "00000000-0000-0000-0000-000000000001") => r#"{"listnetworksresponse":{"count":1,"network":[{"id":"00000000-0000-0000-0000-000000000001","name":"n","type":"Isolated","state":"Implemented"}]}}"#,
            ("listServiceOfferings", _) => r#"{"listserviceofferingsresponse":{"count":1,"serviceoffering":[{"id":"00000000-0000-0000-0000-000000000001","name":"Small","iscustomized":true}]}}"#,
            ("listIsos", _) if seen.get("isofilter") == "all" => r#"{"listisosresponse":{"count":1,"iso":[{"id":"00000000-0000-0000-0000-000000000001","name":"v1.33.1","isready":true,"size":411000832}]}}"#,
            ("listIsos", _) => r#"{"listisosresponse":{}}"#,
            ("listTemplates", _) if seen.get("templatefilter") == "all" => {
                return (531, r#"{"listtemplatesresponse":{"errorcode":531,"errortext":"Only root admins can ask for all"}}"#.into());
            }
            ("listTemplates", _) => r#"{"listtemplatesresponse":{}}"#,
            ("listZones", _) => {
                return (431, r#"{"listzonesresponse":{"errorcode":431,"errortext":"Invalid parameter id value=1 due to incorrect long value format, or entity does not exist or ..."}}"#.into());
            }
            _ => r#"{"listnetworksresponse":{}}"#,
        };
        (200, text.to_owned())
    })
    .await;
    let network = cloud.network(id(1)).await.unwrap().unwrap();
    assert_eq!(
        (network.kind.as_str(), network.vpc_id, network.routed),
        ("Isolated", None, false)
    );
    assert_eq!(cloud.network(id(2)).await.unwrap(), None);
    let offering = cloud.offering(id(1)).await.unwrap().unwrap();
    assert!(offering.customized && offering.cpu_number.is_none() && offering.memory_mb.is_none());
    let iso = cloud.iso(id(1)).await.unwrap().unwrap();
    assert_eq!(
        (iso.ready, iso.size_bytes),
        (true, Some(411_000_832)),
        "found by the second filter"
    );
    assert_eq!(
        cloud.template(id(1)).await.unwrap(),
        None,
        "the second filter is refused"
    );
    assert_eq!(cloud.zone(id(1)).await.unwrap(), None, "an id that never was");
    assert!(world.seen().iter().all(|seen| seen.method.as_str() == "GET"));
}
