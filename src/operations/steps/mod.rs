//! Steps that operations share, one subject per file.
//!
//! What this must not know: SQL, adapters, the wire.
