//! One installation per test: started, asked, looked at, stopped.

mod client;
mod lab;

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

pub(crate) use client::{Answer, Client};
pub(crate) use lab::Lab;

/// Whatever is waited for comes long before this, also on a busy machine.
const PATIENCE: Duration = Duration::from_mins(3);

/// A running `cksd up` with its lab, in a folder of its own.
pub(crate) struct World {
    pub(crate) data: PathBuf,
    pub(crate) api: Client,
    pub(crate) lab: Lab,
    pub(crate) cluster: String,
    child: Option<Child>,
    scenario: String,
}

static NUMBER: AtomicU32 = AtomicU32::new(0);

impl World {
    /// Starts an installation on a scenario of the lab.
    pub(crate) async fn start(scenario: &str) -> Self {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        // The user that runs Postgres for root can enter /tmp, and a socket's path stays short there.
        let data = PathBuf::from(format!("/tmp/cksd-it-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&data).unwrap();
        std::fs::set_permissions(&data, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let mut world = Self {
            api: Client::unset(),
            lab: Lab::unset(),
            cluster: String::new(),
            child: None,
            scenario: scenario.to_owned(),
            data,
        };
        world.up().await;
        let clusters = world.api.ok("listKubernetesClusters", &[]).await;
        world.cluster = clusters["kubernetescluster"][0]["id"]
            .as_str()
            .map(str::to_owned)
            .expect("an imported cluster");
        world
    }

    /// Starts the process again, in the same folder.
    pub(crate) async fn up(&mut self) {
        let out = File::create(self.data.join("up.out")).unwrap();
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.data.join("up.log"))
            .unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_cksd"));
        command
            .args(["up", "--listen", "127.0.0.1:0", "--lab", &self.scenario, "--data"])
            .arg(&self.data);
        command
            .env_remove("DATABASE_URL")
            .env("RUST_LOG", "info,sqlx=warn,russh=warn");
        self.child = Some(
            command
                .stdin(Stdio::null())
                .stdout(out)
                .stderr(log)
                .spawn()
                .expect("cksd up"),
        );
        let ready = wait_for("cksd up to be ready", async || {
            if let Some(code) = self.child.as_mut().unwrap().try_wait().unwrap() {
                panic!("cksd up ended with {code}:\n{}", self.log());
            }
            let text = std::fs::read_to_string(self.data.join("up.out")).unwrap_or_default();
            text.contains("ready").then_some(())
        });
        ready.await;
        self.api = Client::from_env_file(&self.data.join("client.env"));
        self.lab = Lab::from_env_file(&self.data.join("lab.env"));
    }

    /// Kills the service as a crash would: nothing of it gets a word in. Postgres and the lab live on.
    pub(crate) fn kill(&mut self) {
        let mut child = self.child.take().expect("a running service");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// What the service has logged.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.data.join("up.log")).unwrap_or_default()
    }

    /// Runs kubectl as the cluster's administrator, from outside.
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> String {
        let output = self.try_kubectl(arguments);
        assert!(
            output.status.success(),
            "kubectl {arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    }

    fn try_kubectl(&self, arguments: &[&str]) -> Output {
        let kubeconfig = std::fs::read_dir(self.data.join("lab"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .find(|path| {
                path.extension()
                    .is_some_and(|extension| extension == "kubeconfig")
            })
            .expect("a kubeconfig");
        let program = std::env::var_os("CKSD_KUBECTL").unwrap_or_else(|| "kubectl".into());
        Command::new(program)
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .args(arguments)
            .output()
            .expect("kubectl")
    }

    /// Applies a manifest.
    pub(crate) fn apply(&self, manifest: &str) {
        let file = self.data.join("manifest.yaml");
        std::fs::write(&file, manifest).unwrap();
        self.kubectl(&["apply", "-f", file.to_str().unwrap()]);
    }

    /// A budget on the web deployment, for example `minAvailable: 4`.
    pub(crate) fn budget(&self, rule: &str) {
        self.apply(&format!(
            "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata:\n  name: web\nspec:\n  {rule}\n  selector:\n    matchLabels:\n      app: web\n"
        ));
    }

    /// Waits until all replicas of the web deployment are ready.
    pub(crate) fn web_is_ready(&self) {
        self.kubectl(&["rollout", "status", "deployment/web", "--timeout=120s"]);
    }

    /// The cluster as a client sees it.
    pub(crate) async fn seen(&self) -> Value {
        let list = self
            .api
            .ok("listKubernetesClusters", &[("id", &self.cluster)])
            .await;
        list["kubernetescluster"][0].clone()
    }

    /// Its workers, oldest first: machine id and name.
    pub(crate) async fn workers(&self) -> Vec<(String, String)> {
        let seen = self.seen().await;
        let machines = seen["virtualmachines"].as_array().unwrap().clone();
        let text = |machine: &Value, key: &str| machine[key].as_str().unwrap().to_owned();
        machines
            .iter()
            .filter(|machine| text(machine, "name").contains("-node-"))
            .map(|machine| (text(machine, "id"), text(machine, "name")))
            .collect()
    }

    /// Names of the nodes that are cordoned.
    pub(crate) fn cordoned(&self) -> Vec<String> {
        let path = "jsonpath={.items[?(@.spec.unschedulable==true)].metadata.name}";
        self.kubectl(&["get", "nodes", "-o", path])
            .split_whitespace()
            .map(str::to_owned)
            .collect()
    }

    /// Names of all nodes.
    pub(crate) fn nodes(&self) -> Vec<String> {
        let text = self.kubectl(&["get", "nodes", "-o", "jsonpath={.items[*].metadata.name}"]);
        text.split_whitespace().map(str::to_owned).collect()
    }

    /// Changes a setting of the cluster service, named without its common beginning.
    pub(crate) async fn set(&self, name: &str, value: &str) {
        let name = format!("cloud.kubernetes.cluster.{name}");
        self.api
            .ok("updateConfiguration", &[("name", &name), ("value", value)])
            .await;
    }

    /// Short drains, so that a test takes seconds where the defaults take minutes.
    pub(crate) async fn short_drains(&self, timeout: &str, interval: &str) {
        self.set("node.drain.timeout", timeout).await;
        self.set("node.drain.retry.interval", interval).await;
    }

    /// Asks for a scale and follows its job to the end.
    pub(crate) async fn scale(&self, wanted: &[(&str, &str)]) -> Answer {
        let mut parameters = vec![("id", self.cluster.as_str())];
        parameters.extend_from_slice(wanted);
        self.api.job("scaleKubernetesCluster", &parameters).await
    }

    /// Events of the cluster, oldest first: level, state, description.
    pub(crate) async fn events(&self) -> Vec<(String, String, String)> {
        let list = self.api.ok("listEvents", &[("resourceid", &self.cluster)]).await;
        let mut events: Vec<(String, String, String, String)> = list["event"]
            .as_array()
            .cloned()
            .unwrap_or_default()
            .iter()
            .map(|event| {
                let text = |key: &str| event[key].as_str().unwrap_or_default().to_owned();
                (text("created"), text("level"), text("state"), text("description"))
            })
            .collect();
        events.reverse();
        events
            .into_iter()
            .map(|(_, level, state, description)| (level, state, description))
            .collect()
    }

    /// Judges every invariant (`behaviour.md` 14): what `cksd check` sees, and what only the journals show.
    pub(crate) async fn invariants_hold(&self) {
        let output = Command::new(env!("CARGO_BIN_EXE_cksd"))
            .args(["check", "--data"])
            .arg(&self.data)
            .env_remove("DATABASE_URL")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            output.status.success(),
            "cksd check:\n{text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        // I9: nothing is forced, shortened or bypassed.
        for entry in self.lab.commands().await {
            for forbidden in ["--force", "--disable-eviction", "--grace-period", "delete pod"] {
                assert!(
                    !entry.text.contains(forbidden),
                    "I9: {} ran `{}`",
                    entry.machine,
                    entry.text
                );
            }
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.log();
            let from = log.len().saturating_sub(6000);
            eprintln!(
                "--- end of the service's log\n{}",
                log.get(from..).unwrap_or(&log)
            );
        }
        // A service that was killed has left Postgres and the lab behind: a start and an orderly stop end them.
        if self.child.is_none() {
            let mut command = Command::new(env!("CARGO_BIN_EXE_cksd"));
            command
                .args(["up", "--listen", "127.0.0.1:0", "--data"])
                .arg(&self.data)
                .env_remove("DATABASE_URL");
            self.child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok();
        }
        if let Some(mut child) = self.child.take() {
            let pid = nix::unistd::Pid::from_raw(child.id().cast_signed());
            nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).ok();
            child.wait().ok();
        }
        std::fs::remove_dir_all(&self.data).ok();
    }
}

/// Asks again and again until there is an answer; fails after a time that is never reached when all is well.
pub(crate) async fn wait_for<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(began.elapsed() < PATIENCE, "waited {PATIENCE:?} for {what}");
        #[expect(
            clippy::disallowed_methods,
            reason = "polling with a limit is this function's purpose"
        )]
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
