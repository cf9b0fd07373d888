//! `cksd up`: everything that is needed, started in one go in one data folder, and found again.
//!
//! What this must not know: what is stored in the database or done by jobs; it starts what does.

pub mod child;
pub mod folder;
pub mod lab;
