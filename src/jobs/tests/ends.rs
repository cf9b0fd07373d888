//! How jobs end, and what ends them.

use super::*;
use crate::db::ledger::{self, LedgerKind};
use crate::db::{details, jobs};
use crate::jobs::testing::expire_lease;
use crate::jobs::{EndReason, StepError, Stop, Transition, wait};

#[sqlx::test(migrations = "./migrations")]
async fn after_five_takeovers_without_a_new_step_the_job_is_settled_instead_of_run(pool: PgPool) {
    let runs = Counter::default();
    let mine = runs.clone();
    let world = World::new(pool, move |cx| {
        let runs = mine.clone();
        Box::pin(async move {
            cx.step("first", "", async { Ok(()) }).await?;
            if runs.get() == 0 {
                cx.db().ledger_put(LedgerKind::Cordon, "wk-1", &json!({})).await?;
                cx.db()
                    .ledger_put(LedgerKind::Removal, "wk-1", &json!({}))
                    .await?;
            }
            runs.add();
            cx.faults().at("dies").await;
            done()
        })
    })
    .await;
    let job = world.admit().await;
    for takeover in 0..5 {
        world.rig.options.faults.arm("dies", 1);
        assert_eq!(world.rig.run_job(job).await.unwrap(), Some(Stop::Crashed));
        assert_eq!(world.rig.find(job).await.unwrap().takeovers, takeover);
        expire_lease(&world.pool, job).await.unwrap();
    }
    world.rig.options.faults.disarm();
    let row = world.rig.run_to_end(job, |_| {}).await.unwrap();
    assert_eq!((runs.get(), row.status.code()), (5, 2));
    assert_eq!(world.abandoned.lock().unwrap().len(), 1);
    assert!(
        row.result.unwrap()["errortext"]
            .as_str()
            .unwrap()
            .contains("taken over 5 times")
    );
    assert_eq!(world.cluster_now().await.state, State::Alert);
    let mut conn = world.pool.acquire().await.unwrap();
    let rows = ledger::list(&mut conn, world.cluster.key).await.unwrap();
    assert_eq!(rows.len(), 1, "the removal mark is gone with its job");
    assert!(rows[0].kind == LedgerKind::Cordon && rows[0].next_try.is_some());
}

#[sqlx::test(migrations = "./migrations")]
async fn a_new_step_forgives_the_takeovers_before_it(pool: PgPool) {
    let world = World::new(pool, |cx| {
        Box::pin(async move {
            for subject in ["a", "b", "c", "d", "e", "f", "g", "h"] {
                cx.step("work", subject, async { Ok(()) }).await?;
                cx.faults().at(subject).await;
            }
            done()
        })
    })
    .await;
    let job = world.admit().await;
    for point in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        world.rig.options.faults.arm(point, 1);
        assert_eq!(
            world.rig.run_job(job).await.unwrap(),
            Some(Stop::Crashed),
            "{point}"
        );
        expire_lease(&world.pool, job).await.unwrap();
    }
    assert_eq!(world.rig.run_to_end(job, |_| {}).await.unwrap().status.code(), 1);
}

#[sqlx::test(migrations = "./migrations")]
async fn a_panic_is_a_failure_like_any_other(pool: PgPool) {
    let runs = Counter::default();
    let mine = runs.clone();
    let world = World::new(pool, move |_| {
        let runs = mine.clone();
        Box::pin(async move {
            assert!(runs.add() > 1, "the first run breaks");
            done()
        })
    })
    .await;
    let job = world.admit().await;
    let Some(Stop::Parked { reason, .. }) = world.rig.run_job(job).await.unwrap() else {
        panic!("not parked")
    };
    assert!(reason.contains("the first run breaks"), "{reason}");
    assert_eq!(world.rig.find(job).await.unwrap().failures, 1);
    assert_eq!(world.rig.run_to_end(job, |_| {}).await.unwrap().status.code(), 1);
}

#[sqlx::test(migrations = "./migrations")]
async fn an_operation_that_always_panics_ends_in_alert(pool: PgPool) {
    let world = World::new(pool, |_| Box::pin(async { panic!("never works") })).await;
    let row = world.rig.run_to_end(world.admit().await, |_| {}).await.unwrap();
    assert_eq!(row.status.code(), 2);
    assert!(
        row.result.unwrap()["errortext"]
            .as_str()
            .unwrap()
            .contains("never works")
    );
    assert_eq!(world.cluster_now().await.state, State::Alert);
}

/// Waits for ever, unless it is told to end.
fn patient()
-> impl for<'a> Fn(&'a OpCx) -> futures_util::future::BoxFuture<'a, StepResult<Settlement>> + Send + Sync {
    |cx| {
        Box::pin(async move {
            match cx.ended() {
                Some(why) => Ok(Settlement::given_back(Failure::new(format!("given back: {why}")))),
                None => Err(wait("something far away", Duration::from_mins(30))),
            }
        })
    }
}

#[sqlx::test(migrations = "./migrations")]
async fn a_cancel_wakes_a_parked_job_and_it_gives_back(pool: PgPool) {
    let world = World::new(pool, patient()).await;
    let job = world.admit().await;
    world.rig.run_job(job).await.unwrap();
    let mut conn = world.pool.acquire().await.unwrap();
    let commands = [SCALE.to_owned()];
    assert!(jobs::next_due(&mut conn, &commands).await.unwrap().unwrap() > 1000.0);
    assert!(jobs::request_cancel(&mut conn, job).await.unwrap());
    assert!(jobs::next_due(&mut conn, &commands).await.unwrap().unwrap() <= 0.0);
    let row = world.rig.run_to_end(job, |_| {}).await.unwrap();
    assert_eq!(
        row.result.unwrap()["errortext"],
        format!("given back: {}", EndReason::Cancel)
    );
    assert_eq!(world.cluster_now().await.state, State::Running);
    assert!(!jobs::request_cancel(&mut conn, job).await.unwrap(), "it is over");
}

