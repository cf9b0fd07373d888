//! Decisions, made once, as plain functions from facts to a plan.
//!
//! What this must not know: how facts are gathered and how a plan is carried out.
//!
//! - [`admission`]: whether a request becomes a job.
//! - [`resolve`]: which Kubernetes node and which endpoint belong to a member.
//! - [`choice`]: which workers leave.
//! - [`drain`]: attempts, times and classes of a drain, and the error that a person can act on.
//! - [`rules`]: the rules of the cloud that come and go with a node.
//! - [`naming`]: the names of what we make.
//! - [`offering`]: which machines change their offering, and in which order with the size.
//! - [`scan`]: what the state scanner makes of a cluster.
//! - [`scale`]: the stored plan of a scale.
//! - [`settle`]: what a cluster's state becomes, by evidence.

pub mod admission;
pub mod choice;
pub mod drain;
#[cfg(test)]
pub(crate) mod fixtures;
pub mod naming;
pub mod offering;
pub mod resolve;
pub mod rules;
pub mod scale;
pub mod scan;
pub mod selector;
pub mod settle;
