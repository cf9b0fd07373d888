//! Our rules in the cloud: made for a new node, dropped with one that left (`behaviour.md` 6.9).
//!
//! What this must not know: why a node came or left. A rule is ours only by `cluster_rule`.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::machine::{Asked, again_before_deadline, wait_done};
use super::talk::Talk;
use super::trouble::look_again;
use crate::domain::id::{PublicIpId, RuleId, VmId};
use crate::domain::plan::resolve::SSH_PORT;
use crate::domain::plan::rules::{self as decide, OwnRule};
use crate::jobs::rows::{ClusterRule, LedgerKind, RuleKind, RulePurpose};
use crate::jobs::{OpCx, StepResult};
use crate::ports::cloud::{CloudError, CloudErrorKind};
use crate::ports::fault::Retry;

/// How long the removal of a rule is tried.
const DROP_LIMIT: Duration = Duration::from_mins(1);

/// The rules that are ours.
pub async fn own(cx: &OpCx) -> StepResult<Vec<OwnRule>> {
    Ok(cx.db().rules().await?.iter().map(own_rule).collect())
}

fn own_rule(row: &ClusterRule) -> OwnRule {
    OwnRule {
        id: row.cloud_id,
        kind: match row.kind {
            RuleKind::Forwarding => decide::RuleKind::Forwarding,
            RuleKind::Firewall => decide::RuleKind::Firewall,
        },
        vm_id: row.vm_id,
        ssh: row.purpose == RulePurpose::Ssh,
        ip_id: row.public_ip_id,
        address: row.address,
        public_port: row.public_port,
        public_end_port: row.public_end_port,
    }
}

/// What was asked for each rule that goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dropping {
    /// The rule, its public port, and what was asked.
    pub rules: Vec<(RuleId, u16, Asked)>,
}

/// Asks the cloud to remove these rules of ours, those that still stand. Each has a ledger row before.
pub async fn ask_drop(cx: &OpCx, rules: &[OwnRule], since: Timestamp) -> StepResult<Dropping> {
    let mut dropping = Dropping { rules: Vec::new() };
    for rule in rules {
        let asked = match standing(cx, rule).await {
            Ok(false) => Asked::already(cx.now()),
            Ok(true) => {
                cx.db()
                    .ledger_put(LedgerKind::Rule, &rule.id.to_string(), &detail(rule))
                    .await?;
                match delete(cx, rule).await {
                    Ok(asked) => asked,
                    Err(error) => again_or_refused(cx, rule, &error, since)?,
                }
            }
            Err(error) => again_or_refused(cx, rule, &error, since)?,
        };
        dropping.rules.push((rule.id, rule.public_port, asked));
    }
    Ok(dropping)
}

fn detail(rule: &OwnRule) -> serde_json::Value {
    let kind = match rule.kind {
        decide::RuleKind::Forwarding => "forwarding",
        decide::RuleKind::Firewall => "firewall",
    };
    json!({ "kind": kind, "ip": rule.ip_id, "port": rule.public_port })
}

async fn standing(cx: &OpCx, rule: &OwnRule) -> Result<bool, CloudError> {
    let cloud = &cx.ports().cloud;
    Ok(match rule.kind {
        decide::RuleKind::Forwarding => cloud
            .forwarding_rules(rule.ip_id)
            .await?
            .iter()
            .any(|one| one.id == rule.id && !one.revoked),
        decide::RuleKind::Firewall => cloud
            .firewall_rules(rule.ip_id)
            .await?
            .iter()
            .any(|one| one.id == rule.id && !one.revoked),
    })
}

async fn delete(cx: &OpCx, rule: &OwnRule) -> Result<Asked, CloudError> {
    let cloud = &cx.ports().cloud;
    let at = cx.now();
    let deleted = match rule.kind {
        decide::RuleKind::Forwarding => cloud.delete_forwarding_rule(rule.id).await,
        decide::RuleKind::Firewall => cloud.delete_firewall_rule(rule.id).await,
    };
    match deleted {
        Ok(job) => Ok(Asked {
            at,
            job: Some(job),
            refused: None,
        }),
        Err(error) if error.kind == CloudErrorKind::NotFound => Ok(Asked::already(at)),
        Err(error) => Err(error),
    }
}

#[track_caller]
fn again_or_refused(cx: &OpCx, rule: &OwnRule, error: &CloudError, since: Timestamp) -> StepResult<Asked> {
    let refused = Asked {
        at: cx.now(),
        job: None,
        refused: Some(error.to_string()),
    };
    if error.retry == Retry::Never {
        return Ok(refused);
    }
    let reason = format!("the rule on port {}: {error}", rule.public_port);
    match look_again(
        reason,
        since,
        cx.now(),
        since + DROP_LIMIT,
        Duration::from_secs(5),
    ) {
        Some(again) => Err(again),
        None => Ok(refused),
    }
}

/// Follows the removals. Rules that are gone lose their rows; the others are named and stay in the ledger.
pub async fn wait_dropped(cx: &OpCx, dropping: &Dropping, cap: Duration) -> StepResult<Vec<String>> {
    let mut left = Vec::new();
    for (id, port, asked) in &dropping.rules {
        let until = asked.at + DROP_LIMIT;
        match wait_done(
            cx,
            asked,
            &format!("the rule on port {port} is being removed"),
            until,
            cap,
        )
        .await?
        {
            Ok(()) => {
                cx.db().drop_rule(*id).await?;
                cx.db().ledger_drop(LedgerKind::Rule, &id.to_string()).await?;
            }
            Err(text) => left.push(format!(
                "the rule on public port {port} could not be removed: {text}"
            )),
        }
    }
    Ok(left)
}

