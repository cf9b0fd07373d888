//! The wrapper script under each POSIX shell of this machine, without SSH.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::adapters::ssh::wrapper::{Answer, SCRIPT, cut, read};
use crate::ports::shell::Exit;

/// A home folder with the script in it, removed at the end.
struct Home {
    path: PathBuf,
    shell: Vec<String>,
    path_variable: Option<String>,
}

const MINE: &str = "6e1f9f9c-0000-4000-8000-000000000001";
const OTHERS: &str = "6e1f9f9c-0000-4000-8000-000000000002";

#[expect(clippy::disallowed_methods, reason = "tests")]
fn fresh() -> PathBuf {
    std::env::temp_dir().join(format!("cksd-wrapper-{}", uuid::Uuid::new_v4()))
}

impl Home {
    fn new(shell: &[&str]) -> Self {
        let path = fresh();
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join("wrapper.sh"), SCRIPT).unwrap();
        Self {
            path,
            shell: shell.iter().map(|s| (*s).to_owned()).collect(),
            path_variable: None,
        }
    }

    fn command(&self, words: &[&str]) -> Command {
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

    fn call(&self, words: &[&str]) -> (Answer, String, String, Output) {
        let output = self.command(words).output().unwrap();
        let (line, stdout) = cut(&output.stdout).unwrap_or_else(|| panic!("{words:?}: {output:?}"));
        let answer = read(line).unwrap_or_else(|| panic!("{words:?}: {line}"));
        let (_, stderr) = cut(&output.stderr).unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (stdout, stderr) = (text(stdout), text(stderr));
        (answer, stdout, stderr, output)
    }

    fn answer(&self, words: &[&str]) -> Answer {
        self.call(words).0
    }

    /// Asks until it ended.
    fn ended(&self, key: &str) -> (Exit, String, String) {
        let (answer, stdout, stderr, _) = self.call(&["follow", MINE, "0", key, "30"]);
        let Answer::Ended(since, at, exit) = answer else {
            panic!("{key}: {answer:?}")
        };
        assert!(since <= at);
        (exit, stdout, stderr)
    }

    fn run_dir(&self, key: &str) -> PathBuf {
        self.path.join(".cksd/runs").join(key)
    }

    fn lines(&self, file: &str) -> usize {
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

fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(30), "waited for {what}");
        std::thread::yield_now();
    }
}

