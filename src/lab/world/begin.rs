//! The first start of a world: its nodes get Ready, then its scenario's objects are made.

use std::time::Duration;

use serde::Deserialize as _;
use serde_json::{Value, json};

use super::World;
use crate::lab::kube::KubeServer;
use crate::lab::{LabError, clock, files};

/// How long a new world may take until its nodes and pods are Ready.
const READY_LIMIT: u32 = 600;
const READY_POLL: Duration = Duration::from_millis(50);

impl World {
    /// Waits until a new world is as its scenario has it; a saved one goes on as it is.
    pub(crate) async fn ready(&self) -> Result<(), LabError> {
        for cluster in &self.record.clusters {
            let mark = self.kubes.file(&cluster.name, "begun");
            if mark.exists() {
                continue;
            }
            let wrong = |problem: String| LabError::Cluster {
                cluster: cluster.name.clone(),
                problem,
            };
            let members = self.cloud.read(|state| {
                state
                    .vms
                    .iter()
                    .filter(|vm| vm.guest.cluster.as_ref() == Some(&cluster.name))
                    .count()
            });
            let all_ready = || {
                let nodes = self.kube_nodes(&cluster.name);
                nodes.len() == members && nodes.iter().all(|node| node.get("ready") == Some(&json!(true)))
            };
            wait(all_ready)
                .await
                .then_some(())
                .ok_or_else(|| wrong("its nodes do not get Ready".into()))?;
            self.kubes
                .with(&cluster.name, |server| create(server, &cluster.manifests))
                .unwrap_or_else(|| Err("its API does not run".to_owned()))
                .map_err(wrong)?;
            let rolled_out = || {
                let found = self
                    .kubes
                    .with(&cluster.name, |server| server.list("deployments", None));
                found
                    .and_then(Result::ok)
                    .is_some_and(|all| all.iter().all(available))
            };
            wait(rolled_out)
                .await
                .then_some(())
                .ok_or_else(|| wrong("its pods do not get Ready".into()))?;
            files::save_json(&mark, &true).map_err(|source| LabError::File {
                path: mark.clone(),
                source,
            })?;
        }
        Ok(())
    }
}

fn available(deployment: &Value) -> bool {
    let number = |path: &str| deployment.pointer(path).and_then(Value::as_i64).unwrap_or(0);
    number("/status/availableReplicas") == number("/spec/replicas")
}

/// Makes the objects of a stream of YAML documents.
fn create(server: &KubeServer, manifests: &str) -> Result<(), String> {
    for document in serde_yaml_ng::Deserializer::from_str(manifests) {
        let object = Value::deserialize(document).map_err(|error| error.to_string())?;
        if !object.is_null() {
            server.create(object).map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}

/// Whether something becomes true within the time that a new world may take.
async fn wait(mut is: impl FnMut() -> bool) -> bool {
    for _ in 0..READY_LIMIT {
        if is() {
            return true;
        }
        clock::pause(READY_POLL).await;
    }
    false
}
