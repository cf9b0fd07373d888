//! A node's journal: logins, commands and what sudo ran, one line each, in a file that both the lab and the
//! shell stand-ins append to. It survives restarts of node and lab.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;

use jiff::Timestamp;

/// What an entry is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JournalKind {
    /// The machine itself: power and first boot.
    Boot,
    /// Somebody logged in; the text has the key's fingerprint.
    Login,
    /// A command line that came over SSH, as the client sent it.
    Command,
    /// A command that sudo ran; the text begins with `COMMAND=`.
    Sudo,
}

/// One entry of a node's journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalEntry {
    /// When it began.
    pub at: Timestamp,
    /// What it is about.
    pub kind: JournalKind,
    /// Who did it: the login user; for the machine itself, `root`.
    pub user: String,
    /// What was done. Of sudo: `COMMAND=/opt/bin/kubectl cordon node-1`, with the paths as they were asked for.
    pub text: String,
    /// With which code it ended, 128 and more for a signal; none while it runs, when it was cut off by a
    /// power off, and for entries that have no end.
    pub exit: Option<i32>,
}

impl JournalEntry {
    /// The command that sudo ran, without `COMMAND=`; none for other entries.
    pub fn sudo_command(&self) -> Option<&str> {
        match self.kind {
            JournalKind::Sudo => self.text.strip_prefix("COMMAND="),
            JournalKind::Boot | JournalKind::Login | JournalKind::Command => None,
        }
    }
}

/// The file behind it.
#[derive(Debug, Clone)]
pub(super) struct Journal {
    path: PathBuf,
    hostname: String,
}

impl Journal {
    pub(super) fn new(path: PathBuf, hostname: &str) -> Self {
        Self {
            path,
            hostname: hostname.to_owned(),
        }
    }

    /// Notes something about the machine itself.
    pub(super) fn boot(&self, text: &str) {
        self.append("boot", "0", &format!("root : {text}"));
    }

    /// Notes a login.
    pub(super) fn login(&self, user: &str, text: &str) {
        self.append("login", "0", &format!("{user} : {text}"));
    }

    /// Notes the begin of a command; `id` connects it with its end.
    pub(super) fn command(&self, id: &str, user: &str, text: &str) {
        self.append("command", id, &format!("{user} : {text}"));
    }

    /// Notes the end of a command.
    pub(super) fn exit(&self, id: &str, code: i32) {
        self.append("exit", id, &code.to_string());
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "a node's journal carries the time of the machine, as sudo's does"
    )]
    fn append(&self, tag: &str, id: &str, text: &str) {
        let line = format!(
            "{:.6} {} {tag}[{id}]: {}\n",
            Timestamp::now(),
            self.hostname,
            text.replace('\n', "#012")
        );
        let opened = OpenOptions::new().create(true).append(true).open(&self.path);
        if let Err(error) = opened.and_then(|mut file: File| file.write_all(line.as_bytes())) {
            tracing::warn!(journal = %self.path.display(), %error, "the node's journal cannot be written");
        }
    }

    /// All entries, oldest first.
    pub(super) fn read(&self) -> Vec<JournalEntry> {
        let text = std::fs::read(&self.path).unwrap_or_default();
        parse(&String::from_utf8_lossy(&text))
    }
}

/// Reads a journal; lines that are not of it are passed over.
fn parse(text: &str) -> Vec<JournalEntry> {
    let mut entries: Vec<JournalEntry> = Vec::new();
    let mut ids: Vec<String> = Vec::new();
    for line in text.lines() {
        let Some((head, body)) = line.split_once("]: ") else {
            continue;
        };
        let mut words = head.splitn(3, ' ');
        let (Some(at), Some(_), Some(tag)) = (words.next(), words.next(), words.next()) else {
            continue;
        };
        let Some((tag, id)) = tag.split_once('[') else {
            continue;
        };
        if tag == "exit" {
            // The latest entry of that id: process ids come back after a while.
            let found = ids.iter().rposition(|known| known == id);
            if let (Some(entry), Ok(code)) = (found.and_then(|at| entries.get_mut(at)), body.parse()) {
                entry.exit.get_or_insert(code);
            }
            continue;
        }
        let (Some(at), Some((user, body))) = (time(at), body.split_once(" : ")) else {
            continue;
        };
        let (kind, body) = match tag {
            "boot" => (JournalKind::Boot, body),
            "login" => (JournalKind::Login, body),
            "command" => (JournalKind::Command, body),
            "sudo" => match body.find("COMMAND=").and_then(|begin| body.get(begin..)) {
                Some(command) => (JournalKind::Sudo, command),
                None => continue,
            },
            _ => continue,
        };
        entries.push(JournalEntry {
            at,
            kind,
            user: user.to_owned(),
            text: body.replace("#012", "\n"),
            exit: None,
        });
        ids.push(id.to_owned());
    }
    entries
}

/// A time of the journal. Where `date` has no fractions it prints their pattern; then seconds must do.
fn time(text: &str) -> Option<Timestamp> {
    text.parse()
        .ok()
        .or_else(|| format!("{}Z", text.get(..19)?).parse().ok())
}