/// Every shell that there is: dash and bash are on most machines, busybox on some.
fn under_each_shell(test: impl Fn(&Home)) {
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

#[test]
fn a_short_command_keeps_its_streams_its_exit_code_and_its_words() {
    under_each_shell(|home| {
        let words = [
            "exec",
            MINE,
            "3",
            "changes",
            "--",
            "sh",
            "-c",
            "echo \"$1|$2\"; echo no >&2; exit 7",
            "x",
            "a  b",
            "$HOME'",
        ];
        let (answer, stdout, stderr, output) = home.call(&words);
        assert_eq!(answer, Answer::Go);
        assert_eq!((stdout.as_str(), stderr.as_str()), ("a  b|$HOME'\n", "no\n"));
        assert_eq!(output.status.code(), Some(7));
    });
}

#[test]
fn the_fence_rises_and_refuses() {
    under_each_shell(|home| {
        let exec = |installation: &str, epoch: &str, access: &str| {
            home.answer(&["exec", installation, epoch, access, "--", "touch", "ran"])
        };
        let ran = || std::fs::remove_file(home.path.join("ran")).is_ok();
        assert_eq!(home.answer(&["fence"]), Answer::Fence(None));
        assert_eq!(exec(MINE, "9", "reads"), Answer::Go);
        assert!(ran());
        assert_eq!(
            home.answer(&["fence"]),
            Answer::Fence(None),
            "reading raises nothing"
        );
        assert_eq!(exec(MINE, "5", "changes"), Answer::Go);
        assert_eq!(exec(MINE, "5", "changes"), Answer::Go, "the same epoch goes on");
        assert!(ran());
        assert!(matches!(exec(MINE, "4", "changes"), Answer::Refused(text) if text.contains("epoch 5")));
        assert!(matches!(exec(OTHERS, "9", "changes"), Answer::Refused(text) if text.contains(MINE)));
        assert!(matches!(exec(OTHERS, "9", "reads"), Answer::Refused(_)));
        assert!(matches!(
            home.answer(&["run", MINE, "4", "k", "--", "touch", "ran"]),
            Answer::Refused(_)
        ));
        assert!(matches!(
            home.answer(&["run", OTHERS, "9", "k", "--", "touch", "ran"]),
            Answer::Refused(_)
        ));
        assert!(matches!(
            home.answer(&["ask", OTHERS, "9", "k"]),
            Answer::Refused(_)
        ));
        assert!(matches!(
            home.answer(&["stop", MINE, "4", "k"]),
            Answer::Refused(_)
        ));
        assert!(!ran(), "nothing that was refused ran");
        assert_eq!(exec(MINE, "1", "reads"), Answer::Go, "an old epoch may read");
        assert_eq!(exec(MINE, "9223372036854775807", "changes"), Answer::Go);
        assert!(matches!(
            exec(MINE, "9223372036854775806", "changes"),
            Answer::Refused(_)
        ));
        let (_, _, _, output) = home.call(&["exec", MINE, "1", "changes", "--", "touch", "ran"]);
        assert_eq!(output.status.code(), Some(94));
    });
}

#[test]
fn a_take_over_writes_ours_and_never_lowers_our_own() {
    under_each_shell(|home| {
        home.answer(&["exec", OTHERS, "50", "changes", "--", "true"]);
        let Answer::Fence(Some(fence)) = home.answer(&["take-over", MINE, "3"]) else {
            panic!("no fence")
        };
        assert_eq!((fence.installation.to_string().as_str(), fence.epoch), (MINE, 3));
        let Answer::Fence(Some(fence)) = home.answer(&["take-over", MINE, "2"]) else {
            panic!("no fence")
        };
        assert_eq!(fence.epoch, 3);
        assert!(matches!(
            home.answer(&["exec", OTHERS, "99", "changes", "--", "true"]),
            Answer::Refused(_)
        ));
        // A fence that nobody can read lets nobody in, until it is taken over.
        std::fs::write(home.path.join(".cksd/fence"), "").unwrap();
        assert!(matches!(
            home.answer(&["exec", MINE, "99", "changes", "--", "true"]),
            Answer::Refused(_)
        ));
        assert!(matches!(
            home.answer(&["take-over", MINE, "99"]),
            Answer::Fence(Some(_))
        ));
        assert_eq!(
            home.answer(&["exec", MINE, "99", "changes", "--", "true"]),
            Answer::Go
        );
    });
}

#[test]
fn many_at_once_leave_the_highest_epoch() {
    let no_flock = home_without_flock();
    for home in [&Home::new(&["/bin/sh"]), &no_flock] {
        let running: Vec<_> = (1..=12)
            .map(|n| {
                let epoch = (n * 7 % 13).to_string();
                home.command(&["exec", MINE, &epoch, "changes", "--", "true"])
                    .spawn()
                    .unwrap()
            })
            .collect();
        for child in running {
            child.wait_with_output().unwrap();
        }
        let Answer::Fence(Some(fence)) = home.answer(&["fence"]) else {
            panic!("no fence")
        };
        assert_eq!(fence.epoch, 12);
    }
}

/// A home whose PATH has what the script needs, without flock.
fn home_without_flock() -> Home {
    let mut home = Home::new(&["/bin/sh"]);
    let bin = home.path.join("bin");
    std::fs::create_dir(&bin).unwrap();
    let tools = [
        "sh", "cat", "date", "sleep", "mkdir", "mv", "rm", "ln", "ls", "tail", "setsid", "true", "touch",
        "kill",
    ];
    for tool in tools {
        let found = ["/usr/bin", "/bin"]
            .iter()
            .map(|dir| Path::new(dir).join(tool))
            .find(|path| path.exists());
        std::os::unix::fs::symlink(found.unwrap(), bin.join(tool)).unwrap();
    }
    home.path_variable = Some(bin.to_string_lossy().into_owned());
    home
}

#[test]
fn without_flock_the_lock_of_a_dead_process_is_taken_away() {
    let home = home_without_flock();
    home.answer(&["exec", MINE, "1", "changes", "--", "true"]);
    let held = home.path.join(".cksd/fence.held");
    std::fs::create_dir(&held).unwrap();
    // A process that lives, but began at another time: the number was used again.
    std::fs::write(held.join("holder"), format!("{} 1\n", std::process::id())).unwrap();
    assert_eq!(
        home.answer(&["exec", MINE, "2", "changes", "--", "true"]),
        Answer::Go
    );
    assert!(!held.exists());
}

#[test]
fn a_long_command_outlives_the_call_and_is_found_again() {
    under_each_shell(|home| {
        assert_eq!(home.answer(&["ask", MINE, "0", "k"]), Answer::NotStarted);
        let script = "echo out; echo err >&2; while [ ! -e go ]; do sleep 0.1; done; exit 3";
        assert!(matches!(
            home.answer(&["run", MINE, "1", "k", "--", "sh", "-c", script]),
            Answer::Running(_)
        ));
        assert!(matches!(
            home.answer(&["ask", MINE, "0", "k"]),
            Answer::Running(_)
        ));
        // The limit ends the following, not the command.
        assert!(matches!(
            home.answer(&["follow", MINE, "0", "k", "0"]),
            Answer::Running(_)
        ));
        std::fs::write(home.path.join("go"), "").unwrap();
        assert_eq!(
            home.ended("k"),
            (Exit::Exited(3), "out\n".to_owned(), "err\n".to_owned())
        );
        // Started again it is found, not run.
        let again = home.answer(&["run", MINE, "1", "k", "--", "touch", "again"]);
        assert!(matches!(again, Answer::Ended(..)), "{again:?}");
        assert!(!home.path.join("again").exists());
    });
}

#[test]
fn two_starts_at_once_run_it_once() {
    under_each_shell(|home| {
        for round in 0..3 {
            let key = format!("k{round}");
            let words = ["run", MINE, "1", &key, "--", "sh", "-c", "echo x >>count"];
            let both: Vec<_> = (0..6).map(|_| home.command(&words).spawn().unwrap()).collect();
            for child in both {
                let output = child.wait_with_output().unwrap();
                let (line, _) = cut(&output.stdout).unwrap();
                assert!(
                    matches!(read(line), Some(Answer::Running(_) | Answer::Ended(..))),
                    "{line}"
                );
            }
            home.ended(&key);
            assert_eq!(home.lines("count"), round + 1);
        }
    });
}

#[test]
fn a_stop_ends_what_was_started_and_all_its_children() {
    under_each_shell(|home| {
        let script = "sleep 300 & setsid sleep 301 & echo started; exec sleep 302";
        home.answer(&["run", MINE, "1", "k", "--", "sh", "-c", script]);
        let out = home.run_dir("k").join("out");
        wait_for("the command", || {
            std::fs::read_to_string(&out).is_ok_and(|text| !text.is_empty())
        });
        let before = children_of(home);
        assert_eq!(before, 3, "the sleeps");
        let (answer, ..) = home.call(&["stop", MINE, "2", "k"]);
        assert!(
            matches!(&answer, Answer::Ended(_, _, Exit::Signaled(name)) if name == "TERM"),
            "{answer:?}"
        );
        wait_for("the end of all", || children_of(home) == 0);
        assert!(
            matches!(home.answer(&["stop", MINE, "2", "k"]), Answer::Ended(..)),
            "again is the same"
        );
    });
}

/// How many sleeps run in this home.
fn children_of(home: &Home) -> usize {
    std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let name = std::fs::read_to_string(path.join("comm")).ok()?;
            let at = std::fs::read_link(path.join("cwd")).ok()?;
            (name.trim() == "sleep" && at == home.path).then_some(())
        })
        .count()
}

