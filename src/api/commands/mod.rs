//! One file per command, named as the command.
//!
//! What this must not know: operations, adapters.
