//! Sees through what ended jobs could not: machines to expunge, uncordons, rules (`behaviour.md` 11).
//!
//! Each leftover is a ledger row with the time of its next try. A pass takes the due ones, each locked and put
//! off at once, so that replicas never work on the same row, and a row whose worker dies comes back.
//!
//! Node-side leftovers (cordons) act only while no live job owns the cluster. Their commands carry an epoch of
//! their own, drawn when the row is taken: a job that is admitted meanwhile claims a higher one, and the node
//! refuses ours.

use std::time::Duration;

use serde_json::{Value, json};

use crate::db::ledger::{self, LedgerKind, LedgerRow};
use crate::db::{self, DbError, scans};
use crate::domain::cluster::Cluster;
use crate::domain::event::{Level, RESOURCE_CLUSTER, Stage};
use crate::domain::id::{CloudJobId, EventId, PublicIpId, RuleId, VmId};
use crate::domain::observed::MachineState;
use crate::observe::Eyes;
use crate::ports::cloud::{CloudError, CloudErrorKind, CloudJob, MachineQuery};
use crate::ports::kube::Via;
use crate::ports::shell::Fence;

/// Rows that one pass takes.
const BATCH: i64 = 20;
/// How long a taken row is held: longer than any try, which ends with the limits of cloud and shell.
const HOLD_SECS: f64 = 120.0;
/// First and longest pause between tries (`behaviour.md` 11).
const FIRST_PAUSE: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_mins(10);
/// The event type of what becomes of leftovers of a scale-down.
const EVENT_TYPE: &str = "KUBERNETES.CLUSTER.SCALE";

/// What came of one try.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Tried {
    /// The object is as it should be, or gone.
    Done(String),
    /// Under way: look again soon, with what must be remembered.
    Going(Value),
    /// It failed; tried again after a pause.
    Failed(String),
    /// Only a person can act; it stays listed.
    Held(String),
}

/// One pass. Returns a line for the log, empty when nothing was due.
///
/// # Errors
/// The database gave no answer.
pub async fn pass(eyes: &Eyes) -> Result<String, String> {
    let mut said = Vec::new();
    let rows = take(eyes).await.map_err(|error| error.to_string())?;
    for row in rows {
        let what = format!("{} {}", row.kind.name(), row.subject);
        match handle(eyes, &row).await {
            Ok(text) => said.push(format!("{what}: {text}")),
            Err(error) => return Err(format!("{what}: {error}")),
        }
    }
    metrics::gauge!("cksd_leftovers_handled").set(f64::from(u32::try_from(said.len()).unwrap_or(u32::MAX)));
    Ok(said.join("; "))
}

async fn take(eyes: &Eyes) -> Result<Vec<LedgerRow>, DbError> {
    let mut tx = eyes.pool.begin().await?;
    let rows = ledger::claim_leftovers(&mut tx, BATCH, HOLD_SECS).await?;
    tx.commit().await?;
    Ok(rows)
}

async fn handle(eyes: &Eyes, row: &LedgerRow) -> Result<String, DbError> {
    let mut conn = eyes.pool.acquire().await?;
    let cluster = db::clusters::by_key(&mut conn, row.cluster_key).await?;
    drop(conn);
    let tried = match row.kind {
        LedgerKind::Expunge => expunge(eyes, row).await,
        LedgerKind::Vm => watch(eyes, row).await,
        LedgerKind::Cordon => uncordon(eyes, &cluster, row).await?,
        LedgerKind::Rule => rule(eyes, row).await,
        LedgerKind::Iso | LedgerKind::Host | LedgerKind::Script | LedgerKind::Removal => {
            Tried::Held(format!("{} is given back by hand", row.kind.name()))
        }
    };
    settle(eyes, &cluster, row, tried).await
}

/// The pause after this many tries: 5 s, doubled each time, 10 min at most.
fn pause(tries: i32) -> Duration {
    let doublings = u32::try_from(tries.saturating_sub(1)).unwrap_or(0).min(10);
    FIRST_PAUSE.saturating_mul(1 << doublings).min(LONGEST_PAUSE)
}