#[test]
fn what_ignores_a_stop_is_killed() {
    let home = Home::new(&["/bin/sh"]);
    home.answer(&[
        "run",
        MINE,
        "1",
        "k",
        "--",
        "sh",
        "-c",
        "trap '' TERM; echo x; while :; do sleep 1; done",
    ]);
    let out = home.run_dir("k").join("out");
    wait_for("the command", || {
        std::fs::read_to_string(&out).is_ok_and(|text| !text.is_empty())
    });
    let (answer, ..) = home.call(&["stop", MINE, "2", "k"]);
    assert!(
        matches!(&answer, Answer::Ended(_, _, Exit::Signaled(name)) if name == "KILL"),
        "{answer:?}"
    );
}

#[test]
fn a_key_that_was_stopped_before_it_began_never_begins() {
    under_each_shell(|home| {
        assert_eq!(home.answer(&["stop", MINE, "2", "k"]), Answer::NotStarted);
        assert_eq!(
            home.answer(&["run", MINE, "2", "k", "--", "touch", "ran"]),
            Answer::NotStarted
        );
        assert_eq!(home.answer(&["follow", MINE, "0", "k", "30"]), Answer::NotStarted);
        assert!(!home.path.join("ran").exists());
    });
}

#[test]
fn a_killed_runner_is_told_as_lost_once_nothing_of_it_lives() {
    under_each_shell(|home| {
        home.answer(&[
            "run",
            MINE,
            "1",
            "k",
            "--",
            "sh",
            "-c",
            "while [ ! -e go ]; do sleep 0.1; done",
        ]);
        let begun = std::fs::read_to_string(home.run_dir("k").join("begun")).unwrap();
        let pid = begun.split(' ').nth(1).unwrap();
        assert!(
            Command::new("kill")
                .args(["-s", "KILL", pid])
                .status()
                .unwrap()
                .success()
        );
        // What it started goes on, and that is the truth.
        assert!(matches!(
            home.answer(&["ask", MINE, "0", "k"]),
            Answer::Running(_)
        ));
        std::fs::write(home.path.join("go"), "").unwrap();
        let (exit, ..) = home.ended("k");
        assert_eq!(exit, Exit::Signaled("LOST".into()));
    });
}

