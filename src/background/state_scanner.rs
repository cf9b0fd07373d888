//! Compares what the cloud shows with what we have stored (`behaviour.md` 11).
//!
//! One walk over all machines a pass; SSH only for clusters in Alert whose machines all run. Every change is a
//! compare-and-set on the generation that was read before looking, so a pass on another replica, or a job
//! admitted meanwhile, wins or loses cleanly.

use crate::db::scans::{self, Resting};
use crate::db::{self, Cas, DbError, Expected, details};
use crate::domain::cluster::{Cluster, Event, Member};
use crate::domain::event::{Level, RESOURCE_CLUSTER, Stage};
use crate::domain::id::EventId;
use crate::domain::observed::Machine;
use crate::domain::plan::scan::{self, Finding};
use crate::domain::plan::settle::{self, Evidence, UpgradeRecord};
use crate::observe::{Eyes, Observed};
use crate::ports::cloud::MachineQuery;

/// The event type of what the scanner finds; CloudStack has none of its own for it.
const EVENT_TYPE: &str = "KUBERNETES.CLUSTER.STATE";

/// One pass. Returns a line for the log, empty when nothing was to be done.
///
/// # Errors
/// Why the pass could not be made, in words.
pub async fn pass(eyes: &Eyes) -> Result<String, String> {
    let mut conn = eyes.pool.acquire().await.map_err(|error| error.to_string())?;
    let resting = scans::resting(&mut conn)
        .await
        .map_err(|error| error.to_string())?;
    drop(conn);
    if resting.is_empty() {
        return Ok(String::new());
    }
    let machines = match eyes.ports.cloud.machines(&MachineQuery::default()).await {
        Ok(machines) => machines,
        Err(error) => {
            metrics::counter!("cksd_scanner_unknown_total", "why" => "cloud").increment(1);
            return Err(format!("the cloud gave no answer, no state changes: {error}"));
        }
    };
    remember(eyes, &machines)
        .await
        .map_err(|error| error.to_string())?;
    let mut said = Vec::new();
    for cluster in resting {
        match one(eyes, &cluster, &machines).await {
            Ok(None) => {}
            Ok(Some(text)) => said.push(format!("cluster {}: {text}", cluster.name)),
            Err(error) => {
                tracing::warn!(cluster.name = %cluster.name, error = %error, "the scanner could not judge a cluster");
            }
        }
    }
    Ok(said.join("; "))
}

/// Lists answer from what was seen last, so what this walk showed is kept.
async fn remember(eyes: &Eyes, machines: &[Machine]) -> Result<(), DbError> {
    let ids: Vec<uuid::Uuid> = machines.iter().map(|machine| machine.id.0).collect();
    let names: Vec<String> = machines.iter().map(|machine| machine.name.clone()).collect();
    let data: Vec<serde_json::Value> = machines.iter().map(|machine| machine.raw.clone()).collect();
    let mut conn = eyes.pool.acquire().await?;
    scans::remember_machines(&mut conn, &ids, &names, &data, eyes.ports.clock.now()).await
}

async fn one(eyes: &Eyes, cluster: &Resting, machines: &[Machine]) -> Result<Option<String>, DbError> {
    let mut conn = eyes.pool.acquire().await?;
    let members = db::members::list(&mut conn, cluster.key).await?;
    drop(conn);
    match scan::judge(cluster.expected.state, &members, machines) {
        Finding::Fine => Ok(None),
        Finding::Fault(reason) => {
            let text = format!(
                "Kubernetes cluster {} ({}) is in Alert: {reason}",
                cluster.name, cluster.id
            );
            change(
                eyes,
                cluster,
                &[Event::FaultsDetected],
                &reason,
                Level::Error,
                &text,
            )
            .await
        }
        Finding::AllStopped => {
            let reason = "by evidence: every VM is Stopped";
            let events = [Event::StopRequested, Event::OperationSucceeded];
            let text = format!(
                "Kubernetes cluster {} ({}) is Stopped, {reason}",
                cluster.name, cluster.id
            );
            change(eyes, cluster, &events, reason, Level::Info, &text).await
        }
        Finding::Unknown(reason) => {
            metrics::counter!("cksd_scanner_unknown_total", "why" => "sight").increment(1);
            tracing::warn!(cluster.name = %cluster.name, "{reason}: no state changes");
            Ok(None)
        }
        Finding::LookCloser => recover(eyes, cluster).await,
    }
}

