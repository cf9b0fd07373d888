//! The journal: what is recorded is not done again, what is not recorded is.

use super::*;
use crate::db::ledger::LedgerKind;
use crate::domain::event::{Level, Stage};
use crate::jobs::testing::expire_lease;
use crate::jobs::{StepError, Stop, fail, retry, wait};

/// Three steps, a commit and a begin; returns the counters of the steps' effects.
async fn busy_world(pool: PgPool) -> (World, [Counter; 3]) {
    let counters: [Counter; 3] = Default::default();
    let mine = counters.clone();
    let world = World::new(pool, move |cx| {
        let [one, two, three] = mine.clone();
        Box::pin(async move {
            let first: usize = cx.step("one", "a", async { Ok(one.add()) }).await?;
            cx.commit("note", "", async |tx| {
                tx.event(Level::Info, Stage::Started, "begun").await?;
                Ok(())
            })
            .await?;
            cx.begin("two", "b").await?;
            let second: usize = cx.step("two", "b", async { Ok(two.add()) }).await?;
            cx.db().ledger_put(LedgerKind::Cordon, "wk-1", &json!({})).await?;
            cx.step("three", "", async { Ok(three.add()) }).await?;
            cx.db().ledger_drop(LedgerKind::Cordon, "wk-1").await?;
            assert!(first >= 1 && second >= 1);
            done()
        })
    })
    .await;
    (world, counters)
}

#[sqlx::test(migrations = "./migrations")]
async fn a_job_runs_straight_to_its_end(pool: PgPool) {
    let (world, counters) = busy_world(pool).await;
    let job = world.admit().await;
    assert_eq!(
        world.rig.run_job(job).await.unwrap(),
        Some(Stop::Ended(crate::domain::job::JobStatus::Succeeded))
    );
    assert_eq!(counters.map(|one| one.get()), [1, 1, 1]);
    assert_eq!(
        world.rig.keys(job).await.unwrap(),
        ["one/a", "note/", "two/b", "three/"]
    );
    let row = world.rig.find(job).await.unwrap();
    assert_eq!((row.phase.as_str(), row.result_code), ("done", Some(0)));
    let result = row.result.unwrap();
    assert_eq!(result["kubernetescluster"]["state"], "Running");
    assert_eq!(
        result["kubernetescluster"]["operation"]["deadline"],
        "2026-01-01T01:00:00+0000"
    );
    assert_eq!(
        world.events().await,
        [
            "INFO Scheduled scaling `blue`",
            "INFO Started begun",
            "INFO Completed scaled `blue`"
        ]
    );
    assert_eq!(
        world.history().await,
        [
            "Running ScaleDownRequested Scaling",
            "Scaling OperationSucceeded Running"
        ]
    );
}

#[sqlx::test(migrations = "./migrations")]
async fn a_crash_at_any_point_ends_in_the_same_state(pool: PgPool) {
    let (world, counters) = busy_world(pool).await;
    world.rig.run_to_end(world.admit().await, |_| {}).await.unwrap();
    let points = world.rig.options.faults.seen();
    assert!(points.len() > 20, "{points:?}");
    for point in points {
        let before = counters.each_ref().map(Counter::get);
        let cluster = world.cluster_now().await;
        let request = json!({});
        let mut tx = world.pool.begin().await.unwrap();
        let admission = admit(&mut tx, world.ids.as_ref(), &world.new_job(&cluster, &request))
            .await
            .unwrap();
        tx.commit().await.unwrap();
        let Admission::Admitted(job) = admission else {
            panic!("{admission:?}")
        };
        world.rig.options.faults.arm(&point, 1);
        assert_eq!(
            world.rig.run_job(job).await.unwrap(),
            Some(Stop::Crashed),
            "{point}"
        );
        expire_lease(&world.pool, job).await.unwrap();
        let row = world.rig.run_to_end(job, |_| {}).await.unwrap();
        assert_eq!(row.status.code(), 1, "{point}");
        assert_eq!(world.rig.keys(job).await.unwrap().len(), 4, "{point}");
        for (index, counter) in counters.iter().enumerate() {
            let name = ["step:one/a", "step:two/b", "step:three/"][index];
            // Only a crash between an effect and its record does it again.
            let extra = usize::from(point == format!("{name}:worked"));
            assert_eq!(counter.get() - before[index], 1 + extra, "{point} {name}");
        }
        let started = sqlx::query_scalar!(
            r#"select count(*) as "n!" from event where job_id = $1 and state = 'Started'"#,
            job.0
        )
        .fetch_one(&world.pool)
        .await
        .unwrap();
        assert_eq!(started, 1, "{point}");
    }
}

#[sqlx::test(migrations = "./migrations")]
async fn a_wait_parks_the_job_and_says_what_where_and_since_when(pool: PgPool) {
    let looks = Counter::default();
    let mine = looks.clone();
    let world = World::new(pool, move |cx| {
        let looks = mine.clone();
        Box::pin(async move {
            cx.progress("wait_ready", Some("wk-1"), Some(2));
            cx.step("wait_ready", "wk-1", async {
                if looks.add() < 3 {
                    Err(wait("node `wk-1` is NotReady", Duration::from_secs(5)))
                } else {
                    Ok(())
                }
            })
            .await?;
            done()
        })
    })
    .await;
    let job = world.admit().await;
    let parked = Stop::Parked {
        after: Duration::from_secs(5),
        reason: "node `wk-1` is NotReady".into(),
    };
    assert_eq!(world.rig.run_job(job).await.unwrap(), Some(parked.clone()));
    let first = world.rig.find(job).await.unwrap();
    assert_eq!(first.phase, "queued");
    let waiting = first.waiting.unwrap();
    assert!(waiting.at.contains("steps.rs:"), "{}", waiting.at);
    assert_eq!(waiting.since, world.clock.now());
    let progress = first.progress.unwrap();
    assert_eq!(
        (progress.step.as_str(), progress.node.as_deref(), progress.attempt),
        ("wait_ready", Some("wk-1"), Some(2))
    );
    world.clock.advance(Duration::from_secs(5));
    assert_eq!(world.rig.run_job(job).await.unwrap(), Some(parked));
    let second = world.rig.find(job).await.unwrap();
    assert_eq!(
        second.waiting.unwrap().since,
        waiting.since,
        "it is the same wait"
    );
    assert_eq!(
        second.progress.unwrap().since,
        progress.since,
        "it is the same step"
    );
    assert_eq!(
        (second.failures, second.takeovers),
        (0, 0),
        "waiting is no failure"
    );
    world.rig.run_to_end(job, |_| {}).await.unwrap();
    assert_eq!(looks.get(), 3);
}

