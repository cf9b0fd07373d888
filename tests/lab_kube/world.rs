//! A cluster of the lab with its kubelets, and the real kubectl to ask it.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use cksd::lab::kube::{KubeOptions, KubeServer, KubeTimings, Kubelet, KubeletSpec};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

/// What a command answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// A folder that goes with its owner, also when a test fails.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

/// A cluster with kubelets.
pub(crate) struct World {
    pub(crate) server: KubeServer,
    pub(crate) kubelets: Vec<(String, Kubelet)>,
    folder: Folder,
    pub(crate) kubectl_server: String,
}

fn kubectl_path() -> String {
    std::env::var("CKSD_KUBECTL").unwrap_or_else(|_| "kubectl".to_owned())
}

pub(crate) fn timings() -> KubeTimings {
    KubeTimings {
        node_grace: Duration::from_secs(3),
        no_execute_delay: Duration::from_mins(10),
        pod_gc_delay: Duration::from_millis(300),
        pod_start_delay: Duration::from_millis(20),
        heartbeat: Duration::from_millis(500),
    }
}

impl World {
    /// A cluster of `lab-control-1` and some workers, all of them registered.
    pub(crate) async fn start(workers: usize) -> Self {
        let options = KubeOptions {
            timings: timings(),
            ..KubeOptions::default()
        };
        let server = KubeServer::start(options).await.expect("the API starts");
        let folder = Folder(std::env::temp_dir().join(format!("cksd-lab-kube-{}", uuid::Uuid::new_v4())));
        std::fs::create_dir_all(&folder.0).expect("a folder can be made");
        std::fs::write(folder.0.join("config"), server.kubeconfig(&server.url()))
            .expect("a file can be written");
        std::fs::write(folder.0.join("ca.pem"), &server.pki().ca_cert_pem).expect("a file can be written");
        let kubectl_server = server.url();
        let mut world = Self {
            server,
            kubelets: Vec::new(),
            folder,
            kubectl_server,
        };
        world.start_kubelet("lab-control-1", 11, "v1.32.5");
        for number in 1..=workers {
            world.start_kubelet(&format!("lab-node-{number}"), 11 + number, "v1.32.5");
        }
        let nodes = world.kubelets.len();
        world
            .wait_for("all nodes are ready", |world| {
                let list = world.server.list("nodes", None).unwrap();
                list.len() == nodes && list.iter().all(|node| condition(node, "Ready") == "True")
            })
            .await;
        world
    }

    pub(crate) fn start_kubelet(&mut self, name: &str, last: usize, version: &str) {
        let token = self.server.create_join_token(Duration::from_mins(1));
        let kubeconfig = self
            .server
            .join(&token, name, &self.server.url())
            .expect("the token is good");
        let kubelet = Kubelet::start(KubeletSpec {
            node_name: name.to_owned(),
            kubeconfig,
            kubelet_version: version.to_owned(),
            system_uuid: uuid::Uuid::new_v4().to_string(),
            provider_id: None,
            address: IpAddr::V4(Ipv4Addr::new(127, 0, 10, u8::try_from(last).unwrap())),
            control_plane: name.contains("control"),
            pod_start_delay: timings().pod_start_delay,
            heartbeat: timings().heartbeat,
        });
        self.kubelets.push((name.to_owned(), kubelet));
    }

    pub(crate) fn take_kubelet(&mut self, name: &str) -> Kubelet {
        let place = self
            .kubelets
            .iter()
            .position(|(known, _)| known == name)
            .expect("there is such a kubelet");
        self.kubelets.remove(place).1
    }

    pub(crate) fn file(&self, name: &str) -> String {
        self.folder.0.join(name).display().to_string()
    }

    pub(crate) async fn kubectl(&self, command: &str) -> Answer {
        let words: Vec<&str> = command.split_whitespace().collect();
        self.run(&words, "").await
    }