/// What was asked for a rule that comes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Making {
    /// The rule; none when one of somebody else serves.
    pub rule: Option<RuleId>,
    /// The port that it really has.
    pub port: u16,
    /// What was asked.
    pub asked: Asked,
}

/// Makes the forwarding rule of a machine's SSH, unless one stands.
pub async fn ensure_forward(cx: &OpCx, ip: PublicIpId, vm_id: VmId, wanted: u16) -> StepResult<Making> {
    let cloud = &cx.ports().cloud;
    let rules = match cloud.forwarding_rules(ip).await {
        Ok(rules) => rules,
        Err(error) => return refused_making(cx, wanted, &error),
    };
    if let Some(rule) = decide::ssh_rule(&rules, vm_id) {
        return Ok(Making {
            rule: Some(rule.id),
            port: rule.public_port,
            asked: Asked::already(cx.now()),
        });
    }
    let address = rules.first().map(|rule| rule.address);
    // The planned port, unless somebody took it meanwhile.
    let taken = rules
        .iter()
        .any(|rule| (rule.public_port..=rule.public_end_port).contains(&wanted));
    let port = match (taken, address) {
        (true, Some(address)) => {
            decide::free_port(address, &rules, &std::collections::BTreeSet::new()).unwrap_or(wanted)
        }
        _ => wanted,
    };
    match cloud.create_forwarding_rule(ip, port, vm_id, SSH_PORT).await {
        Ok(made) => Ok(Making {
            rule: Some(made.id),
            port,
            asked: Asked {
                at: cx.now(),
                job: Some(made.job),
                refused: None,
            },
        }),
        Err(error) => refused_making(cx, port, &error),
    }
}

/// Makes the firewall rule for a port, unless a range lets it in.
pub async fn ensure_open(cx: &OpCx, ip: PublicIpId, port: u16) -> StepResult<Making> {
    let cloud = &cx.ports().cloud;
    let rules = match cloud.firewall_rules(ip).await {
        Ok(rules) => rules,
        Err(error) => return refused_making(cx, port, &error),
    };
    if decide::is_open(&rules, port) {
        // One of exactly this port is the one whose answer was lost; a wider one is somebody else's.
        let exact = rules.iter().find(|rule| {
            !rule.revoked && rule.start_port == Some(port) && rule.end_port.is_none_or(|end| end == port)
        });
        return Ok(Making {
            rule: exact.map(|rule| rule.id),
            port,
            asked: Asked::already(cx.now()),
        });
    }
    match cloud.create_firewall_rule(ip, port, port).await {
        Ok(made) => Ok(Making {
            rule: Some(made.id),
            port,
            asked: Asked {
                at: cx.now(),
                job: Some(made.job),
                refused: None,
            },
        }),
        Err(error) => refused_making(cx, port, &error),
    }
}

#[track_caller]
fn refused_making(cx: &OpCx, port: u16, error: &CloudError) -> StepResult<Making> {
    let asked = again_before_deadline(cx, error)?;
    Ok(Making {
        rule: None,
        port,
        asked,
    })
}

/// Where a machine's SSH is to stand.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// The address.
    pub ip: PublicIpId,
    /// The address itself.
    pub address: std::net::IpAddr,
    /// The wanted public port.
    pub port: u16,
}

/// Makes forwarding and, where no range covers it, firewall rule; both become ours.
pub async fn ensure_rules(
    talk: &Talk<'_>,
    subject: &str,
    vm_id: VmId,
    place: Place,
) -> StepResult<Result<(), String>> {
    let cx = talk.cx;
    let make = ensure_forward(cx, place.ip, vm_id, place.port);
    let forward = cx.step("forward", subject, make).await?;
    let open = cx
        .step("open", subject, ensure_open(cx, place.ip, forward.port))
        .await?;
    let rows = [(RuleKind::Forwarding, &forward), (RuleKind::Firewall, &open)];
    cx.commit("rules", subject, async |tx| {
        for (kind, made) in rows {
            if let Some(id) = made.rule {
                tx.put_rule(&ClusterRule {
                    cloud_id: id,
                    kind,
                    vm_id: Some(vm_id),
                    purpose: RulePurpose::Ssh,
                    public_ip_id: place.ip,
                    address: place.address,
                    public_port: made.port,
                    public_end_port: made.port,
                })
                .await?;
            }
        }
        Ok(())
    })
    .await?;
    for (name, made) in [("forward_made", &forward), ("open_made", &open)] {
        let until = made.asked.at + Duration::from_mins(2);
        let what = format!("the rule on public port {} is being made", made.port);
        let done = wait_done(cx, &made.asked, &what, until, talk.poll_cap);
        if let Err(cause) = cx.step(name, subject, done).await? {
            return Ok(Err(format!(
                "the rule on public port {} could not be made: {cause}",
                made.port
            )));
        }
    }
    Ok(Ok(()))
}
