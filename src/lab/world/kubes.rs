//! The clusters' Kubernetes APIs and kubelets. Not connected yet: no cluster has an API.

#![expect(clippy::unused_self, reason = "the shape of what follows")]
#![expect(clippy::unused_async, reason = "the shape of what follows")]

use std::path::PathBuf;
use std::time::Duration;

use uuid::Uuid;

use super::World;
use crate::lab::record::ClusterRecord;

const ABSENT: &str = "the lab has no Kubernetes API yet";

/// The APIs and kubelets that run.
pub(crate) struct Kubes {
    _folder: PathBuf,
}

impl Kubes {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self { _folder: folder }
    }

    pub(super) fn token(&self, _cluster: &str, _ttl: Duration) -> Result<(String, String), String> {
        Err(ABSENT.to_owned())
    }

    pub(super) fn join(&self, _: &ClusterRecord, _token: &str, _node: &str) -> Result<String, String> {
        Err(ABSENT.to_owned())
    }

    pub(super) async fn stop_kubelet(&self, _vm: Uuid) {}

    pub(super) async fn stop_kubelets(&self) {}

    pub(super) async fn stop_servers(&self) {}
}

impl World {
    pub(super) async fn settle_kubes(&self) {}

    pub(super) async fn settle_kubelets(&self) {}

    pub(super) async fn keep_kubes(&self) {}

    /// Waits until the clusters are as the scenario has them.
    pub(crate) async fn ready(&self) -> Result<(), crate::lab::LabError> {
        Ok(())
    }

    pub(crate) fn kubeconfig(&self, _cluster: &str, _server: &str) -> String {
        String::new()
    }

    pub(crate) fn kube_nodes(&self, _cluster: &str) -> Vec<serde_json::Value> {
        Vec::new()
    }

    pub(super) fn provision(&self, _vm: Uuid) {}
}
