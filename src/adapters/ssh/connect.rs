//! One SSH connection: reach, check the host key, log in, run command lines on channels.
//!
//! **Invariant:** the result of a command is its exit code, its signal, or *lost*. A connection that dies does not
//! look like an error to russh: the channel just ends without an exit status. That is [`Fault::Lost`].

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use russh::client::{self, Handle, Handler};
use russh::keys::{Algorithm, HashAlg, PrivateKeyWithHashAlg, PublicKey, PublicKeyOrCertificate};
use russh::{ChannelMsg, Preferred, Sig};
use secrecy::ExposeSecret;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout, timeout_at};

use super::faults::Faults;
use crate::ports::shell::{Exit, NodeTarget, ShellError, ShellErrorKind};

/// Limit for each of connect, key exchange, login and the opening of a channel. A node that needs longer is
/// not usable; a firewall that drops packets would cost minutes otherwise.
pub(super) const STAGE_LIMIT: Duration = Duration::from_secs(10);
/// sshd allows ten sessions a connection and frees them late; four are never refused.
const CHANNELS: usize = 4;
/// Standard output of a short command: `get pods -o json` of a full node is about 2 MiB.
const STDOUT_LIMIT: usize = 8 << 20;
/// Standard error of a short command.
const STDERR_LIMIT: usize = 256 << 10;
/// After the exit status the streams end at once, unless something that the command left behind holds them.
const LINGER: Duration = Duration::from_secs(2);

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

/// What a command line gave.
#[derive(Debug, Default)]
pub(super) struct Raw {
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
    pub(super) exit: Option<Exit>,
    /// More came on standard output than is kept.
    pub(super) overflow: bool,
}

/// Why a command line gave nothing.
#[derive(Debug)]
pub(super) enum Fault {
    /// The connection was dead before anything was sent: reconnect.
    NotSent(String),
    /// No channel was free in time, or the server refused one; nothing was sent.
    Busy(String),
    /// Sent, and then the connection died.
    Lost(String),
    /// Sent, and not ended in time.
    TimedOut,
}

/// A connection that is logged in.
pub(super) struct Connection {
    handle: Handle<KeyCheck>,
    channels: Semaphore,
    used: Mutex<Instant>,
    /// The wrapper is known to be in its place.
    pub(super) wrapper: AtomicBool,
}

impl Connection {
    /// Reaches the endpoint, checks its host key and logs in.
    pub(super) async fn open(target: &NodeTarget) -> Result<Self, ShellError> {
        let faults = Faults::new(target);
        let expected = parse_keys(&target.host_keys).map_err(|text| faults.host_key(&text))?;
        if expected.is_empty() {
            return Err(faults.host_key(
                "no host key is recorded for it, so nothing can be trusted to it; record one with `cksd hosts accept`",
            ));
        }
        let key = russh::keys::decode_secret_key(target.private_key.expose_secret(), None).map_err(|e| {
            faults.login(&format!(
                "the private key that is stored for it cannot be read: {e}"
            ))
        })?;
        let preferred = host_key_order(&expected);
        let (mut handle, shown) = reach(target, expected, preferred, &faults).await?;
        let is_rsa = matches!(key.algorithm(), Algorithm::Rsa { .. });
        let login = async {
            // No hash would mean SHA-1, which servers refuse.
            let hash = if is_rsa {
                handle
                    .best_supported_rsa_hash()
                    .await?
                    .flatten()
                    .or(Some(HashAlg::Sha512))
            } else {
                None
            };
            handle
                .authenticate_publickey(
                    target.user.clone(),
                    PrivateKeyWithHashAlg::new(Arc::new(key), hash),
                )
                .await
        };
        match timeout(STAGE_LIMIT, login).await {
            Err(_) => return Err(faults.away("the login did not end within 10 s")),
            Ok(Err(e)) => return Err(faults.away(&format!("the connection broke during login: {e}"))),
            Ok(Ok(result)) if !result.success() => {
                return Err(faults.login("the node refuses the key"));
            }
            Ok(Ok(_)) => drop(shown),
        }
        Ok(Self {
            handle,
            channels: Semaphore::new(CHANNELS),
            used: Mutex::new(Instant::now()),
            wrapper: AtomicBool::new(false),
        })
    }

    /// Whether it is known to be dead.
    pub(super) fn is_closed(&self) -> bool {
        self.handle.is_closed()
    }

    /// How long nothing was run on it.
    pub(super) fn idle(&self) -> Duration {
        self.used.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }

    fn touch(&self) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Says good-bye.
    pub(super) async fn close(&self) {
        self.handle
            .disconnect(russh::Disconnect::ByApplication, "idle", "en")
            .await
            .ok();
    }

