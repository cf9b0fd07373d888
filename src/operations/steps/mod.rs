//! Steps that operations share, one subject per file.
//!
//! What this must not know: SQL, adapters, the wire.
//!
//! A step looks first, has one effect on the outside, is named by the plan, and accepts "already so". It never
//! sleeps: it answers [`crate::jobs::wait`]. `ensure_x` finds or makes, `wait_x` only looks, `drop_x` accepts
//! "already gone".

mod attempt;
pub mod cordon;
pub mod drain;
pub mod join;
pub mod kubelet;
pub mod machine;
pub mod media;
pub mod mould;
pub mod plan;
pub mod proof;
pub mod remove;
pub mod rules;
pub mod settle;
pub mod stranded;
pub mod talk;
pub mod together;
pub mod trouble;
pub mod userdata;
pub mod volumes;
