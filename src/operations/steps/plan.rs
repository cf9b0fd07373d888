//! Looking at cloud, Kubernetes and rules, and making the plan of a scale from what is seen.
//!
//! What this must not know: how the plan is carried out. Nothing outside is touched here.

use futures_util::FutureExt;
use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;

use super::machine;
use super::mould::{additions, sizes};
use super::talk::Talk;
use super::trouble::{Trouble, look_again};
use crate::domain::cluster::{Cluster, Member, Role, State};
use crate::domain::id::{PublicIpId, VmId};
use crate::domain::observed::{ForwardingRule, KubeNode, Machine};
use crate::domain::plan::admission::ScaleRequest;
use crate::domain::plan::choice::{Candidate, Choice, Reason, Wanted, choose};
use crate::domain::plan::drain::would_move;
use crate::domain::plan::resolve::{self, Facts, NodeWitness, Reach, Resolved, SSH_PORT};
use crate::domain::plan::scale::{Leave, Removal, ScalePlan};
use crate::domain::plan::{naming, offering};
use crate::jobs::{OpCx, StepError, StepResult, fail};
use crate::ports::cloud::{CloudError, MachineQuery};

/// How long an outside that does not answer is asked again before the request is refused.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is read before anything is decided.
pub struct Seen {
    /// The cluster.
    pub cluster: Cluster,
    /// Its members.
    pub members: Vec<Member>,
    /// Their machines.
    pub machines: Vec<Machine>,
    /// How nodes are reached.
    pub reach: Reach,
    /// The address on which rules stand.
    pub ip_id: Option<PublicIpId>,
    /// The forwarding rules on it.
    pub forwards: Vec<ForwardingRule>,
}

/// Makes the plan.
///
/// # Errors
/// `Fail` with what stands against the request; nothing has been touched.
pub async fn make(cx: &OpCx, poll_cap: Duration, since: Timestamp) -> StepResult<ScalePlan> {
    let request: ScaleRequest = serde_json::from_value(cx.job().request.clone())
        .map_err(|error| fail(format!("the stored request cannot be read: {error}")))?;
    let seen = look(cx, since).await?;
    for machine in &seen.machines {
        machine::keep(cx, machine).await?;
    }
    // A stopped cluster has no Kubernetes to ask; only offerings can change there.
    let (resolved, nodes) = if cx.job().from_state == Some(State::Stopped) {
        (resolve::endpoints(seen.facts(&[])), Vec::new())
    } else {
        resolve_all(cx, &seen, poll_cap, since).await?
    };
    let talk = Talk::open(cx, resolved.clone(), poll_cap).await?;
    let choice = chosen(&talk, &request, &seen, &resolved, &nodes, since).await?;
    preflight(cx, &seen, &choice, since).await?;
    let have = count(&seen.members, Role::Worker);
    let want = request.size.unwrap_or(have);
    let leaving: Vec<VmId> = choice.leaving.iter().map(|one| one.vm_id).collect();
    let offering = offering::plan(&request, &seen.members, &seen.machines, &leaving);
    let (add, mould) = additions(cx, &request, &seen, want - have, since).await?;
    let sizes = sizes(cx, &offering, mould.as_ref(), since).await?;
    Ok(ScalePlan {
        cluster_name: seen.cluster.name.clone(),
        reach: seen.reach,
        ip_id: seen.ip_id,
        control: talk.control().map(|one| one.vm_id).collect(),
        remove: removals(&choice, &resolved),
        add,
        mould,
        offering,
        first: offering::first(have, want),
        sizes,
        passed_over: choice.passed_over,
        first_matched: first_matched(&seen.members, &resolved),
        members: resolved,
    })
}

fn count(members: &[Member], role: Role) -> i64 {
    i64::try_from(members.iter().filter(|member| member.role == role).count()).unwrap_or(i64::MAX)
}

