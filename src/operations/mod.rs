//! One file per operation, readable as a page.
//!
//! What this must not know: SQL, adapters, the wire.
//!
//! An operation plans (a pure decision, stored), runs (journaled steps over the stored plan, never over what
//! the world looks like now) and settles. To add one: a file here with a type that implements
//! [`Operation`], its steps in [`steps`], a line in [`all`], and a line in the harness.

pub mod scale;
pub mod steps;

use std::sync::Arc;
use std::time::Duration;

use crate::jobs::Operation;

/// What the process decides for all operations.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// The longest pause between two looks at a job of the cloud or at a node that is coming up. Looks begin
    /// with a tenth of a second and grow apart with the time that has passed.
    pub poll_cap: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            poll_cap: Duration::from_secs(1),
        }
    }
}

/// Every operation there is.
#[must_use]
pub fn all(options: Options) -> Vec<Arc<dyn Operation>> {
    vec![Arc::new(scale::Scale::new(options))]
}

#[cfg(test)]
mod tests;
