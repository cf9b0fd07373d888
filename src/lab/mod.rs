//! A mini world for tests, demos and first runs: cloud, Kubernetes, nodes.
//!
//! What this must not know: any module of the service but the wire format.

pub mod cloud;
pub mod kube;
pub mod node;
