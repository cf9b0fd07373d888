//! The CloudStack API on the wire: signature, parameters, envelopes, commands. Pure.
//!
//! What this must not know: clusters, the database, axum.
