//! Implementations of the ports.
//!
//! What this must not know: the database, jobs, the wire of our own API.

pub mod cloudstack;
pub mod kube;
pub mod ssh;
pub mod system;
