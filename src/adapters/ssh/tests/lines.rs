//! The command lines that go over SSH, under real shells.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::adapters::ssh::wrapper::{Answer, SCRIPT, cut, file_name, line, proof_line, push_line, read};

struct Home(PathBuf);

impl Home {
    #[expect(clippy::disallowed_methods, reason = "tests")]
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("cksd-lines-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn shell(&self, shell: &str, line: &str, input: &str) -> Output {
        let mut child = Command::new(shell)
            .args(["-c", line])
            .env("HOME", &self.0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).ok();
        child.wait_with_output().unwrap()
    }

    fn wrapper(&self) -> PathBuf {
        self.0.join(".cksd").join(file_name())
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

fn answer(output: &Output) -> (Option<Answer>, String) {
    let Some((line, rest)) = cut(&output.stdout) else {
        return (None, String::new());
    };
    (read(line), String::from_utf8_lossy(rest).into_owned())
}

const MINE: &str = "6e1f9f9c-0000-4000-8000-000000000001";

#[test]
fn the_wrapper_is_pushed_whole_or_not_at_all() {
    let home = Home::new();
    let exec = line(&["exec", MINE, "1", "reads", "--", "echo", "hi"]);
    assert_eq!(answer(&home.shell("/bin/sh", &exec, "")).0, Some(Answer::Absent));
    let half = SCRIPT.get(..SCRIPT.len() / 2).unwrap();
    let output = home.shell("/bin/sh", &push_line(), half);
    assert_eq!((answer(&output).0, output.status.code()), (None, Some(95)));
    assert!(!home.wrapper().exists(), "half a script would be run");
    assert_eq!(
        answer(&home.shell("/bin/sh", &push_line(), SCRIPT)).0,
        Some(Answer::Pushed)
    );
    assert_eq!(std::fs::read_to_string(home.wrapper()).unwrap(), SCRIPT);
    let left = std::fs::read_dir(home.0.join(".cksd")).unwrap().count();
    assert_eq!(left, 1, "no part is left over");
    assert_eq!(
        answer(&home.shell("/bin/sh", &exec, "")),
        (Some(Answer::Go), "hi\n".to_owned())
    );
}

#[test]
fn noise_of_login_files_does_not_matter() {
    let home = Home::new();
    home.shell("/bin/sh", &push_line(), SCRIPT);
    let exec = line(&[
        "exec",
        MINE,
        "1",
        "reads",
        "--",
        "sh",
        "-c",
        "echo out; echo err >&2",
    ]);
    for shell in ["/bin/sh", "/bin/bash"] {
        if !Path::new(shell).exists() {
            continue;
        }
        let noisy = format!("echo 'Welcome to @@cksd land'; printf 'no newline'; echo warning >&2; {exec}");
        let output = home.shell(shell, &noisy, "");
        assert_eq!(answer(&output), (Some(Answer::Go), "out\n".to_owned()));
        assert_eq!(cut(&output.stderr).unwrap().1, b"err\n");
    }
}

#[test]
fn standard_input_reaches_the_command() {
    let home = Home::new();
    home.shell("/bin/sh", &push_line(), SCRIPT);
    let exec = line(&["exec", MINE, "1", "changes", "--", "cat"]);
    let text = "{\"kind\": \"Eviction\"}\n";
    assert_eq!(
        answer(&home.shell("/bin/sh", &exec, text)),
        (Some(Answer::Go), text.to_owned())
    );
}

#[test]
fn the_proof_tells_name_and_wrapper() {
    let home = Home::new();
    let line = proof_line("0B9A1C2D-0000-4000-8000-0123456789ab");
    let (first, said) = answer(&home.shell("/bin/sh", &line, ""));
    assert_eq!(first, Some(Answer::Proof));
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    assert!(
        said.lines().any(|line| line == format!("host {}", name.trim())),
        "{said}"
    );
    assert!(said.ends_with("wrapper no\n"), "{said}");
    home.shell("/bin/sh", &push_line(), SCRIPT);
    assert!(
        answer(&home.shell("/bin/sh", &line, ""))
            .1
            .ends_with("wrapper yes\n")
    );
}
