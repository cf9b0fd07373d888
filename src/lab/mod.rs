//! A mini world for tests, demos and first runs: cloud, Kubernetes, nodes.
//!
//! [`Lab::start`] makes or goes on with a world in a data folder. What is faithful, and what is not, stands with
//! the parts: [`cloud`], [`kube`], [`node`]. The folder has `world/` (all records), `nodes/` (the machines' files)
//! and the files for clients.
//!
//! What this must not know: any module of the service but the wire format.

mod admin;
mod clock;
pub mod cloud;
mod cluster;
pub mod faults;
mod files;
mod genesis;
pub mod kube;
pub mod node;
mod record;
pub mod scenario;
mod subnet;
#[cfg(test)]
mod tests;
mod world;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use self::cloud::{Cloud, Cut, Doors};
pub use self::cluster::{LabCluster, LabMember};
use self::faults::Faults;
use self::node::LabNode;
use self::record::WorldRecord;
use self::world::World;

/// The port of the cloud's API on the second address of the subnet.
const CLOUD_PORT: u16 = 8080;

/// Why a lab did not start.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The scenario cannot be used.
    #[error("scenario {name:?}: {problem}")]
    Scenario {
        /// Its name.
        name: String,
        /// What is wrong with it, and what would work.
        problem: String,
    },
    /// The world's subnet is taken.
    #[error(
        "the subnet {subnet} of the world in {} is in use, by another lab or by this one, which then runs \
         already: stop that one, or make the world anew",
        data.display()
    )]
    Subnet {
        /// The subnet.
        subnet: String,
        /// The data folder.
        data: PathBuf,
        /// What binding said.
        source: io::Error,
    },
    /// An address cannot be listened on.
    #[error("the lab cannot listen on {address}")]
    Listen {
        /// The address.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// A file of the data folder cannot be used.
    #[error("{} cannot be used", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The data folder has half a world.
    #[error("the world in {} is not complete: start it anew (--fresh)", data.display())]
    Incomplete {
        /// The data folder.
        data: PathBuf,
    },
    /// A cluster's Kubernetes side did not start.
    #[error("cluster {cluster}: {problem}")]
    Cluster {
        /// Its name.
        cluster: String,
        /// What went wrong.
        problem: String,
    },
}

/// How to start a lab.
#[derive(Debug, Clone)]
pub struct LabOptions {
    /// The data folder.
    pub data: PathBuf,
    /// The scenario of a new world; a world that is there goes on whatever this says.
    pub scenario: String,
    /// Scales the scenario's service times; 1.0 leaves them.
    pub time_factor: f64,
    /// The real kubectl.
    pub kubectl: PathBuf,
    /// Throws away a world that is there.
    pub fresh: bool,
}

