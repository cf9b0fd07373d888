//! The shell port over SSH.
//!
//! What this must not know: the database, jobs.
