//! The wrapper script as seen from here: its command lines and its answers.

use jiff::Timestamp;
use sha2::{Digest, Sha256};

use super::quote;
use crate::domain::id::InstallationId;
use crate::ports::shell::{Exit, Fence, Output, RunKey, RunState};

/// The script.
pub(super) const SCRIPT: &str = include_str!("../../../assets/node/wrapper.sh");
/// The script that says which machine a node is.
const PROOF: &str = include_str!("../../../assets/node/prove.sh");
/// Every answer's first line begins so; what stands before it is noise of login files.
const MARK: &[u8] = b"@@cksd ";
/// The signal's name for a command of which nobody saw the end (killed with its runner, or a reboot).
pub(super) const LOST: &str = "LOST";

/// The script's file name, which holds its hash: another version is another file.
pub(super) fn file_name() -> String {
    format!("wrapper-{}.sh", hex(SCRIPT, 12))
}

fn hex(text: &str, digits: usize) -> String {
    use std::fmt::Write as _;
    let mut out = String::new();
    for byte in Sha256::digest(text.as_bytes()) {
        // Writing to a String cannot fail.
        write!(out, "{byte:02x}").ok();
    }
    out.truncate(digits);
    out
}

/// A command line that passes its words on to the wrapper. It names the wrapper's file through the home folder
/// of the login user, and answers `absent` when it is not there.
pub(super) fn line(words: &[&str]) -> String {
    let start = format!(
        "w=\"${{HOME:-.}}/.cksd/{}\"; [ -r \"$w\" ] || {{ printf '\\n@@cksd absent\\n'; exit 96; }}; exec sh \"$w\" \"$@\"",
        file_name()
    );
    shell(&start, words)
}

/// The command line of the proof.
pub(super) fn proof_line(vm_id: &str) -> String {
    shell(PROOF, &[&vm_id.to_ascii_lowercase(), &file_name()])
}

/// The command line that reads the wrapper from its standard input. The file appears complete or not at all: a
/// connection that breaks looks like the end of the input, so the length is compared.
pub(super) fn push_line() -> String {
    let script = "umask 077; d=\"${HOME:-.}/.cksd\"; mkdir -p \"$d\" && cat > \"$d/$1.$$\" || exit 95; \
                  if [ \"$(wc -c < \"$d/$1.$$\")\" -eq \"$2\" ]; then mv -f \"$d/$1.$$\" \"$d/$1\" && \
                  printf '\\n@@cksd pushed\\n'; else rm -f \"$d/$1.$$\"; exit 95; fi";
    shell(script, &[&file_name(), &SCRIPT.len().to_string()])
}

/// `sh -c SCRIPT cksd WORDS...`, whatever the login shell is.
fn shell(script: &str, words: &[&str]) -> String {
    let mut all = vec!["exec", "sh", "-c", script, "cksd"];
    all.extend(words);
    quote::join(&all)
}

/// A run's folder name: the key itself if it is a plain name, else what is plain of it and its hash.
pub(super) fn run_name(key: &RunKey) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let key = key.0.as_str();
    if !key.is_empty() && key.len() <= 100 && !key.starts_with('.') && key.chars().all(plain) {
        return key.to_owned();
    }
    let kept: String = key
        .chars()
        .map(|c| if plain(c) && c != '.' { c } else { '-' })
        .take(60)
        .collect();
    format!("{kept}-{}", hex(key, 16))
}

/// The first line of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    /// The words follow.
    Go,
    /// Nothing of that key ever began.
    NotStarted,
    /// It runs.
    Running(Timestamp),
    /// It ended.
    Ended(Timestamp, Timestamp, Exit),
    /// What the fence holds.
    Fence(Option<Fence>),
    /// The fence refused; the reason in words.
    Refused(String),
    /// The wrapper cannot work; the reason in words.
    Broken(String),
    /// The wrapper is not there.
    Absent,
    /// The wrapper was written.
    Pushed,
    /// What the proof printed follows.
    Proof,
}

/// Cuts a stream behind the first answer line; gives the line's words and what follows.
pub(super) fn cut(stream: &[u8]) -> Option<(&str, &[u8])> {
    let at = if stream.starts_with(MARK) {
        0
    } else {
        stream
            .windows(MARK.len() + 1)
            .position(|window| window.first() == Some(&b'\n') && window.ends_with(MARK))?
            + 1
    };
    let rest = stream.get(at + MARK.len()..)?;
    let end = rest.iter().position(|byte| *byte == b'\n')?;
    let line = std::str::from_utf8(rest.get(..end)?).ok()?;
    Some((line, rest.get(end + 1..)?))
}

/// Reads an answer line.
pub(super) fn read(line: &str) -> Option<Answer> {
    let words: Vec<&str> = line.split_whitespace().collect();
    Some(match words.as_slice() {
        ["go"] => Answer::Go,
        ["absent"] => Answer::Absent,
        ["pushed"] => Answer::Pushed,
        ["proof"] => Answer::Proof,
        ["state", "none"] => Answer::NotStarted,
        ["state", "running", since] => Answer::Running(seconds(since)?),
        ["state", "ended", since, at, how, value] => Answer::Ended(
            seconds(since)?,
            seconds(at)?,
            match *how {
                "exit" => Exit::Exited(value.parse().ok()?),
                "signal" => Exit::Signaled((*value).to_owned()),
                "lost" => Exit::Signaled(LOST.to_owned()),
                _ => return None,
            },
        ),
        ["fence", "none", _] => Answer::Fence(None),
        ["fence", installation, epoch] => Answer::Fence(Some(fence(installation, epoch)?)),
        ["refused", "older", _, epoch] => Answer::Refused(format!(
            "its fence refuses the command: a newer owner with epoch {epoch} has acted on it"
        )),
        ["refused", "other", installation, _] => Answer::Refused(format!(
            "its fence refuses the command: the installation {installation} manages it; `cksd import --take-over` \
             would take it over"
        )),
        ["refused", "unreadable", ..] => Answer::Refused(
            "its fence (~/.cksd/fence) cannot be read; `cksd import --take-over` writes it anew".to_owned(),
        ),
        ["broken", rest @ ..] => Answer::Broken(rest.join(" ")),
        _ => return None,
    })
}

fn seconds(text: &str) -> Option<Timestamp> {
    Timestamp::from_second(text.parse().ok()?).ok()
}

fn fence(installation: &str, epoch: &str) -> Option<Fence> {
    Some(Fence {
        installation: installation.parse::<InstallationId>().ok()?,
        epoch: epoch.parse().ok()?,
    })
}

/// The state that an answer tells of, with the tails behind it.
pub(super) fn state(answer: Answer, stdout: &[u8], stderr: &[u8]) -> Option<RunState> {
    match answer {
        Answer::NotStarted => Some(RunState::NotStarted),
        Answer::Running(since) => Some(RunState::Running { since }),
        Answer::Ended(since, at, exit) => Some(RunState::Ended {
            since,
            at,
            output: Output {
                exit,
                stdout: String::from_utf8_lossy(stdout).into_owned(),
                stderr: String::from_utf8_lossy(stderr).into_owned(),
            },
        }),
        _ => None,
    }
}
