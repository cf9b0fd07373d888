//! Claims, leases and the fence.

use super::*;
use crate::db::jobs::{self, ClaimBy, Claimed, Lease};
use crate::db::{FencedError, clusters as rows};
use crate::jobs::testing::{expire_lease, make_due};

const LEASE: f64 = 60.0;

async fn claim(world: &World, owner: u128, commands: &[&str]) -> Vec<Claimed> {
    let commands: Vec<String> = commands.iter().map(|one| (*one).to_owned()).collect();
    let by = ClaimBy {
        owner: Uuid::from_u128(owner),
        lease_secs: LEASE,
        limit: 10,
        commands: &commands,
        only: None,
    };
    jobs::claim(&mut world.pool.acquire().await.unwrap(), by)
        .await
        .unwrap()
}

async fn world(pool: PgPool) -> World {
    World::new(pool, |_| Box::pin(async { done() })).await
}

fn lease(claimed: &Claimed, owner: u128) -> Lease {
    Lease {
        job: claimed.id,
        owner: Uuid::from_u128(owner),
        epoch: claimed.epoch,
    }
}

#[sqlx::test(migrations = "./migrations")]
async fn a_job_is_claimed_once_and_again_only_when_its_lease_ran_out(pool: PgPool) {
    let world = world(pool).await;
    let job = world.admit().await;
    let first = claim(&world, 1, &[SCALE]).await.pop().unwrap();
    assert_eq!((first.id, first.takeovers), (job, 0));
    assert!(claim(&world, 2, &[SCALE]).await.is_empty());
    expire_lease(&world.pool, job).await.unwrap();
    let second = claim(&world, 2, &[SCALE]).await.pop().unwrap();
    assert_eq!(second.takeovers, 1);
    assert!(second.epoch > first.epoch);
    let mut conn = world.pool.acquire().await.unwrap();
    assert_eq!(
        jobs::heartbeat(&mut conn, lease(&first, 1), LEASE).await.unwrap(),
        None
    );
    assert_eq!(
        jobs::heartbeat(&mut conn, lease(&second, 2), LEASE)
            .await
            .unwrap(),
        Some(false)
    );
}

#[sqlx::test(migrations = "./migrations")]
async fn a_heartbeat_that_comes_too_late_revives_nothing(pool: PgPool) {
    let world = world(pool).await;
    let job = world.admit().await;
    let claimed = claim(&world, 1, &[SCALE]).await.pop().unwrap();
    expire_lease(&world.pool, job).await.unwrap();
    let mut conn = world.pool.acquire().await.unwrap();
    assert_eq!(
        jobs::heartbeat(&mut conn, lease(&claimed, 1), LEASE)
            .await
            .unwrap(),
        None
    );
    assert_eq!(jobs::fence(&mut conn, lease(&claimed, 1)).await.unwrap(), None);
}

#[sqlx::test(migrations = "./migrations")]
async fn a_worker_leaves_the_commands_that_it_does_not_know(pool: PgPool) {
    let world = world(pool).await;
    world.admit().await;
    assert!(claim(&world, 1, &["upgradeKubernetesCluster"]).await.is_empty());
    assert_eq!(
        claim(&world, 1, &["upgradeKubernetesCluster", SCALE]).await.len(),
        1
    );
}

#[sqlx::test(migrations = "./migrations")]
async fn a_claim_skips_a_job_in_the_middle_of_a_fenced_write(pool: PgPool) {
    let world = world(pool).await;
    let job = world.admit().await;
    let claimed = claim(&world, 1, &[SCALE]).await.pop().unwrap();
    let mut tx = world.pool.begin().await.unwrap();
    assert_eq!(
        jobs::fence(&mut tx, lease(&claimed, 1)).await.unwrap(),
        Some(false)
    );
    // Its lease ends while the write is open.
    sqlx::query!(
        "update async_job set lease_until = now() - interval '1 s' where id = $1",
        job.0
    )
    .execute(&mut *tx)
    .await
    .unwrap();
    assert!(claim(&world, 2, &[SCALE]).await.is_empty());
    tx.commit().await.unwrap();
    assert_eq!(claim(&world, 2, &[SCALE]).await.len(), 1);
}

