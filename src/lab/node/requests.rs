//! What the stand-ins ask of the lab: `kubeadm`, `systemctl` and the power switches. A stand-in leaves its words
//! in a folder of the spool and writes the folder's name into a FIFO; the answer goes the same way back.

use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use nix::fcntl::OFlag;
use nix::sys::stat::Mode;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::unix::pipe;

use super::Machine;

/// What a stand-in prints, and its code.
#[derive(Debug, Default, PartialEq, Eq)]
struct Answer {
    out: String,
    err: String,
    code: u8,
}

impl Answer {
    fn fine(out: impl Into<String>) -> Self {
        Self {
            out: out.into(),
            ..Self::default()
        }
    }

    fn failed(code: u8, err: impl Into<String>) -> Self {
        Self {
            err: err.into(),
            code,
            ..Self::default()
        }
    }
}

/// Makes the spool and returns its reading end.
pub(super) fn open(lab: &Path) -> io::Result<pipe::Receiver> {
    std::fs::create_dir_all(lab.join("requests"))?;
    let fifo = lab.join("requests.fifo");
    if !fifo.exists() {
        nix::unistd::mkfifo(&fifo, Mode::from_bits_truncate(0o600))?;
    }
    // Open for writing too, so that it does not end when no stand-in has it open.
    let file = std::fs::OpenOptions::new().read(true).write(true).open(fifo)?;
    pipe::Receiver::from_file(file)
}

/// Answers until the power goes.
pub(super) async fn answer(machine: Arc<Machine>, spool: pipe::Receiver) {
    // Whoever asked while no lab was running still waits, if it lives.
    let waiting = std::fs::read_dir(machine.map.lab().join("requests"));
    for entry in waiting.into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        machine.tasks.spawn(one(Arc::clone(&machine), name));
    }
    let mut lines = BufReader::new(spool).lines();
    loop {
        let line = tokio::select! {
            () = machine.off.cancelled() => return,
            line = lines.next_line() => line,
        };
        match line {
            Ok(Some(name)) => {
                machine.tasks.spawn(one(Arc::clone(&machine), name));
            }
            Ok(None) | Err(_) => return,
        }
    }
}

async fn one(machine: Arc<Machine>, name: String) {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '.';
    if !name.chars().all(plain) {
        return;
    }
    let folder = machine.map.lab().join("requests").join(name);
    let done = std::fs::OpenOptions::new()
        .write(true)
        .custom_flags(OFlag::O_NONBLOCK.bits())
        .open(folder.join("done"));
    // Nobody reads: it was killed, so there is nothing to do any more.
    let Ok(mut done) = done else {
        std::fs::remove_dir_all(&folder).ok();
        return;
    };
    let Ok(words) = std::fs::read_to_string(folder.join("words")) else {
        return;
    };
    let mut words = words.lines().map(ToOwned::to_owned);
    let (Some(user), Some(name)) = (words.next(), words.next()) else {
        return;
    };
    let words: Vec<String> = words.collect();
    let answer = tokio::select! {
        () = machine.off.cancelled() => return,
        answer = dispatch(&machine, &user, &name, &words) => answer,
    };
    let written = std::fs::write(folder.join("out"), &answer.out)
        .and_then(|()| std::fs::write(folder.join("err"), &answer.err))
        .and_then(|()| done.write_all(format!("{}\n", answer.code).as_bytes()));
    if let Err(error) = written {
        tracing::warn!(node = %machine.spec.hostname, %error, "an answer to a stand-in was lost");
    }
}

async fn dispatch(machine: &Machine, user: &str, name: &str, words: &[String]) -> Answer {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match (name, words.as_slice()) {
        ("kubeadm", ["token", "create", options @ ..]) => token_create(machine, user, options).await,
        ("kubeadm", ["join", options @ ..]) => join(machine, user, options).await,
        ("kubeadm", other) => Answer::failed(
            1,
            format!(
                "kubeadm: `{}` is not known to this stand-in, only `token create` and `join`\n",
                other.join(" ")
            ),
        ),
        ("systemctl", words) => systemctl(machine, user, words).await,
        ("reboot", _) | ("shutdown", ["-r" | "--reboot", ..]) => power(machine, user, true).await,
        _ => power(machine, user, false).await,
    }
}

async fn token_create(machine: &Machine, user: &str, options: &[&str]) -> Answer {
    if user != "root" {
        return Answer::failed(
            1,
            "failed to load admin kubeconfig: open /etc/kubernetes/admin.conf: permission denied\n",
        );
    }
    let mut ttl = Duration::from_hours(24);
    let mut print_join = false;
    let mut options = options.iter();
    while let Some(option) = options.next() {
        let given = match *option {
            "--print-join-command" => {
                print_join = true;
                continue;
            }
            "--ttl" => options.next().copied(),
            other => other.strip_prefix("--ttl="),
        };
        match given.map(duration) {
            Some(Some(given)) => ttl = given,
            Some(None) => {
                return Answer::failed(1, "invalid argument for \"--ttl\" flag: not a duration\n");
            }
            None => return Answer::failed(1, format!("unknown flag: {option}\n")),
        }
    }
    match machine.host.create_join_token(machine.spec.vm_id, ttl).await {
        Ok(line) if print_join => Answer::fine(format!("{} \n", line.trim())),
        Ok(line) => {
            let token = line
                .split_whitespace()
                .skip_while(|word| *word != "--token")
                .nth(1);
            Answer::fine(format!("{}\n", token.unwrap_or(line.trim())))
        }
        Err(error) => Answer::failed(1, format!("{error}\n")),
    }
}

