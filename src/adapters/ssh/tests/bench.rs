//! A node of the lab behind a proxy that can be cut, and a target for it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use russh::keys::ssh_key::LineEnding;
use russh::keys::{Algorithm, PrivateKey};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use uuid::Uuid;

use crate::domain::id::{InstallationId, VmId};
use crate::lab::node::{LabNode, NodeHost, NodeSpec};
use crate::ports::shell::{Fence, NodeTarget};

pub(super) const VM: Uuid = Uuid::from_u128(0xABCD_EF00_1234);

/// A world that nothing asks.
struct Nobody;

#[async_trait]
impl NodeHost for Nobody {
    async fn create_join_token(&self, _: Uuid, _: Duration) -> Result<String, String> {
        Err("no tokens here".to_owned())
    }

    async fn join(&self, _: Uuid, _: Vec<String>) -> Result<String, String> {
        Err("no cluster here".to_owned())
    }

    async fn kubelet(&self, _: Uuid, _: bool) {}
}

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

/// Carries connections to the node until it is cut.
struct Proxy {
    carried: Mutex<Vec<JoinHandle<()>>>,
    accepted: AtomicUsize,
}

pub(super) struct Bench {
    pub(super) node: LabNode,
    pub(super) target: NodeTarget,
    proxy: Arc<Proxy>,
    folder: Folder,
}

impl Bench {
    #[expect(clippy::disallowed_methods, reason = "tests")]
    pub(super) async fn new() -> Self {
        let folder = Folder(std::env::temp_dir().join(format!("cksd-ssh-{}", Uuid::new_v4())));
        std::fs::create_dir(&folder.0).unwrap();
        let key = PrivateKey::random(&mut rand::rng(), Algorithm::Ed25519).unwrap();
        let kubectl = folder.0.join("kubectl");
        std::fs::write(&kubectl, "#!/bin/sh\necho \"kubectl $*\"\n").unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&kubectl, mode).unwrap();
        let spec = NodeSpec {
            vm_id: VM,
            hostname: "seed-node-1".to_owned(),
            addresses: vec!["10.1.1.17".parse().unwrap()],
            root: folder.0.join("node"),
            login_user: "cloud".to_owned(),
            authorized_keys: vec![key.public_key().to_openssh().unwrap()],
            host_key: None,
            user_data: None,
            kubectl,
        };
        let node = LabNode::boot(spec, Arc::new(Nobody)).await.unwrap();
        let behind = listen(node.clone()).await;
        let proxy = Arc::new(Proxy {
            carried: Mutex::default(),
            accepted: AtomicUsize::new(0),
        });
        let address = carry(Arc::clone(&proxy), behind).await;
        let target = NodeTarget {
            vm_id: VmId(VM),
            vm_name: "seed-node-1".to_owned(),
            host: "127.0.0.1".to_owned(),
            port: address.port(),
            user: "cloud".to_owned(),
            private_key: key.to_openssh(LineEnding::LF).unwrap().to_string().into(),
            host_keys: vec![node.host_key_public()],
            addresses: vec!["10.1.1.17".parse().unwrap()],
        };
        Self {
            node,
            target,
            proxy,
            folder,
        }
    }

    /// Ends all connections at once, without a word.
    pub(super) fn cut(&self) {
        for carried in self.proxy.carried.lock().unwrap().drain(..) {
            carried.abort();
        }
    }

    /// How often the node was connected to.
    pub(super) fn connections(&self) -> usize {
        self.proxy.accepted.load(Ordering::Relaxed)
    }

    /// The login user's home.
    pub(super) fn home(&self) -> PathBuf {
        self.folder.0.join("node/home/cloud")
    }

    pub(super) fn has(&self, file: &str) -> bool {
        self.home().join(file).exists()
    }

    /// What sudo ran so far, without the proofs.
    pub(super) fn sudo(&self) -> Vec<String> {
        self.node
            .journal()
            .iter()
            .filter_map(|entry| entry.sudo_command().map(str::to_owned))
            .collect()
    }
}

async fn listen(node: LabNode) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let node = node.clone();
            tokio::spawn(async move { node.serve(stream).await });
        }
    });
    address
}

async fn carry(proxy: Arc<Proxy>, to: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut near, _)) = listener.accept().await {
            proxy.accepted.fetch_add(1, Ordering::Relaxed);
            let carried = tokio::spawn(async move {
                let mut far = TcpStream::connect(to).await.unwrap();
                tokio::io::copy_bidirectional(&mut near, &mut far).await.ok();
            });
            proxy.carried.lock().unwrap().push(carried);
        }
    });
    address
}

pub(super) fn fence(installation: u128, epoch: i64) -> Fence {
    Fence {
        installation: InstallationId(Uuid::from_u128(installation)),
        epoch,
    }
}

pub(super) async fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    let mut again = tokio::time::interval(Duration::from_millis(10));
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(30), "waited for {what}");
        again.tick().await;
    }
}

/// Whether a file is there.
pub(super) fn exists(path: &Path) -> bool {
    path.exists()
}
