//! Commands of a node: how one is started, and how its streams and its end go to an SSH channel.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use bytes::Bytes;
use nix::sys::signal::Signal;
use russh::server::{Handle, Msg};
use russh::{ChannelWriteHalf, Sig};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_util::sync::CancellationToken;

use super::paths::PathMap;
use super::{Machine, processes, shims};

/// How long the output of a command that has ended is waited for before its exit code goes out. A child that
/// it left behind may hold the streams open for ever; OpenSSH sends the code at once then, too.
const LAST_OUTPUT: Duration = Duration::from_millis(100);

/// A program with the environment of a node's user, in a process group of its own.
pub(super) fn program(map: &PathMap, path: &Path, user: &str) -> Command {
    let root = map.root();
    let home = if user == "root" {
        format!("{root}/root")
    } else {
        format!("{root}/home/{user}")
    };
    let mut command = Command::new(path);
    command
        .env_clear()
        .env(processes::MARK, root)
        .env(
            "PATH",
            format!("{root}/.lab/bin:{root}/opt/bin:{}", shims::SYSTEM_PATH),
        )
        .env("HOME", &home)
        .env("USER", user)
        .env("LOGNAME", user)
        .env("SHELL", "/bin/sh")
        .env("LANG", "C.UTF-8")
        .env("TMPDIR", format!("{root}/tmp"))
        .current_dir(&home)
        .process_group(0)
        .stdin(Stdio::null());
    command
}

/// A command line of the login user, its streams piped.
pub(super) fn shell(map: &PathMap, user: &str, what: Shell<'_>) -> io::Result<Child> {
    let mut command = program(map, Path::new("/bin/sh"), user);
    match what {
        Shell::Line(line) => command.arg("-c").arg(map.map(line)),
        Shell::Interactive => command.arg("-i"),
    };
    command
        .env("SSH_CONNECTION", "127.0.0.1 0 127.0.0.1 22")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
}

/// What the login shell is asked for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Shell<'a> {
    /// To run a command line.
    Line(&'a str),
    /// To read commands from its input.
    Interactive,
}

/// The SSH side of a command.
pub(super) struct Client {
    /// Writes to the channel.
    pub(super) channel: ChannelWriteHalf<Msg>,
    /// The connection, for what the channel's half cannot send.
    pub(super) session: Handle,
    /// What the client sends; closed when it has no more.
    pub(super) input: UnboundedReceiver<Bytes>,
    /// Cancelled when the channel is over: the client has closed it, the connection is lost, or all is sent.
    pub(super) gone: CancellationToken,
}

/// Carries the streams between a command and its client until both are done. A client that goes away ends
/// nothing: what the command prints from then on is read and dropped.
pub(super) async fn carry(machine: &Machine, mut child: Child, id: &str, client: Client) {
    let Client {
        channel,
        session,
        input,
        gone,
    } = client;
    if let Some(stdin) = child.stdin.take() {
        machine.tasks.spawn(feed(stdin, input));
    }
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let outputs = async {
        tokio::join!(
            drain(stdout, &channel, None, &gone),
            drain(stderr, &channel, Some(1), &gone)
        );
    };
    tokio::pin!(outputs);
    let mut drained = false;
    let ended = loop {
        tokio::select! {
            ended = child.wait() => break ended,
            () = &mut outputs, if !drained => drained = true,
        }
    };
    machine.journal.exit(id, code(ended.as_ref().ok()));
    if !drained {
        drained = tokio::time::timeout(LAST_OUTPUT, &mut outputs).await.is_ok();
    }
    tell(&channel, &session, ended.ok(), &gone).await;
    if !drained {
        outputs.await;
    }
    if !gone.is_cancelled() {
        // The client may go at any moment; then there is nobody to tell.
        channel.eof().await.ok();
        // Free before the client learns of it, and opens the next one.
        gone.cancel();
        channel.close().await.ok();
    }
}

