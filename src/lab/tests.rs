//! The whole lab: listeners, machines, SSH, and that a world goes on.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

use super::{Lab, LabOptions, clock};
use crate::protocol::params::form_encode;
use crate::protocol::signature;

/// A data folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("cksd-lab-{name}-{}", clock::fresh_id().simple()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn options(&self) -> LabOptions {
        LabOptions {
            data: self.0.clone(),
            scenario: "small".to_owned(),
            time_factor: 0.1,
            kubectl: PathBuf::from("/usr/bin/kubectl"),
            fresh: false,
        }
    }

    async fn lab(&self) -> Lab {
        Lab::start(self.options()).await.unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

async fn ask(lab: &Lab, command: &str, params: &[(&str, &str)]) -> Value {
    let mut pairs: Vec<(String, String)> = [
        ("command", command),
        ("response", "json"),
        ("apiKey", lab.api_key()),
    ]
    .iter()
    .chain(params)
    .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
    .collect();
    let sign = signature::sign(&pairs, lab.secret_key());
    pairs.push(("signature".to_owned(), sign));
    let url = format!("{}?{}", lab.endpoint(), form_encode(&pairs));
    let body: Value = reqwest::get(url).await.unwrap().json().await.unwrap();
    body.as_object().unwrap().values().next().unwrap().clone()
}

async fn run(lab: &Lab, command: &str, params: &[(&str, &str)]) -> Value {
    let submitted = ask(lab, command, params).await;
    let job = submitted["jobid"]
        .as_str()
        .unwrap_or_else(|| panic!("{command}: {submitted}"))
        .to_owned();
    for _ in 0..3000 {
        let body = ask(lab, "queryAsyncJobResult", &[("jobid", &job)]).await;
        if body["jobstatus"] != 0 {
            return body;
        }
        clock::pause(Duration::from_millis(10)).await;
    }
    panic!("job {job} does not end");
}

/// The first bytes that a port says, if it is there and lets us in.
async fn greeting(address: (std::net::Ipv4Addr, u16)) -> Option<String> {
    let mut stream = TcpStream::connect(address).await.ok()?;
    let mut bytes = [0; 7];
    stream.read_exact(&mut bytes).await.ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Whether there is a listener, be it one that resets.
async fn listens(address: (std::net::Ipv4Addr, u16)) -> bool {
    match TcpStream::connect(address).await {
        Ok(_) => true,
        Err(error) => error.kind() != std::io::ErrorKind::ConnectionRefused,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ports_answer_while_rule_firewall_and_machine_let_them() {
    let folder = Folder::new("ports");
    let lab = folder.lab().await;
    let cluster = lab.clusters().remove(0);
    let worker = cluster
        .members
        .iter()
        .find(|member| !member.control)
        .unwrap()
        .vm
        .to_string();
    let at = |port: u16| (cluster.public_ip, port);
    let ssh = Some("SSH-2.0".to_owned());
    for port in 2222..2225 {
        assert_eq!(greeting(at(port)).await, ssh, "port {port}");
    }
    let ips = ask(&lab, "listPublicIpAddresses", &[("listall", "true")]).await;
    let ip = ips["publicipaddress"][0]["id"].as_str().unwrap();
    let rule = [
        ("ipaddressid", ip),
        ("protocol", "tcp"),
        ("publicport", "2300"),
        ("privateport", "22"),
        ("virtualmachineid", &worker),
    ];
    let made = run(&lab, "createPortForwardingRule", &rule).await;
    assert_eq!(made["jobstatus"], 1, "{made}");
    assert_eq!(greeting(at(2300)).await, None, "no firewall rule covers it");
    assert!(listens(at(2300)).await, "but the rule's listener is there");
    let open = [
        ("ipaddressid", ip),
        ("protocol", "tcp"),
        ("startport", "2300"),
        ("endport", "2301"),
    ];
    run(&lab, "createFirewallRule", &open).await;
    assert_eq!(greeting(at(2300)).await, ssh);
    run(&lab, "stopVirtualMachine", &[("id", &worker)]).await;
    assert_eq!(
        greeting(at(2300)).await,
        None,
        "a machine that is off answers nothing"
    );
    run(&lab, "startVirtualMachine", &[("id", &worker)]).await;
    assert_eq!(greeting(at(2300)).await, ssh);
    let id = made["jobresult"]["portforwardingrule"]["id"].as_str().unwrap();
    run(&lab, "deletePortForwardingRule", &[("id", id)]).await;
    assert!(!listens(at(2300)).await, "the listener goes with the rule");
    run(
        &lab,
        "destroyVirtualMachine",
        &[("id", &worker), ("expunge", "true")],
    )
    .await;
    let root = std::fs::canonicalize(&folder.0)
        .unwrap()
        .join("nodes")
        .join(&worker);
    assert!(!root.exists(), "the files go with the machine");
    lab.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_world_goes_on_where_it_was() {
    let folder = Folder::new("again");
    let lab = folder.lab().await;
    let before = lab.clusters().remove(0);
    let keys = (lab.api_key().to_owned(), lab.endpoint());
    let other = Folder::new("other");
    let second = other.lab().await;
    assert_ne!(second.endpoint(), lab.endpoint(), "two labs never share a subnet");
    second.stop().await;
    let again = Lab::start(folder.options()).await;
    assert!(again.is_err(), "a second lab on the same world is refused");
    let worker = before
        .members
        .iter()
        .find(|member| !member.control)
        .unwrap()
        .vm
        .to_string();
    run(&lab, "stopVirtualMachine", &[("id", &worker)]).await;
    let submitted = ask(&lab, "startVirtualMachine", &[("id", &worker)]).await;
    drop(lab); // not stopped: as after the end of the process
    let lab = start_again(&folder).await;
    assert_eq!((lab.api_key().to_owned(), lab.endpoint()), keys);
    let after = lab.clusters().remove(0);
    assert_eq!(after.members, before.members);
    assert_eq!(after.ssh_key, before.ssh_key);
    let job = submitted["jobid"].as_str().unwrap();
    for _ in 0..3000 {
        let body = ask(&lab, "queryAsyncJobResult", &[("jobid", job)]).await;
        if body["jobstatus"] == 1 {
            lab.stop().await;
            return;
        }
        clock::pause(Duration::from_millis(10)).await;
    }
    panic!("the job does not end");
}

/// Ports of the dropped lab close a moment later.
async fn start_again(folder: &Folder) -> Lab {
    for _ in 0..500 {
        if let Ok(lab) = Lab::start(folder.options()).await {
            return lab;
        }
        clock::pause(Duration::from_millis(20)).await;
    }
    panic!("the lab does not start again");
}

/// Runs kubectl against a cluster from outside, through its public address.
async fn kubectl(cluster: &super::LabCluster, folder: &Folder, args: &[&str]) -> (bool, String) {
    let config = folder.0.join("outside.kubeconfig");
    std::fs::write(&config, &cluster.kubeconfig).unwrap();
    let output = tokio::process::Command::new("kubectl")
        .arg("--kubeconfig")
        .arg(&config)
        .args(args)
        .output()
        .await
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    (
        output.status.success(),
        String::from_utf8_lossy(&text).into_owned(),
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_machine_joins_and_leaves_and_the_cluster_outlives_the_lab() {
    let folder = Folder::new("join");
    let lab = folder.lab().await;
    let cluster = lab.clusters().remove(0);
    assert_eq!(lab.kube_nodes("small").len(), 3);
    let (ok, pods) = kubectl(&cluster, &folder, &["get", "pods", "-o", "name"]).await;
    assert!(ok && pods.lines().count() == 2, "{pods}");
    let control = cluster.members.iter().find(|member| member.control).unwrap().vm;
    let node = lab.node(control).unwrap();
    assert!(
        node.read_file("/etc/kubernetes/admin.conf")
            .unwrap()
            .contains("server: https://127.")
    );
    let join = super::world::join_line(&lab.world, control).await;
    let data = format!("#!/bin/sh\n{join}\n");
    let data = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, data);
    let template = cluster.template.to_string();
    let (network, zones) = (cluster.network.to_string(), ask(&lab, "listZones", &[]).await);
    let offering = lab.offering("k8s").unwrap().to_string();
    let params = [
        ("serviceofferingid", offering.as_str()),
        ("templateid", &template),
        ("zoneid", zones["zone"][0]["id"].as_str().unwrap()),
        ("networkids", &network),
        ("name", "small-node-new"),
        ("userdata", &data),
    ];
    let made = run(&lab, "deployVirtualMachine", &params).await;
    let id = made["jobresult"]["virtualmachine"]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    wait_for(|| {
        lab.kube_nodes("small")
            .iter()
            .filter(|node| node["ready"] == true)
            .count()
            == 4
    })
    .await;
    assert_eq!(lab.clusters().remove(0).members.len(), 4);
    let (ok, out) = kubectl(&cluster, &folder, &["delete", "node", "small-node-new"]).await;
    assert!(ok, "{out}");
    run(&lab, "stopVirtualMachine", &[("id", &control.to_string())]).await;
    let (ok, out) = kubectl(&cluster, &folder, &["get", "nodes", "--request-timeout=2s"]).await;
    assert!(!ok, "no control node runs, so there is no API: {out}");
    run(&lab, "startVirtualMachine", &[("id", &control.to_string())]).await;
    wait_for(|| {
        lab.kube_nodes("small")
            .iter()
            .filter(|node| node["ready"] == true)
            .count()
            == 3
    })
    .await;
    lab.stop().await;
    let lab = folder.lab().await;
    let nodes = lab.kube_nodes("small");
    assert_eq!(nodes.len(), 3, "the deleted node does not come back: {nodes:?}");
    run(&lab, "destroyVirtualMachine", &[("id", &id), ("expunge", "true")]).await;
    let (ok, pods) = kubectl(&lab.clusters().remove(0), &folder, &["get", "pods", "-o", "name"]).await;
    assert!(ok && pods.lines().count() == 2, "{pods}");
    lab.stop().await;
}

async fn wait_for(mut is: impl FnMut() -> bool) {
    for _ in 0..1500 {
        if is() {
            return;
        }
        clock::pause(Duration::from_millis(20)).await;
    }
    panic!("it does not become true");
}
