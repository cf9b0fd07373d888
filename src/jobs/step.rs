//! What a step can answer, and what the engine does about it.

use std::error::Error;
use std::panic::Location;
use std::time::Duration;

use crate::db::{DbError, FencedError};
use crate::domain::job::Failure;
use crate::ports::cloud::CloudError;
use crate::ports::fault;
use crate::ports::kube::KubeError;
use crate::ports::shell::ShellError;

/// What a step answers.
pub type StepResult<T> = Result<T, StepError>;

/// Why a step did not end well: what the engine must do now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepError {
    /// The world is not there yet: look again after a while. The reason is stored and shown.
    Wait {
        /// What is waited for.
        reason: String,
        /// When to look again.
        after: Duration,
        /// Who decided to wait.
        at: &'static Location<'static>,
    },
    /// It failed in a way that may go away: again with back-off. Too often without a new step between, and it
    /// becomes [`StepError::Fail`].
    Retry {
        /// What failed.
        reason: String,
        /// Where.
        at: &'static Location<'static>,
    },
    /// It failed for good. Recorded, so that a replay gives the same failure.
    Fail(Failure),
    /// Another worker has the job: stop, and touch nothing.
    LeaseLost,
    /// This process is going away: put the job back at once.
    HandBack,
}

/// Looks again after a while; the caller's place in the code is stored with the reason.
#[track_caller]
pub fn wait(reason: impl Into<String>, after: Duration) -> StepError {
    StepError::Wait {
        reason: reason.into(),
        after,
        at: Location::caller(),
    }
}

/// Tries again with back-off.
#[track_caller]
pub fn retry(reason: impl Into<String>) -> StepError {
    StepError::Retry {
        reason: reason.into(),
        at: Location::caller(),
    }
}

/// Fails for good with code 530.
pub fn fail(text: impl Into<String>) -> StepError {
    StepError::Fail(Failure::new(text))
}

impl From<Failure> for StepError {
    fn from(failure: Failure) -> Self {
        Self::Fail(failure)
    }
}

impl From<DbError> for StepError {
    #[track_caller]
    fn from(error: DbError) -> Self {
        retry(chain(&error))
    }
}

impl From<FencedError> for StepError {
    #[track_caller]
    fn from(error: FencedError) -> Self {
        match error {
            FencedError::LeaseLost => Self::LeaseLost,
            FencedError::Db(error) => retry(chain(&error)),
        }
    }
}

#[track_caller]
fn from_port(text: String, again: fault::Retry) -> StepError {
    match again {
        fault::Retry::Soon | fault::Retry::Later => retry(text),
        fault::Retry::Never => fail(text),
    }
}

impl From<CloudError> for StepError {
    #[track_caller]
    fn from(error: CloudError) -> Self {
        from_port(error.to_string(), error.retry)
    }
}

impl From<KubeError> for StepError {
    #[track_caller]
    fn from(error: KubeError) -> Self {
        from_port(error.to_string(), error.retry)
    }
}

impl From<ShellError> for StepError {
    #[track_caller]
    fn from(error: ShellError) -> Self {
        from_port(error.to_string(), error.retry)
    }
}

/// An error and its sources in one line.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let part = error.to_string();
        if !text.contains(&part) {
            text.push_str(": ");
            text.push_str(&part);
        }
        source = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::cloud::CloudErrorKind;

    fn cloud(again: fault::Retry) -> CloudError {
        CloudError {
            command: "listVirtualMachines".into(),
            text: "no answer".into(),
            kind: CloudErrorKind::Away,
            effect: fault::Effect::DidNotHappen,
            retry: again,
        }
    }

    #[test]
    fn a_port_error_says_itself_whether_to_try_again() {
        assert!(matches!(
            StepError::from(cloud(fault::Retry::Soon)),
            StepError::Retry { .. }
        ));
        assert!(matches!(
            StepError::from(cloud(fault::Retry::Later)),
            StepError::Retry { .. }
        ));
        assert_eq!(
            StepError::from(cloud(fault::Retry::Never)),
            fail("listVirtualMachines: no answer")
        );
    }

    #[test]
    fn the_place_of_a_wait_and_of_a_question_mark_is_the_callers() {
        let StepError::Wait { at, .. } = wait("x", Duration::ZERO) else {
            panic!("no wait")
        };
        assert!(at.file().ends_with("step.rs"));
        let asks = || -> StepResult<()> { Err(cloud(fault::Retry::Soon))? };
        let line = line!() - 1;
        let Err(StepError::Retry { at, .. }) = asks() else {
            panic!("no retry")
        };
        assert_eq!((at.file().ends_with("step.rs"), at.line()), (true, line));
    }
}
