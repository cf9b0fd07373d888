//! Domain values as reply fields, one file per resource.
//!
//! What this must not know: how requests come in.
