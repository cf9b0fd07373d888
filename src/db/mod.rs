//! All SQL. One file per group of tables; free functions that take a connection first.
//!
//! What this must not know: ports, the wire.
//!
//! Nothing that matters lives in a process: clusters, jobs, the journal and what we owe the outside are rows.
//! What the cloud knows better (machines, offerings) is only remembered, in `cloud_object`. Isolation is READ
//! COMMITTED throughout, with the condition in the UPDATE; [`Cas`] is what comes of it.

pub mod accounts;
mod cas;
pub mod checks;
pub mod cloud_objects;
pub mod clusters;
pub mod details;
mod error;
pub mod events;
mod fenced;
pub mod imports;
pub mod installation;
pub mod jobs;
pub mod ledger;
pub mod lists;
pub mod members;
pub mod rules;
pub mod scans;
pub mod secrets;
pub mod settings;
pub mod ssh;
pub mod steps;
pub mod versions;

use std::time::Duration;

use sqlx::PgPool;
use sqlx::migrate::Migrator;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

pub use cas::{Cas, Expected};
pub use error::DbError;
pub use fenced::{Fenced, FencedError, FencedJob, FencedTx, NewId, WriteWatch};

/// The two pools of a process. Heartbeats have their own, so that a busy pool never costs a lease.
#[derive(Debug, Clone)]
pub struct Pools {
    /// For everything.
    pub main: PgPool,
    /// For heartbeats only.
    pub heartbeat: PgPool,
}

/// Connections of the main pool.
const MAIN_CONNECTIONS: u32 = 20;
/// Connections for heartbeats; each is used for a millisecond every few seconds.
const HEARTBEAT_CONNECTIONS: u32 = 2;
/// A caller that cannot get a connection in this time is told that the database is away; a client of the API
/// waits 10 s at most (`api-protocol.md` 3.3).
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(5);

/// Opens both pools. Nothing is connected before it is needed, so a database that is away is no error here.
///
/// # Errors
/// When `url` is no Postgres URL.
pub fn pools(url: &str) -> Result<Pools, DbError> {
    let options: PgConnectOptions = url.parse().map_err(DbError::Driver)?;
    Ok(pools_with(options))
}

/// Opens both pools on these options.
#[must_use]
pub fn pools_with(options: PgConnectOptions) -> Pools {
    // No statement of ours takes seconds; a stuck one must not keep a lock or a connection.
    let options = options.application_name("cksd").options([
        ("statement_timeout", "10s"),
        ("lock_timeout", "5s"),
        ("idle_in_transaction_session_timeout", "10s"),
    ]);
    let pool = |connections| {
        PgPoolOptions::new()
            .max_connections(connections)
            .acquire_timeout(ACQUIRE_TIMEOUT)
            .connect_lazy_with(options.clone())
    };
    Pools {
        main: pool(MAIN_CONNECTIONS),
        heartbeat: pool(HEARTBEAT_CONNECTIONS),
    }
}

/// Where the migrator notes what it has done.
const MIGRATIONS_TABLE: &str = "_sqlx_migrations";

/// The migrations of this binary. Newer ones in the database are tolerated, so that an older replica runs
/// beside a newer one.
#[must_use]
pub fn migrator() -> Migrator {
    let mut migrator = sqlx::migrate!("./migrations");
    migrator.set_ignore_missing(true);
    migrator
}

/// Brings the schema up to date. Replicas may do so together: the migrator takes a lock.
pub async fn migrate(pool: &PgPool) -> Result<(), sqlx::migrate::MigrateError> {
    migrator().run(pool).await
}

/// How the schema of a database relates to this binary's migrations.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    /// It lacks some.
    #[error("the schema lacks {0} migration(s) of this version")]
    Behind(usize),
    /// It cannot be looked at.
    #[error(transparent)]
    Unreadable(#[from] sqlx::migrate::MigrateError),
}

/// Makes sure that the schema has every migration of this binary; newer ones are tolerated.
///
/// # Errors
/// [`SchemaError`].
pub async fn check_schema(pool: &PgPool) -> Result<(), SchemaError> {
    use sqlx::migrate::{Migrate as _, MigrateError};
    let mut conn = pool.acquire().await.map_err(MigrateError::Execute)?;
    // Refuses a database without the table of migrations as one that lacks them all.
    let applied = conn
        .list_applied_migrations(MIGRATIONS_TABLE)
        .await
        .unwrap_or_default();
    let missing = migrator()
        .iter()
        .filter(|wanted| applied.iter().all(|found| found.version != wanted.version))
        .count();
    if missing == 0 {
        Ok(())
    } else {
        Err(SchemaError::Behind(missing))
    }
}
