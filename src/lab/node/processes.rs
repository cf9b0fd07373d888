//! Which processes belong to a node, and the end of all of them when its power goes.
//!
//! A command may leave its process group (`setsid`, as a service does that starts something long), so groups
//! alone are not enough. Every process of a node carries the node's root folder in its environment and hands
//! it on; where `/proc` exists, that finds them all, also those that an earlier lab process started.

use std::collections::BTreeSet;
use std::time::Duration;

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

/// The variable that marks a node's processes; its value is the root folder.
pub(super) const MARK: &str = "CKSD_LAB_NODE";

/// How often the search is repeated: a process may fork while it is looked for.
const ROUNDS: usize = 100;

/// Kills the process groups, and then whatever still carries the mark of `root`. Returns how many are left.
pub(super) async fn end_all(root: &str, groups: BTreeSet<i32>) -> usize {
    for group in groups {
        signal_group(group, Signal::SIGKILL);
    }
    let mut left = 0;
    for _ in 0..ROUNDS {
        let root = root.to_owned();
        left = tokio::task::spawn_blocking(move || kill_marked(&root))
            .await
            .unwrap_or_default();
        if left == 0 {
            break;
        }
        pause().await;
    }
    left
}

/// Sends a signal to a process group; a group that is gone is fine.
pub(super) fn signal_group(group: i32, signal: Signal) {
    if group > 1 {
        killpg(Pid::from_raw(group), signal).ok();
    }
}

/// Kills what carries the mark of `root`, once. Returns how many there were.
pub(super) fn kill_marked(root: &str) -> usize {
    let found = marked(root);
    for process in &found {
        // It may have ended by itself in the meantime.
        kill(Pid::from_raw(*process), Signal::SIGKILL).ok();
    }
    found.len()
}

/// The processes that carry the mark of `root`. A process that has ended has no environment any more.
fn marked(root: &str) -> Vec<i32> {
    let wanted = format!("{MARK}={root}");
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok())
        .filter(|process| {
            std::fs::read(format!("/proc/{process}/environ"))
                .is_ok_and(|all| all.split(|byte| *byte == 0).any(|one| one == wanted.as_bytes()))
        })
        .collect()
}

#[expect(
    clippy::disallowed_methods,
    reason = "the lab waits for the kernel to end processes"
)]
async fn pause() {
    tokio::time::sleep(Duration::from_millis(5)).await;
}
