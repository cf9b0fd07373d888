//! Tests of the API.
//!
//! What this must not know: how the service is put together.