/// Evidence first, then both transitions in one transaction on the generation read before looking.
async fn recover(eyes: &Eyes, cluster: &Resting) -> Result<Option<String>, DbError> {
    let seen = match eyes.look(cluster.id).await {
        Ok(seen) => seen,
        Err(error) => {
            tracing::info!(cluster.name = %cluster.name, error = %error, "a cluster in Alert could not be looked at");
            return Ok(None);
        }
    };
    let record = upgrade_record(eyes, &seen.cluster).await?;
    let Some(reason) = healthy(&seen, record.as_ref()) else {
        return Ok(None);
    };
    let events = [Event::RecoveryRequested, Event::OperationSucceeded];
    let text = format!(
        "Kubernetes cluster {} ({}) is Running again, {reason}",
        cluster.name, cluster.id
    );
    change(eyes, cluster, &events, &reason, Level::Info, &text).await
}

/// Why the cluster counts as healthy, if it does.
fn healthy(seen: &Observed, record: Option<&UpgradeRecord>) -> Option<String> {
    let kubernetes = match &seen.kubernetes {
        Ok(kubernetes) => kubernetes,
        Err(reason) => {
            tracing::info!(cluster.name = %seen.cluster.name, "Kubernetes of a cluster in Alert cannot be asked: {reason}");
            return None;
        }
    };
    let members: &[Member] = &seen.members;
    let own = seen.cluster.semantic_version.as_deref();
    let unfinished =
        settle::unfinished_upgrade(record, own, members, &kubernetes.resolved, &kubernetes.nodes);
    let verdict = settle::judge(Evidence {
        cluster: &seen.cluster,
        members,
        resolved: &kubernetes.resolved,
        nodes: &kubernetes.nodes,
        unfinished_upgrade: unfinished.as_deref(),
    });
    verdict.healthy().then(|| verdict.reason())
}

async fn upgrade_record(eyes: &Eyes, cluster: &Cluster) -> Result<Option<UpgradeRecord>, DbError> {
    let mut conn = eyes.pool.acquire().await?;
    let Some(target) = details::find(&mut conn, cluster.key, details::UPGRADE_SEMANTIC).await? else {
        return Ok(None);
    };
    let script_started = scans::script_started(&mut conn, cluster.key).await?;
    Ok(Some(UpgradeRecord {
        target,
        script_started,
    }))
}

/// Takes the events one after the other in one transaction, and tells about it in one audit event.
async fn change(
    eyes: &Eyes,
    cluster: &Resting,
    events: &[Event],
    reason: &str,
    level: Level,
    text: &str,
) -> Result<Option<String>, DbError> {
    let mut tx = eyes.pool.begin().await?;
    let mut expected = cluster.expected;
    for event in events {
        match db::clusters::transition(&mut tx, cluster.key, expected, *event, None, Some(reason)).await? {
            Cas::Applied(now) => {
                expected = Expected {
                    state: now.state,
                    generation: now.generation,
                }
            }
            // Somebody was faster: what we saw is old, and the next pass looks again.
            Cas::Lost { .. } | Cas::Missing => return Ok(None),
        }
    }
    let event = db::events::NewEvent {
        id: EventId(eyes.ports.ids.ordered()),
        kind: EVENT_TYPE,
        level,
        stage: Stage::Completed,
        text,
        account_key: cluster.account_key,
        user_key: None,
        resource_type: Some(RESOURCE_CLUSTER),
        resource_id: Some(cluster.id.0),
        resource_name: Some(&cluster.name),
        parent: None,
        job: None,
    };
    db::events::insert(&mut tx, &event).await?;
    tx.commit().await?;
    Ok(Some(format!(
        "{} -> {}: {reason}",
        cluster.expected.state, expected.state
    )))
}
