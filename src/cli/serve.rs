//! `cksd serve` and `cksd worker`: the processes of a production installation.

use std::process::ExitCode;

use super::ConfigFile;
use crate::app::service::{self, Process};
use crate::config;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    file: ConfigFile,
}

pub(super) async fn run(arguments: Arguments, process: Process) -> anyhow::Result<ExitCode> {
    let environment = config::environment();
    let config = config::Config::load(arguments.file.config.as_deref(), &environment)?;
    let socket = environment.get("NOTIFY_SOCKET").map(String::as_str);
    service::run(&config, process, socket).await?;
    Ok(ExitCode::SUCCESS)
}
