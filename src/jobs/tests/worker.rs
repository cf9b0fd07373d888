//! The worker of a process: wakes in time, keeps its lease, and stops when it has lost it.

use std::time::Instant;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::*;
use crate::jobs::testing::expire_lease;
use crate::jobs::{Worker, wait};

/// Polls until `seen` is true, for a long time.
async fn wait_for(what: &str, mut seen: impl AsyncFnMut() -> bool) {
    let began = Instant::now();
    while !seen().await {
        assert!(began.elapsed() < Duration::from_secs(30), "never: {what}");
        #[expect(clippy::disallowed_methods, reason = "the pace of polling")]
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn is_done(world: &World, job: JobId) -> bool {
    world.rig.find(job).await.unwrap().phase == "done"
}

/// Counts its end.
struct OnDrop(Counter);
impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.add();
    }
}

struct Running {
    tracker: TaskTracker,
    shutdown: CancellationToken,
}

impl Running {
    fn start(options: &WorkerOptions) -> Self {
        let (tracker, shutdown) = (TaskTracker::new(), CancellationToken::new());
        let mut options = options.clone();
        options.faults = FaultPoints::off();
        Worker::start(options, &tracker, shutdown.clone());
        Self { tracker, shutdown }
    }

    async fn stop(self) {
        self.shutdown.cancel();
        self.tracker.close();
        self.tracker.wait().await;
    }
}

#[sqlx::test(migrations = "./migrations")]
async fn a_parked_job_wakes_at_its_time_and_a_new_one_at_once(pool: PgPool) {
    let looks = Counter::default();
    let mine = looks.clone();
    let world = World::new(pool, move |cx| {
        let looks = mine.clone();
        Box::pin(async move {
            cx.step("look", "", async {
                if looks.add() < 4 {
                    Err(wait("a little", Duration::from_millis(50)))
                } else {
                    Ok(())
                }
            })
            .await?;
            done()
        })
    })
    .await;
    let mut options = world.rig.options.clone();
    // A poll this slow would fail the test by itself.
    options.tuning.poll = Duration::from_hours(1);
    let running = Running::start(&options);
    let job = world.admit().await;
    wait_for("the job ends", async || is_done(&world, job).await).await;
    assert_eq!(looks.get(), 4);
    running.stop().await;
}

#[sqlx::test(migrations = "./migrations")]
async fn a_worker_stops_a_job_that_was_taken_from_it(pool: PgPool) {
    let (began, dropped) = (Counter::default(), Counter::default());
    let mine = (began.clone(), dropped.clone());
    let world = World::new(pool, move |cx| {
        let (began, dropped) = mine.clone();
        Box::pin(async move {
            cx.step("work", "", async {
                if began.add() == 1 {
                    let _guard = OnDrop(dropped);
                    std::future::pending::<()>().await;
                }
                Ok(())
            })
            .await?;
            done()
        })
    })
    .await;
    let mut options = world.rig.options.clone();
    options.tuning.lease = Duration::from_millis(600);
    options.tuning.poll = Duration::from_millis(50);
    let running = Running::start(&options);
    let job = world.admit().await;
    wait_for("the step runs", async || began.get() == 1).await;
    expire_lease(&world.pool, job).await.unwrap();
    wait_for("the step is dropped", async || dropped.get() == 1).await;
    wait_for("the job ends", async || is_done(&world, job).await).await;
    assert_eq!(began.get(), 2);
    running.stop().await;
}

#[sqlx::test(migrations = "./migrations")]
async fn a_long_step_keeps_its_lease_and_a_shutdown_gives_it_to_the_next(pool: PgPool) {
    let runs = Counter::default();
    let mine = runs.clone();
    let world = World::new(pool, move |cx| {
        let runs = mine.clone();
        Box::pin(async move {
            if runs.add() == 1 {
                cx.until_lost(std::future::pending::<()>()).await?;
            }
            done()
        })
    })
    .await;
    let mut options = world.rig.options.clone();
    options.tuning.lease = Duration::from_millis(300);
    let (one, two) = (Running::start(&options), Running::start(&options));
    let job = world.admit().await;
    wait_for("the job runs", async || runs.get() == 1).await;
    let epoch = world.rig.find(job).await.unwrap().epoch;
    let began = Instant::now();
    wait_for("several leases pass", async || {
        began.elapsed() > Duration::from_millis(1200)
    })
    .await;
    let row = world.rig.find(job).await.unwrap();
    assert_eq!(
        (row.epoch, row.takeovers, runs.get()),
        (epoch, 0, 1),
        "nobody took it"
    );
    // Whichever has it, the other goes on.
    let holder = world.pool.clone();
    drop(holder);
    one.stop().await;
    if runs.get() == 1 {
        // It was the second's; a third takes its place.
        let three = Running::start(&options);
        two.stop().await;
        wait_for("the job ends", async || is_done(&world, job).await).await;
        three.stop().await;
    } else {
        wait_for("the job ends", async || is_done(&world, job).await).await;
        two.stop().await;
    }
    assert_eq!(world.rig.find(job).await.unwrap().takeovers, 0);
}
