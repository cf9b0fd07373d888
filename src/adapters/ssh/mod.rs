//! The shell port over SSH: proved connections from a pool, and on each node the wrapper script
//! (`assets/node/wrapper.sh`) which keeps the fence and the long commands.
//!
//! What this must not know: the database, jobs.

mod connect;
mod faults;
mod host_keys;
mod pool;
mod prove;
pub mod quote;
mod wrapper;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use self::connect::{Connection, Fault, Raw};
use self::faults::{Faults, unanswered};
use self::pool::Pool;
use self::wrapper::Answer;
use crate::ports::fault::Effect;
use crate::ports::shell::{
    Access, Command, Fence, NodeShell, NodeTarget, Output, RunKey, RunState, Scan, ShellError, ShellErrorKind,
};

/// For the wrapper's quick answers: the fence, a state.
const ASK_LIMIT: Duration = Duration::from_secs(20);
/// For a start: the wrapper waits up to 15 s for its runner.
const RUN_LIMIT: Duration = Duration::from_secs(30);
/// For a stop: 10 s after SIGTERM, 3 s each after SIGKILL.
const STOP_LIMIT: Duration = Duration::from_secs(45);
/// What a follow may take beyond its own limit.
const FOLLOW_MARGIN: Duration = Duration::from_secs(15);

/// The shell port over SSH. One per process: the pool of connections is its own.
#[derive(Default)]
pub struct SshShell {
    pool: Arc<Pool>,
}

/// An answer with what stands behind it on each stream.
struct Reply {
    answer: Answer,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    raw_exit: Option<crate::ports::shell::Exit>,
    overflow: bool,
}

impl SshShell {
    /// A shell with an empty pool.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Calls the wrapper on a node: connects and pushes the wrapper first when needed, and once more when the
    /// pooled connection turns out to be dead before anything was sent.
    async fn call(
        &self,
        target: &NodeTarget,
        words: &[&str],
        stdin: &[u8],
        access: Access,
        limit: Duration,
    ) -> Result<Reply, ShellError> {
        let faults = Faults::new(target);
        if !words.iter().all(|word| quote::is_passable(word)) {
            return Err(faults.of(
                ShellErrorKind::Unreadable,
                "a word of the command holds a NUL byte",
            ));
        }
        let line = wrapper::line(words);
        let mut renewed = 0;
        loop {
            let connection = self.pool.get(target).await?;
            let raw = match self.send(&connection, &line, stdin, limit).await {
                Ok(raw) => raw,
                Err(fault) => {
                    if matches!(fault, Fault::NotSent(_) | Fault::Lost(_)) {
                        self.pool.forget(target, &connection);
                    }
                    if matches!(fault, Fault::NotSent(_)) && renewed == 0 {
                        renewed += 1;
                        continue;
                    }
                    return Err(failed(&faults, fault, access, limit));
                }
            };
            let reply = read_reply(&faults, raw)?;
            match reply.answer {
                // Removed since we looked, by a release for example.
                Answer::Absent if renewed < 2 => {
                    connection.set_wrapper(false);
                    renewed += 2;
                }
                Answer::Absent => {
                    return Err(faults.of(ShellErrorKind::Unreadable, "its ~/.cksd keeps no wrapper"));
                }
                Answer::Refused(text) => return Err(faults.of(ShellErrorKind::Fence, &text)),
                Answer::Broken(text) => {
                    return Err(faults.with(
                        ShellErrorKind::Unreadable,
                        &format!("the wrapper cannot work: {text}"),
                        unanswered(access),
                    ));
                }
                _ => return Ok(reply),
            }
        }
    }

    async fn send(
        &self,
        connection: &Connection,
        line: &str,
        stdin: &[u8],
        limit: Duration,
    ) -> Result<Raw, Fault> {
        if !connection.has_wrapper() {
            push(connection).await?;
        }
        connection.run(line, stdin, limit).await
    }

