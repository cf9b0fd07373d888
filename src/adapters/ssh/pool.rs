//! Proved connections, kept for the next command: one per node, for the whole process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::OnceCell;

use super::connect::{Connection, Fault};
use super::faults::Faults;
use super::prove::Evidence;
use super::wrapper;
use crate::domain::id::VmId;
use crate::ports::shell::{NodeTarget, ShellError, ShellErrorKind};

/// A connection that nothing used for so long is closed.
const IDLE: Duration = Duration::from_mins(5);
/// How often the idle ones are looked for.
const SWEEP: Duration = Duration::from_mins(1);
/// The proof reads a few files, one of them through sudo.
const PROOF_LIMIT: Duration = Duration::from_secs(20);

/// What a connection was proved for. The recorded host keys are part of it, so that a key which an operator has
/// replaced is not served by a proof with the old one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    vm_id: VmId,
    host: String,
    port: u16,
    user: String,
    host_keys: Vec<String>,
}

/// Whoever comes first connects, the others wait for it; no lock is held meanwhile.
type Slot = Arc<OnceCell<Arc<Connection>>>;

#[derive(Default)]
pub(super) struct Pool {
    slots: Mutex<HashMap<Key, Slot>>,
    swept: std::sync::OnceLock<()>,
}

impl Pool {
    fn slots(&self) -> std::sync::MutexGuard<'_, HashMap<Key, Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The proved connection to a node, made if there is none that lives.
    pub(super) async fn get(self: &Arc<Self>, target: &NodeTarget) -> Result<Arc<Connection>, ShellError> {
        self.sweep_from_now_on();
        let key = key(target);
        loop {
            let slot = Arc::clone(self.slots().entry(key.clone()).or_default());
            let connection = slot
                .get_or_try_init(|| Box::pin(open_and_prove(target)))
                .await?
                .clone();
            if !connection.is_closed() {
                return Ok(connection);
            }
            self.forget(target, &connection);
        }
    }

    /// Takes a connection out, unless another took its place.
    pub(super) fn forget(&self, target: &NodeTarget, connection: &Arc<Connection>) {
        let key = key(target);
        let mut slots = self.slots();
        let is_it = slots
            .get(&key)
            .and_then(|slot| slot.get())
            .is_some_and(|pooled| Arc::ptr_eq(pooled, connection));
        if is_it {
            slots.remove(&key);
        }
    }

    /// Starts the task that closes what is idle; it ends with the pool.
    #[expect(
        clippy::disallowed_methods,
        reason = "the adapter owns the age of its connections"
    )]
    fn sweep_from_now_on(self: &Arc<Self>) {
        self.swept.get_or_init(|| {
            let pool = Arc::downgrade(self);
            tokio::spawn(async move {
                loop {
                    tokio::time::sleep(SWEEP).await;
                    let Some(pool) = pool.upgrade() else { return };
                    for connection in pool.take_idle() {
                        connection.close().await;
                    }
                }
            });
        });
    }

    fn take_idle(&self) -> Vec<Arc<Connection>> {
        let mut idle = Vec::new();
        self.slots().retain(|_, slot| match slot.get() {
            // Somebody connects just now.
            None => Arc::strong_count(slot) > 1,
            Some(connection) if connection.is_closed() => false,
            // A follow holds its connection without touching it.
            Some(connection) if connection.idle() > IDLE && Arc::strong_count(connection) == 1 => {
                idle.push(Arc::clone(connection));
                false
            }
            Some(_) => true,
        });
        idle
    }
}

fn key(target: &NodeTarget) -> Key {
    Key {
        vm_id: target.vm_id,
        host: target.host.clone(),
        port: target.port,
        user: target.user.clone(),
        host_keys: target.host_keys.clone(),
    }
}

async fn open_and_prove(target: &NodeTarget) -> Result<Arc<Connection>, ShellError> {
    let faults = Faults::new(target);
    let connection = Connection::open(target).await?;
    let line = wrapper::proof_line(&target.vm_id.to_string());
    let raw = connection
        .run(&line, &[], PROOF_LIMIT)
        .await
        .map_err(|fault| match fault {
            Fault::NotSent(text) | Fault::Lost(text) => {
                faults.away(&format!("the connection broke during the proof: {text}"))
            }
            Fault::Busy(text) => faults.away(&text),
            Fault::TimedOut => faults.away("the proof of its identity did not end within 20 s"),
        })?;
    let Some((_, evidence)) = wrapper::cut(&raw.stdout) else {
        return Err(faults.of(
            ShellErrorKind::Unreadable,
            &format!(
                "it runs no shell commands for this user: {}",
                String::from_utf8_lossy(&raw.stderr).trim()
            ),
        ));
    };
    let evidence = Evidence::read(&String::from_utf8_lossy(evidence));
    evidence.proves(target).map_err(|text| faults.identity(&text))?;
    connection.set_wrapper(evidence.wrapper);
    Ok(Arc::new(connection))
}
