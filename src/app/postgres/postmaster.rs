//! The server's process: found by its file, told to end, waited for.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{Address, LOOK_AGAIN, pause};

/// A server's process.
#[derive(Debug)]
pub(super) struct Postmaster {
    pid: i32,
    data: PathBuf,
    /// Ours to reap, when we started it.
    child: Option<Child>,
}

/// What `postmaster.pid` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PidFile {
    pub(super) pid: i32,
    pub(super) address: Option<Address>,
}

impl PidFile {
    /// Lines: pid, data folder, start time, port, socket folder, first address, shared memory, status.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        let pid = lines.first()?.parse().ok()?;
        let ready = lines.get(7).is_some_and(|status| *status == "ready");
        let port = lines.get(3).and_then(|port| port.parse().ok());
        let socket = lines
            .get(4)
            .filter(|folder| !folder.is_empty())
            .map(PathBuf::from);
        let address = port.filter(|_| ready).map(|port| Address {
            socket_folder: socket,
            port,
        });
        Some(Self { pid, address })
    }

    fn of(data: &Path) -> Option<Self> {
        Self::parse(&fs::read_to_string(data.join("postmaster.pid")).ok()?)
    }
}

impl Postmaster {
    /// The living server of `data`. A pid that another program has by now is none: a server's current folder is
    /// its data folder.
    pub(super) fn living(data: &Path) -> Option<Self> {
        let file = PidFile::of(data)?;
        let found = Self {
            pid: file.pid,
            data: data.to_owned(),
            child: None,
        };
        found.is_ours().then_some(found)
    }

    /// A server that we started.
    pub(super) fn child(child: Child, data: PathBuf) -> Self {
        Self {
            pid: i32::try_from(child.id()).unwrap_or_default(),
            data,
            child: Some(child),
        }
    }

    fn is_ours(&self) -> bool {
        let cwd = fs::read_link(format!("/proc/{}/cwd", self.pid));
        cwd.is_ok_and(|cwd| self.data.canonicalize().is_ok_and(|data| data == cwd))
    }

    pub(super) fn is_alive(&mut self) -> bool {
        match &mut self.child {
            Some(child) => child.try_wait().is_ok_and(|status| status.is_none()),
            None => self.is_ours(),
        }
    }

    /// Where it listens, once it says that it is ready.
    pub(super) fn address(&self) -> Option<Address> {
        PidFile::of(&self.data)
            .filter(|file| file.pid == self.pid)?
            .address
    }

    /// Tells it to end at once but in order, waits for it, and after `limit` tells it to drop everything.
    pub(super) async fn stop(mut self, limit: Duration) {
        for signal in [Signal::SIGINT, Signal::SIGQUIT] {
            if !self.is_alive() {
                return;
            }
            if let Err(error) = kill(Pid::from_raw(self.pid), signal) {
                tracing::warn!(%error, pid = self.pid, "the private Postgres cannot be told to end");
            }
            let ended = tokio::time::timeout(limit, async {
                while self.is_alive() {
                    pause(LOOK_AGAIN).await;
                }
            });
            if ended.await.is_ok() {
                return;
            }
        }
        tracing::warn!(pid = self.pid, "the private Postgres did not end");
    }
}
