//! Long commands of the wrapper, under each POSIX shell of this machine, without SSH.

use std::process::Command;

use super::home::{Home, MINE, under_each_shell, wait_for};
use crate::adapters::ssh::wrapper::{Answer, cut, read};
use crate::ports::shell::Exit;

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
fn a_following_that_nobody_listens_to_ends() {
    under_each_shell(|home| {
        let script = "while [ ! -e go ]; do sleep 0.1; done";
        home.answer(&["run", MINE, "1", "k", "--", "sh", "-c", script]);
        let mut follow = home.command(&["follow", MINE, "0", "k", "600"]).spawn().unwrap();
        drop(follow.stdout.take());
        drop(follow.stderr.take());
        wait_for("its end", || follow.try_wait().unwrap().is_some());
        std::fs::write(home.path.join("go"), "").unwrap();
        assert_eq!(home.ended("k").0, Exit::Exited(0));
    });
}