fn first_matched(members: &[Member], resolved: &[Resolved]) -> BTreeSet<VmId> {
    members
        .iter()
        .filter(|member| member.node.is_none())
        .filter(|member| {
            resolved
                .iter()
                .any(|one| one.vm_id == member.vm_id && matches!(one.node, NodeWitness::Present(_)))
        })
        .map(|member| member.vm_id)
        .collect()
}

/// Asks again for a short while, then refuses: the caller is to know soon that something is away.
#[track_caller]
pub fn away(cx: &OpCx, since: Timestamp, trouble: impl Into<Trouble>) -> StepError {
    let text = trouble.into().text;
    look_again(
        text.clone(),
        since,
        cx.now(),
        since + PATIENCE,
        Duration::from_secs(1),
    )
    .unwrap_or_else(|| fail(text))
}

/// Reads cluster, members, machines and rules.
pub async fn look(cx: &OpCx, since: Timestamp) -> StepResult<Seen> {
    let cloud = &cx.ports().cloud;
    let cluster = cx.db().cluster().await?;
    let members = cx.db().members().await?;
    let ids = members.iter().map(|member| member.vm_id).collect();
    let query = MachineQuery {
        ids,
        ..MachineQuery::default()
    };
    let machines = cloud
        .machines(&query)
        .await
        .map_err(|error| away(cx, since, error))?;
    let (reach, ip_id) = reach(cx, &cluster)
        .await?
        .map_err(|error| away(cx, since, error))?;
    let forwards = match ip_id {
        Some(ip) => cloud
            .forwarding_rules(ip)
            .await
            .map_err(|error| away(cx, since, error))?,
        None => Vec::new(),
    };
    Ok(Seen {
        cluster,
        members,
        machines,
        reach,
        ip_id,
        forwards,
    })
}

/// How nodes are reached: where our own rules stand; else by the network.
async fn reach(cx: &OpCx, cluster: &Cluster) -> StepResult<Result<(Reach, Option<PublicIpId>), CloudError>> {
    let own = cx.db().rules().await?;
    if let Some(rule) = own
        .iter()
        .min_by_key(|rule| rule.public_port.abs_diff(resolve::FIRST_SSH_PORT))
    {
        return Ok(Ok((
            Reach::Forwarded {
                address: rule.address,
            },
            Some(rule.public_ip_id),
        )));
    }
    let Some(network_id) = cluster.network_id else {
        return Err(fail("the cluster has no network on record: import it again"));
    };
    Ok(by_network(cx, network_id).await)
}

async fn by_network(
    cx: &OpCx,
    network_id: crate::domain::id::NetworkId,
) -> Result<(Reach, Option<PublicIpId>), CloudError> {
    let cloud = &cx.ports().cloud;
    let direct = (Reach::Direct { port: SSH_PORT }, None);
    let Some(network) = cloud.network(network_id).await? else {
        return Ok(direct);
    };
    if network.routed || network.kind.eq_ignore_ascii_case("shared") {
        return Ok(direct);
    }
    let ips = cloud.public_ips(network_id).await?;
    let chosen = ips.iter().find(|ip| ip.source_nat).or(ips.first());
    Ok(chosen.map_or(direct, |ip| {
        (Reach::Forwarded { address: ip.address }, Some(ip.id))
    }))
}

impl Seen {
    /// The facts for resolving, with these nodes.
    pub fn facts<'a>(&'a self, nodes: &'a [KubeNode]) -> Facts<'a> {
        Facts {
            members: &self.members,
            machines: &self.machines,
            nodes,
            rules: &self.forwards,
            reach: self.reach,
        }
    }
}

/// Lists the nodes through a control node, then resolves every member.
pub async fn resolve_all(
    cx: &OpCx,
    seen: &Seen,
    poll_cap: Duration,
    since: Timestamp,
) -> StepResult<(Vec<Resolved>, Vec<KubeNode>)> {
    let endpoints = resolve::endpoints(seen.facts(&[]));
    let talk = Talk::open(cx, endpoints, poll_cap).await?;
    let nodes = talk.nodes().await.map_err(|error| away(cx, since, error))?;
    let resolved = resolve::resolve(seen.facts(&nodes)).map_err(|error| fail(error.to_string()))?;
    if let Some(bad) = nodes.iter().find(|node| !naming::is_node_name(&node.name)) {
        return Err(fail(format!("`{}` is no name of a Kubernetes node", bad.name)));
    }
    Ok((resolved, nodes))
}

