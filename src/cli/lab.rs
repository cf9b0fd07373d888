//! `cksd lab`: the mini world as a process of its own, and a look into its nodes' journals.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, anyhow, bail};
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};

use super::print;
use crate::config;
use crate::lab::{Lab, LabOptions, admin_url, scenario};

/// Runs a world of its own: a CloudStack API, Kubernetes clusters, machines that answer SSH.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The folder of the world; a world that is there goes on where it was.
    #[arg(long, value_name = "DIR", global = true)]
    data: Option<PathBuf>,
    /// The starting world.
    #[arg(long, value_name = "NAME", default_value = "small")]
    scenario: String,
    /// Scales the service times of the cloud (0.1: ten times as fast).
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    time_factor: f64,
    /// Make the world anew.
    #[arg(long)]
    fresh: bool,
    /// Where to write endpoint and keys of the cloud's administrator once it serves [default: DIR/lab.env].
    #[arg(long, value_name = "FILE")]
    env_file: Option<PathBuf>,
    /// The kubectl of the nodes [default: the one on the PATH].
    #[arg(long, value_name = "FILE")]
    kubectl: Option<PathBuf>,
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Print what ran on the nodes of a running lab: of one machine (by id or name), or of all.
    Journal {
        /// A machine, by id or by name.
        machine: Option<String>,
    },
}

/// Runs the command.
pub(super) async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let data = arguments
        .data
        .clone()
        .ok_or_else(|| anyhow!("--data DIR is needed"))?;
    match &arguments.action {
        Some(Action::Journal { machine }) => journal(&data, machine.as_deref()).await?,
        None => serve(&data, arguments).await?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn serve(data: &Path, arguments: Arguments) -> anyhow::Result<()> {
    if !arguments.time_factor.is_finite() || arguments.time_factor < 0.0 {
        bail!(
            "--time-factor {} is no factor: give a number of 0 or more",
            arguments.time_factor
        );
    }
    let mut terminate = signal(SignalKind::terminate()).context("listening for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("listening for Ctrl-C")?;
    let kubectl = match arguments.kubectl {
        Some(path) => path,
        None => find_kubectl()?,
    };
    std::fs::create_dir_all(data).with_context(|| format!("making {}", data.display()))?;
    let start = Lab::start(LabOptions {
        data: data.to_path_buf(),
        scenario: arguments.scenario,
        time_factor: arguments.time_factor,
        kubectl,
        fresh: arguments.fresh,
    });
    let lab = tokio::select! {
        lab = start => lab.with_context(|| format!("starting the lab (scenarios: {})", scenario::names().join(", ")))?,
        _ = terminate.recv() => return Ok(()),
        _ = interrupt.recv() => return Ok(()),
    };
    let env_file = arguments.env_file.unwrap_or_else(|| data.join("lab.env"));
    lab.write_files(data, &env_file)
        .with_context(|| format!("writing the files in {}", data.display()))?;
    let clusters: Vec<Value> = lab
        .clusters()
        .iter()
        .map(|cluster| {
            json!({
                "name": cluster.name, "id": cluster.id, "server": cluster.server, "nodes": cluster.members.len(),
                "kubeconfig": data.join(format!("{}.kubeconfig", cluster.name)),
                "import": data.join(format!("{}.import.toml", cluster.name)),
            })
        })
        .collect();
    print(json!({
        "endpoint": lab.endpoint(), "admin": lab.admin_url(), "env_file": env_file, "clusters": clusters,
    }));
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    lab.stop().await;
    Ok(())
}

fn find_kubectl() -> anyhow::Result<PathBuf> {
    let environment = config::environment();
    let path = environment.get("PATH").map_or("", String::as_str);
    std::env::split_paths(path)
        .map(|folder| folder.join("kubectl"))
        .find(|file| file.is_file())
        .ok_or_else(|| {
            anyhow!("there is no kubectl on the PATH: install one (1.27 or later), or give --kubectl")
        })
}

async fn journal(data: &Path, machine: Option<&str>) -> anyhow::Result<()> {
    let base = admin_url(data).with_context(|| format!("looking for a lab in {}", data.display()))?;
    let ask = async |path: String| -> anyhow::Result<Value> {
        let url = format!("{base}/lab/{path}");
        let answer = reqwest::get(&url)
            .await
            .with_context(|| format!("asking {url}: is the lab running?"))?;
        Ok(answer.error_for_status()?.json().await?)
    };
    let world = ask("world".to_owned()).await?;
    let text = |value: &Value, key: &str| {
        value
            .get(key)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let machines = world
        .get("virtualmachines")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    let mut lines: Vec<(String, String)> = Vec::new();
    let mut found = false;
    for vm in machines {
        let (id, name) = (text(&vm, "id"), text(&vm, "name"));
        if machine.is_some_and(|wanted| wanted != id && wanted != name) || vm.get("up") != Some(&json!(true))
        {
            continue;
        }
        found = true;
        for entry in ask(format!("journal/{id}"))
            .await?
            .as_array()
            .into_iter()
            .flatten()
        {
            let exit = entry
                .get("exit")
                .and_then(Value::as_i64)
                .map(|code| format!(" [{code}]"));
            let line = format!(
                "{} {name} {} {}: {}{}",
                text(entry, "at"),
                text(entry, "kind"),
                text(entry, "user"),
                text(entry, "text"),
                exit.unwrap_or_default()
            );
            lines.push((text(entry, "at"), line));
        }
    }
    if let Some(wanted) = machine.filter(|_| !found) {
        bail!("no running machine has the id or name {wanted}");
    }
    lines.sort();
    for (_, line) in lines {
        print(line);
    }
    Ok(())
}
