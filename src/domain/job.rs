//! Jobs as clients see them.
