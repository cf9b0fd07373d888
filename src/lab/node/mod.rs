//! The lab's nodes: SSH server and shell.
//!
//! What this must not know: the service.