#[sqlx::test(migrations = "./migrations")]
async fn failing_too_often_becomes_a_recorded_failure_that_a_replay_repeats(pool: PgPool) {
    let (tries, seen) = (Counter::default(), Counter::default());
    let mine = (tries.clone(), seen.clone());
    let world = World::new(pool, move |cx| {
        let (tries, seen) = mine.clone();
        Box::pin(async move {
            let outcome: StepResult<()> = cx
                .step("talk", "", async {
                    tries.add();
                    Err(retry("no answer"))
                })
                .await;
            match outcome {
                Err(StepError::Fail(failure)) => {
                    seen.add();
                    cx.step("undo", "", async {
                        if seen.get() == 1 {
                            Err(wait("undoing", Duration::from_secs(9)))
                        } else {
                            Ok(())
                        }
                    })
                    .await?;
                    Ok(Settlement::given_back(failure))
                }
                Err(other) => Err(other),
                Ok(()) => done(),
            }
        })
    })
    .await;
    let job = world.admit().await;
    let mut waits = Vec::new();
    let row = world
        .rig
        .run_to_end(job, |after| waits.push(after.as_secs()))
        .await
        .unwrap();
    assert_eq!(waits, [1, 2, 4, 8, 16, 30, 30, 30, 30, 30, 9]);
    assert_eq!((tries.get(), seen.get()), (11, 2));
    assert_eq!(
        row.result.unwrap()["errortext"],
        "no answer (given up after 11 tries)"
    );
    assert_eq!(world.cluster_now().await.state, State::Running);
    assert_eq!(world.history().await.last().unwrap(), "Scaling GivenBack Running");
}

#[sqlx::test(migrations = "./migrations")]
async fn a_recorded_failure_is_not_run_again(pool: PgPool) {
    let tries = Counter::default();
    let mine = tries.clone();
    let world = World::new(pool, move |cx| {
        let tries = mine.clone();
        Box::pin(async move {
            let outcome: StepResult<()> = cx
                .step("choose", "", async {
                    tries.add();
                    Err(StepError::Fail(Failure::with_code(533, "too few")))
                })
                .await;
            if cx.recorded::<()>("pause", "")?.is_none() {
                cx.step("pause", "", async { Ok(()) }).await?;
                return Err(wait("a moment", Duration::from_mins(1)));
            }
            outcome?;
            done()
        })
    })
    .await;
    let row = world.rig.run_to_end(world.admit().await, |_| {}).await.unwrap();
    assert_eq!(tries.get(), 1);
    assert_eq!(
        row.result.unwrap(),
        json!({ "errorcode": 533, "errortext": "too few" })
    );
    // `run` let the failure pass, so the operation was asked how to settle.
    assert_eq!(
        *world.abandoned.lock().unwrap(),
        [Failure::with_code(533, "too few")]
    );
}

#[sqlx::test(migrations = "./migrations")]
async fn the_same_key_twice_in_one_run_is_refused(pool: PgPool) {
    let world = World::new(pool, |cx| {
        Box::pin(async move {
            cx.step("one", "", async { Ok(()) }).await?;
            cx.step("one", "", async { Ok(()) }).await?;
            done()
        })
    })
    .await;
    let row = world.rig.run_to_end(world.admit().await, |_| {}).await.unwrap();
    assert!(
        row.result.unwrap()["errortext"]
            .as_str()
            .unwrap()
            .contains("used twice")
    );
}

#[sqlx::test(migrations = "./migrations")]
async fn a_begun_row_is_found_again_with_its_first_time(pool: PgPool) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let mine = seen.clone();
    let world = World::new(pool, move |cx| {
        let seen = mine.clone();
        Box::pin(async move {
            let begun = cx.begin("drain", "wk-1/1").await?;
            seen.lock().unwrap().push(begun);
            if !begun.again {
                return Err(wait("the drain", Duration::from_mins(1)));
            }
            cx.step("drain", "wk-1/1", async { Ok(7) }).await?;
            let after = cx.begin("drain", "wk-1/1").await?;
            seen.lock().unwrap().push(after);
            let peek = cx.recorded::<i32>("drain", "wk-1/1")?;
            if peek == Some(Ok(7)) {
                done()
            } else {
                Err(fail("not recorded"))
            }
        })
    })
    .await;
    let row = world.rig.run_to_end(world.admit().await, |_| {}).await.unwrap();
    assert_eq!(row.status.code(), 1);
    let seen = seen.lock().unwrap();
    assert_eq!(
        seen.iter().map(|begun| begun.again).collect::<Vec<_>>(),
        [false, true, true]
    );
    assert_eq!(seen[0].at, seen[1].at);
}
