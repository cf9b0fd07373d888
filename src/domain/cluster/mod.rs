//! Clusters: what they are and which states they pass through.
//!
//! What this must not know: SQL, the wire, the cloud.

pub mod model;
pub mod state;

pub use model::{Access, Cluster, ClusterType, MatchedNode, Member, Role};
pub use state::{Event, IllegalTransition, State};