async fn settle(eyes: &Eyes, cluster: &Cluster, row: &LedgerRow, tried: Tried) -> Result<String, DbError> {
    let mut tx = eyes.pool.begin().await?;
    let text = match tried {
        Tried::Done(text) => {
            if ledger::drop_leftover(&mut tx, row.id).await? && row.kind == LedgerKind::Expunge {
                tell(eyes, &mut tx, cluster, Level::Info, &text).await?;
            }
            text
        }
        Tried::Going(detail) => {
            scans::remember(&mut tx, row.id, &detail).await?;
            ledger::put_off(&mut tx, row.id, FIRST_PAUSE.as_secs_f64(), None).await?;
            "under way".to_owned()
        }
        Tried::Failed(text) => {
            let detail = merged(&row.detail, &json!({ "job": null }));
            scans::remember(&mut tx, row.id, &detail).await?;
            if row.last_error.is_none() {
                let said = format!("{text}; it is tried again in the background");
                tell(eyes, &mut tx, cluster, Level::Warn, &said).await?;
            }
            ledger::put_off(&mut tx, row.id, pause(row.tries).as_secs_f64(), Some(&text)).await?;
            text
        }
        Tried::Held(text) => {
            ledger::put_off(&mut tx, row.id, LONGEST_PAUSE.as_secs_f64(), Some(&text)).await?;
            text
        }
    };
    tx.commit().await?;
    Ok(text)
}

async fn tell(
    eyes: &Eyes,
    conn: &mut sqlx::PgConnection,
    cluster: &Cluster,
    level: Level,
    text: &str,
) -> Result<(), DbError> {
    let account_key = scans::owner(&mut *conn, cluster.key).await?;
    let event = db::events::NewEvent {
        id: EventId(eyes.ports.ids.ordered()),
        kind: EVENT_TYPE,
        level,
        stage: Stage::Completed,
        text,
        account_key,
        user_key: None,
        resource_type: Some(RESOURCE_CLUSTER),
        resource_id: Some(cluster.id.0),
        resource_name: Some(&cluster.name),
        parent: None,
        job: None,
    };
    db::events::insert(conn, &event).await
}

fn merged(detail: &Value, more: &Value) -> Value {
    let mut all = detail.as_object().cloned().unwrap_or_default();
    all.extend(more.as_object().cloned().unwrap_or_default());
    Value::Object(all)
}

fn name(row: &LedgerRow) -> String {
    let name = row.detail.get("name").and_then(Value::as_str).unwrap_or_default();
    format!("VM {name} ({})", row.subject)
}

/// A destroyed machine: only one that still is Destroyed or Expunging is acted on. One cloud job at a time.
async fn expunge(eyes: &Eyes, row: &LedgerRow) -> Tried {
    let Ok(vm) = row.subject.parse::<VmId>() else {
        return Tried::Held(format!("`{}` is no id of a machine", row.subject));
    };
    match step_expunge(eyes, row, vm).await {
        Ok(tried) => tried,
        Err(error) if error.kind == CloudErrorKind::NotFound => Tried::Done(format!("{} is gone", name(row))),
        Err(error) => Tried::Failed(format!("{}: {error}", name(row))),
    }
}

async fn step_expunge(eyes: &Eyes, row: &LedgerRow, vm: VmId) -> Result<Tried, CloudError> {
    let cloud = &eyes.ports.cloud;
    let query = MachineQuery {
        ids: vec![vm],
        ..MachineQuery::default()
    };
    let Some(machine) = cloud.machines(&query).await?.into_iter().next() else {
        return Ok(Tried::Done(format!("{} is expunged", name(row))));
    };
    if !matches!(machine.state, MachineState::Destroyed | MachineState::Expunging) {
        let text = format!(
            "{} is {:?} again: somebody recovered it; destroy it by hand",
            name(row),
            machine.state
        );
        return Ok(Tried::Held(text));
    }
    if let Some(job) = row
        .detail
        .get("job")
        .and_then(Value::as_str)
        .and_then(|id| id.parse::<CloudJobId>().ok())
    {
        match cloud.job(job).await? {
            CloudJob::Pending => return Ok(Tried::Going(row.detail.clone())),
            CloudJob::Failed { text, .. } => {
                let said = format!(
                    "Unable to expunge {} (left in state {:?}): {text}",
                    name(row),
                    machine.state
                );
                return Ok(Tried::Failed(said));
            }
            CloudJob::Succeeded | CloudJob::Unknown => {}
        }
    }
    let job = cloud.expunge(vm).await?;
    Ok(Tried::Going(merged(&row.detail, &json!({ "job": job }))))
}

/// A machine whose destroy was refused is acted on only by command; it is done when it is gone.
async fn watch(eyes: &Eyes, row: &LedgerRow) -> Tried {
    let Ok(vm) = row.subject.parse::<VmId>() else {
        return Tried::Held(format!("`{}` is no id of a machine", row.subject));
    };
    let query = MachineQuery {
        ids: vec![vm],
        ..MachineQuery::default()
    };
    match eyes.ports.cloud.machines(&query).await {
        Ok(found) => match found.first() {
            None => Tried::Done(format!("{} is gone", name(row))),
            Some(machine) => Tried::Held(format!(
                "{} is {:?} and has to be destroyed by hand",
                name(row),
                machine.state
            )),
        },
        Err(error) => Tried::Held(format!("{}: {error}", name(row))),
    }
}

