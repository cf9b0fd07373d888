//! Starts database and workers, asks for jobs, and breaks things until every job has ended.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use cksd::adapters::system::{SystemClock, SystemIds};
use cksd::app::postgres;
use cksd::db::{self, DbError, clusters};
use cksd::domain::cluster::{Cluster, Event, State};
use cksd::jobs::admission::{Admission, NewJob, admit};
use cksd::jobs::testing::seed_cluster;
use cksd::ports::clock::{Clock, Ids};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use secrecy::ExposeSecret;
use serde_json::json;
use sqlx::PgPool;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use crate::dice::Dice;
use crate::verdict::{self, Counts};
use crate::worker::{COMMAND, URL, WORLD};
use crate::{CLUSTERS, FAULTS, JOBS, LEASE, WORKERS};

/// What was done to the workers and the database.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Faults {
    pub(crate) kills: usize,
    pub(crate) freezes: usize,
    pub(crate) terms: usize,
    pub(crate) restarts: usize,
}

pub(crate) async fn run(seed: u64, folder: &Path) -> Result<Counts, Vec<String>> {
    let environment: BTreeMap<String, String> = std::env::vars().collect();
    let data = folder.join("db");
    std::fs::create_dir_all(&data).unwrap();
    let options = postgres::Options {
        data: &data,
        environment: &environment,
    };
    let server = postgres::start(&options).await.unwrap();
    let url = server.url().expose_secret().to_owned();
    let pool = db::pools(&url).unwrap().main;
    db::migrate(&pool).await.unwrap();
    verdict::watch(&pool).await;
    let ids: Arc<dyn Ids> = Arc::new(SystemIds);
    let mut keys = Vec::new();
    for index in 0..CLUSTERS {
        keys.push(
            seed_cluster(&pool, ids.as_ref(), &format!("c{index}"), State::Running)
                .await
                .unwrap()
                .key,
        );
    }
    let asking = tokio::spawn(ask_for_all(pool.clone(), ids, keys.clone()));
    let mut fire = Fire {
        dice: Dice::new(seed),
        workers: (0..WORKERS).map(|_| Process::start(&url, folder)).collect(),
        faults: Faults::default(),
        url: url.clone(),
        folder,
    };
    let began = Instant::now();
    while open_jobs(&pool, &asking).await {
        fire.strike().await;
        if fire.faults.restarts == 0 && began.elapsed() > Duration::from_secs(12) {
            fire.faults.restarts += 1;
            postgres::stop(&data).await.unwrap();
            sleep(Duration::from_millis(500)).await;
            postgres::start(&options).await.unwrap();
        }
    }
    asking.await.unwrap();
    let (faults, took) = (fire.faults, began.elapsed());
    fire.stop().await;
    let counts = verdict::judge(&pool, folder, &keys, faults, took).await;
    pool.close().await;
    postgres::stop(&data).await.unwrap();
    counts
}

/// Whether jobs are still to be asked for or to be ended. A database that is away says nothing.
async fn open_jobs(pool: &PgPool, asking: &tokio::task::JoinHandle<()>) -> bool {
    if !asking.is_finished() {
        return true;
    }
    let open = sqlx::query_scalar!(r#"select count(*) as "n!" from async_job where phase <> 'done'"#);
    !matches!(open.fetch_one(pool).await, Ok(0))
}

/// Asks for all jobs, each on whichever cluster is free.
async fn ask_for_all(pool: PgPool, ids: Arc<dyn Ids>, keys: Vec<i64>) {
    let mut admitted = 0;
    while admitted < JOBS {
        for key in &keys {
            if admitted < JOBS && matches!(ask(&pool, ids.as_ref(), *key, admitted).await, Ok(true)) {
                admitted += 1;
            }
        }
        sleep(Duration::from_millis(50)).await;
    }
}

/// Asks for one job. The number is its idempotency key, so that an answer lost with the database is no second
/// job.
async fn ask(pool: &PgPool, ids: &dyn Ids, key: i64, number: usize) -> Result<bool, DbError> {
    let mut tx = pool.begin().await?;
    let cluster: Cluster = clusters::by_key(&mut tx, key).await?;
    if cluster.state.on(Event::ScaleDownRequested).is_err() {
        return Ok(false);
    }
    let request = json!({ "number": number });
    let new = NewJob {
        command: COMMAND,
        account_key: 1,
        user_key: 1,
        cluster: &cluster,
        event: Event::ScaleDownRequested,
        request: &request,
        request_id: None,
        now: SystemClock.now(),
        time_limit: Duration::from_hours(1),
        scheduled_text: "scheduled",
        idempotency_key: Some(&number.to_string()),
    };
    let admission = admit(&mut tx, ids, &new).await?;
    tx.commit().await?;
    Ok(matches!(
        admission,
        Admission::Admitted(_) | Admission::Repeated(_)
    ))
}

/// A worker process, and when it is to be thawed.
struct Process {
    child: Child,
    frozen_until: Option<Instant>,
}

impl Process {
    fn start(url: &str, folder: &Path) -> Self {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["worker_process", "--exact", "--nocapture"])
            .env(URL, url)
            .env(WORLD, folder)
            .stdout(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        Self {
            child,
            frozen_until: None,
        }
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = self.child.id() {
            kill(Pid::from_raw(i32::try_from(pid).unwrap()), signal).unwrap();
        }
    }
}

struct Fire<'a> {
    dice: Dice,
    workers: Vec<Process>,
    faults: Faults,
    url: String,
    folder: &'a Path,
}

impl Fire<'_> {
    /// One fault on one process, after a while; thaws whoever has been frozen for long enough.
    async fn strike(&mut self) {
        sleep(self.dice.millis(200..800)).await;
        for worker in &mut self.workers {
            if worker.frozen_until.is_some_and(|until| Instant::now() >= until) {
                worker.signal(Signal::SIGCONT);
                worker.frozen_until = None;
            }
        }
        let (which, what) = (self.dice.below(WORKERS), self.dice.below(10));
        let longer = LEASE + self.dice.millis(200..1500);
        let worker = &mut self.workers[which];
        let Faults {
            kills,
            freezes,
            terms,
            ..
        } = self.faults;
        if worker.frozen_until.is_some() || kills + freezes + terms >= FAULTS {
            return;
        }
        match what {
            0..4 => {
                worker.signal(Signal::SIGKILL);
                worker.child.wait().await.unwrap();
                *worker = Process::start(&self.url, self.folder);
                self.faults.kills += 1;
            }
            4..8 => {
                worker.signal(Signal::SIGSTOP);
                worker.frozen_until = Some(Instant::now() + longer);
                self.faults.freezes += 1;
            }
            8 => {
                worker.signal(Signal::SIGTERM);
                let old = std::mem::replace(worker, Process::start(&self.url, self.folder));
                self.faults.terms += 1;
                let mut old = old.child;
                tokio::spawn(async move { old.wait().await });
            }
            _ => {}
        }
    }

    async fn stop(self) {
        for worker in &self.workers {
            worker.signal(Signal::SIGCONT);
            worker.signal(Signal::SIGTERM);
        }
        for mut worker in self.workers {
            worker.child.wait().await.unwrap();
        }
    }
}
