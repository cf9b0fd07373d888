//! A mini world for tests, demos and first runs: cloud, Kubernetes, nodes.
//!
//! What this must not know: any module of the service but the wire format.

mod clock;
pub mod cloud;
pub mod faults;
mod files;
mod genesis;
pub mod kube;
pub mod node;
mod record;
pub mod scenario;

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
}