#[test]
fn a_number_used_again_and_a_reboot_are_not_taken_for_the_command() {
    under_each_shell(|home| {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
        let me = std::process::id();
        for (key, begun) in [
            ("reused", format!("run {me} 1 {} 1764536000\n", boot.trim())),
            ("rebooted", format!("run {me} 1 another-boot 1764536000\n")),
        ] {
            std::fs::create_dir_all(home.run_dir(key)).unwrap();
            std::fs::write(home.run_dir(key).join("begun"), begun).unwrap();
            assert_eq!(home.ended(key).0, Exit::Signaled("LOST".into()), "{key}");
        }
    });
}

#[test]
fn only_the_tail_of_long_output_comes_back() {
    let home = Home::new(&["/bin/sh"]);
    let script = "i=0; while [ $i -lt 2000 ]; do echo \"line $i of something that is quite a bit longer\"; i=$((i+1)); done";
    home.answer(&["run", MINE, "1", "k", "--", "sh", "-c", script]);
    let (_, stdout, _) = home.ended("k");
    assert_eq!(stdout.len(), 65_536);
    assert!(stdout.ends_with("line 1999 of something that is quite a bit longer\n"));
}

#[test]
fn old_runs_are_removed() {
    let home = Home::new(&["/bin/sh"]);
    for n in 0..210 {
        let dir = home.run_dir(&format!("old{n}"));
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("begun"), "run 1 1 x 1764536000\n").unwrap();
        // Far in the future, so that only their number counts.
        let at = if n < 5 { "1764536000" } else { "99999999999" };
        std::fs::write(dir.join("end"), format!("exit 0 {at}\n")).unwrap();
    }
    home.answer(&["run", MINE, "1", "new", "--", "true"]);
    let left = std::fs::read_dir(home.path.join(".cksd/runs")).unwrap().count();
    assert!(!home.run_dir("old0").exists(), "older than a week");
    assert!((200..=201).contains(&left), "{left}");
}

#[test]
fn wrong_words_change_nothing() {
    under_each_shell(|home| {
        for words in [
            vec!["exec", MINE, "x", "changes", "--", "touch", "ran"],
            vec!["exec", MINE, "1", "changes", "touch", "ran"],
            vec!["run", MINE, "1", "../k", "--", "touch", "ran"],
            vec!["ask", MINE, "1", ""],
            vec!["dance"],
            vec![],
        ] {
            assert!(matches!(home.answer(&words), Answer::Broken(_)), "{words:?}");
        }
        assert!(!home.path.join("ran").exists());
    });
}

#[test]
fn a_full_or_foreign_home_is_told() {
    let home = Home::new(&["/bin/sh"]);
    std::fs::write(home.path.join(".cksd"), "a file in the way").unwrap();
    assert!(matches!(
        home.answer(&["exec", MINE, "1", "changes", "--", "true"]),
        Answer::Broken(_)
    ));
}