async fn chosen(
    talk: &Talk<'_>,
    request: &ScaleRequest,
    seen: &Seen,
    resolved: &[Resolved],
    nodes: &[KubeNode],
    since: Timestamp,
) -> StepResult<Choice> {
    let wanted = match (&request.node_ids, request.size) {
        (Some(ids), _) => Wanted::Nodes(ids.clone()),
        (None, Some(size)) => Wanted::Size(size),
        (None, None) => Wanted::Size(count(&seen.members, Role::Worker)),
    };
    let shrinks = match &wanted {
        Wanted::Nodes(_) => true,
        Wanted::Size(size) => *size < count(&seen.members, Role::Worker),
    };
    let mut candidates = Vec::with_capacity(resolved.len());
    for member in resolved {
        let node = nodes
            .iter()
            .find(|node| Some(node.name.as_str()) == member.node.name());
        let drained = match node {
            Some(node) if shrinks && node.unschedulable && member.role == Role::Worker => {
                is_drained(talk, &node.name, since).await?
            }
            _ => false,
        };
        candidates.push(Candidate {
            member,
            node,
            drained,
        });
    }
    choose(&candidates, &wanted).map_err(|error| fail(error.to_string()))
}

async fn is_drained(talk: &Talk<'_>, node: &str, since: Timestamp) -> StepResult<bool> {
    let kube = &talk.cx.ports().kube;
    let pods = talk
        .kube(|via| async move { kube.pods_on(&via, node).await }.boxed())
        .await;
    let pods = pods.map_err(|error| away(talk.cx, since, error))?;
    Ok(!pods.iter().any(would_move))
}

/// What is known to stop a destroy, all in one refusal.
async fn preflight(cx: &OpCx, seen: &Seen, choice: &Choice, since: Timestamp) -> StepResult<()> {
    if choice.leaving.is_empty() {
        return Ok(());
    }
    let identity = cx
        .ports()
        .cloud
        .identity()
        .await
        .map_err(|error| away(cx, since, error))?;
    let mut findings: Vec<String> = ["destroyVirtualMachine", "expungeVirtualMachine"]
        .into_iter()
        .filter(|command| !identity.commands.contains(*command))
        .map(|command| {
            format!(
                "the service's account {} may not call {command}",
                identity.account
            )
        })
        .collect();
    let leaving = |machine: &&Machine| choice.leaving.iter().any(|one| one.vm_id == machine.id);
    for machine in seen.machines.iter().filter(leaving) {
        let name = format!("VM {} ({})", machine.name, machine.id);
        if machine.backup_offering_id.is_some() {
            findings.push(format!("{name} has a backup offering, which stops its destroy"));
        }
        if machine.delete_protection {
            findings.push(format!("{name} has delete protection"));
        }
        if machine.vm_type.as_deref() == Some("CKS_NODE") {
            findings.push(format!("{name} is owned by CloudStack's own Kubernetes plug-in"));
        }
    }
    if findings.is_empty() {
        Ok(())
    } else {
        Err(fail(findings.join("; ")))
    }
}

fn removals(choice: &Choice, resolved: &[Resolved]) -> Vec<Removal> {
    choice
        .leaving
        .iter()
        .filter_map(|one| {
            let member = resolved.iter().find(|member| member.vm_id == one.vm_id)?;
            let leave = match (&member.node, one.reason) {
                (_, Reason::Down) => Leave::Down,
                (NodeWitness::Gone(_), _) => Leave::NodeGone,
                _ => Leave::Drained,
            };
            Some(Removal {
                vm_id: one.vm_id,
                vm_name: member.vm_name.clone(),
                node: member.node_name(),
                reason: one.reason,
                leave,
            })
        })
        .collect()
}
