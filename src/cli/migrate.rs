//! `cksd migrate`: the schema of the database, brought up to date.

use std::process::ExitCode;

use anyhow::Context as _;

use super::ConfigFile;
use crate::{app, config};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    file: ConfigFile,
}

pub(super) async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let url = config::database_url(arguments.file.config.as_deref(), &config::environment())?;
    app::migrate(&url).await.context("migrating the database")?;
    Ok(ExitCode::SUCCESS)
}
