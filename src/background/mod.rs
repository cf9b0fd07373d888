//! Periodic work without input, safe on all replicas at once.
//!
//! What this must not know: operations, the wire.

pub mod driver;
pub mod state_scanner;