    /// Calls a verb that answers with a state.
    async fn state(
        &self,
        target: &NodeTarget,
        words: &[&str],
        access: Access,
        limit: Duration,
    ) -> Result<RunState, ShellError> {
        let reply = self.call(target, words, &[], access, limit).await?;
        let line = format!("{:?}", reply.answer);
        wrapper::state(reply.answer, &reply.stdout, &reply.stderr)
            .ok_or_else(|| odd(target, &line, unanswered(access)))
    }
}

/// Writes the wrapper. Nothing of a command is sent before it is there, so its failures are *not sent*.
async fn push(connection: &Connection) -> Result<(), Fault> {
    let raw = connection
        .run(&wrapper::push_line(), wrapper::SCRIPT.as_bytes(), ASK_LIMIT)
        .await
        .map_err(|fault| match fault {
            Fault::Lost(text) => Fault::NotSent(text),
            Fault::TimedOut => Fault::Busy("the wrapper could not be written within 20 s".to_owned()),
            other => other,
        })?;
    let pushed =
        wrapper::cut(&raw.stdout).is_some_and(|(line, _)| wrapper::read(line) == Some(Answer::Pushed));
    if pushed {
        connection.set_wrapper(true);
        return Ok(());
    }
    Err(Fault::Busy(format!(
        "the wrapper cannot be written to ~/.cksd: {}",
        String::from_utf8_lossy(&raw.stderr).trim()
    )))
}

fn failed(faults: &Faults, fault: Fault, access: Access, limit: Duration) -> ShellError {
    match fault {
        Fault::NotSent(text) => faults.away(&format!("the connection broke: {text}")),
        Fault::Busy(text) => faults.away(&text),
        Fault::Lost(text) => faults.with(
            ShellErrorKind::Lost,
            &format!("the connection was lost after the command was sent: {text}"),
            unanswered(access),
        ),
        Fault::TimedOut => faults.with(
            ShellErrorKind::TimedOut,
            &format!("the command did not end within {} s", limit.as_secs()),
            unanswered(access),
        ),
    }
}

fn read_reply(faults: &Faults, raw: Raw) -> Result<Reply, ShellError> {
    let found = wrapper::cut(&raw.stdout)
        .and_then(|(line, rest)| wrapper::read(line).map(|answer| (answer, rest.to_vec())));
    let Some((answer, stdout)) = found else {
        // The wrapper speaks before it does anything, so nothing was done.
        return Err(faults.of(
            ShellErrorKind::Unreadable,
            &format!(
                "the wrapper gave no answer that can be read: {}",
                tail(&String::from_utf8_lossy(&raw.stderr))
            ),
        ));
    };
    let stderr = wrapper::cut(&raw.stderr).map_or_else(|| raw.stderr.clone(), |(_, rest)| rest.to_vec());
    Ok(Reply {
        answer,
        stdout,
        stderr,
        raw_exit: raw.exit,
        overflow: raw.overflow,
    })
}

/// The end of a text for an error.
fn tail(text: &str) -> String {
    let text = text.trim();
    let skip = text.chars().count().saturating_sub(500);
    text.chars().skip(skip).collect()
}

fn odd(target: &NodeTarget, line: &str, effect: Effect) -> ShellError {
    Faults::new(target).with(
        ShellErrorKind::Unreadable,
        &format!("the wrapper gave an unexpected answer: {line}"),
        effect,
    )
}

#[async_trait]
impl NodeShell for SshShell {
    async fn prove(&self, target: &NodeTarget) -> Result<(), ShellError> {
        self.pool.get(target).await.map(drop)
    }

