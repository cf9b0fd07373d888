//! A kubelet that is only a client of the Kubernetes API: it registers its node, renews its lease, says that the pods
//! bound to it run, and finishes their deletions. No container is ever started.
//!
//! A pod can ask for special treatment by annotations: `lab.cksd/ready: "false"` (it never gets ready),
//! `lab.cksd/start-seconds`, `lab.cksd/stop-seconds` (how long it takes to start and to stop; to stop never longer
//! than its grace period, which is the default), `lab.cksd/run-seconds` (it ends by itself).
//!
//! What this must not know: the server of this lab. It would serve any Kubernetes API.

mod client;
mod node;
mod pods;

use std::net::IpAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::json as js;
use super::time::pause;
use client::{Client, Failure};

/// What a kubelet is.
#[derive(Debug, Clone)]
pub struct KubeletSpec {
    /// The name of its node.
    pub node_name: String,
    /// How it reaches the API and who it is there.
    pub kubeconfig: String,
    /// As `v1.32.5`.
    pub kubelet_version: String,
    /// What the machine's firmware says it is.
    pub system_uuid: String,
    /// `spec.providerID`.
    pub provider_id: Option<String>,
    /// The node's internal address.
    pub address: IpAddr,
    /// Whether the node carries the label and the taint of a control node.
    pub control_plane: bool,
    /// How long a pod takes to start.
    pub pod_start_delay: Duration,
    /// How often it renews its lease.
    pub heartbeat: Duration,
}

/// A running kubelet.
#[derive(Debug)]
pub struct Kubelet {
    frozen: watch::Sender<bool>,
    stop: CancellationToken,
    task: Option<JoinHandle<()>>,
}

impl Kubelet {
    /// Starts a kubelet. It registers its node as soon as the API answers.
    pub fn start(spec: KubeletSpec) -> Self {
        let frozen = watch::Sender::new(false);
        let stop = CancellationToken::new();
        let seen = frozen.subscribe();
        let token = stop.clone();
        let task = tokio::spawn(async move {
            tokio::select! {
                () = token.cancelled() => {}
                () = live(spec, seen) => {}
            }
        });
        Self {
            frozen,
            stop,
            task: Some(task),
        }
    }

    /// Ends it, as when its machine is switched off: nothing is said to the API.
    pub async fn stop(mut self) {
        self.stop.cancel();
        if let Some(task) = self.task.take()
            && task.await.is_err()
        {
            tracing::warn!("a kubelet of the lab ended badly");
        }
    }

    /// Freezes it (it says nothing any more) or lets it go on.
    pub fn set_frozen(&self, frozen: bool) {
        self.frozen.send_replace(frozen);
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// What a kubelet knows beyond what the API tells it.
#[derive(Debug)]
struct Mind {
    spec: KubeletSpec,
    /// Set once the node was registered: a node that is deleted after that is not made again until a restart.
    registered: bool,
    lease: Option<Value>,
    pods: pods::Pods,
}

/// The whole life: active while not frozen.
async fn live(spec: KubeletSpec, mut frozen: watch::Receiver<bool>) {
    let client = match Client::new(&spec.kubeconfig) {
        Ok(client) => client,
        Err(error) => {
            tracing::error!(node = spec.node_name, %error, "a kubelet of the lab cannot start");
            return;
        }
    };
    let mut mind = Mind {
        spec,
        registered: false,
        lease: None,
        pods: pods::Pods::default(),
    };
    loop {
        if frozen.wait_for(|frozen| !*frozen).await.is_err() {
            return;
        }
        tokio::select! {
            changed = frozen.wait_for(|frozen| *frozen) => if changed.is_err() { return },
            () = act(&client, &mut mind) => {}
        }
    }
}

/// Registers, then reacts to the watch and to the clock.
async fn act(client: &Client, mind: &mut Mind) {
    let mut delay = Duration::from_millis(50);
    while !mind.registered {
        if node::register(client, mind).await {
            mind.registered = true;
        } else {
            pause(delay).await;
            delay = (delay * 2).min(Duration::from_secs(2));
        }
    }
    let (told, mut news) = mpsc::channel(64);
    let watching = tokio::spawn(follow(client.clone(), mind.spec.node_name.clone(), told));
    let _ended_with_this = AbortOnDrop(watching);
    let mut next_beat = Instant::now();
    loop {
        let due = mind.pods.next_due().map_or(next_beat, |due| due.min(next_beat));
        tokio::select! {
            event = news.recv() => match event {
                Some(event) => {
                    mind.pods.take(event, &mind.spec);
                    mind.pods.act(client, &mind.spec).await;
                }
                None => return,
            },
            () = tokio::time::sleep_until(due) => {
                if Instant::now() >= next_beat {
                    node::beat(client, mind).await;
                    next_beat = Instant::now() + mind.spec.heartbeat;
                }
                mind.pods.act(client, &mind.spec).await;
            }
        }
    }
}

struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What the watch tells.
#[derive(Debug)]
enum News {
    /// All pods of the node.
    All(Vec<Value>),
    /// One is there, or changed.
    Present(Value),
    /// One is gone.
    Gone(Value),
}

/// Lists and watches the pods of the node, again and again.
async fn follow(client: Client, node: String, told: mpsc::Sender<News>) {
    let path = format!("/api/v1/pods?fieldSelector=spec.nodeName%3D{node}");
    let mut delay = Duration::from_millis(100);
    loop {
        if watch_once(&client, &path, &told).await.is_ok() {
            delay = Duration::from_millis(100);
        }
        if told.is_closed() {
            return;
        }
        pause(delay).await;
        delay = (delay * 2).min(Duration::from_secs(2));
    }
}

async fn watch_once(client: &Client, path: &str, told: &mpsc::Sender<News>) -> Result<(), Failure> {
    let list = client.get(path).await?;
    let version = js::text(&list, "/metadata/resourceVersion").to_owned();
    let closed = |_| Failure::Unreachable;
    told.send(News::All(js::items(&list, "/items").to_vec()))
        .await
        .map_err(closed)?;
    let mut stream = client
        .watch(&format!("{path}&watch=true&resourceVersion={version}"))
        .await?;
    let mut buffer: Vec<u8> = Vec::new();
    while let Ok(Some(chunk)) = stream.chunk().await {
        buffer.extend_from_slice(&chunk);
        while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = buffer.drain(..=end).collect();
            let Ok(mut event) = serde_json::from_slice::<Value>(&line) else {
                return Ok(());
            };
            let object = js::take(&mut event, "/object").unwrap_or_default();
            let news = match js::text(&event, "/type") {
                "ADDED" | "MODIFIED" => News::Present(object),
                "DELETED" => News::Gone(object),
                "BOOKMARK" => continue,
                _ => return Ok(()),
            };
            told.send(news).await.map_err(closed)?;
        }
    }
    Ok(())
}
