//! What every error of a port says beside its text.

use serde::{Deserialize, Serialize};

/// Whether the outside may have done what was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Effect {
    /// It surely did not.
    DidNotHappen,
    /// It may have: look before repeating.
    MayHaveHappened,
}

/// Whether asking again can help.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Retry {
    /// Within seconds.
    Soon,
    /// After somebody or something else has changed.
    Later,
    /// Not without another request.
    Never,
}
