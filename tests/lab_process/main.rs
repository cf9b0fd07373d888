//! `cksd lab` as a process: its files, its ready line, its end by a signal and by `kill -9`.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// A data folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("cksd-lab-process-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

/// A lab that is killed at the end of the test at the latest.
struct Process {
    child: Child,
    ready: Value,
}

impl Process {
    fn start(data: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_cksd"))
            .args(["lab", "--scenario", "small", "--time-factor", "0.1", "--data"])
            .arg(data)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let ready = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line:?}: {error}"));
        Self { child, ready }
    }

    fn end(&mut self, signal: Signal) -> std::process::ExitStatus {
        let pid = i32::try_from(self.child.id()).unwrap();
        kill(Pid::from_raw(pid), signal).unwrap();
        self.child.wait().unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn kubectl(data: &Path, args: &[&str]) -> Output {
    let config = data.join("small.kubeconfig");
    Command::new("kubectl")
        .arg("--kubeconfig")
        .arg(config)
        .args(args)
        .output()
        .unwrap()
}

fn nodes(data: &Path) -> String {
    let output = kubectl(
        data,
        &["get", "nodes", "-o", "jsonpath={.items[*].metadata.name}"],
    );
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_lab_goes_on_after_it_was_killed() {
    let folder = Folder::new();
    let data = folder.0.as_path();
    let mut first = Process::start(data);
    for name in [
        "lab.env",
        "small.kubeconfig",
        "small.key",
        "small.import.toml",
        "lab.pid",
    ] {
        let mode = std::fs::metadata(data.join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    let env = std::fs::read_to_string(data.join("lab.env")).unwrap();
    let endpoint = first.ready["endpoint"].as_str().unwrap().to_owned();
    assert!(
        env.contains(&format!("CLOUDSTACK_ENDPOINT={endpoint}\n")),
        "{env}"
    );
    let before = nodes(data);
    assert_eq!(before.split(' ').count(), 3);
    let worker = before.split(' ').find(|name| name.contains("-node-")).unwrap();
    assert!(kubectl(data, &["cordon", worker]).status.success());
    // The Kubernetes side is saved a moment after a change.
    let saved = data.join("world/kube-small.objects.json");
    let is_saved = || {
        std::fs::read_to_string(&saved)
            .unwrap_or_default()
            .contains("\"unschedulable\":true")
    };
    assert!((0..10_000).any(|_| {
        std::thread::yield_now();
        nodes(data);
        is_saved()
    }));
    assert!(!first.end(Signal::SIGKILL).success());
    let mut second = Process::start(data);
    assert_eq!(second.ready["endpoint"], endpoint);
    assert_eq!(std::fs::read_to_string(data.join("lab.env")).unwrap(), env);
    assert_eq!(nodes(data), before);
    let cordoned = kubectl(
        data,
        &["get", "node", worker, "-o", "jsonpath={.spec.unschedulable}"],
    );
    assert_eq!(String::from_utf8_lossy(&cordoned.stdout), "true");
    let journal = Command::new(env!("CARGO_BIN_EXE_cksd"))
        .args(["lab", "journal", "--data"])
        .arg(data)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&journal.stdout);
    assert!(
        text.contains("power on") && text.contains("found running"),
        "{text}"
    );
    assert!(second.end(Signal::SIGTERM).success());
}
