//! The lab's Kubernetes API against the real kubectl: outputs and exit codes are those of a real 1.32 cluster, retold
//! here with names and ages folded.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "tests"
)]

mod access;
mod drains;
mod lost_nodes;
mod nodes;
mod objects;
mod restart;
mod world;
