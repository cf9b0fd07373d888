//! One cluster, one open job; the loser of a race is told who won.

use super::*;
use crate::db::{Expected, jobs, ledger};
use crate::jobs::admission::born_failed;

#[sqlx::test(migrations = "./migrations")]
async fn an_admission_writes_job_state_history_and_event(pool: PgPool) {
    let world = World::new(pool, |_| Box::pin(async { done() })).await;
    let job = world.admit().await;
    let row = world.rig.find(job).await.unwrap();
    assert_eq!((row.phase.as_str(), row.status.code()), ("queued", 0));
    assert_eq!(row.request, json!({ "size": 1 }));
    assert_eq!(row.deadline.unwrap().to_string(), "2026-01-01T01:00:00Z");
    assert_eq!(world.cluster_now().await.state, State::Scaling);
    assert_eq!(world.cluster_now().await.generation, world.cluster.generation + 1);
    assert_eq!(world.history().await, ["Running ScaleDownRequested Scaling"]);
    assert_eq!(world.events().await, ["INFO Scheduled scaling `blue`"]);
}

#[sqlx::test(migrations = "./migrations")]
async fn of_two_requests_at_once_one_wins_and_the_other_names_it(pool: PgPool) {
    let world = World::new(pool, |_| Box::pin(async { done() })).await;
    let request = json!({});
    let ask = async || {
        let mut tx = world.pool.begin().await.unwrap();
        let new = world.new_job(&world.cluster, &request);
        let admission = admit(&mut tx, world.ids.as_ref(), &new).await.unwrap();
        if let Admission::Busy { job, command } = &admission {
            let failure = Failure::new(format!("busy with {command} {job}"));
            born_failed(&mut tx, world.ids.as_ref(), &new, &failure)
                .await
                .unwrap();
        }
        tx.commit().await.unwrap();
        admission
    };
    let (one, two, three) = tokio::join!(ask(), ask(), ask());
    let all = [one, two, three];
    let won: Vec<JobId> = all
        .iter()
        .filter_map(|admission| match admission {
            Admission::Admitted(job) => Some(*job),
            _ => None,
        })
        .collect();
    assert_eq!(won.len(), 1);
    let busy = Admission::Busy {
        job: won[0],
        command: SCALE.into(),
    };
    assert_eq!(all.iter().filter(|admission| **admission == busy).count(), 2);
    // The born-failed jobs changed nothing else: one transition, one ERROR event each.
    assert_eq!(world.history().await.len(), 1);
    let errors = world
        .events()
        .await
        .into_iter()
        .filter(|text| text.starts_with("ERROR Completed busy"))
        .count();
    assert_eq!((errors, world.events().await.len()), (2, 3));
}

#[sqlx::test(migrations = "./migrations")]
async fn a_stale_copy_of_the_cluster_is_found_out_and_nothing_is_written(pool: PgPool) {
    let world = World::new(pool, |_| Box::pin(async { done() })).await;
    let stale = Cluster {
        generation: world.cluster.generation - 1,
        ..world.cluster.clone()
    };
    let request = json!({});
    let mut tx = world.pool.begin().await.unwrap();
    let admission = admit(&mut tx, world.ids.as_ref(), &world.new_job(&stale, &request))
        .await
        .unwrap();
    tx.commit().await.unwrap();
    let found = Expected {
        state: State::Running,
        generation: world.cluster.generation,
    };
    assert_eq!(admission, Admission::Lost { found });
    assert!(world.events().await.is_empty() && world.history().await.is_empty());
    let mut conn = world.pool.acquire().await.unwrap();
    assert_eq!(jobs::open_of(&mut conn, world.cluster.key).await.unwrap(), None);
}

#[sqlx::test(migrations = "./migrations")]
async fn a_repeated_idempotency_key_finds_the_first_job_even_when_it_is_over(pool: PgPool) {
    let world = World::new(pool, |_| Box::pin(async { done() })).await;
    let request = json!({});
    let ask = async |cluster: &Cluster| {
        let mut tx = world.pool.begin().await.unwrap();
        let new = NewJob {
            idempotency_key: Some("k"),
            ..world.new_job(cluster, &request)
        };
        let admission = admit(&mut tx, world.ids.as_ref(), &new).await.unwrap();
        tx.commit().await.unwrap();
        admission
    };
    let Admission::Admitted(job) = ask(&world.cluster).await else {
        panic!("not admitted")
    };
    world.rig.run_to_end(job, |_| {}).await.unwrap();
    assert_eq!(ask(&world.cluster_now().await).await, Admission::Repeated(job));
}

#[sqlx::test(migrations = "./migrations")]
async fn an_admission_takes_over_what_the_background_would_touch_on_nodes(pool: PgPool) {
    let world = World::new(pool, |_| Box::pin(async { done() })).await;
    let mut conn = world.pool.acquire().await.unwrap();
    let before = world.admit().await;
    for (kind, subject) in [
        (ledger::LedgerKind::Cordon, "wk-1"),
        (ledger::LedgerKind::Expunge, "vm"),
    ] {
        let id = world.ids.random();
        ledger::put(
            &mut conn,
            id,
            world.cluster.key,
            before,
            kind,
            subject,
            &json!({}),
        )
        .await
        .unwrap();
    }
    world.rig.run_to_end(before, |_| {}).await.unwrap();
    // Both are leftovers now, and due.
    assert_eq!(ledger::claim_leftovers(&mut conn, 9, 0.0).await.unwrap().len(), 2);
    let request = json!({});
    let cluster = world.cluster_now().await;
    let mut tx = world.pool.begin().await.unwrap();
    let admission = admit(&mut tx, world.ids.as_ref(), &world.new_job(&cluster, &request))
        .await
        .unwrap();
    tx.commit().await.unwrap();
    let Admission::Admitted(job) = admission else {
        panic!("{admission:?}")
    };
    let rows = ledger::list(&mut conn, world.cluster.key).await.unwrap();
    assert_eq!((rows[0].job_id, rows[0].next_try), (Some(job), None));
    assert_eq!(rows[1].job_id, Some(before));
    let due = ledger::claim_leftovers(&mut conn, 9, 0.0).await.unwrap();
    assert_eq!(
        due.iter().map(|row| row.subject.as_str()).collect::<Vec<_>>(),
        ["vm"]
    );
    assert!(
        !ledger::drop_leftover(&mut conn, rows[0].id).await.unwrap(),
        "a job has it"
    );
}
