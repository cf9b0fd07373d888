//! A home folder with the wrapper in it, and the shells of this machine.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::adapters::ssh::wrapper::{Answer, SCRIPT, cut, read};
use crate::ports::shell::Exit;

/// A home folder with the script in it, removed at the end.
pub(super) struct Home {
    pub(super) path: PathBuf,
    shell: Vec<String>,
    pub(super) path_variable: Option<String>,
}

pub(super) const MINE: &str = "6e1f9f9c-0000-4000-8000-000000000001";
pub(super) const OTHERS: &str = "6e1f9f9c-0000-4000-8000-000000000002";

#[expect(clippy::disallowed_methods, reason = "tests")]
fn fresh() -> PathBuf {
    std::env::temp_dir().join(format!("cksd-wrapper-{}", uuid::Uuid::new_v4()))
}

impl Home {
    pub(super) fn new(shell: &[&str]) -> Self {
        let path = fresh();
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join("wrapper.sh"), SCRIPT).unwrap();
        Self {
            path,
            shell: shell.iter().map(|s| (*s).to_owned()).collect(),
            path_variable: None,
        }
    }

    pub(super) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(self.shell.first().unwrap());
        command
            .args(self.shell.iter().skip(1))
            .arg(self.path.join("wrapper.sh"))
            .args(words)
            .env("HOME", &self.path)
            .current_dir(&self.path)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(path) = &self.path_variable {
            command.env("PATH", path);
        }
        command
    }

    pub(super) fn call(&self, words: &[&str]) -> (Answer, String, String, Output) {
        let output = self.command(words).output().unwrap();
        let (line, stdout) = cut(&output.stdout).unwrap_or_else(|| panic!("{words:?}: {output:?}"));
        let answer = read(line).unwrap_or_else(|| panic!("{words:?}: {line}"));
        let (_, stderr) = cut(&output.stderr).unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (stdout, stderr) = (text(stdout), text(stderr));
        (answer, stdout, stderr, output)
    }

    pub(super) fn answer(&self, words: &[&str]) -> Answer {
        self.call(words).0
    }

    /// Asks until it ended.
    pub(super) fn ended(&self, key: &str) -> (Exit, String, String) {
        let (answer, stdout, stderr, _) = self.call(&["follow", MINE, "0", key, "30"]);
        let Answer::Ended(since, at, exit) = answer else {
            panic!("{key}: {answer:?}")
        };
        assert!(since <= at);
        (exit, stdout, stderr)
    }

    pub(super) fn run_dir(&self, key: &str) -> PathBuf {
        self.path.join(".cksd/runs").join(key)
    }

    pub(super) fn lines(&self, file: &str) -> usize {
        std::fs::read_to_string(self.path.join(file))
            .unwrap_or_default()
            .lines()
            .count()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.path).ok();
    }
}

pub(super) fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(30), "waited for {what}");
        std::thread::park_timeout(Duration::from_millis(10));
    }
}

/// Every shell that there is: dash and bash are on most machines, busybox on some.
pub(super) fn under_each_shell(test: impl Fn(&Home)) {
    let mut tried = 0;
    for shell in [
        vec!["/bin/sh"],
        vec!["/bin/dash"],
        vec!["/bin/bash"],
        vec!["/bin/busybox", "sh"],
    ] {
        if Path::new(shell[0]).exists() {
            test(&Home::new(&shell));
            tried += 1;
        }
    }
    assert!(tried > 0);
}
