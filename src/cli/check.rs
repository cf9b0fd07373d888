//! `cksd check`: the invariants, judged.

use std::process::ExitCode;

use super::{Installation, print};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    installation: Installation,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

/// Exits with 0 only if every invariant was judged and holds.
pub(super) async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let report = arguments.installation.parts()?.check().await?;
    if arguments.json {
        print(serde_json::to_string_pretty(&report)?);
    } else {
        print(format_args!("judged: {}", report.clusters.join(", ")));
        for violation in &report.violations {
            print(format_args!(
                "{} {}: {}",
                violation.invariant, violation.subject, violation.text
            ));
        }
        report
            .not_judged
            .iter()
            .for_each(|text| print(format_args!("not judged: {text}")));
        report
            .leftovers
            .iter()
            .for_each(|text| print(format_args!("left to the background: {text}")));
        if report.violations.is_empty() && report.not_judged.is_empty() {
            print("every invariant holds");
        }
    }
    let whole = report.violations.is_empty() && report.not_judged.is_empty();
    Ok(if whole {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
