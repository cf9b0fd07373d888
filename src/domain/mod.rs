//! The words of the service and its decisions, as plain values and functions.
//!
//! What this must not know: async, I/O, a clock, SQL, the wire. Newcomers start at [`cluster::state`].

pub mod account;
pub mod cluster;
pub mod event;
pub mod id;
pub mod job;
pub mod observed;
pub mod plan;
pub mod settings;
pub mod version;
