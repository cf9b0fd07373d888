//! Fault points: named places where a test stops a job as `kill -9` would.
//!
//! Around each step (`step:NAME/SUBJECT:before`, `:worked`, `:recorded`), each commit (`commit:…:before`,
//! `:worked`, `:recorded`), each begin (`begin:…:before`, `:after`), each fenced write (`ledger_put:…:before`,
//! `:after` and so on) and the ends of a run (`park:before`, `park:after`, `settle:before`, `settle:after`).
//! In production they are off and cost one comparison.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::db::WriteWatch;

/// The fault points of one worker.
#[derive(Debug)]
pub struct FaultPoints {
    on: bool,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    seen: Vec<String>,
    armed: Option<(String, usize)>,
    crash: CancellationToken,
}

impl FaultPoints {
    /// Points that do nothing.
    #[must_use]
    pub fn off() -> Arc<Self> {
        Arc::new(Self {
            on: false,
            inner: Mutex::default(),
        })
    }

    /// Points that remember that they were passed, and at which a crash can be armed.
    #[must_use]
    pub fn on() -> Arc<Self> {
        Arc::new(Self {
            on: true,
            inner: Mutex::default(),
        })
    }

    /// The next run stops when it passes `point` for the `nth` time from now (1 is the first).
    pub fn arm(&self, point: &str, nth: usize) {
        let mut inner = self.lock();
        inner.armed = Some((point.to_owned(), nth.max(1)));
        inner.crash = CancellationToken::new();
    }

    /// Takes an armed crash back, and says whether it was still waiting for its point.
    pub fn disarm(&self) -> bool {
        let mut inner = self.lock();
        inner.crash = CancellationToken::new();
        inner.armed.take().is_some()
    }

    /// The points that were passed, in order.
    #[must_use]
    pub fn seen(&self) -> Vec<String> {
        self.lock().seen.clone()
    }

    /// Forgets what was passed.
    pub fn forget(&self) {
        self.lock().seen.clear();
    }

    /// A point. It returns, unless a crash is armed here: then it never does, and the run is dropped.
    pub async fn at(&self, point: &str) {
        if !self.on {
            return;
        }
        let crash = {
            let mut inner = self.lock();
            inner.seen.push(point.to_owned());
            let now = match &mut inner.armed {
                Some((armed, left)) if armed == point => {
                    *left -= 1;
                    *left == 0
                }
                _ => false,
            };
            if now {
                inner.armed = None;
            }
            now.then(|| inner.crash.clone())
        };
        if let Some(crash) = crash {
            crash.cancel();
            std::future::pending::<()>().await;
        }
    }

    /// Fires when an armed point is reached in the run that asks. An earlier run's crash is over.
    pub(crate) fn crash_token(&self) -> CancellationToken {
        let mut inner = self.lock();
        if inner.crash.is_cancelled() {
            inner.crash = CancellationToken::new();
        }
        inner.crash.clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl WriteWatch for FaultPoints {
    async fn at(&self, point: &str) {
        FaultPoints::at(self, point).await;
    }
}
