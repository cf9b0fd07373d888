//! Whether every promise was kept.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::time::Duration;

use sqlx::PgPool;

use crate::node::{Answer, memory};
use crate::supervisor::Faults;
use crate::{JOBS, STEPS};

/// What happened, for the record.
#[derive(Debug)]
pub(crate) struct Counts {
    faults: Faults,
    took: Duration,
    succeeded: usize,
    settled: usize,
    claims: i64,
    acted: usize,
    found: usize,
    refused: usize,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Faults {
            kills,
            freezes,
            terms,
            restarts,
        } = self.faults;
        write!(
            f,
            "{} jobs succeeded, {} settled after too many takeovers, in {:.1} s under {kills} kill -9, {freezes} freezes, \
             {terms} SIGTERM, {restarts} restart of Postgres; {} claims; on nodes {} effects, {} found done, {} refused \
             by a fence; no stale write",
            self.succeeded,
            self.settled,
            self.took.as_secs_f64(),
            self.claims,
            self.acted,
            self.found,
            self.refused
        )
    }
}

/// Lets the database itself record every write to the journal that is not the present claim's.
pub(crate) async fn watch(pool: &PgPool) {
    sqlx::raw_sql(
        "create table chaos_stale (job_id uuid, epoch bigint, at timestamptz default now());
         create function chaos_watch() returns trigger language plpgsql as $$
         begin
           if not exists (select 1 from async_job where id = new.job_id and epoch = new.epoch and phase = 'running') then
             insert into chaos_stale (job_id, epoch) values (new.job_id, new.epoch);
           end if;
           return null;
         end $$;
         create trigger chaos_watch after insert or update on job_step for each row execute function chaos_watch();",
    )
    .execute(pool)
    .await
    .unwrap();
}

/// Looks everything up. Err: what was broken.
pub(crate) async fn judge(
    pool: &PgPool,
    folder: &Path,
    clusters: &[i64],
    faults: Faults,
    took: Duration,
) -> Result<Counts, Vec<String>> {
    let mut broken = Vec::new();
    let jobs = sqlx::query!(
        r#"select id, status, result, (select count(*) from job_step s where s.job_id = j.id and s.state = 'done') as "steps!",
             (select count(*) from event e where e.job_id = j.id and e.state = 'Scheduled') as "scheduled!",
             (select count(*) from event e where e.job_id = j.id and e.state = 'Started') as "started!",
             (select count(*) from event e where e.job_id = j.id and e.state = 'Completed') as "completed!"
           from async_job j"#
    )
    .fetch_all(pool)
    .await
    .unwrap();
    let mut succeeded = BTreeSet::new();
    for job in &jobs {
        let takeovers = job
            .result
            .as_ref()
            .is_some_and(|result| result.to_string().contains("taken over"));
        match job.status {
            1 => {
                succeeded.insert(job.id.to_string());
                if job.steps != i64::try_from(STEPS).unwrap() * 2 + 1 || job.started != 1 {
                    broken.push(format!(
                        "job {}: {} steps, {} Started events",
                        job.id, job.steps, job.started
                    ));
                }
            }
            2 if takeovers => {}
            status => broken.push(format!("job {}: status {status}, {:?}", job.id, job.result)),
        }
        if (job.scheduled, job.completed) != (1, 1) {
            broken.push(format!(
                "job {}: {} Scheduled, {} Completed events",
                job.id, job.scheduled, job.completed
            ));
        }
    }
    if jobs.len() != JOBS {
        broken.push(format!("{} jobs instead of {JOBS}", jobs.len()));
    }
    let answers = nodes(folder, clusters, &succeeded, &mut broken);
    database(pool, &mut broken).await;
    let claims = sqlx::query_scalar!(r#"select last_value as "n!" from job_epoch"#)
        .fetch_one(pool)
        .await
        .unwrap();
    if broken.is_empty() {
        Ok(Counts {
            faults,
            took,
            succeeded: succeeded.len(),
            settled: jobs.len() - succeeded.len(),
            claims,
            acted: answers[0],
            found: answers[1],
            refused: answers[2],
        })
    } else {
        Err(broken)
    }
}

/// On the nodes: every effect once, epochs only rise, and never two jobs at once on a cluster.
fn nodes(
    folder: &Path,
    clusters: &[i64],
    succeeded: &BTreeSet<String>,
    broken: &mut Vec<String>,
) -> [usize; 3] {
    let mut answers = [0; 3];
    let mut effects: BTreeMap<(String, String), usize> = BTreeMap::new();
    for cluster in clusters {
        let (mut fence, mut over, mut present) = (0, BTreeSet::new(), String::new());
        for line in memory(folder, *cluster) {
            answers[match line.answer {
                Answer::Acted => 0,
                Answer::Found => 1,
                Answer::Refused => 2,
            }] += 1;
            if line.answer == Answer::Refused {
                continue;
            }
            if line.epoch < fence {
                broken.push(format!("cluster {cluster}: epoch {} after {fence}", line.epoch));
            }
            fence = line.epoch;
            if line.job != present {
                over.insert(std::mem::replace(&mut present, line.job.clone()));
            }
            if over.contains(&line.job) {
                broken.push(format!(
                    "cluster {cluster}: job {} acted after another had begun",
                    line.job
                ));
            }
            if line.answer == Answer::Acted {
                *effects.entry((line.job, line.step)).or_default() += 1;
            }
        }
    }
    for ((job, step), times) in &effects {
        if *times != 1 {
            broken.push(format!("job {job}, step {step}: {times} effects"));
        }
    }
    for job in succeeded {
        let steps = effects.keys().filter(|(of, _)| of == job).count();
        if steps != STEPS {
            broken.push(format!("job {job}: {steps} effects on its node"));
        }
    }
    answers
}

/// In the database: no stale write, no cluster left behind, an unbroken history, epochs that rise in each journal.
async fn database(pool: &PgPool, broken: &mut Vec<String>) {
    let stale = sqlx::query_as::<_, (uuid::Uuid, i64)>("select job_id, epoch from chaos_stale")
        .fetch_all(pool)
        .await
        .unwrap();
    broken.extend(
        stale
            .iter()
            .map(|(job, epoch)| format!("stale write of job {job}, epoch {epoch}")),
    );
    let left = sqlx::query_scalar!(
        r#"select count(*) as "n!" from kubernetes_cluster where state not in ('Running', 'Alert')"#
    )
    .fetch_one(pool)
    .await
    .unwrap();
    if left != 0 {
        broken.push(format!("{left} clusters are in a transitional state"));
    }
    let gaps = sqlx::query_scalar!(
        r#"select count(*) as "n!" from (
             select from_state, lag(to_state) over (partition by cluster_id order by generation) as before
             from cluster_history) h
           where before is not null and before <> from_state"#
    )
    .fetch_one(pool)
    .await
    .unwrap();
    let falls = sqlx::query_scalar!(
        r#"select count(*) as "n!" from (
             select epoch, lag(epoch) over (partition by job_id order by ended) as before from job_step) s
           where before > epoch"#
    )
    .fetch_one(pool)
    .await
    .unwrap();
    if gaps + falls != 0 {
        broken.push(format!(
            "{gaps} gaps in histories, {falls} falling epochs in journals"
        ));
    }
}
