//! Tests of the nodes: a real SSH client against a booted node.
//!
//! What this must not know: how a node maps paths or keeps its journal, beyond what it shows.

mod boot;
mod cluster;
mod mapping;
mod openssh;
mod shell;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use russh::client;
use russh::keys::{Algorithm, PrivateKey, PrivateKeyWithHashAlg, PublicKeyOrCertificate};
use russh::{Channel, ChannelMsg};
use tokio::net::TcpListener;
use uuid::Uuid;

use super::{JournalEntry, JournalKind, LabNode, NodeHost, NodeSpec, keys, processes};

/// A folder that goes with the test.
pub(super) struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!(
            "cksd-lab-node-{}-{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        );
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A test that failed has not switched its node off.
        processes::kill_marked(self.0.join("root.d").to_str().unwrap());
        std::fs::remove_dir_all(&self.0).ok();
    }
}

/// A world that hands out one token, and remembers what it was told.
#[derive(Default)]
pub(super) struct World {
    told: Mutex<Vec<String>>,
    /// How many answers it owes for ever.
    owes: AtomicUsize,
}

impl World {
    fn told(&self) -> Vec<String> {
        self.told.lock().unwrap().clone()
    }

    fn tell(&self, what: String) {
        self.told.lock().unwrap().push(what);
    }
}

#[async_trait]
impl NodeHost for World {
    async fn create_join_token(&self, _vm_id: Uuid, ttl: Duration) -> Result<String, String> {
        self.tell(format!("token for {} s", ttl.as_secs()));
        if self.owes.load(Ordering::Relaxed) > 0 {
            self.owes.fetch_sub(1, Ordering::Relaxed);
            std::future::pending::<()>().await;
        }
        Ok(
            "kubeadm join 10.1.1.1:6443 --token abcdef.0123456789abcdef --discovery-token-ca-cert-hash sha256:12"
                .to_owned(),
        )
    }

    async fn join(&self, _vm_id: Uuid, args: Vec<String>) -> Result<String, String> {
        self.tell(format!("join {}", args.join(" ")));
        if args.iter().any(|arg| arg == "abcdef.0123456789abcdef") {
            Ok("kubelet's kubeconfig\n".to_owned())
        } else {
            Err("couldn't validate the identity of the API Server: token id \"wrong1\" is invalid".to_owned())
        }
    }

    async fn kubelet(&self, _vm_id: Uuid, running: bool) {
        self.tell(format!("kubelet {running}"));
    }
}

/// A booted node behind a listener, and a key that may log in.
pub(super) struct Bench {
    folder: Arc<Folder>,
    world: Arc<World>,
    node: LabNode,
    key: Arc<PrivateKey>,
    address: SocketAddr,
    spec: NodeSpec,
}

impl Bench {
    async fn new() -> Self {
        Self::with(|_| {}).await
    }

