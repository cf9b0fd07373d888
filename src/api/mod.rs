//! Translation: wire to domain call to wire.
//!
//! What this must not know: operations, adapters, background.

pub mod commands;
pub mod views;
