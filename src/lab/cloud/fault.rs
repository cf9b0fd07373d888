//! Short forms of the refusals that the lab's cloud makes.

use crate::protocol::{Code, CsCode, Fault};

/// Anything that fails inside a command or a job.
pub(crate) fn internal(text: impl Into<String>) -> Fault {
    Fault::new(Code::Internal, CsCode::CloudRuntime, text)
}

/// A right that the caller lacks.
pub(crate) fn permission(text: impl Into<String>) -> Fault {
    Fault::new(Code::Permission, CsCode::PermissionDenied, text)
}

/// A rule that collides with another.
pub(crate) fn conflict(text: impl Into<String>) -> Fault {
    Fault::new(Code::NetworkRuleConflict, CsCode::NetworkRuleConflict, text)
}

/// No address, host or storage is left.
pub(crate) fn no_capacity(text: impl Into<String>) -> Fault {
    Fault::new(Code::InsufficientCapacity, CsCode::InsufficientCapacity, text)
}

/// An error of any code, for injected faults.
pub(crate) fn of_code(code: u16, text: impl Into<String>) -> Fault {
    Fault::new(
        Code::from_number(code).unwrap_or(Code::Internal),
        CsCode::CloudRuntime,
        text,
    )
}