async fn join(machine: &Machine, user: &str, options: &[&str]) -> Answer {
    let preflight = "[preflight] Running pre-flight checks\n";
    let refused = |what: &str| {
        Answer::failed(
            1,
            format!("error execution phase preflight: [preflight] Some fatal errors occurred:\n\t{what}\n"),
        )
    };
    if user != "root" {
        return refused("[ERROR IsPrivilegedUser]: user is not running as root");
    }
    let kubeconfig = "/etc/kubernetes/kubelet.conf";
    match machine.map.inside(kubeconfig) {
        Ok(place) if !place.exists() => {}
        _ => {
            return refused(
                "[ERROR FileAvailable--etc-kubernetes-kubelet.conf]: /etc/kubernetes/kubelet.conf already exists",
            );
        }
    }
    let words = options.iter().map(|word| (*word).to_owned()).collect();
    let joined = match machine.host.join(machine.spec.vm_id, words).await {
        Ok(text) => machine.store(kubeconfig, &text, 0o600),
        Err(error) => Err(error),
    };
    match joined {
        Ok(()) => Answer::fine(format!(
            "{preflight}[kubelet-start] Starting the kubelet\n\nThis node has joined the cluster:\n\
             * Certificate signing request was sent to apiserver and a response was received.\n\
             * The Kubelet was informed of the new secure connection details.\n"
        )),
        Err(error) => Answer {
            out: preflight.to_owned(),
            err: format!("error execution phase preflight: {error}\n"),
            code: 1,
        },
    }
}

/// Only the kubelet is a unit that does something; the container runtimes are there, always active.
async fn systemctl(machine: &Machine, user: &str, words: &[&str]) -> Answer {
    let now = words.contains(&"--now");
    let mut words = words.iter().copied().filter(|word| !word.starts_with('-'));
    let Some(verb) = words.next() else {
        return Answer::failed(1, "systemctl: this stand-in needs a verb and a unit\n");
    };
    let units: Vec<&str> = words
        .map(|unit| unit.strip_suffix(".service").unwrap_or(unit))
        .collect();
    if verb == "daemon-reload" {
        return Answer::default();
    }
    if units.is_empty() {
        return Answer::failed(1, "Too few arguments.\n");
    }
    let unknown = units
        .iter()
        .find(|unit| !["kubelet", "containerd", "docker"].contains(unit));
    if let Some(unit) = unknown {
        return Answer::failed(
            5,
            format!("Failed to {verb} {unit}.service: Unit {unit}.service not found.\n"),
        );
    }
    let kubelet = units.contains(&"kubelet");
    if ["is-active", "is-enabled", "status"].contains(&verb) {
        let flag = if verb == "is-enabled" { DISABLED } else { STOPPED };
        return match (verb, kubelet && machine.flag(flag)) {
            ("is-enabled", false) => Answer::fine("enabled\n"),
            ("is-enabled", true) => Answer {
                code: 1,
                ..Answer::fine("disabled\n")
            },
            (_, false) => Answer::fine("active\n"),
            (_, true) => Answer {
                code: 3,
                ..Answer::fine("inactive\n")
            },
        };
    }
    if user != "root" {
        return Answer::failed(
            1,
            format!(
                "Failed to {verb} {}.service: Interactive authentication required.\n",
                units.join(" ")
            ),
        );
    }
    let (enabled, running) = match verb {
        "start" | "restart" => (None, Some(true)),
        "stop" | "kill" => (None, Some(false)),
        "enable" | "unmask" => (Some(true), now.then_some(true)),
        "disable" | "mask" => (Some(false), now.then_some(false)),
        other => return Answer::failed(1, format!("Unknown operation {other}.\n")),
    };
    if kubelet {
        if let Some(enabled) = enabled {
            machine.set_flag(DISABLED, !enabled);
        }
        if let Some(running) = running {
            machine.set_flag(STOPPED, !running);
            machine.host.kubelet(machine.spec.vm_id, running).await;
        }
    }
    Answer::default()
}

/// The kubelet does not start with the machine.
pub(super) const DISABLED: &str = "kubelet-disabled";
/// The kubelet was stopped.
pub(super) const STOPPED: &str = "kubelet-stopped";

async fn power(machine: &Machine, user: &str, again: bool) -> Answer {
    if user != "root" {
        return Answer::failed(
            1,
            "Failed to set the power state: Interactive authentication required.\n",
        );
    }
    if machine.host.power(machine.spec.vm_id, again).await {
        Answer::default()
    } else {
        Answer::failed(1, "this lab's cloud has no power switch inside its machines\n")
    }
}

/// Reads a duration as Go writes it: `2h`, `90m`, `1h30m`, `45s`; `0` is for ever.
fn duration(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut seconds = 0_u64;
    let mut number = String::new();
    for c in text.chars() {
        if c.is_ascii_digit() {
            number.push(c);
            continue;
        }
        let unit = match c {
            'h' => 3600,
            'm' => 60,
            's' => 1,
            _ => return None,
        };
        seconds = seconds.checked_add(number.parse::<u64>().ok()?.checked_mul(unit)?)?;
        number.clear();
    }
    number.is_empty().then_some(Duration::from_secs(seconds))
}
