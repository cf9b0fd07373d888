//! The engine under fire: three worker processes, 300 jobs over a few dozen clusters, and at random `kill -9`,
//! SIGSTOP for longer than the lease, SIGTERM, and one restart of Postgres. Afterwards every promise of the
//! engine is looked up: in the database, and on the nodes, which are files that remember what was done to them.
//!
//! `CKSD_CHAOS_SEED` repeats a schedule of faults (what the processes do between faults is up to the machine).
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a test that supervises processes in real time"
)]

mod dice;
mod node;
mod supervisor;
mod verdict;
mod worker;

use std::time::Duration;

/// How many jobs are admitted.
const JOBS: usize = 300;
/// Over how many clusters.
const CLUSTERS: usize = 36;
/// How many processes.
const WORKERS: usize = 3;
/// Effects of each job.
const STEPS: usize = 5;
/// The lease; short, so that a freeze outlasts it, and long enough for a machine that has other work.
const LEASE: Duration = Duration::from_secs(3);
/// After so many faults there is peace, so that the test ends on any machine.
const FAULTS: usize = 80;
/// The most that all of it may take.
const LIMIT: Duration = Duration::from_secs(170);

/// The supervised process: this binary again, told by its environment what it is. Run by hand it does nothing.
#[test]
fn worker_process() {
    if let (Ok(url), Ok(world)) = (std::env::var(worker::URL), std::env::var(worker::WORLD)) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(worker::run(&url, world.into()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_fault_breaks_a_promise_of_the_engine() {
    let seed = std::env::var("CKSD_CHAOS_SEED")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or_else(rand::random);
    println!("chaos: CKSD_CHAOS_SEED={seed}");
    let folder = std::env::temp_dir().join(format!("cksd-chaos-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("nodes")).unwrap();
    let outcome = tokio::time::timeout(LIMIT, supervisor::run(seed, &folder)).await;
    cksd::app::postgres::remove(&folder.join("db")).await.unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    match outcome {
        Ok(Ok(counts)) => println!("chaos: {counts}"),
        Ok(Err(broken)) => panic!("seed {seed}: {broken:#?}"),
        Err(elapsed) => panic!("seed {seed}: not every job ended in {LIMIT:?}: {elapsed}"),
    }
}
