//! The CloudStack API on the wire: signature, parameters, envelopes, commands. Pure.
//!
//! Used by the server, by the client of the cloud and by the lab's cloud, so that the three cannot differ.
//! What this must not know: clusters, the database, axum.

pub mod command;
pub mod envelope;
pub mod fault;
pub mod job;
pub mod paging;
pub mod params;
pub mod signature;

pub use command::Command;
pub use envelope::{CLOUDSTACK_VERSION, Format};
pub use fault::{Code, CsCode, Fault};
pub use params::Params;
