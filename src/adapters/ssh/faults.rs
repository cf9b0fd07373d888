//! Errors of the shell port with node and endpoint in their text.

use crate::ports::fault::{Effect, Retry};
use crate::ports::shell::{Access, NodeTarget, ShellError, ShellErrorKind};

/// Makes errors about one node.
#[derive(Debug, Clone)]
pub(super) struct Faults {
    about: String,
}

impl Faults {
    pub(super) fn new(target: &NodeTarget) -> Self {
        Self {
            about: format!(
                "node {} (VM {}) at {}@{}:{}",
                target.vm_name, target.vm_id, target.user, target.host, target.port
            ),
        }
    }

    pub(super) fn endpoint(host: &str, port: u16) -> Self {
        Self {
            about: format!("{host}:{port}"),
        }
    }

    /// An error of a kind that is certain to have had no effect.
    pub(super) fn of(&self, kind: ShellErrorKind, text: &str) -> ShellError {
        self.with(kind, text, Effect::DidNotHappen)
    }

    pub(super) fn with(&self, kind: ShellErrorKind, text: &str, effect: Effect) -> ShellError {
        let retry = match kind {
            ShellErrorKind::Away | ShellErrorKind::Lost | ShellErrorKind::TimedOut => Retry::Soon,
            ShellErrorKind::Login
            | ShellErrorKind::HostKey
            | ShellErrorKind::Identity
            | ShellErrorKind::Unreadable => Retry::Later,
            ShellErrorKind::Fence => Retry::Never,
        };
        ShellError {
            text: format!("{}: {text}", self.about),
            kind,
            effect,
            retry,
        }
    }

    pub(super) fn away(&self, text: &str) -> ShellError {
        self.of(ShellErrorKind::Away, text)
    }

    pub(super) fn login(&self, text: &str) -> ShellError {
        self.of(ShellErrorKind::Login, text)
    }

    pub(super) fn host_key(&self, text: &str) -> ShellError {
        self.of(ShellErrorKind::HostKey, text)
    }

    pub(super) fn identity(&self, text: &str) -> ShellError {
        self.of(ShellErrorKind::Identity, text)
    }
}

/// What may have happened to a command that was sent and not answered.
pub(super) fn unanswered(access: Access) -> Effect {
    match access {
        Access::Reads => Effect::DidNotHappen,
        Access::Changes => Effect::MayHaveHappened,
    }
}