#[sqlx::test(migrations = "./migrations")]
async fn a_wait_ends_at_the_deadline_at_the_latest(pool: PgPool) {
    let world = World::new(pool, patient()).await;
    let job = world.admit().await;
    let mut waits = Vec::new();
    let clock = world.clock.clone();
    let row = world
        .rig
        .run_to_end(job, |after| {
            waits.push(after.as_secs());
            clock.advance(after);
            if waits.len() == 1 {
                clock.advance(Duration::from_secs(100));
            }
        })
        .await
        .unwrap();
    assert_eq!(waits, [1800, 1700]);
    assert_eq!(
        row.result.unwrap()["errortext"],
        format!("given back: {}", EndReason::Deadline)
    );
}

#[sqlx::test(migrations = "./migrations")]
async fn a_shutdown_hands_the_job_back_at_once_and_counts_nothing(pool: PgPool) {
    let runs = Counter::default();
    let mine = runs.clone();
    let world = World::new(pool, move |cx| {
        let runs = mine.clone();
        Box::pin(async move {
            cx.step("before", "", async { Ok(()) }).await?;
            if runs.add() == 1 {
                cx.until_lost(std::future::pending::<()>()).await?;
            }
            cx.step("after", "", async { Ok(()) }).await?;
            done()
        })
    })
    .await;
    let job = world.admit().await;
    let running = {
        let rig = world.rig.clone();
        tokio::spawn(async move { rig.run_job(job).await.unwrap() })
    };
    while runs.get() == 0 {
        tokio::task::yield_now().await;
    }
    world.rig.shutdown.cancel();
    assert_eq!(running.await.unwrap(), Some(Stop::HandedBack));
    let row = world.rig.find(job).await.unwrap();
    assert_eq!(
        (row.phase.as_str(), row.takeovers, row.failures),
        ("queued", 0, 0)
    );
    let other = world.rig.other(Uuid::from_u128(2));
    assert_eq!(
        other.run_job(job).await.unwrap(),
        Some(Stop::Ended(crate::domain::job::JobStatus::Succeeded))
    );
    assert_eq!(other.find(job).await.unwrap().takeovers, 0);
}

#[sqlx::test(migrations = "./migrations")]
async fn a_transition_that_does_not_exist_ends_the_job_as_failed_and_leaves_the_state(pool: PgPool) {
    let world = World::new(pool, |_| {
        Box::pin(async {
            Ok(Settlement {
                transition: Transition::On(Event::CreateFailed),
                ..Settlement::succeeded("x")
            })
        })
    })
    .await;
    let row = world.rig.run_to_end(world.admit().await, |_| {}).await.unwrap();
    assert_eq!(row.status.code(), 2);
    assert!(
        row.result.unwrap()["errortext"]
            .as_str()
            .unwrap()
            .contains("a cluster that is Scaling cannot take CreateFailed")
    );
    assert_eq!(world.cluster_now().await.state, State::Scaling);
}

#[sqlx::test(migrations = "./migrations")]
async fn the_upgrade_record_goes_with_the_settlement(pool: PgPool) {
    let world = World::new(pool, |cx| {
        Box::pin(async move {
            cx.commit("record", "", async |tx| {
                tx.set_detail(details::UPGRADE_TARGET, "v", details::Display::Hidden)
                    .await?;
                tx.ledger_put(LedgerKind::Script, "wk-1", &json!({})).await?;
                Ok(())
            })
            .await?;
            Ok(Settlement::succeeded("x").dropping_upgrade_record())
        })
    })
    .await;
    world.rig.run_to_end(world.admit().await, |_| {}).await.unwrap();
    let mut conn = world.pool.acquire().await.unwrap();
    assert_eq!(
        details::find(&mut conn, world.cluster.key, details::UPGRADE_TARGET)
            .await
            .unwrap(),
        None
    );
    assert!(
        ledger::list(&mut conn, world.cluster.key)
            .await
            .unwrap()
            .is_empty()
    );
}

#[sqlx::test(migrations = "./migrations")]
async fn a_database_that_goes_away_at_the_record_does_not_lose_the_work(pool: PgPool) {
    let runs = Counter::default();
    let mine = runs.clone();
    let world = World::new(pool, move |cx| {
        let runs = mine.clone();
        Box::pin(async move {
            cx.step("work", "", async {
                runs.add();
                // Every other connection of this database is cut before the step is recorded.
                cx.db()
                    .read(async |conn| {
                        sqlx::query!(
                            "select pg_terminate_backend(pid) from pg_stat_activity
                             where datname = current_database() and pid <> pg_backend_pid()"
                        )
                        .fetch_all(conn)
                        .await?;
                        Ok(())
                    })
                    .await
                    .map_err(StepError::from)
            })
            .await?;
            done()
        })
    })
    .await;
    let row = world.rig.run_to_end(world.admit().await, |_| {}).await.unwrap();
    assert_eq!((runs.get(), row.status.code()), (1, 1));
}
