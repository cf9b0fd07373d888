//! Tests of the wrapper under real shells, and of the port against a small SSH server.
//!
//! What this must not know: a real node.

mod answers;
mod server;
mod session;
mod wrapper;