    /// Runs a command line and collects what it prints.
    pub(super) async fn run(&self, line: &str, stdin: &[u8], limit: Duration) -> Result<Raw, Fault> {
        self.touch();
        let deadline = Instant::now() + limit;
        let Ok(Ok(_permit)) = timeout_at(deadline, self.channels.acquire()).await else {
            return Err(Fault::Busy(format!(
                "all {CHANNELS} channels of the connection were in use for {} s",
                limit.as_secs()
            )));
        };
        let mut channel = self.open_channel().await?;
        // The send fails only when the connection's task is gone, and then nothing went out.
        channel
            .exec(true, line)
            .await
            .map_err(|e| Fault::NotSent(e.to_string()))?;
        let feed = async {
            if !stdin.is_empty() {
                channel.data_bytes(stdin.to_vec()).await?;
            }
            channel.eof().await
        };
        match timeout_at(deadline, feed).await {
            Err(_) => return Err(Fault::TimedOut),
            Ok(Err(e)) => return Err(Fault::Lost(e.to_string())),
            Ok(Ok(())) => {}
        }
        let mut raw = Raw::default();
        let mut until = deadline;
        loop {
            match timeout_at(until, channel.wait()).await {
                Err(_) if raw.exit.is_some() => break,
                Err(_) => {
                    channel.close().await.ok();
                    return Err(Fault::TimedOut);
                }
                Ok(None | Some(ChannelMsg::Close)) => break,
                Ok(Some(message)) => {
                    if raw.take(message) {
                        return Err(Fault::Busy("the node refuses to run commands".to_owned()));
                    }
                    if raw.exit.is_some() && until == deadline {
                        until = Instant::now() + LINGER;
                    }
                }
            }
        }
        self.touch();
        if raw.exit.is_none() {
            return Err(Fault::Lost("the channel ended without an exit status".to_owned()));
        }
        channel.close().await.ok();
        Ok(raw)
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "a refused channel is free again within moments"
    )]
    async fn open_channel(&self) -> Result<russh::Channel<client::Msg>, Fault> {
        let mut refused = 0;
        loop {
            match timeout(STAGE_LIMIT, self.handle.channel_open_session()).await {
                Ok(Ok(channel)) => return Ok(channel),
                Ok(Err(russh::Error::ChannelOpenFailure(reason))) => {
                    refused += 1;
                    if refused > 5 {
                        return Err(Fault::Busy(format!("the node refuses a channel: {reason:?}")));
                    }
                    tokio::time::sleep(Duration::from_millis(100 * refused)).await;
                }
                Ok(Err(e)) => return Err(Fault::NotSent(e.to_string())),
                Err(_) => return Err(Fault::NotSent("no channel opened within 10 s".to_owned())),
            }
        }
    }

    /// Remembers that the wrapper is in its place, or that it is not.
    pub(super) fn set_wrapper(&self, there: bool) {
        self.wrapper.store(there, Ordering::Relaxed);
    }

    /// Whether the wrapper is known to be in its place.
    pub(super) fn has_wrapper(&self) -> bool {
        self.wrapper.load(Ordering::Relaxed)
    }
}

impl Raw {
    /// Takes a message in; true if the server refused the command.
    fn take(&mut self, message: ChannelMsg) -> bool {
        match message {
            ChannelMsg::Data { data } => {
                self.overflow |= !keep(&mut self.stdout, &data, STDOUT_LIMIT);
            }
            ChannelMsg::ExtendedData { data, .. } => {
                keep(&mut self.stderr, &data, STDERR_LIMIT);
            }
            ChannelMsg::ExitStatus { exit_status } => self.exit = Some(Exit::Exited(exit_status)),
            ChannelMsg::ExitSignal { signal_name, .. } => {
                self.exit = Some(Exit::Signaled(signal(&signal_name)));
            }
            ChannelMsg::Failure => return true,
            _ => {}
        }
        false
    }
}

/// Keeps the beginning, up to the limit; false if something was dropped.
fn keep(stream: &mut Vec<u8>, data: &[u8], limit: usize) -> bool {
    let room = limit.saturating_sub(stream.len());
    let (kept, dropped) = data.split_at(room.min(data.len()));
    stream.extend_from_slice(kept);
    dropped.is_empty()
}

fn signal(name: &Sig) -> String {
    match name {
        Sig::Custom(name) => name.clone(),
        other => format!("{other:?}"),
    }
}

fn parse_keys(lines: &[String]) -> Result<Vec<PublicKey>, String> {
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
fn host_key_order(expected: &[PublicKey]) -> Vec<Algorithm> {
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

type Shown = Arc<Mutex<Option<PublicKey>>>;

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

async fn reach(
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
pub(super) async fn host_keys(host: &str, port: u16) -> Result<Vec<(String, String)>, ShellError> {
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
