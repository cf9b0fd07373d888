//! Draining a node: how long, how often, what stands against it (`behaviour.md` 5).
//!
//! What this must not know: how the command is run and followed.
//!
//! A drain that failed is judged from the state of pods and budgets first and from kubectl's text last: the
//! text says what was refused some time ago, the state says what stands in the way now.

mod class;
mod text;

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use class::{Blocked, Class, Holding, Judged, judge, would_move};
pub use text::{DrainFailure, TAIL_LENGTH, failure_text, tail};

/// How much longer than the drain's own timeout its end is awaited.
pub const SLACK: Duration = Duration::from_mins(1);
/// The default of `cloud.kubernetes.cluster.node.drain.timeout`, and what a value below 1 means.
pub const DEFAULT_TIMEOUT_SECS: u64 = 300;
/// Attempts of a scale-down.
pub const SCALE_DOWN_ATTEMPTS: u32 = 3;

/// The timeout of the next attempt: the setting, cut to the whole seconds left; none when no time is left.
#[must_use]
pub fn timeout(setting_secs: i64, time_left: Duration) -> Option<u64> {
    let wanted = u64::try_from(setting_secs)
        .ok()
        .filter(|secs| *secs >= 1)
        .unwrap_or(DEFAULT_TIMEOUT_SECS);
    let cut = wanted.min(time_left.as_secs());
    (cut >= 1).then_some(cut)
}

/// How long the end of an attempt with this timeout is awaited.
#[must_use]
pub fn patience(timeout_secs: u64) -> Duration {
    Duration::from_secs(timeout_secs) + SLACK
}

/// Whether another attempt may follow: one is left, waiting can help, and the wait ends before the deadline.
#[must_use]
pub fn may_retry(attempt: u32, attempts: u32, class: &Class, wait: Duration, time_left: Duration) -> bool {
    attempt < attempts && !class.is_permanent() && wait < time_left
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum AttemptEnd {
    /// The node is drained.
    Drained,
    /// kubectl said no.
    Refused {
        /// The end of what it printed.
        output: String,
    },
    /// It did not end in its time and was stopped.
    Hung {
        /// The end of what it printed.
        output: String,
    },
    /// The control node or its connection failed; what became of the command is not known.
    Lost {
        /// The error.
        text: String,
    },
}

impl AttemptEnd {
    /// What there is to read of a failed attempt.
    #[must_use]
    pub fn output(&self) -> &str {
        match self {
            Self::Drained => "",
            Self::Refused { output } | Self::Hung { output } => output,
            Self::Lost { text } => text,
        }
    }
}

#[cfg(test)]
mod tests;
