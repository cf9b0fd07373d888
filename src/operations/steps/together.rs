//! Several sequences of steps in one job, each with its own subjects.
//!
//! What this must not know: what the sequences do.
//!
//! All are run to the point where each ends, fails or waits; so a job that is taken over finds every sequence
//! where its journal has it.

use std::future::Future;

use futures_util::future::join_all;

use crate::jobs::{Failure, StepError, StepResult};

/// Runs all. The outcome of each, or why the job must pause or stop.
pub async fn together<T>(
    sequences: impl IntoIterator<Item = impl Future<Output = StepResult<T>>>,
) -> StepResult<Vec<Result<T, Failure>>> {
    settle(join_all(sequences).await)
}

fn settle<T>(outcomes: Vec<StepResult<T>>) -> StepResult<Vec<Result<T, Failure>>> {
    let mut ended = Vec::with_capacity(outcomes.len());
    let mut pause: Option<StepError> = None;
    for outcome in outcomes {
        match outcome {
            Ok(value) => ended.push(Ok(value)),
            Err(StepError::Fail(failure)) => ended.push(Err(failure)),
            Err(other) => pause = Some(sooner(pause, other)),
        }
    }
    pause.map_or(Ok(ended), Err)
}

/// The stronger of two reasons not to go on: a lost lease, then shutdown, then the shorter wait.
fn sooner(one: Option<StepError>, other: StepError) -> StepError {
    let rank = |error: &StepError| match error {
        StepError::LeaseLost => 0,
        StepError::HandBack => 1,
        StepError::Wait { .. } => 2,
        StepError::Retry { .. } | StepError::Fail(_) => 3,
    };
    match one {
        None => other,
        Some(one) => match (&one, &other) {
            (StepError::Wait { after: first, .. }, StepError::Wait { after: second, .. }) => {
                if first <= second { one } else { other }
            }
            _ if rank(&one) <= rank(&other) => one,
            _ => other,
        },
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::jobs::{fail, retry, wait};

    #[test]
    fn the_shortest_wait_pauses_the_job_and_failures_wait_for_the_others() {
        let long = || wait("long", Duration::from_secs(9));
        let short = || wait("short", Duration::from_secs(1));
        let paused = settle::<()>(vec![Err(fail("no")), Err(long()), Err(short()), Ok(())]).unwrap_err();
        assert!(matches!(paused, StepError::Wait { reason, .. } if reason == "short"));
        let lost = settle::<()>(vec![Err(short()), Err(StepError::LeaseLost)]).unwrap_err();
        assert_eq!(lost, StepError::LeaseLost);
        let again = settle::<()>(vec![Err(retry("x")), Err(short())]).unwrap_err();
        assert!(matches!(again, StepError::Wait { .. }));
    }

    #[test]
    fn ended_sequences_keep_their_order() {
        let ended = settle(vec![Ok(1), Err(fail("two")), Ok(3)]).unwrap();
        assert_eq!(ended, [Ok(1), Err(Failure::new("two")), Ok(3)]);
    }
}
