//! The CloudStack-style settings: key, type, default, range and meaning.
