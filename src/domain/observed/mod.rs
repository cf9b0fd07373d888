//! What the outside shows us, as values: the facts from which decisions are made. Ports fill them.
//!
//! What this must not know: how facts are gathered.

mod cloud;
mod kube;

pub use cloud::{DataDisk, FirewallRule, ForwardingRule, Machine, MachineState, Network, Nic, PublicIp};
pub use kube::{Budget, KubeNode, Pod, VolumeAttachment};
