//! The lab's Kubernetes: a mini API server over TLS, its controllers, and kubelets that are only API clients.
//!
//! It is good enough for a real kubectl (1.27 and later) to list, cordon, drain, scale and delete. What is faithful:
//! discovery, tables, patches, watches, grace periods, finalizers, budgets and evictions, taints, NotReady nodes. What
//! is not: no container runs, fields are checked only where people err, there is no RBAC, and of the resources only
//! those in `resources.rs` exist.
//!
//! Start reading at `server.rs`; `objects.rs` and `delete.rs` are the rules, `controllers/` what happens by itself.
//!
//! What this must not know: the service, the lab's cloud, the lab's nodes.

mod controllers;
mod defaults;
mod delete;
mod discovery;
mod error;
mod eviction;
mod handlers;
mod http;
mod json;
mod kubelet;
mod objects;
mod options;
mod patch;
mod pki;
mod protobuf;
mod request;
mod resources;
mod selector;
mod server;
mod store;
mod table;
mod time;
mod validate;
mod watch;

pub use error::{LabKubeError, Status};
pub use kubelet::{Kubelet, KubeletSpec};
pub use options::{KubeOptions, KubeTimings};
pub use pki::KubePki;
pub use server::KubeServer;
