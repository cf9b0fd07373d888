//! Time, ids and waiting of the lab: the only place of the lab's cloud that asks the machine for them.

use std::time::Duration;

use jiff::Timestamp;
use uuid::Uuid;

/// The time now, in microseconds.
#[expect(
    clippy::disallowed_methods,
    reason = "the lab is a world of its own, outside the service's ports"
)]
pub(crate) fn now() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now)
}

/// A new random id.
#[expect(
    clippy::disallowed_methods,
    reason = "the lab is a world of its own, outside the service's ports"
)]
pub(crate) fn fresh_id() -> Uuid {
    Uuid::new_v4()
}

/// Waits.
#[expect(clippy::disallowed_methods, reason = "service times of the lab pass for real")]
pub(crate) async fn pause(time: Duration) {
    tokio::time::sleep(time).await;
}

/// Waits until a time that may have passed.
pub(crate) async fn pause_until(time: Timestamp) {
    let left = time.as_millisecond().saturating_sub(now().as_millisecond());
    if let Ok(left) = u64::try_from(left)
        && left > 0
    {
        pause(Duration::from_millis(left)).await;
    }
}
