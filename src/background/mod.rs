//! Periodic work without input, safe on all replicas at once.
//!
//! What this must not know: operations, the wire.

pub mod driver;
pub mod leftovers;
pub mod state_scanner;

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::db::scans;
use crate::observe::Eyes;

/// The scanner's period (`behaviour.md` 11).
const SCAN_PERIOD: Duration = Duration::from_secs(30);
/// How often it is asked whether a cluster came into Alert meanwhile.
const SCAN_ASK: Duration = Duration::from_secs(2);
/// How often due leftovers are looked for; their own times say when they are due.
const LEFTOVERS_PERIOD: Duration = Duration::from_secs(2);

/// Starts every periodic task on `tracker`; each ends soon after `stop`.
pub fn start(eyes: &Eyes, tracker: &TaskTracker, stop: &CancellationToken) {
    let (scanner, asked) = (eyes.clone(), eyes.clone());
    tracker.spawn(driver::run(
        "state-scanner",
        SCAN_PERIOD,
        SCAN_ASK,
        stop.clone(),
        move || {
            let eyes = asked.clone();
            async move { new_alert(&eyes).await }
        },
        move || {
            let eyes = scanner.clone();
            async move { state_scanner::pass(&eyes).await }
        },
    ));
    let leftovers = eyes.clone();
    tracker.spawn(driver::run(
        "leftovers",
        LEFTOVERS_PERIOD,
        LEFTOVERS_PERIOD,
        stop.clone(),
        || async { false },
        move || {
            let eyes = leftovers.clone();
            async move { leftovers::pass(&eyes).await }
        },
    ));
}

/// Whether a cluster came into Alert since the last time of asking. A database that is away answers no: the
/// period stands behind it.
async fn new_alert(eyes: &Eyes) -> bool {
    let Ok(mut conn) = eyes.pool.acquire().await else {
        return false;
    };
    let since = eyes.ports.clock.now() - SCAN_ASK.saturating_mul(2);
    scans::alert_since(&mut conn, since).await.unwrap_or(false)
}
