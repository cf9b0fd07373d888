//! The outcome of a compare-and-set.

use crate::domain::cluster::State;

/// What a caller read before, and expects to be there still.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected {
    /// The state.
    pub state: State,
    /// The generation.
    pub generation: i64,
}

/// What came of a compare-and-set. Losing is an outcome that every caller must look at, no error.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a lost race must be handled"]
pub enum Cas<T> {
    /// It was as expected, and is changed.
    Applied(T),
    /// It was not as expected; nothing was changed. Good for a message; to go on, read again.
    Lost {
        /// What was found.
        found: Expected,
    },
    /// There is no such row.
    Missing,
}
