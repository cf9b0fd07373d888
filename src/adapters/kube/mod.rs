//! The Kubernetes port by kubectl on a control node.
//!
//! What this must not know: the database, jobs.
