//! Short commands and the fence of the wrapper, under each POSIX shell of this machine, without SSH.

use std::path::Path;

use super::home::{Home, MINE, OTHERS, under_each_shell};
use crate::adapters::ssh::wrapper::Answer;

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
