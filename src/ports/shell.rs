//! Commands on a node: over SSH, after proof, through the wrapper with its fence (`behaviour.md` 4).

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};

use super::fault::{Effect, Retry};
use crate::domain::id::{InstallationId, VmId};

/// A node that commands may be sent to: where it is and what it must prove before anything runs on it.
#[derive(Debug, Clone)]
pub struct NodeTarget {
    /// The machine; the key of the connection pool.
    pub vm_id: VmId,
    /// The machine's name, for errors and for the proof by host name.
    pub vm_name: String,
    /// Host or address to connect to.
    pub host: String,
    /// Port to connect to.
    pub port: u16,
    /// Login user.
    pub user: String,
    /// Private key in OpenSSH or PEM form.
    pub private_key: SecretString,
    /// Host keys that it must show (OpenSSH public form). Empty: refused, except by [`NodeShell::scan`].
    pub host_keys: Vec<String>,
    /// Addresses of the machine's cards, for the proof by host name.
    pub addresses: Vec<std::net::IpAddr>,
}

/// The number that a changing command carries: the node refuses an older epoch of the same installation,
/// and any command of another installation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fence {
    /// Which database speaks.
    pub installation: InstallationId,
    /// Which claim of a job speaks (`async_job.epoch`); 0 for one that only reads.
    pub epoch: i64,
}

/// Whether a command changes anything. A reading one raises no fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Access {
    /// Reads only.
    Reads,
    /// Changes something.
    Changes,
}

/// A command line as words; the adapter quotes each with the one tested function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    /// Program and arguments, for example `sudo`, `/opt/bin/kubectl`, `cordon`, `node-1`.
    pub words: Vec<String>,
    /// What a short command reads on its standard input; a long one reads nothing.
    #[serde(default)]
    pub stdin: Option<Vec<u8>>,
}

impl Command {
    /// A command of these words.
    pub fn new<I, S>(words: I) -> Self
    where
        I: IntoIterator<Item = S>,
        S: Into<String>,
    {
        Self {
            words: words.into_iter().map(Into::into).collect(),
            stdin: None,
        }
    }

    /// The same command with something to read.
    #[must_use]
    pub fn with_stdin(mut self, stdin: impl Into<Vec<u8>>) -> Self {
        self.stdin = Some(stdin.into());
        self
    }
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Exit {
    /// With this code.
    Exited(u32),
    /// By this signal.
    Signaled(String),
}

/// What a finished command printed; each stream is cut at the adapter's limit, oldest bytes first for a
/// long command's tail, newest first for a short command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output {
    /// How it ended.
    pub exit: Exit,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Output {
    /// Whether it exited with 0.
    #[must_use]
    pub fn ok(&self) -> bool {
        self.exit == Exit::Exited(0)
    }
}

/// A long command on a node, named so that a second start finds the first.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RunKey(pub String);

/// What a node answers about a long command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum RunState {
    /// Nothing of that name ever began.
    NotStarted,
    /// It runs.
    Running {
        /// Since when, by the node's clock.
        since: Timestamp,
    },
    /// It ended.
    Ended {
        /// When it began, by the node's clock.
        since: Timestamp,
        /// When it ended, by the node's clock.
        at: Timestamp,
        /// How, and the tail of what it printed.
        output: Output,
    },
}

/// What a first contact shows (import, doctor).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scan {
    /// Host keys in OpenSSH public form.
    pub host_keys: Vec<String>,
    /// SHA-256 fingerprints of the same, `SHA256:…`.
    pub fingerprints: Vec<String>,
}

/// A failed attempt to use a node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{text}")]
pub struct ShellError {
    /// What went wrong, with node and endpoint.
    pub text: String,
    /// What kind of failure it is.
    pub kind: ShellErrorKind,
    /// Whether the effect may have happened.
    pub effect: Effect,
    /// Whether to try again.
    pub retry: Retry,
}

/// Kinds of failed attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ShellErrorKind {
    /// Not reached.
    Away,
    /// The login was refused.
    Login,
    /// The host key is not the recorded one.
    HostKey,
    /// The machine is not the expected one, or cannot prove it.
    Identity,
    /// The fence refused: an older epoch, or another installation.
    Fence,
    /// The connection was lost after the command was sent: outcome unknown.
    Lost,
    /// The time for it is over.
    TimedOut,
    /// An answer that cannot be read, or that is larger than the limit.
    Unreadable,
}

/// Commands on nodes. Every call first makes sure of a proved connection: the recorded host key, then the
/// machine identity (`/sys/class/dmi/id/product_uuid`, else host name and address).
#[async_trait]
pub trait NodeShell: Send + Sync {
    /// Connects and proves, and runs nothing else.
    async fn prove(&self, target: &NodeTarget) -> Result<(), ShellError>;
    /// Runs a short command within `limit` and returns what it printed.
    async fn exec(
        &self,
        target: &NodeTarget,
        fence: Fence,
        access: Access,
        command: &Command,
        limit: Duration,
    ) -> Result<Output, ShellError>;
    /// Starts a long command detached, unless one of that key ever began; returns its state.
    async fn run(
        &self,
        target: &NodeTarget,
        fence: Fence,
        key: &RunKey,
        command: &Command,
    ) -> Result<RunState, ShellError>;
    /// How far a long command is.
    async fn ask(&self, target: &NodeTarget, fence: Fence, key: &RunKey) -> Result<RunState, ShellError>;
    /// Waits until it ends, at most `limit`; returns its state then (which may still be Running).
    async fn follow(
        &self,
        target: &NodeTarget,
        fence: Fence,
        key: &RunKey,
        limit: Duration,
    ) -> Result<RunState, ShellError>;
    /// Ends it and everything that it started; returns its state after that. A key that never began is
    /// marked so that a late start is refused.
    async fn stop(&self, target: &NodeTarget, fence: Fence, key: &RunKey) -> Result<RunState, ShellError>;
    /// Which installation and epoch the node's fence holds; none on a node without one.
    async fn fence(&self, target: &NodeTarget) -> Result<Option<Fence>, ShellError>;
    /// Writes our fence although another installation's stands there (`import --take-over`).
    async fn take_over(&self, target: &NodeTarget, fence: Fence) -> Result<(), ShellError>;
    /// Reads the host keys of an endpoint without trusting them and without logging in.
    async fn scan(&self, host: &str, port: u16) -> Result<Scan, ShellError>;
}
