//! How a process ends: signals, the token that everything watches, the tasks that are waited for.

use std::future::Future;
use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The tasks of a process and the token that ends them.
#[derive(Debug, Clone, Default)]
pub struct Lifecycle {
    stop: CancellationToken,
    tasks: TaskTracker,
}

/// What became of the tasks at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// All tasks ended.
    All,
    /// This many were still running when the time was over.
    StillRunning(usize),
}

impl Lifecycle {
    /// A process that has just begun.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The token that is cancelled when the process is to end.
    #[must_use]
    pub fn token(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// The tracker, for a part that starts tasks of its own.
    #[must_use]
    pub fn tracker(&self) -> &TaskTracker {
        &self.tasks
    }

    /// Starts a task that the end of the process waits for.
    pub fn spawn<F>(&self, task: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.tasks.spawn(task)
    }

    /// Tells all tasks to end and waits for them, at most `limit`. Work that is not finished then is taken up
    /// by another process, so a hard end loses nothing.
    pub async fn end(&self, limit: Duration) -> Ended {
        self.stop.cancel();
        self.tasks.close();
        match tokio::time::timeout(limit, self.tasks.wait()).await {
            Ok(()) => Ended::All,
            Err(_) => Ended::StillRunning(self.tasks.len()),
        }
    }
}

/// Waits for SIGTERM or SIGINT and returns its name.
pub async fn signalled() -> io::Result<&'static str> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    })
}

/// Tells the service manager, if there is one: `READY=1`, `STOPPING=1` (`sd_notify`). `socket` is the value of
/// `NOTIFY_SOCKET`; one that begins with `@` is in the abstract namespace.
pub fn notify(socket: Option<&str>, state: &str) -> io::Result<()> {
    let Some(socket) = socket else { return Ok(()) };
    let sender = UnixDatagram::unbound()?;
    match socket.strip_prefix('@') {
        Some(name) => {
            use std::os::linux::net::SocketAddrExt as _;
            let address = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
            sender.send_to_addr(state.as_bytes(), &address)?;
        }
        None => {
            sender.send_to(state.as_bytes(), Path::new(socket))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_end_waits_for_tasks_that_watch_the_token_and_names_those_that_do_not() {
        let lifecycle = Lifecycle::new();
        let token = lifecycle.token();
        lifecycle.spawn(async move { token.cancelled().await });
        assert_eq!(lifecycle.end(Duration::from_secs(30)).await, Ended::All);

        let stubborn = Lifecycle::new();
        stubborn.spawn(std::future::pending::<()>());
        assert_eq!(
            stubborn.end(Duration::from_millis(10)).await,
            Ended::StillRunning(1)
        );
    }

    #[test]
    fn the_service_manager_hears_the_state() {
        let folder = std::env::temp_dir().join(format!("cksd-notify-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("socket");
        let manager = UnixDatagram::bind(&path).unwrap();
        notify(path.to_str(), "READY=1").unwrap();
        let mut text = [0; 16];
        let length = manager.recv(&mut text).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(&text[..length], b"READY=1");
        notify(None, "READY=1").unwrap();
    }
}
