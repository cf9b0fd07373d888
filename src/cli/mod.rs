//! One file per subcommand.
//!
//! What this must not know: anything but the composition root.

mod admin;
mod check;
mod import;
mod lab;
mod migrate;
mod serve;
mod up;

use std::fmt;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Parser, Subcommand, ValueEnum};

use crate::app::service::{Parts, Process};
use crate::telemetry::{self, LogFormat};
use crate::{app, config};

/// What is logged unless RUST_LOG says otherwise.
const DEFAULT_FILTER: &str = "info,sqlx=warn,russh=warn,hyper=warn,rustls=warn";

/// Manages Kubernetes clusters on CloudStack-style clouds, behind the CloudStack API.
#[derive(Debug, Parser)]
#[command(name = "cksd", version, about, propagate_version = true)]
struct Arguments {
    /// How log lines look; they go to standard error, and RUST_LOG chooses which.
    #[arg(long, global = true, env = "CKSD_LOG_FORMAT", value_name = "FORMAT")]
    log_format: Option<Format>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start all that is needed in one data folder: a private Postgres, the lab, the service and its workers.
    Up(up::Arguments),
    /// Serve the API, run jobs and background work.
    Serve(serve::Arguments),
    /// Run jobs and background work, without the API.
    Worker(serve::Arguments),
    /// Make accounts, users with keys, and versions.
    Admin(admin::Arguments),
    /// Bring a cluster that already runs under management.
    Import(import::Arguments),
    /// Judge the invariants from database, cloud and clusters; changes nothing.
    Check(check::Arguments),
    /// Run a mini world: a CloudStack API, Kubernetes clusters, machines that answer SSH.
    Lab(lab::Arguments),
    /// Bring the schema of the database up to date.
    Migrate(migrate::Arguments),
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    /// One JSON object a line (the default).
    Json,
    /// For people (the default of `up`).
    Text,
}

/// The file of start-up settings, for the commands that read them.
#[derive(Debug, Clone, clap::Args)]
struct ConfigFile {
    /// File of start-up settings (TOML); the environment wins over it.
    #[arg(long, env = "CKSD_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
}

/// Which installation a command works on.
#[derive(Debug, Clone, clap::Args)]
struct Installation {
    /// The data folder of a running `cksd up`; without it the start-up settings name the installation.
    #[arg(long, env = "CKSD_DATA", value_name = "DIR")]
    data: Option<PathBuf>,
    #[command(flatten)]
    file: ConfigFile,
}

impl Installation {
    fn parts(&self) -> anyhow::Result<Parts> {
        let environment = config::environment();
        let file = self.file.config.as_deref();
        let config = match &self.data {
            Some(data) => app::up::settings::of_running(data, file, &environment)?,
            None => config::Config::load(file, &environment)?,
        };
        Parts::build(&config)
    }
}

/// Prints a line for the user. A reader that has gone away stops nothing.
fn print(line: impl fmt::Display) {
    let mut out = std::io::stdout();
    writeln!(out, "{line}").and_then(|()| out.flush()).ok();
}

/// Runs the program.
#[must_use]
pub fn run() -> ExitCode {
    let arguments = Arguments::parse();
    match prepare(&arguments).and_then(|runtime| runtime.block_on(dispatch(arguments.command))) {
        Ok(code) => code,
        Err(error) => {
            // Standard error may be closed; there is nobody left to tell then.
            writeln!(std::io::stderr(), "cksd: {error:#}").ok();
            ExitCode::FAILURE
        }
    }
}

fn prepare(arguments: &Arguments) -> anyhow::Result<tokio::runtime::Runtime> {
    let environment = config::environment();
    let filter = environment.get("RUST_LOG").map_or(DEFAULT_FILTER, String::as_str);
    let by_default = if matches!(arguments.command, Command::Up(_)) {
        Format::Text
    } else {
        Format::Json
    };
    let format = match arguments.log_format.unwrap_or(by_default) {
        Format::Json => LogFormat::Json,
        Format::Text => LogFormat::Text,
    };
    telemetry::logs(format, filter)?;
    app::install_crypto();
    tokio::runtime::Runtime::new().context("starting the runtime")
}

async fn dispatch(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Up(arguments) => up::run(arguments).await,
        Command::Serve(arguments) => serve::run(arguments, Process::Serve).await,
        Command::Worker(arguments) => serve::run(arguments, Process::Worker).await,
        Command::Admin(arguments) => admin::run(arguments).await,
        Command::Import(arguments) => import::run(arguments).await,
        Command::Check(arguments) => check::run(arguments).await,
        Command::Lab(arguments) => lab::run(arguments).await,
        Command::Migrate(arguments) => migrate::run(arguments).await,
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_arguments_are_consistent() {
        super::Arguments::command().debug_assert();
    }
}