    async fn with(change: impl FnOnce(&mut NodeSpec)) -> Self {
        let folder = Arc::new(Folder::new());
        let key = Arc::new(new_key());
        // A kubectl that shows what it is given: the real one needs a cluster to say anything.
        let kubectl = folder.path().join("kubectl");
        std::fs::write(
            &kubectl,
            "#!/bin/sh\necho \"kubectl $*\"\necho \"home=$HOME config=${KUBECONFIG-none}\" >&2\n\
             [ \"$1\" != drain ] || exit 1\n",
        )
        .unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&kubectl, mode).unwrap();
        let mut spec = NodeSpec {
            vm_id: Uuid::from_u128(0x1234),
            hostname: "seed-node-1".to_owned(),
            addresses: vec!["10.1.1.17".parse().unwrap(), "fd00::17".parse().unwrap()],
            root: folder.path().join("root.d"),
            login_user: "cloud".to_owned(),
            authorized_keys: vec![keys::public(&key)],
            host_key: None,
            user_data: None,
            kubectl,
        };
        change(&mut spec);
        let world = Arc::new(World::default());
        Self::boot(folder, world, key, spec).await
    }

    async fn boot(folder: Arc<Folder>, world: Arc<World>, key: Arc<PrivateKey>, spec: NodeSpec) -> Self {
        let host: Arc<dyn NodeHost> = Arc::<World>::clone(&world);
        let node = LabNode::boot(spec.clone(), host).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let served = node.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let node = served.clone();
                tokio::spawn(async move { node.serve(stream).await });
            }
        });
        Self {
            folder,
            world,
            node,
            key,
            address,
            spec,
        }
    }

    /// The same root folder, started again.
    async fn again(&self) -> Self {
        let (folder, world) = (Arc::clone(&self.folder), Arc::clone(&self.world));
        Self::boot(folder, world, Arc::clone(&self.key), self.spec.clone()).await
    }

    fn root(&self) -> &str {
        self.spec.root.to_str().unwrap()
    }

    /// Where a path of the node is.
    fn place(&self, path: &str) -> PathBuf {
        PathBuf::from(format!("{}{path}", self.root()))
    }

    async fn connect(&self) -> Ssh {
        self.connect_with("cloud", Arc::clone(&self.key)).await.unwrap()
    }

    /// None when the login is refused.
    async fn connect_with(&self, user: &str, key: Arc<PrivateKey>) -> Option<Ssh> {
        let seen = Arc::new(Mutex::new(String::new()));
        let client = Client(Arc::clone(&seen));
        let config = client::Config {
            nodelay: true,
            ..client::Config::default()
        };
        let mut handle = client::connect(Arc::new(config), self.address, client)
            .await
            .unwrap();
        let key = PrivateKeyWithHashAlg::new(key, None);
        let ok = handle.authenticate_publickey(user, key).await.unwrap().success();
        let host_key = seen.lock().unwrap().clone();
        ok.then_some(Ssh { handle, host_key })
    }

    /// What sudo ran, with its exit codes.
    fn sudo(&self) -> Vec<(String, Option<i32>)> {
        self.entries(JournalKind::Sudo)
            .into_iter()
            .map(|entry| (entry.sudo_command().unwrap().to_owned(), entry.exit))
            .collect()
    }

    fn entries(&self, kind: JournalKind) -> Vec<JournalEntry> {
        let mut all = self.node.journal();
        all.retain(|entry| entry.kind == kind);
        all
    }

    async fn wait_for(&self, what: &str, mut there: impl FnMut(&Self) -> bool) {
        let begun = Instant::now();
        while !there(self) {
            assert!(
                begun.elapsed() < Duration::from_mins(1),
                "waited for {what}; the journal: {:#?}",
                self.node.journal()
            );
            tokio::task::yield_now().await;
            tokio::time::timeout(Duration::from_millis(10), std::future::pending::<()>())
                .await
                .ok();
        }
    }
}

fn new_key() -> PrivateKey {
    PrivateKey::random(&mut rand::rng(), Algorithm::Ed25519).unwrap()
}

struct Client(Arc<Mutex<String>>);

impl client::Handler for Client {
    type Error = russh::Error;

    async fn check_server_key(&mut self, key: &PublicKeyOrCertificate) -> Result<bool, Self::Error> {
        if let PublicKeyOrCertificate::PublicKey { key, .. } = key {
            *self.0.lock().unwrap() = key.to_openssh().unwrap();
        }
        Ok(true)
    }
}

/// A connection of a client.
pub(super) struct Ssh {
    handle: client::Handle<Client>,
    host_key: String,
}

/// What a command gave.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Given {
    out: String,
    err: String,
    code: Option<u32>,
    signal: Option<String>,
}

impl Ssh {
    async fn start(&self, line: &str) -> Channel<client::Msg> {
        let channel = self.handle.channel_open_session().await.unwrap();
        channel.exec(true, line).await.unwrap();
        channel
    }

    async fn run(&self, line: &str) -> Given {
        self.run_with(line, b"").await
    }

    async fn run_with(&self, line: &str, input: &[u8]) -> Given {
        let channel = self.start(line).await;
        if !input.is_empty() {
            channel.data(input).await.unwrap();
        }
        channel.eof().await.unwrap();
        finish(channel).await
    }

    /// What a command prints that is expected to do well.
    async fn out(&self, line: &str) -> String {
        let given = self.run(line).await;
        assert_eq!(given.code, Some(0), "{line}: {given:?}");
        given.out
    }
}

async fn finish(mut channel: Channel<client::Msg>) -> Given {
    let mut given = Given::default();
    while let Some(message) = channel.wait().await {
        match message {
            ChannelMsg::Data { data } => given.out.push_str(std::str::from_utf8(&data).unwrap()),
            ChannelMsg::ExtendedData { data, ext: 1 } => {
                given.err.push_str(std::str::from_utf8(&data).unwrap());
            }
            ChannelMsg::ExitStatus { exit_status } => given.code = Some(exit_status),
            ChannelMsg::ExitSignal { signal_name, .. } => given.signal = Some(format!("{signal_name:?}")),
            _ => {}
        }
    }
    given
}
