//! Audit events: types, levels, states and texts.
