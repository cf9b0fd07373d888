//! The clock and the source of ids: the only callers of either.

use jiff::Timestamp;
use uuid::Uuid;

use crate::ports::clock::{Clock, Ids};

/// The system's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the clock")]
    fn now(&self) -> Timestamp {
        let now = Timestamp::now();
        // Postgres keeps microseconds; a finer time would differ from itself once stored.
        Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now)
    }
}

/// Ids from the system's random source.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemIds;

impl Ids for SystemIds {
    #[expect(clippy::disallowed_methods, reason = "the one place that makes ids")]
    fn random(&self) -> Uuid {
        Uuid::new_v4()
    }

    #[expect(clippy::disallowed_methods, reason = "the one place that makes ids")]
    fn ordered(&self) -> Uuid {
        Uuid::now_v7()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_has_whole_microseconds() {
        assert_eq!(SystemClock.now().as_nanosecond() % 1000, 0);
    }

    #[test]
    fn ids_differ_and_ordered_ones_rise() {
        assert_ne!(SystemIds.random(), SystemIds.random());
        let first = SystemIds.ordered();
        assert!(SystemIds.ordered() > first);
    }
}
