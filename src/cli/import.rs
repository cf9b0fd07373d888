//! `cksd import`: a cluster that already runs, brought under management.

use std::path::PathBuf;
use std::process::ExitCode;

use super::{Installation, print};
use crate::app::manage::ImportOutcome;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// What describes the cluster (docs/IMPORT.md).
    file: PathBuf,
    /// Look and report, write nothing.
    #[arg(long)]
    dry_run: bool,
    /// Replace the fence of another installation on the nodes.
    #[arg(long)]
    take_over: bool,
    #[command(flatten)]
    installation: Installation,
}

pub(super) async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let parts = arguments.installation.parts()?;
    let report = parts
        .import(&arguments.file, arguments.dry_run, arguments.take_over)
        .await?;
    let done = match report.outcome {
        ImportOutcome::Imported => "imported",
        ImportOutcome::WouldImport => "would be imported",
        ImportOutcome::AlreadyManaged => "is managed already, nothing was changed",
    };
    let state = report.state.map(|state| format!(", {state}")).unwrap_or_default();
    print(format_args!(
        "cluster {} ({}): {done}{state}",
        report.name, report.cluster
    ));
    if let Some(reason) = &report.reason {
        print(format_args!("  because {reason}"));
    }
    for (machine, fingerprints) in &report.fingerprints {
        print(format_args!(
            "  host keys of {machine}: {}",
            fingerprints.join(" ")
        ));
    }
    for text in &report.not_yet_known {
        print(format_args!("  not yet known: {text}"));
    }
    Ok(ExitCode::SUCCESS)
}
