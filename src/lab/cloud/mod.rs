//! The lab's CloudStack API.
//!
//! What this must not know: the service.
