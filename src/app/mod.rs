//! The composition root: the only module that knows every layer.
//!
//! What this must not know: decisions. It builds, connects and starts what other modules define.

pub mod postgres;
pub mod up;
