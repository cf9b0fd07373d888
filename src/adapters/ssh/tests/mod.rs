//! Tests of the wrapper under real shells, and of the port against a node of the lab.
//!
//! What this must not know: a node beyond what SSH and its journal show.

mod answers;
mod bench;
mod faults;
mod home;
mod lines;
mod runs;
mod session;
mod wrapper;
