//! Traits to the outside, in domain words. A port speaks domain, an adapter speaks wire.
//!
//! What this must not know: any implementation.

pub mod clock;
pub mod cloud;
pub mod fault;
pub mod kube;
pub mod shell;

use std::sync::Arc;

/// All ports, as the composition root fills them.
#[derive(Clone)]
pub struct Ports {
    /// The cloud.
    pub cloud: Arc<dyn cloud::Cloud>,
    /// The clusters' Kubernetes.
    pub kube: Arc<dyn kube::Kube>,
    /// Commands on nodes.
    pub shell: Arc<dyn shell::NodeShell>,
    /// Time.
    pub clock: Arc<dyn clock::Clock>,
    /// New ids.
    pub ids: Arc<dyn clock::Ids>,
}
