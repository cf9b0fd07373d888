//! `cksd up`: everything that is needed, started in one go in one data folder, and found again.
//!
//! What survives us (Postgres, the lab) is always looked up by its record and never by a handle of ours. So the
//! way down is the same after a good start, a failed one, and one that a signal interrupted.
//!
//! What this must not know: what is stored in the database or done by jobs; it starts what does.

pub mod child;
mod first_steps;
pub mod folder;
pub mod lab;
pub mod settings;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail};

use self::folder::Folder;
use self::lab::LabProcess;
use self::settings::Settings;
use super::service::{self, Parts};
use super::{postgres, work};
use crate::lifecycle::{self, Lifecycle};
use crate::telemetry;

/// What `cksd up` was asked for.
#[derive(Debug, Clone)]
pub struct Options {
    /// The data folder.
    pub data: PathBuf,
    /// The lab's scenario; none goes on with the saved world, or without a lab.
    pub scenario: Option<String>,
    /// Where the API listens.
    pub listen: SocketAddr,
    /// World and database anew.
    pub fresh: bool,
    /// File of start-up settings.
    pub config: Option<PathBuf>,
    /// The environment.
    pub environment: BTreeMap<String, String>,
}

/// How long the parts of the service get to end when all is stopped.
const GRACE: Duration = Duration::from_secs(10);

/// Starts everything, calls `say` with one line when it is ready, and stops everything at the first signal, or
/// when a part of it ends by itself.
///
/// # Errors
/// What could not be started, or ended by itself.
pub async fn run(options: Options, say: impl Fn(&str)) -> anyhow::Result<()> {
    let folder = Folder::make(&options.data)?;
    let held = folder.hold()?;
    let lifecycle = Lifecycle::new();
    let result = tokio::select! {
        result = serve(&folder, &options, &lifecycle, say) => result,
        signal = lifecycle::signalled() => {
            tracing::info!(signal = signal?, "stopping");
            Ok(())
        }
    };
    service::end(&lifecycle, GRACE).await;
    lab::stop_living(&folder).await;
    postgres::stop(folder.path()).await?;
    drop(held);
    result
}

/// Starts everything in the order in which it is needed; returns only when something ends by itself.
async fn serve(
    folder: &Folder,
    options: &Options,
    lifecycle: &Lifecycle,
    say: impl Fn(&str),
) -> anyhow::Result<()> {
    let mut settings = Settings::of(&options.environment);
    if options.fresh {
        make_room(folder, settings.has_database()).await?;
    }
    let scenario = folder.scenario(options.scenario.as_deref())?;
    if !settings.has_database() {
        let server = postgres::start(&postgres::Options {
            data: folder.path(),
            environment: &options.environment,
        })
        .await?;
        tracing::info!(folder = %server.folder().display(), found = server.attached(), "Postgres answers");
        settings.use_database(server.url());
    }
    let lab = match &scenario {
        Some(scenario) => {
            let lab = LabProcess::attach_or_start(folder, scenario).await?;
            tracing::info!(
                pid = lab.pid(),
                found = lab.attached(),
                scenario,
                "the lab serves"
            );
            settings.use_cloud_of_lab(&LabProcess::cloud(folder)?);
            Some(lab)
        }
        None => None,
    };
    settings.set("CKSD_LISTEN", &options.listen.to_string());
    settings.use_master_key(folder)?;
    let config = settings.load(options.config.as_deref());
    let config = config.context("without --lab, `up` needs a cloud of yours")?;
    super::migrate(&config.database_url)
        .await
        .context("migrating the database")?;
    let parts = Parts::build(&config)?;
    let listener = service::bind(config.listen).await?;
    let address = listener.local_addr().context("the address of the API")?;
    let endpoint = format!("http://{address}/client/api");
    first_steps::administrator(&parts, folder, &endpoint).await?;
    if lab.is_some() {
        first_steps::world(&parts, folder)
            .await
            .context("importing the lab's clusters")?;
    }
    service::serve_api(&parts, lifecycle, listener, Some(telemetry::metrics()?)).await?;
    work::start(&parts, &config, lifecycle).await?;
    say(&format!(
        "ready: {endpoint}, keys in {}",
        folder.client_env().display()
    ));
    match &lab {
        Some(lab) => lab.ended().await,
        None => std::future::pending().await,
    }
    bail!(
        "the lab has ended by itself; its log is {}",
        folder.path().join("lab.log").display()
    )
}

/// Removes world and database, both together: one without the other would tell of machines that are not there.
async fn make_room(folder: &Folder, foreign_database: bool) -> anyhow::Result<()> {
    if foreign_database {
        bail!(
            "--fresh does not empty the database that DATABASE_URL names: empty it yourself, or unset DATABASE_URL"
        );
    }
    lab::stop_living(folder).await;
    postgres::remove(folder.path()).await?;
    folder.clear()?;
    Ok(())
}
