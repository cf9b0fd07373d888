//! All SQL. One file per group of tables; free functions that take a connection first.
//!
//! What this must not know: ports, the wire.
