//! A lease as its holder sees it: valid until its own monotonic clock says otherwise.
//!
//! The database knows when a lease ends, SSH and the cloud do not. So a worker counts from the moment at which
//! it *sent* its last successful heartbeat, on a clock that a frozen process cannot stop, and does nothing
//! more for the job once lease minus margin has passed.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use sqlx::PgPool;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::db::{DbError, jobs};

/// The state of one claim.
#[derive(Debug)]
pub(crate) struct LeaseState {
    pub(crate) lease: jobs::Lease,
    origin: Instant,
    /// Milliseconds after `origin`.
    valid_until: AtomicU64,
    span: Duration,
    /// Fires when the lease is lost.
    pub(crate) lost: CancellationToken,
    /// Set when somebody cancelled the job.
    pub(crate) cancelled: Arc<AtomicBool>,
}

impl LeaseState {
    /// A lease of `length` that was asked for at `sent`.
    pub(crate) fn new(lease: jobs::Lease, sent: Instant, length: Duration, cancelled: bool) -> Self {
        let state = Self {
            lease,
            origin: sent,
            valid_until: AtomicU64::new(0),
            // A tenth for the difference between deciding to act and acting.
            span: length.mul_f64(0.9),
            lost: CancellationToken::new(),
            cancelled: Arc::new(AtomicBool::new(cancelled)),
        };
        state.extend(sent);
        state
    }

    fn extend(&self, sent: Instant) {
        let until = sent.saturating_duration_since(self.origin) + self.span;
        self.valid_until.fetch_max(
            u64::try_from(until.as_millis()).unwrap_or(u64::MAX),
            Ordering::AcqRel,
        );
    }

    fn valid_until(&self) -> Instant {
        self.origin + Duration::from_millis(self.valid_until.load(Ordering::Acquire))
    }

    /// Whether the holder may still act. Once it may not, it never may again.
    pub(crate) fn is_live(&self) -> bool {
        if self.lost.is_cancelled() {
            return false;
        }
        if Instant::now() >= self.valid_until() {
            self.lost.cancel();
            return false;
        }
        true
    }
}

/// Keeps a lease until it is lost or this future is dropped.
#[expect(
    clippy::disallowed_methods,
    reason = "the heartbeat is paced by the real clock"
)]
pub(crate) async fn keep(state: Arc<LeaseState>, pool: PgPool, length: Duration) {
    let pace = length / 3;
    let mut next = pace;
    loop {
        let sleep = next.min(state.valid_until().saturating_duration_since(Instant::now()));
        tokio::time::sleep(sleep).await;
        if !state.is_live() {
            return;
        }
        let sent = Instant::now();
        let beat = async {
            let mut conn = pool.acquire().await.map_err(DbError::from)?;
            jobs::heartbeat(&mut conn, state.lease, length.as_secs_f64()).await
        };
        next = match tokio::time::timeout(pace, beat).await {
            Ok(Ok(Some(cancel))) => {
                state.extend(sent);
                if cancel {
                    state.cancelled.store(true, Ordering::Relaxed);
                }
                pace
            }
            Ok(Ok(None)) => {
                state.lost.cancel();
                return;
            }
            // Away or slow: again soon. The clock above decides when it is too late.
            Ok(Err(_)) | Err(_) => pace / 5,
        };
    }
}

/// Polls `inner` only while the lease is live, so that a process that was frozen for longer than its lease
/// does not take one more step of an operation when it wakes. None: the lease is lost.
pub(crate) struct WhileLive<'a, F> {
    pub(crate) state: &'a LeaseState,
    pub(crate) inner: Pin<&'a mut F>,
}

impl<F: Future> Future for WhileLive<'_, F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if !self.state.is_live() {
            return Poll::Ready(None);
        }
        self.inner.as_mut().poll(cx).map(Some)
    }
}
