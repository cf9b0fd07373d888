//! Runs a pass again and again: after its period, or sooner when something asks for it.

use std::future::Future;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

/// What a pass says of itself, for the log line.
pub type Done = Result<String, String>;

/// Calls `pass` every `period` until `stop`, and once more at once whenever `due` answers true; `due` is asked
/// every `ask`. A pass that fails is logged and tried again after its period: nothing depends on one pass.
pub async fn run<P, PF, D, DF>(
    name: &'static str,
    period: Duration,
    ask: Duration,
    stop: CancellationToken,
    due: D,
    pass: P,
) where
    P: Fn() -> PF + Send,
    PF: Future<Output = Done> + Send,
    D: Fn() -> DF + Send,
    DF: Future<Output = bool> + Send,
{
    let mut ticks = tokio::time::interval(ask.min(period));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut next = Instant::now() + ask.min(period);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = ticks.tick() => {}
        }
        if Instant::now() < next && !due().await {
            continue;
        }
        let outcome = tokio::select! {
            () = stop.cancelled() => return,
            outcome = pass() => outcome,
        };
        next = Instant::now() + period;
        let result = match &outcome {
            Ok(text) if text.is_empty() => "idle",
            Ok(text) => {
                tracing::info!(task = name, "{text}");
                "worked"
            }
            Err(text) => {
                tracing::warn!(task = name, "{name} did not finish a pass: {text}");
                "failed"
            }
        };
        metrics::counter!("cksd_background_passes_total", "task" => name, "result" => result).increment(1);
    }
}