/// The code that a shell would show.
pub(super) fn code(ended: Option<&ExitStatus>) -> i32 {
    match ended {
        Some(status) => status
            .code()
            .or_else(|| status.signal().map(|signal| signal + 128))
            .unwrap_or(255),
        None => 255,
    }
}

async fn tell(
    channel: &ChannelWriteHalf<Msg>,
    session: &Handle,
    ended: Option<ExitStatus>,
    gone: &CancellationToken,
) {
    if gone.is_cancelled() {
        return;
    }
    if let Some(signal) = ended.and_then(|status| status.signal()) {
        let name = signal_name(signal);
        let sent = session.exit_signal_request(channel.id(), name, false, String::new(), String::new());
        sent.await.ok();
    } else {
        let code = u32::try_from(code(ended.as_ref())).unwrap_or(255);
        channel.exit_status(code).await.ok();
    }
}

fn signal_name(signal: i32) -> Sig {
    match Signal::try_from(signal) {
        Ok(Signal::SIGABRT) => Sig::ABRT,
        Ok(Signal::SIGALRM) => Sig::ALRM,
        Ok(Signal::SIGFPE) => Sig::FPE,
        Ok(Signal::SIGHUP) => Sig::HUP,
        Ok(Signal::SIGILL) => Sig::ILL,
        Ok(Signal::SIGINT) => Sig::INT,
        Ok(Signal::SIGKILL) => Sig::KILL,
        Ok(Signal::SIGPIPE) => Sig::PIPE,
        Ok(Signal::SIGQUIT) => Sig::QUIT,
        Ok(Signal::SIGSEGV) => Sig::SEGV,
        Ok(Signal::SIGTERM) => Sig::TERM,
        Ok(Signal::SIGUSR1) => Sig::USR1,
        _ => Sig::Custom(format!("{signal}@cksd")),
    }
}

/// The signal that a client asks for; none for those that the kernel does not know by that name.
pub(super) fn signal_number(signal: &Sig) -> Option<Signal> {
    Some(match signal {
        Sig::ABRT => Signal::SIGABRT,
        Sig::ALRM => Signal::SIGALRM,
        Sig::FPE => Signal::SIGFPE,
        Sig::HUP => Signal::SIGHUP,
        Sig::ILL => Signal::SIGILL,
        Sig::INT => Signal::SIGINT,
        Sig::KILL => Signal::SIGKILL,
        Sig::PIPE => Signal::SIGPIPE,
        Sig::QUIT => Signal::SIGQUIT,
        Sig::SEGV => Signal::SIGSEGV,
        Sig::TERM => Signal::SIGTERM,
        Sig::USR1 => Signal::SIGUSR1,
        Sig::Custom(_) => return None,
    })
}

/// Writes what the client sends. A command that reads no more is no reason to stop taking it.
async fn feed(mut stdin: ChildStdin, mut input: UnboundedReceiver<Bytes>) {
    while let Some(data) = input.recv().await {
        if stdin.write_all(&data).await.is_err() {
            return;
        }
    }
}

/// Sends what a stream of the command brings, until its end.
async fn drain<R: AsyncRead + Unpin>(
    stream: Option<R>,
    channel: &ChannelWriteHalf<Msg>,
    kind: Option<u32>,
    gone: &CancellationToken,
) {
    let Some(mut stream) = stream else { return };
    let mut buffer = vec![0; 32 * 1024];
    loop {
        let data = match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(length) => Bytes::copy_from_slice(buffer.get(..length).unwrap_or_default()),
        };
        if gone.is_cancelled() {
            continue;
        }
        let sent = async {
            match kind {
                None => channel.data_bytes(data).await,
                Some(kind) => channel.extended_data_bytes(kind, data).await,
            }
        };
        tokio::select! {
            () = gone.cancelled() => {}
            sent = sent => if sent.is_err() {
                gone.cancel();
            },
        }
    }
}
