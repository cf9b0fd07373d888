//! The clock and the source of ids: the only callers of either.

use jiff::Timestamp;
use russh::keys::ssh_key::LineEnding;
use russh::keys::{Algorithm, PrivateKey};
use secrecy::SecretString;
use uuid::Uuid;

use crate::ports::clock::{Clock, HostKey, Ids};

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

    fn host_key(&self) -> Option<HostKey> {
        let key = PrivateKey::random(&mut rand::rng(), Algorithm::Ed25519).ok()?;
        Some(HostKey {
            public: key.public_key().to_openssh().ok()?.trim().to_owned(),
            private: SecretString::from(key.to_openssh(LineEnding::LF).ok()?.to_string()),
        })
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
    fn a_host_key_has_two_halves_that_belong_together() {
        use secrecy::ExposeSecret as _;
        let made = SystemIds.host_key().unwrap();
        assert!(made.public.starts_with("ssh-ed25519 AAAA"));
        let private = russh::keys::decode_secret_key(made.private.expose_secret(), None).unwrap();
        assert_eq!(private.public_key().to_openssh().unwrap().trim(), made.public);
    }

    #[test]
    fn ids_differ_and_ordered_ones_rise() {
        assert_ne!(SystemIds.random(), SystemIds.random());
        let first = SystemIds.ordered();
        assert!(SystemIds.ordered() > first);
    }
}