#[sqlx::test(migrations = "./migrations")]
async fn the_next_due_time_is_that_of_the_earliest_job_or_lease(pool: PgPool) {
    let world = world(pool).await;
    let commands = [SCALE.to_owned()];
    let mut conn = world.pool.acquire().await.unwrap();
    assert_eq!(jobs::next_due(&mut conn, &commands).await.unwrap(), None);
    let job = world.admit().await;
    assert!(jobs::next_due(&mut conn, &commands).await.unwrap().unwrap() <= 0.0);
    claim(&world, 1, &[SCALE]).await;
    let due = jobs::next_due(&mut conn, &commands).await.unwrap().unwrap();
    assert!((LEASE - 30.0..=LEASE).contains(&due), "{due}");
    make_due(&world.pool, job).await.unwrap();
}

#[sqlx::test(migrations = "./migrations")]
async fn the_state_is_compared_before_it_is_set(pool: PgPool) {
    let world = world(pool).await;
    let mut conn = world.pool.acquire().await.unwrap();
    let expected = crate::db::Expected {
        state: State::Running,
        generation: world.cluster.generation,
    };
    let key = world.cluster.key;
    let fault = Event::FaultsDetected;
    let first = rows::transition(&mut conn, key, expected, fault, None, Some("vm off"))
        .await
        .unwrap();
    assert!(matches!(first, crate::db::Cas::Applied(cluster) if cluster.state == State::Alert));
    assert_eq!(
        rows::state_reason(&mut conn, key).await.unwrap().as_deref(),
        Some("vm off")
    );
    let second = rows::transition(&mut conn, key, expected, fault, None, None)
        .await
        .unwrap();
    let found = crate::db::Expected {
        state: State::Alert,
        generation: expected.generation + 1,
    };
    assert_eq!(second, crate::db::Cas::Lost { found });
    let unknown = rows::transition(&mut conn, -1, expected, fault, None, None)
        .await
        .unwrap();
    assert_eq!(unknown, crate::db::Cas::Missing);
    let illegal = rows::transition(&mut conn, key, found, Event::FaultsDetected, None, None).await;
    assert!(matches!(illegal, Err(crate::db::DbError::Illegal(_))));
    assert_eq!(world.history().await, ["Running FaultsDetected Alert"]);
}

#[sqlx::test(migrations = "./migrations")]
async fn a_worker_that_lost_its_job_writes_nothing(pool: PgPool) {
    let (reached, go) = (
        Arc::new(tokio::sync::Notify::new()),
        Arc::new(tokio::sync::Notify::new()),
    );
    let (at, on) = (reached.clone(), go.clone());
    let runs = Counter::default();
    let counted = runs.clone();
    let world = World::new(pool, move |cx| {
        let (at, on, runs) = (at.clone(), on.clone(), counted.clone());
        Box::pin(async move {
            cx.step("work", "", async {
                if runs.add() == 1 {
                    at.notify_one();
                    on.notified().await;
                }
                Ok(cx.job().epoch)
            })
            .await?;
            done()
        })
    })
    .await;
    let job = world.admit().await;
    let slow = {
        let rig = world.rig.clone();
        tokio::spawn(async move { rig.run_job(job).await.unwrap().unwrap() })
    };
    reached.notified().await;
    expire_lease(&world.pool, job).await.unwrap();
    let other = world.rig.other(Uuid::from_u128(2));
    other.run_to_end(job, |_| {}).await.unwrap();
    go.notify_one();
    assert_eq!(slow.await.unwrap(), crate::jobs::Stop::Lost);
    let journal = other.journal(job).await.unwrap();
    let row = other.find(job).await.unwrap();
    assert_eq!(journal.len(), 1);
    assert_eq!(Some(journal[0].epoch), row.epoch, "the record is the new owner's");
    assert_eq!(runs.get(), 2);
}

#[sqlx::test(migrations = "./migrations")]
async fn a_fenced_handle_refuses_once_the_lease_is_over(pool: PgPool) {
    let world = World::new(pool, |cx| {
        Box::pin(async move {
            let pool = sqlx::PgPool::connect_lazy_with(sqlx::postgres::PgConnectOptions::new());
            drop(pool);
            let refused = cx
                .db()
                .event(
                    crate::domain::event::Level::Info,
                    crate::domain::event::Stage::Started,
                    "x",
                )
                .await;
            match refused {
                Err(FencedError::LeaseLost) => Err(crate::jobs::StepError::LeaseLost),
                _ => done(),
            }
        })
    })
    .await;
    let job = world.admit().await;
    // A lease of no length is over before the first write.
    let mut rig = world.rig.clone();
    rig.options.tuning.lease = Duration::from_micros(1);
    assert_eq!(rig.run_job(job).await.unwrap(), Some(crate::jobs::Stop::Lost));
    assert_eq!(world.events().await.len(), 1, "only the Scheduled one");
}
