//! One file per operation, readable as a page.
//!
//! What this must not know: SQL, adapters, the wire.

pub mod steps;