/// A running lab.
pub struct Lab {
    world: Arc<World>,
    endpoint: String,
    api_key: String,
    secret_key: String,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Lab {
    /// Starts a lab: a new world, or the one in the data folder where it was.
    pub async fn start(options: LabOptions) -> Result<Self, LabError> {
        // Whoever came first has installed the same one.
        rustls::crypto::ring::default_provider().install_default().ok();
        let data = prepare(&options)?;
        let (world_file, cloud_file) = (data.join("world/lab.json"), data.join("world/cloud.json"));
        let at = |path: &Path| {
            let path = path.to_path_buf();
            move |source| LabError::File { path, source }
        };
        let record: Option<WorldRecord> = files::load_json(&world_file).map_err(at(&world_file))?;
        let (subnet, claim) = subnet::claim(&data, record.as_ref().map(|record| record.subnet)).await?;
        let (state, record) = if let Some(record) = record {
            let state = files::load_json(&cloud_file).map_err(at(&cloud_file))?;
            (state.ok_or(LabError::Incomplete { data: data.clone() })?, record)
        } else {
            let plan = scenario::load(&options.scenario)?;
            let (state, record) = genesis::make(&options.scenario, &plan, subnet)?;
            files::save_json(&cloud_file, &state).map_err(at(&cloud_file))?;
            files::save_json(&world_file, &record).map_err(at(&world_file))?;
            (state, record)
        };
        let address = (subnet.host(2), CLOUD_PORT);
        let door = TcpListener::bind(address)
            .await
            .map_err(|source| LabError::Listen {
                address: format!("{}:{}", address.0, address.1),
                source,
            })?;
        let cloud = Cloud::new(state, Some(cloud_file), options.time_factor);
        let (api_key, secret_key) = cloud.read(|state| {
            let admin = state.users.iter().find(|user| user.name == "admin");
            admin
                .map(|user| (user.api_key.clone(), user.secret_key.clone()))
                .unwrap_or_default()
        });
        let world = World::new(Arc::clone(&cloud), record, data, options.kubectl);
        world.run().await;
        world.ready().await?;
        cloud.resume_jobs();
        let lab = Self {
            endpoint: format!("http://{}:{}/client/api", address.0, address.1),
            api_key,
            secret_key,
            world,
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
        };
        lab.serve(door);
        lab.serve(claim);
        Ok(lab)
    }

    fn serve(&self, listener: TcpListener) {
        let routes: Router =
            cloud::router(Arc::clone(&self.world.cloud)).merge(admin::router(Arc::clone(&self.world)));
        let service = routes.into_make_service_with_connect_info::<Cut>();
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            let serving = axum::serve(Doors(listener), service).into_future();
            tokio::select! {
                () = stop.cancelled() => {}
                ended = serving => if let Err(error) = ended {
                    tracing::error!(%error, "the lab's HTTP server ended");
                },
            }
        });
    }

    /// The URL of the cloud's API.
    pub fn endpoint(&self) -> String {
        self.endpoint.clone()
    }

    /// The URL under which the lab's own endpoint is (`/lab/...`).
    pub fn admin_url(&self) -> String {
        self.endpoint.trim_end_matches("/client/api").to_owned()
    }

    /// The API key of the root administrator.
    pub fn api_key(&self) -> &str {
        &self.api_key
    }

    /// The secret of that key.
    pub fn secret_key(&self) -> &str {
        &self.secret_key
    }

    /// The keys of another user by name.
    pub fn keys_of(&self, user: &str) -> Option<(String, String)> {
        self.world.cloud.read(|state| {
            let found = state.users.iter().find(|have| have.name == user)?;
            Some((found.api_key.clone(), found.secret_key.clone()))
        })
    }

    /// The id of an ISO by name.
    pub fn iso(&self, name: &str) -> Option<Uuid> {
        self.world
            .cloud
            .read(|state| state.isos.iter().find(|iso| iso.name == name).map(|iso| iso.id))
    }

    /// The id of a service offering by name.
    pub fn offering(&self, name: &str) -> Option<Uuid> {
        self.world.cloud.read(|state| {
            state
                .offerings
                .iter()
                .find(|have| have.name == name)
                .map(|have| have.id)
        })
    }

    /// The clusters as they are now.
    pub fn clusters(&self) -> Vec<LabCluster> {
        self.world.clusters()
    }

    /// A running machine's node, for its journal and its files.
    pub fn node(&self, vm: Uuid) -> Option<LabNode> {
        self.world.node(vm)
    }

    /// Freezes a machine's kubelet, so that its node becomes NotReady, or wakes it; false if it has none.
    pub fn freeze_kubelet(&self, vm: Uuid, frozen: bool) -> bool {
        self.world.freeze_kubelet(vm, frozen)
    }

    /// Lets a cluster's Kubernetes API take connections and answer nothing, or go on; false if it is not alive.
    pub fn hang_api(&self, cluster: &str, hung: bool) -> bool {
        self.world.hang_api(cluster, hung)
    }

    /// The nodes of a cluster as its API has them: name, ready, unschedulable, version.
    pub fn kube_nodes(&self, cluster: &str) -> Vec<serde_json::Value> {
        self.world.kube_nodes(cluster)
    }

    /// Faults of the cloud.
    pub fn faults(&self) -> &Faults {
        &self.world.cloud.faults
    }

    /// Stops everything; the world stays in its folder.
    pub async fn stop(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        self.world.cloud.close().await;
        self.world.close().await;
    }
}

/// Where the own endpoint of the lab in a data folder answers while it runs.
pub fn admin_url(data: &Path) -> Result<String, LabError> {
    let file = data.join("world/lab.json");
    let record: Option<WorldRecord> = files::load_json(&file).map_err(|source| LabError::File {
        path: file.clone(),
        source,
    })?;
    let record = record.ok_or_else(|| LabError::Incomplete {
        data: data.to_path_buf(),
    })?;
    Ok(format!("http://{}:{CLOUD_PORT}", record.subnet.host(2)))
}

/// A lab that is dropped ends as a process does that is killed: nothing is put away, the world goes on later.
impl Drop for Lab {
    fn drop(&mut self) {
        self.stop.cancel();
        self.world.halt();
    }
}

/// The data folder, there and empty if a fresh world is wanted; its path in full.
fn prepare(options: &LabOptions) -> Result<PathBuf, LabError> {
    let at = |path: &Path| {
        let path = path.to_path_buf();
        move |source| LabError::File { path, source }
    };
    if options.fresh {
        for part in ["world", "nodes"] {
            let path = options.data.join(part);
            match std::fs::remove_dir_all(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(at(&path)(error)),
                _ => {}
            }
        }
    }
    let world = options.data.join("world");
    std::fs::create_dir_all(&world).map_err(at(&world))?;
    std::fs::canonicalize(&options.data).map_err(at(&options.data))
}
