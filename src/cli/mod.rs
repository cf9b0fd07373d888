//! One file per subcommand.
//!
//! What this must not know: anything but the composition root.
