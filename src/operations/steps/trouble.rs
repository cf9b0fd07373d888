//! What a failed call to the outside means for a step, and how long to pause between looks.
//!
//! What this must not know: any one step.

use std::time::Duration;

use jiff::Timestamp;

use crate::domain::job::{EndReason, time_left};
use crate::jobs::{OpCx, StepError, fail, retry, wait};
use crate::ports::cloud::CloudError;
use crate::ports::fault::{Effect, Retry};
use crate::ports::kube::KubeError;
use crate::ports::shell::ShellError;

/// The first pause between two looks.
const FIRST_LOOK: Duration = Duration::from_millis(100);

/// A failed call, whichever port it was.
#[derive(Debug, Clone)]
pub struct Trouble {
    /// What went wrong.
    pub text: String,
    /// Whether the effect may have happened.
    pub effect: Effect,
    /// Whether to ask again.
    pub retry: Retry,
}

impl From<CloudError> for Trouble {
    fn from(error: CloudError) -> Self {
        Self {
            text: error.to_string(),
            effect: error.effect,
            retry: error.retry,
        }
    }
}

impl From<KubeError> for Trouble {
    fn from(error: KubeError) -> Self {
        Self {
            text: error.to_string(),
            effect: error.effect,
            retry: error.retry,
        }
    }
}

impl From<ShellError> for Trouble {
    fn from(error: ShellError) -> Self {
        Self {
            text: error.to_string(),
            effect: error.effect,
            retry: error.retry,
        }
    }
}

impl Trouble {
    /// Before the point of no return: again with back-off, but not past the deadline.
    #[track_caller]
    pub fn before_deadline(self, cx: &OpCx) -> StepError {
        match (self.retry, cx.ended()) {
            (Retry::Never, _) => fail(self.text),
            (_, Some(reason)) => fail(ended_text(reason, &self.text)),
            _ => retry(self.text),
        }
    }
}

/// The text of a step that ended with the deadline or a cancel.
#[must_use]
pub fn ended_text(reason: EndReason, doing: &str) -> String {
    match reason {
        EndReason::Deadline => format!("the time for the operation is over: {doing}"),
        EndReason::Cancel => format!("the operation was cancelled: {doing}"),
    }
}

/// How long to wait before the next look at something that began at `since`: a tenth of the time that has
/// passed, so that a quick thing is seen quickly and a slow one is not asked for too often.
#[must_use]
pub fn next_look(since: Timestamp, now: Timestamp, cap: Duration) -> Duration {
    let passed = time_left(since, now);
    (passed / 10)
        .max(FIRST_LOOK)
        .min(cap.max(Duration::from_millis(1)))
}

/// Looks again, not later than `until`; nothing when that time has come.
#[track_caller]
pub fn look_again(
    reason: impl Into<String>,
    since: Timestamp,
    now: Timestamp,
    until: Timestamp,
    cap: Duration,
) -> Option<StepError> {
    let left = time_left(now, until);
    (!left.is_zero()).then(|| wait(reason, next_look(since, now, cap).min(left)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_begin_with_a_tenth_of_a_second_and_grow_apart_up_to_the_cap() {
        let since: Timestamp = "2026-11-30T12:00:00Z".parse().unwrap();
        let cap = Duration::from_secs(1);
        let after = |millis: u64| next_look(since, since + Duration::from_millis(millis), cap);
        assert_eq!(after(0), Duration::from_millis(100));
        assert_eq!(after(5000), Duration::from_millis(500));
        assert_eq!(after(60_000), cap);
        assert_eq!(
            next_look(since, since, Duration::from_millis(20)),
            Duration::from_millis(20)
        );
    }
}
