//! What an operator does to an installation from the command line: import, check, accounts and versions.
//!
//! Each is a function over database and ports that returns a report; `cli` prints it.
//!
//! What this must not know: operations, adapters, the wire.

pub mod admin;
pub mod check;
pub mod import;