/// Our cordon on a node that is still there.
async fn uncordon(eyes: &Eyes, cluster: &Cluster, row: &LedgerRow) -> Result<Tried, DbError> {
    let mut conn = eyes.pool.acquire().await?;
    let epoch = scans::new_epoch(&mut conn).await?;
    drop(conn);
    let seen = match eyes.look(cluster.id).await {
        Ok(seen) => seen,
        Err(error) => {
            return Ok(Tried::Failed(format!(
                "node {} is still cordoned: {error}",
                row.subject
            )));
        }
    };
    let kubernetes = match seen.kubernetes {
        Ok(kubernetes) => kubernetes,
        Err(reason) => {
            return Ok(Tried::Failed(format!(
                "node {} is still cordoned: {reason}",
                row.subject
            )));
        }
    };
    if !kubernetes
        .nodes
        .iter()
        .any(|node| node.name == row.subject && node.unschedulable)
    {
        return Ok(Tried::Done(format!(
            "node {} is gone or schedulable",
            row.subject
        )));
    }
    let via = Via {
        fence: Fence {
            installation: eyes.installation,
            epoch,
        },
        ..kubernetes.via
    };
    Ok(match eyes.ports.kube.uncordon(&via, &row.subject).await {
        Ok(()) => Tried::Done(format!("node {} is uncordoned", row.subject)),
        Err(error) => Tried::Failed(format!("node {} is still cordoned: {error}", row.subject)),
    })
}

/// A forwarding rule of ours on a removed machine.
async fn rule(eyes: &Eyes, row: &LedgerRow) -> Tried {
    let ip = row
        .detail
        .get("ip")
        .and_then(Value::as_str)
        .and_then(|id| id.parse::<PublicIpId>().ok());
    let (Ok(id), Some(ip)) = (row.subject.parse::<RuleId>(), ip) else {
        return Tried::Held(format!("rule `{}` has no address on record", row.subject));
    };
    let firewall = row.detail.get("kind").and_then(Value::as_str) == Some("firewall");
    match drop_rule(eyes, ip, id, firewall, row).await {
        Ok(tried) => tried,
        Err(error) if error.kind == CloudErrorKind::NotFound => Tried::Done("the rule is gone".to_owned()),
        Err(error) => Tried::Failed(format!("rule {id} still stands: {error}")),
    }
}

async fn drop_rule(
    eyes: &Eyes,
    ip: PublicIpId,
    id: RuleId,
    firewall: bool,
    row: &LedgerRow,
) -> Result<Tried, CloudError> {
    let cloud = &eyes.ports.cloud;
    let stands = if firewall {
        cloud.firewall_rules(ip).await?.iter().any(|rule| rule.id == id)
    } else {
        cloud.forwarding_rules(ip).await?.iter().any(|rule| rule.id == id)
    };
    if !stands {
        return Ok(Tried::Done("the rule is gone".to_owned()));
    }
    if let Some(job) = row
        .detail
        .get("job")
        .and_then(Value::as_str)
        .and_then(|id| id.parse::<CloudJobId>().ok())
    {
        match cloud.job(job).await? {
            CloudJob::Pending => return Ok(Tried::Going(row.detail.clone())),
            CloudJob::Failed { text, .. } => {
                return Ok(Tried::Failed(format!("rule {id} still stands: {text}")));
            }
            CloudJob::Succeeded | CloudJob::Unknown => {}
        }
    }
    let job = if firewall {
        cloud.delete_firewall_rule(id).await?
    } else {
        cloud.delete_forwarding_rule(id).await?
    };
    Ok(Tried::Going(merged(&row.detail, &json!({ "job": job }))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_from_five_seconds_to_ten_minutes() {
        let seconds: Vec<u64> = [0, 1, 2, 3, 7, 8, 100]
            .map(|tries| pause(tries).as_secs())
            .to_vec();
        assert_eq!(seconds, [5, 5, 10, 20, 320, 600, 600]);
    }

    #[test]
    fn what_is_remembered_is_added_to_what_is_known() {
        let known = json!({ "name": "wk-3", "job": "old" });
        assert_eq!(
            merged(&known, &json!({ "job": null })),
            json!({ "name": "wk-3", "job": null })
        );
    }
}
