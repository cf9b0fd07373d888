//! Start-up configuration.
//!
//! What this must not know: anything of ours.