    /// Runs kubectl as the administrator, with something on its standard input.
    pub(crate) async fn run(&self, words: &[&str], input: &str) -> Answer {
        let mut all = vec![format!("--kubeconfig={}", self.file("config"))];
        all.extend(words.iter().map(|word| (*word).to_owned()));
        self.bare(&all, input).await
    }

    /// Runs kubectl with these arguments only.
    pub(crate) async fn bare(&self, words: &[String], input: &str) -> Answer {
        let program = kubectl_path();
        let mut child = tokio::process::Command::new(&program)
            .args(words)
            .env_remove("KUBECONFIG")
            .env("HOME", &self.folder.0)
            .env("KUBECACHEDIR", self.folder.0.join("cache"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap_or_else(|error| {
                panic!("{program} cannot be run ({error}): put kubectl 1.27 or newer on the PATH or name it by CKSD_KUBECTL")
            });
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(input.as_bytes()).await.unwrap();
        drop(stdin);
        let done = tokio::time::timeout(Duration::from_mins(2), child.wait_with_output())
            .await
            .expect("kubectl ends within two minutes")
            .unwrap();
        Answer {
            code: done.status.code().unwrap_or(-1),
            out: as_of_1_32(&String::from_utf8_lossy(&done.stdout)),
            err: as_of_1_32(&String::from_utf8_lossy(&done.stderr)),
        }
    }

    /// Applies a manifest and fails the test if that fails.
    pub(crate) async fn apply(&self, manifest: &Value) -> Answer {
        let answer = self.run(&["apply", "-f", "-"], &manifest.to_string()).await;
        assert_eq!(answer.code, 0, "{answer:?}");
        answer
    }

    /// A namespace with a deployment `web` of so many pods, all of them ready, that stop within a second.
    pub(crate) async fn web(&self, namespace: &str, replicas: usize) {
        self.server
            .create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}))
            .unwrap();
        self.apply(&web(namespace, replicas)).await;
        self.ready_pods(namespace, replicas).await;
    }

    pub(crate) async fn budget(&self, namespace: &str, name: &str, minimum: Value) {
        self.apply(&json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"minAvailable": minimum, "selector": {"matchLabels": {"app": "web"}}}}))
            .await;
    }

    pub(crate) async fn ready_pods(&self, namespace: &str, wanted: usize) {
        self.wait_for(&format!("{wanted} pods of {namespace} are ready"), |world| {
            let pods = world.server.list("pods", Some(namespace)).unwrap();
            pods.len() == wanted && pods.iter().all(|pod| condition(pod, "Ready") == "True")
        })
        .await;
    }

    /// The names of the pods of a namespace on a node.
    pub(crate) fn pods_on(&self, namespace: &str, node: &str) -> Vec<String> {
        let pods = self.server.list("pods", Some(namespace)).unwrap();
        pods.iter()
            .filter(|pod| pod["spec"]["nodeName"] == node)
            .map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned())
            .collect()
    }

    pub(crate) fn node(&self, name: &str) -> Value {
        self.server.get("nodes", "", name).unwrap()
    }

    /// Waits until something holds; the limit is only for a test that fails.
    pub(crate) async fn wait_for(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let mut beat = tokio::time::interval(Duration::from_millis(20));
        for _ in 0..3000 {
            if holds(self) {
                return;
            }
            beat.tick().await;
        }
        panic!(
            "after a minute it still does not hold that {what}\n{:#}",
            self.server.snapshot()
        );
    }

    pub(crate) async fn stop(self) {
        let Self {
            kubelets,
            server,
            folder,
            ..
        } = self;
        for (_, kubelet) in kubelets {
            kubelet.stop().await;
        }
        server.stop().await;
        drop(folder);
    }
}

