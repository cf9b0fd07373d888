//! The cloud port over the CloudStack API.
//!
//! What this must not know: the database, jobs.
