//! A process that may outlive its starter, found again by its recorded pid and start time.
//!
//! A pid alone is no proof: after a reboot, or after enough processes, it belongs to another program. Pid and
//! start time together are one process and no other, until the machine boots anew; the boot id covers that.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use super::folder;

/// How often an end is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Which process it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Its pid.
    pub pid: i32,
    /// When it began, in clock ticks after the boot (`/proc/PID/stat`, field 22).
    pub started: u64,
    /// Which boot (`/proc/sys/kernel/random/boot_id`).
    pub boot: String,
}

/// A process with the file that records it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    identity: Identity,
    file: PathBuf,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// As told.
    InOrder,
    /// It had to be killed.
    Killed,
}

impl Identity {
    /// The process that has `pid` now; none if there is none, or only its remains.
    #[must_use]
    pub fn of(pid: i32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let started = start_of(&stat)?;
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        Some(Self {
            pid,
            started,
            boot: boot.trim().to_owned(),
        })
    }

    /// Whether this very process lives.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        Self::of(self.pid).as_ref() == Some(self)
    }
}

/// Field 22 of `/proc/PID/stat`, unless field 3 says that only a zombie is left. The name in field 2 may hold
/// anything, so fields are counted from its closing parenthesis.
fn start_of(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    let started = fields.nth(18)?.parse().ok()?;
    (state != "Z" && state != "X").then_some(started)
}

impl Recorded {
    /// The living process that `file` records.
    #[must_use]
    pub fn living(file: &Path) -> Option<Self> {
        let identity: Identity = serde_json::from_str(&fs::read_to_string(file).ok()?).ok()?;
        identity.is_alive().then(|| Self {
            identity,
            file: file.to_owned(),
        })
    }

    /// Records the process `pid` in `file`.
    pub fn write(pid: u32, file: &Path) -> io::Result<Self> {
        let gone = || io::Error::other(format!("process {pid} has ended"));
        let identity = i32::try_from(pid).ok().and_then(Identity::of).ok_or_else(gone)?;
        folder::write_private(file, &serde_json::to_string(&identity)?)?;
        Ok(Self {
            identity,
            file: file.to_owned(),
        })
    }

    /// Its pid.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.identity.pid
    }

    /// Whether it lives.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.identity.is_alive()
    }

    /// SIGTERM, then SIGKILL after `limit`; the record goes with the process.
    pub async fn stop(self, limit: Duration) -> Ending {
        let mut ending = Ending::InOrder;
        for signal in [Signal::SIGTERM, Signal::SIGKILL] {
            if self.is_alive() {
                if signal == Signal::SIGKILL {
                    ending = Ending::Killed;
                }
                // Gone in between is as good.
                kill(Pid::from_raw(self.identity.pid), signal).ok();
                if tokio::time::timeout(limit, self.ended()).await.is_err() {
                    continue;
                }
            }
            break;
        }
        fs::remove_file(&self.file).ok();
        ending
    }

    /// Returns when it has ended.
    pub async fn ended(&self) {
        while self.is_alive() {
            pause().await;
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the end of a process that is no child of ours is only to be seen"
)]
async fn pause() {
    tokio::time::sleep(LOOK_AGAIN).await;
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    fn record(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("cksd-child-{}-{name}", std::process::id()))
    }

    fn sleeper(script: &str) -> std::process::Child {
        Command::new("sh")
            .args(["-c", script])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// Reaps children as a parent does that waits for them.
    fn reap(mut child: std::process::Child) -> std::thread::JoinHandle<()> {
        std::thread::spawn(move || drop(child.wait()))
    }

    #[tokio::test]
    async fn a_recorded_process_is_found_again_and_stopped() {
        let file = record("found");
        let child = sleeper("exec sleep 600");
        let pid = child.id();
        let reaper = reap(child);
        let written = Recorded::write(pid, &file).unwrap();
        let found = Recorded::living(&file).unwrap();
        assert_eq!(found, written);
        assert_eq!(found.stop(Duration::from_mins(1)).await, Ending::InOrder);
        reaper.join().unwrap();
        assert_eq!(Recorded::living(&file), None);
        assert!(!file.exists());
    }

    #[tokio::test]
    async fn a_process_that_ignores_the_signal_is_killed() {
        use std::io::{BufRead as _, BufReader};
        let file = record("stubborn");
        let mut child = sleeper("trap '' TERM; echo ready; while :; do sleep 1; done");
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let recorded = Recorded::write(child.id(), &file).unwrap();
        let reaper = reap(child);
        assert_eq!(recorded.stop(Duration::from_millis(50)).await, Ending::Killed);
        reaper.join().unwrap();
    }

    #[test]
    fn another_process_with_the_pid_is_not_taken_for_it() {
        let file = record("other");
        let own = Identity::of(i32::try_from(std::process::id()).unwrap()).unwrap();
        let other = Identity {
            started: own.started + 1,
            ..own
        };
        fs::write(&file, serde_json::to_string(&other).unwrap()).unwrap();
        assert_eq!(Recorded::living(&file), None);
        fs::remove_file(&file).unwrap();
    }

    #[test]
    fn a_name_with_spaces_and_parentheses_does_not_shift_the_fields() {
        let rest = "S 1 1 1 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4711 0 0";
        assert_eq!(start_of(&format!("12 (a) b (c)) {rest}")), Some(4711));
        assert_eq!(start_of(&format!("12 (sh) {}", rest.replacen('S', "Z", 1))), None);
    }
}
