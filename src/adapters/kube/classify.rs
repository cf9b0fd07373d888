//! What a failed kubectl or a failed shell means. The exit code of kubectl is 1 for everything, so its standard
//! error decides; noise on it (warnings, log lines of client-go) must not.

use crate::ports::fault::{Effect, Retry};
use crate::ports::kube::{KubeError, KubeErrorKind};
use crate::ports::shell::{Access, Exit, Output, ShellError, ShellErrorKind};

/// How much of kubectl's output an error carries.
const TAIL: usize = 2000;

/// Words of a server or a network that does not answer.
const AWAY: [&str; 17] = [
    "connection refused",
    "was refused - did you specify the right host or port",
    "unable to connect to the server",
    "i/o timeout",
    "tls handshake timeout",
    "context deadline exceeded",
    "client.timeout exceeded",
    "no route to host",
    "network is unreachable",
    "connection reset by peer",
    "http2: client connection lost",
    "unexpected eof",
    "(serviceunavailable)",
    "(internalerror)",
    "(timeout)",
    "(servertimeout)",
    "etcdserver:",
];

/// Words of a refusal.
const REFUSED: [&str; 9] = [
    "(unauthorized)",
    "you must be logged in to the server",
    "(forbidden)",
    "x509:",
    "(invalid)",
    "(badrequest)",
    "(methodnotallowed)",
    "a password is required",
    "is not in the sudoers file",
];

/// The kind of a failure by what kubectl wrote on its standard error.
#[must_use]
pub fn kind_of(stderr: &str) -> KubeErrorKind {
    // klog lines repeat what the last line says, once for each API group, and can stand beside a success.
    let said: Vec<String> = stderr
        .lines()
        .filter(|line| !is_log_line(line) && !line.starts_with("Warning:"))
        .map(str::to_ascii_lowercase)
        .collect();
    let has = |words: &[&str]| {
        said.iter()
            .any(|line| words.iter().any(|word| line.contains(word)))
    };
    if has(&REFUSED) {
        KubeErrorKind::Refused
    } else if has(&["(notfound)"]) {
        KubeErrorKind::NotFound
    } else if has(&AWAY) {
        KubeErrorKind::ApiAway
    } else {
        KubeErrorKind::Failed
    }
}

/// `E1130 17:42:51.364237   24921 memcache.go:265] ...`
fn is_log_line(line: &str) -> bool {
    let mut chars = line.chars();
    matches!(chars.next(), Some('E' | 'W' | 'I' | 'F'))
        && line
            .get(1..5)
            .is_some_and(|day| day.bytes().all(|b| b.is_ascii_digit()))
        && line.contains("] ")
}

/// The error of a kubectl that did not exit with 0.
pub(super) fn failed(what: &str, output: &Output, access: Access) -> KubeError {
    let kind = kind_of(&output.stderr);
    let how = match &output.exit {
        Exit::Exited(code) => format!("exit code {code}"),
        Exit::Signaled(signal) => format!("ended by signal {signal}"),
    };
    let effect = match (access, kind) {
        // Refused or not found before anything was done.
        (Access::Reads, _) | (_, KubeErrorKind::Refused | KubeErrorKind::NotFound) => Effect::DidNotHappen,
        _ => Effect::MayHaveHappened,
    };
    KubeError {
        text: format!("{what}: {how}: {}", tail(&output.stderr)),
        kind,
        effect,
        retry: retry(kind),
    }
}

fn retry(kind: KubeErrorKind) -> Retry {
    match kind {
        KubeErrorKind::ApiAway | KubeErrorKind::Unreadable | KubeErrorKind::ControlNode => Retry::Soon,
        KubeErrorKind::Failed | KubeErrorKind::Refused => Retry::Later,
        KubeErrorKind::NotFound | KubeErrorKind::Fence => Retry::Never,
    }
}

/// An answer that cannot be read.
pub(super) fn unreadable(what: &str, why: &str) -> KubeError {
    KubeError {
        text: format!("{what}: the answer cannot be read: {why}"),
        kind: KubeErrorKind::Unreadable,
        effect: Effect::DidNotHappen,
        retry: Retry::Soon,
    }
}

/// A request that is refused before anything is sent.
pub(super) fn refused(text: String) -> KubeError {
    KubeError {
        text,
        kind: KubeErrorKind::Refused,
        effect: Effect::DidNotHappen,
        retry: Retry::Never,
    }
}

/// An error of the shell in terms of Kubernetes.
pub(super) fn shell(what: &str, error: &ShellError) -> KubeError {
    let kind = match error.kind {
        ShellErrorKind::Away
        | ShellErrorKind::Login
        | ShellErrorKind::HostKey
        | ShellErrorKind::Identity
        | ShellErrorKind::Lost => KubeErrorKind::ControlNode,
        ShellErrorKind::Fence => KubeErrorKind::Fence,
        // The node answers, but kubectl hangs: that is what a hung API server looks like.
        ShellErrorKind::TimedOut => KubeErrorKind::ApiAway,
        ShellErrorKind::Unreadable => KubeErrorKind::Unreadable,
    };
    KubeError {
        text: format!("{what}: {}", error.text),
        kind,
        effect: error.effect,
        retry: error.retry,
    }
}

/// The end of a text, at most [`TAIL`] characters, from the start of a line.
#[must_use]
pub fn tail(text: &str) -> &str {
    let text = text.trim_end();
    let Some((at, _)) = text.char_indices().rev().nth(TAIL - 1) else {
        return text.trim_start();
    };
    if at == 0 || text.as_bytes().get(at - 1) == Some(&b'\n') {
        return text.get(at..).unwrap_or_default();
    }
    let cut = text.get(at..).unwrap_or_default();
    // One endless line is cut inside, since nothing would be left otherwise.
    cut.find('\n').and_then(|line| cut.get(line + 1..)).unwrap_or(cut)
}
