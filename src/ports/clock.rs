//! Time and new ids. The only way to either outside the adapters and the engine.

use jiff::Timestamp;
use uuid::Uuid;

/// The time of day, cut to microseconds (Postgres keeps no more).
pub trait Clock: Send + Sync {
    /// Now.
    fn now(&self) -> Timestamp;
}

/// New ids.
pub trait Ids: Send + Sync {
    /// A random id (v4), for what clients see.
    fn random(&self) -> Uuid;
    /// An id that rises with time (v7), for rows of jobs and events.
    fn ordered(&self) -> Uuid;
}
