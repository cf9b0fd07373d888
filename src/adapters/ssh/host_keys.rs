//! Reaching an SSH server and judging the host key that it shows.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use russh::Preferred;
use russh::client::{self, Handle, Handler};
use russh::keys::{Algorithm, HashAlg, PublicKey, PublicKeyOrCertificate};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::faults::Faults;
use crate::ports::shell::{NodeTarget, ShellError, ShellErrorKind};

/// Limit for each of connect, key exchange, login and the opening of a channel. A node that needs longer is
/// not usable; a firewall that drops packets would cost minutes otherwise.
pub(super) const STAGE_LIMIT: Duration = Duration::from_secs(10);

/// Which host keys are right, and what was shown.
pub(super) struct KeyCheck {
    expected: Vec<PublicKey>,
    shown: Arc<Mutex<Option<PublicKey>>>,
}

impl Handler for KeyCheck {
    type Error = russh::Error;

    async fn check_server_key(&mut self, key: &PublicKeyOrCertificate) -> Result<bool, Self::Error> {
        let PublicKeyOrCertificate::PublicKey { key, .. } = key else {
            return Ok(false);
        };
        *self.shown.lock().unwrap_or_else(PoisonError::into_inner) = Some(key.clone());
        Ok(self
            .expected
            .iter()
            .any(|expected| expected.key_data() == key.key_data()))
    }
}

pub(super) fn parse_keys(lines: &[String]) -> Result<Vec<PublicKey>, String> {
    lines
        .iter()
        .map(|line| {
            PublicKey::from_openssh(line.trim())
                .map_err(|e| format!("the host key that is recorded for it cannot be read: {e}"))
        })
        .collect()
}

fn all_algorithms() -> Vec<Algorithm> {
    Preferred::default().key.into_owned()
}

/// The kinds of the recorded keys first, then all others: so a host shows the key that we know, and one that
/// has only others is told apart from one that speaks no SSH that we know.
pub(super) fn host_key_order(expected: &[PublicKey]) -> Vec<Algorithm> {
    let known = |algorithm: &Algorithm| {
        expected.iter().any(|key| match (key.algorithm(), algorithm) {
            (Algorithm::Rsa { .. }, Algorithm::Rsa { .. }) => true,
            (a, b) => a == *b,
        })
    };
    let (mut first, rest): (Vec<_>, Vec<_>) = all_algorithms().into_iter().partition(known);
    first.extend(rest);
    first
}

fn config(algorithms: Vec<Algorithm>) -> Arc<client::Config> {
    Arc::new(client::Config {
        preferred: Preferred {
            key: Cow::Owned(algorithms),
            ..Preferred::default()
        },
        // A peer that is frozen or gone is noticed within a minute, not never.
        keepalive_interval: Some(Duration::from_secs(15)),
        keepalive_max: 3,
        nodelay: true,
        window_size: 2 << 20,
        ..client::Config::default()
    })
}

/// The key that a server showed.
pub(super) type Shown = Arc<Mutex<Option<PublicKey>>>;

async fn stream(host: &str, port: u16) -> Result<TcpStream, String> {
    match timeout(STAGE_LIMIT, TcpStream::connect((host, port))).await {
        Err(_) => Err("no connection within 10 s".to_owned()),
        Ok(Err(e)) => Err(e.to_string()),
        Ok(Ok(stream)) => {
            stream.set_nodelay(true).ok();
            Ok(stream)
        }
    }
}

/// Connects and exchanges keys with a server that shows one of the expected host keys.
pub(super) async fn reach(
    target: &NodeTarget,
    expected: Vec<PublicKey>,
    algorithms: Vec<Algorithm>,
    faults: &Faults,
) -> Result<(Handle<KeyCheck>, Shown), ShellError> {
    let tcp = stream(&target.host, target.port)
        .await
        .map_err(|text| faults.away(&text))?;
    let shown: Shown = Arc::default();
    let fingerprints: Vec<String> = expected.iter().map(fingerprint).collect();
    let check = KeyCheck {
        expected,
        shown: Arc::clone(&shown),
    };
    match timeout(
        STAGE_LIMIT,
        client::connect_stream(config(algorithms), tcp, check),
    )
    .await
    {
        Err(_) => Err(faults.away("it did not speak SSH within 10 s")),
        Ok(Ok(handle)) => Ok((handle, shown)),
        Ok(Err(russh::Error::UnknownKey)) => {
            let found = shown
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .as_ref()
                .map_or_else(|| "a certificate".to_owned(), fingerprint);
            Err(faults.host_key(&format!(
                "it shows the host key {found}, recorded is {}; if the key was changed on purpose, record it with \
                 `cksd hosts accept`",
                fingerprints.join(" or ")
            )))
        }
        Ok(Err(e @ russh::Error::WrongServerSig)) => Err(faults.host_key(&e.to_string())),
        Ok(Err(e)) => Err(faults.away(&format!("no SSH session: {e}"))),
    }
}

fn fingerprint(key: &PublicKey) -> String {
    key.fingerprint(HashAlg::Sha256).to_string()
}

/// The host keys of an endpoint, one connection for each kind; the login is never tried.
pub(super) async fn scan(host: &str, port: u16) -> Result<Vec<(String, String)>, ShellError> {
    let fail = |kind, text: String| Faults::endpoint(host, port).of(kind, &text);
    let mut kinds: Vec<Vec<Algorithm>> = Vec::new();
    for algorithm in all_algorithms() {
        let is_rsa = matches!(algorithm, Algorithm::Rsa { .. });
        match kinds.last_mut() {
            // The RSA algorithms show one key.
            Some(last) if is_rsa && last.iter().any(|a| matches!(a, Algorithm::Rsa { .. })) => {
                last.push(algorithm);
            }
            _ => kinds.push(vec![algorithm]),
        }
    }
    let mut found = Vec::new();
    let mut last_error = String::new();
    for algorithms in kinds {
        let tcp = stream(host, port)
            .await
            .map_err(|text| fail(ShellErrorKind::Away, text))?;
        let shown: Shown = Arc::default();
        let check = KeyCheck {
            expected: Vec::new(),
            shown: Arc::clone(&shown),
        };
        match timeout(
            STAGE_LIMIT,
            client::connect_stream(config(algorithms), tcp, check),
        )
        .await
        {
            Err(_) => {
                return Err(fail(
                    ShellErrorKind::Away,
                    "it did not speak SSH within 10 s".to_owned(),
                ));
            }
            Ok(Err(e)) => last_error = e.to_string(),
            Ok(Ok(_)) => {}
        }
        let key = shown.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(key) = key else { continue };
        let line = PublicKey::new(key.key_data().clone(), "")
            .to_openssh()
            .map_err(|e| fail(ShellErrorKind::Unreadable, e.to_string()))?;
        let entry = (line.trim().to_owned(), fingerprint(&key));
        if !found.contains(&entry) {
            found.push(entry);
        }
    }
    if found.is_empty() {
        return Err(fail(
            ShellErrorKind::Away,
            format!("it shows no host key: {last_error}"),
        ));
    }
    Ok(found)
}
