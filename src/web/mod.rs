//! Pages for people, over the same API as everyone.
//!
//! What this must not know: anything but the API.