    async fn exec(
        &self,
        target: &NodeTarget,
        fence: Fence,
        access: Access,
        command: &Command,
        limit: Duration,
    ) -> Result<Output, ShellError> {
        let (installation, epoch) = (fence.installation.to_string(), fence.epoch.to_string());
        let how = match access {
            Access::Reads => "reads",
            Access::Changes => "changes",
        };
        let mut words = vec!["exec", &installation, &epoch, how, "--"];
        words.extend(command.words.iter().map(String::as_str));
        let stdin = command.stdin.as_deref().unwrap_or_default();
        let reply = self.call(target, &words, stdin, access, limit).await?;
        let faults = Faults::new(target);
        let (Answer::Go, Some(exit)) = (&reply.answer, reply.raw_exit) else {
            return Err(odd(target, &format!("{:?}", reply.answer), unanswered(access)));
        };
        if reply.overflow {
            return Err(faults.with(
                ShellErrorKind::Unreadable,
                "the command printed more than 8 MiB",
                unanswered(access),
            ));
        }
        Ok(Output {
            exit,
            stdout: String::from_utf8_lossy(&reply.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&reply.stderr).into_owned(),
        })
    }

    async fn run(
        &self,
        target: &NodeTarget,
        fence: Fence,
        key: &RunKey,
        command: &Command,
    ) -> Result<RunState, ShellError> {
        let (installation, epoch) = (fence.installation.to_string(), fence.epoch.to_string());
        let name = wrapper::run_name(key);
        let mut words = vec!["run", &installation, &epoch, &name, "--"];
        words.extend(command.words.iter().map(String::as_str));
        self.state(target, &words, Access::Changes, RUN_LIMIT).await
    }

    async fn ask(&self, target: &NodeTarget, fence: Fence, key: &RunKey) -> Result<RunState, ShellError> {
        let (installation, epoch) = (fence.installation.to_string(), fence.epoch.to_string());
        let words = ["ask", &installation, &epoch, &wrapper::run_name(key)];
        self.state(target, &words, Access::Reads, ASK_LIMIT).await
    }

    async fn follow(
        &self,
        target: &NodeTarget,
        fence: Fence,
        key: &RunKey,
        limit: Duration,
    ) -> Result<RunState, ShellError> {
        let (installation, epoch) = (fence.installation.to_string(), fence.epoch.to_string());
        let seconds = limit.as_secs().to_string();
        let words = ["follow", &installation, &epoch, &wrapper::run_name(key), &seconds];
        self.state(target, &words, Access::Reads, limit + FOLLOW_MARGIN)
            .await
    }

    async fn stop(&self, target: &NodeTarget, fence: Fence, key: &RunKey) -> Result<RunState, ShellError> {
        let (installation, epoch) = (fence.installation.to_string(), fence.epoch.to_string());
        let words = ["stop", &installation, &epoch, &wrapper::run_name(key)];
        self.state(target, &words, Access::Changes, STOP_LIMIT).await
    }

    async fn fence(&self, target: &NodeTarget) -> Result<Option<Fence>, ShellError> {
        let reply = self
            .call(target, &["fence"], &[], Access::Reads, ASK_LIMIT)
            .await?;
        match reply.answer {
            Answer::Fence(fence) => Ok(fence),
            other => Err(odd(target, &format!("{other:?}"), Effect::DidNotHappen)),
        }
    }

    async fn take_over(&self, target: &NodeTarget, fence: Fence) -> Result<(), ShellError> {
        let (installation, epoch) = (fence.installation.to_string(), fence.epoch.to_string());
        let words = ["take-over", &installation, &epoch];
        let reply = self.call(target, &words, &[], Access::Changes, ASK_LIMIT).await?;
        match reply.answer {
            Answer::Fence(Some(_)) => Ok(()),
            other => Err(odd(target, &format!("{other:?}"), Effect::MayHaveHappened)),
        }
    }

    async fn scan(&self, host: &str, port: u16) -> Result<Scan, ShellError> {
        let (host_keys, fingerprints) = host_keys::scan(host, port).await?.into_iter().unzip();
        Ok(Scan {
            host_keys,
            fingerprints,
        })
    }
}
