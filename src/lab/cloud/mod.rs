//! The lab's CloudStack API: records, commands, jobs with service times, and the server.
//!
//! Start with `registry` (the commands), `work` (what jobs do) and `model` (the records). Faithful: signatures,
//! ids and their errors, visibility, paging, states of machines and rules, jobs that queue on a machine. Not
//! built: sessions, VPCs, shared networks, quotas, hosts.
//!
//! What this must not know: the service, Kubernetes, and what runs in a machine.

mod balancers;
mod call;
mod catalogue;
mod deploy;
mod door;
mod fault;
mod identity;
mod jobs;
mod machines;
pub(crate) mod model;
mod registry;
mod rules;
mod server;
mod state;
#[cfg(test)]
mod tests;
pub(crate) mod view;
pub(crate) mod work;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use async_trait::async_trait;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use self::model::CloudState;
use super::faults::Faults;
use super::files;

pub(crate) use self::door::{Cut, Doors};
pub(crate) use self::server::router;

/// What hangs on the records: listeners, machines. Called when records have changed, before a job ends.
#[async_trait]
pub(crate) trait Outside: Send + Sync {
    /// Makes the outside equal to the records.
    async fn settle(&self);
}

/// The cloud: its records, and the jobs that run.
pub(crate) struct Cloud {
    state: Mutex<CloudState>,
    file: Option<PathBuf>,
    factor: f64,
    changed: watch::Sender<u64>,
    turns: Mutex<HashMap<Uuid, Arc<tokio::sync::Mutex<()>>>>,
    outside: Mutex<Option<Weak<dyn Outside>>>,
    pub(crate) faults: Arc<Faults>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Cloud {
    /// A cloud over the given records, saved to `file` after each change; `factor` scales the service times.
    pub(crate) fn new(state: CloudState, file: Option<PathBuf>, factor: f64) -> Arc<Self> {
        let cloud = Arc::new(Self {
            state: Mutex::new(state),
            file,
            factor,
            changed: watch::Sender::new(0),
            turns: Mutex::default(),
            outside: Mutex::default(),
            faults: Arc::default(),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        });
        cloud.change(|_| ());
        cloud
    }

    /// Names what hangs on the records.
    pub(crate) fn set_outside(&self, outside: Weak<dyn Outside>) {
        *self.outside.lock().unwrap_or_else(PoisonError::into_inner) = Some(outside);
    }

    /// Looks at the records.
    pub(crate) fn read<R>(&self, f: impl FnOnce(&CloudState) -> R) -> R {
        f(&self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes the records. They are on disk when this returns, so that an answer given afterwards survives
    /// the end of the process.
    pub(crate) fn change<R>(&self, f: impl FnOnce(&mut CloudState) -> R) -> R {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let out = f(&mut state);
        if let Some(file) = &self.file
            && let Err(error) = files::save_json(file, &*state)
        {
            tracing::error!(file = %file.display(), %error, "the lab's world was not saved");
        }
        drop(state);
        self.changed.send_modify(|count| *count += 1);
        out
    }

    /// Tells of changes.
    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Waits until the outside equals the records.
    pub(crate) async fn settle(&self) {
        let outside = self
            .outside
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .as_ref()
            .and_then(Weak::upgrade);
        if let Some(outside) = outside {
            outside.settle().await;
        }
    }

    /// The queue of a machine.
    fn turn(&self, vm: Uuid) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(turns.entry(vm).or_default())
    }

    /// Tells the runners of jobs to stop.
    pub(crate) fn halt(&self) {
        self.stop.cancel();
    }

    /// Stops the runners of jobs; unfinished jobs go on at the next start.
    pub(crate) async fn close(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}
