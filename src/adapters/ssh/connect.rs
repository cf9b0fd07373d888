//! One SSH connection: reach, check the host key, log in, run command lines on channels.
//!
//! **Invariant:** the result of a command is its exit code, its signal, or *lost*. A connection that dies does not
//! look like an error to russh: the channel just ends without an exit status. That is [`Fault::Lost`].

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use russh::client::{self, Handle};
use russh::keys::{Algorithm, HashAlg, PrivateKeyWithHashAlg};
use russh::{ChannelMsg, Sig};
use secrecy::ExposeSecret;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout, timeout_at};

use super::faults::Faults;
use super::host_keys::{KeyCheck, STAGE_LIMIT, host_key_order, parse_keys, reach};
use crate::ports::shell::{Exit, NodeTarget, ShellError};

/// sshd allows ten sessions a connection and frees them late; four are never refused.
const CHANNELS: usize = 4;
/// Standard output of a short command: `get pods -o json` of a full node is about 2 MiB.
const STDOUT_LIMIT: usize = 8 << 20;
/// Standard error of a short command.
const STDERR_LIMIT: usize = 256 << 10;
/// After the exit status the streams end at once, unless something that the command left behind holds them.
const LINGER: Duration = Duration::from_secs(2);

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
        let mut open = OpenChannel(Some(self.open_channel().await?));
        let Some(channel) = open.0.as_mut() else {
            return Err(Fault::NotSent("no channel".to_owned()));
        };
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
                Err(_) => return Err(Fault::TimedOut),
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

/// Closes its channel when it goes, also when the caller gave up waiting: the session behind it is one of the
/// few that the server allows.
struct OpenChannel(Option<russh::Channel<client::Msg>>);

impl Drop for OpenChannel {
    fn drop(&mut self) {
        let (Some(channel), Ok(runtime)) = (self.0.take(), tokio::runtime::Handle::try_current()) else {
            return;
        };
        runtime.spawn(async move { channel.close().await });
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
