//! Time and new ids. The only way to either outside the adapters and the engine.

use jiff::Timestamp;
use secrecy::SecretString;
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
    /// A new SSH host key for a machine that we make; none from a maker of ids that makes no keys.
    fn host_key(&self) -> Option<HostKey> {
        None
    }
}

/// An SSH host key that we made for a machine, passed to it in the user data.
#[derive(Debug, Clone)]
pub struct HostKey {
    /// The public half in OpenSSH form (`ssh-ed25519 AAAA…`).
    pub public: String,
    /// The private half in OpenSSH form.
    pub private: SecretString,
}