/// The status of a condition of an object, "" if it has none.
pub(crate) fn condition(object: &Value, kind: &str) -> String {
    let conditions = object["status"]["conditions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let found = conditions.iter().find(|condition| condition["type"] == kind);
    found.map_or(String::new(), |condition| {
        condition["status"].as_str().unwrap_or("").to_owned()
    })
}

/// A deployment `web` whose pods hold an emptyDir and stop within a second.
pub(crate) fn web(namespace: &str, replicas: usize) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {
                    "terminationGracePeriodSeconds": 1,
                    "containers": [{"name": "web", "image": "registry.example/web:1",
                        "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}]}],
                    "volumes": [{"name": "scratch", "emptyDir": {}}],
                },
            },
        },
    })
}

/// A bare pod.
pub(crate) fn bare(name: &str, node: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "misc"},
        "spec": {"nodeName": node, "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "c", "image": "registry.example/c:1"}]}})
}

/// A daemon on every node, as `kube-proxy` is.
pub(crate) fn daemon() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "kube-proxy", "namespace": "kube-system"},
        "spec": {"selector": {"matchLabels": {"k8s-app": "kube-proxy"}}, "template": {
            "metadata": {"labels": {"k8s-app": "kube-proxy"}},
            "spec": {"hostNetwork": true, "tolerations": [{"operator": "Exists"}],
                "containers": [{"name": "kube-proxy", "image": "registry.example/kube-proxy:1"}]}}}})
}

/// Other versions of kubectl word some lines differently: here all speak as 1.32 does.
fn as_of_1_32(text: &str) -> String {
    let mut out = String::new();
    for line in text.split_inclusive('\n') {
        let mut line = line
            .replace("due to error:", "due to error: ")
            .replace("due to error:  ", "due to error: ");
        if let Some((before, after)) = line.split_once("to terminate: global timeout reached: ") {
            let rest = after.find([',', '\n', ']']).map_or("", |end| &after[end..]);
            line = format!("{before}to terminate: context deadline exceeded{rest}");
        }
        let known = "cannot delete cannot delete Pods that declare no controller";
        for other in [
            "cannot delete Pods declare no controller",
            "cannot delete Pods that declare no controller",
        ] {
            if !line.contains(known) {
                line = line.replace(other, known);
            }
        }
        if line.starts_with("node/") && line.ends_with(" annotate\n") {
            line = line.replace(" annotate\n", " annotated\n");
        }
        out.push_str(&line);
    }
    out
}

/// Makes an answer comparable: generated names, ages and runs of blanks are folded, lines of a drain that come in any
/// order are sorted where `sorted` says so.
pub(crate) fn fold(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        // A sentence keeps its times, a row of a table does not.
        let sentence = line.contains(": ");
        let words: Vec<String> = line
            .split_whitespace()
            .map(|word| fold_word(word, sentence))
            .collect();
        writeln!(out, "{}", words.join(" ")).unwrap();
    }
    out
}

/// The folded lines of a text in a fixed order.
pub(crate) fn sorted(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = fold(text).lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

fn fold_word(word: &str, sentence: bool) -> String {
    let is_age = !sentence
        && word.len() > 1
        && word.starts_with(|c: char| c.is_ascii_digit())
        && word.ends_with(['s', 'm', 'h'])
        && word.chars().all(|c| c.is_ascii_digit() || "smhd".contains(c));
    if is_age {
        return "AGE".to_owned();
    }
    if word.starts_with("10.244.") {
        return "POD-IP".to_owned();
    }
    let mut folded = word.to_owned();
    for (known, letters) in [
        ("web-", "web-POD"),
        ("kube-proxy-", "kube-proxy-POD"),
        ("coredns-", "coredns-POD"),
    ] {
        if let Some(start) = folded.find(known) {
            let rest = folded.split_off(start);
            let end = rest
                .find(|c: char| !(c.is_ascii_alphanumeric() || c == '-'))
                .unwrap_or(rest.len());
            folded = format!("{folded}{letters}{}", &rest[end..]);
        }
    }
    folded
}
