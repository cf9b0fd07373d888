//! `cksd up`: everything in one go.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use super::ConfigFile;
use crate::app::up::{self, Options};
use crate::config;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Folder for everything that must survive: database, lab, keys.
    #[arg(long, env = "CKSD_DATA", value_name = "DIR", default_value = "cksd-data")]
    data: PathBuf,
    /// Start the lab with this scenario: a name (`seed-a`, `seed-c`, `small`) or a file. A world that is saved in
    /// the folder goes on without it.
    #[arg(long, value_name = "SCENARIO")]
    lab: Option<String>,
    /// Where the API listens; port 0 takes a free one.
    #[arg(long, value_name = "ADDR", default_value_t = config::default_listen())]
    listen: SocketAddr,
    /// Make world and database anew, both together.
    #[arg(long)]
    fresh: bool,
    #[command(flatten)]
    file: ConfigFile,
}

pub(super) async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let environment = config::environment();
    let options = Options {
        data: arguments.data,
        scenario: arguments.lab,
        listen: arguments.listen,
        fresh: arguments.fresh,
        config: arguments.file.config,
        environment,
    };
    up::run(options, |line| super::print(line)).await?;
    Ok(ExitCode::SUCCESS)
}
