//! The engine: leases, steps, waiting, retry.
//!
//! What this must not know: any operation, the wire, any adapter.
