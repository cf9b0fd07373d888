//! scaleKubernetesCluster: from a request to a job (`behaviour.md` 2).
//!
//! What the request alone tells is answered at once. The rest is decided in one transaction over the stored rows
//! and the cloud's facts, which are read before it; a refusal there is a job that is born failed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;
use sqlx::PgConnection;

use super::super::cloud_facts::{self, CloudFacts, Source};
use super::super::context::Cx;
use super::super::error::{ApiError, code_of_refusal};
use super::super::views::cluster;
use super::{Entry, Part};
use crate::db::lists::{clusters as lists, jobs as past};
use crate::db::{clusters, details, jobs, ledger, members, versions};
use crate::domain::cluster::{Cluster, Event, Member, Role};
use crate::domain::id::{JobId, OfferingId, VmId};
use crate::domain::job::Failure;
use crate::domain::plan::admission::{
    Admitted, MalformedRequest, OpenJob, ScaleFacts, ScaleRefusal, ScaleRequest, TemplateFacts, VersionNeeds,
    decide,
};
use crate::domain::plan::settle::{UpgradeRecord, unfinished_upgrade};
use crate::domain::settings::{MAX_SIZE, SCALE_TIMEOUT};
use crate::jobs::admission::{Admission, NewJob, admit, born_failed};
use crate::protocol::command::{Command, Param, ParamType, Reply, Role as CallerRole};
use crate::protocol::job::submitted;
use crate::protocol::{Code, CsCode, Fault};

/// How often rows may change under our eyes before we give up.
const TRIES: usize = 5;

pub(super) const ENTRY: Entry = Entry {
    command: Command {
        name: "scaleKubernetesCluster",
        description: "Changes the number of workers of a cluster, removes nodes by name, or changes offerings",
        since: Some("4.14.0"),
        roles: CallerRole::ALL,
        reply: Reply::Job("kubernetescluster"),
        params: &[
            Param::required("id", ParamType::Uuid, "the cluster"),
            Param::optional("size", ParamType::Long, "the wanted number of workers"),
            Param::optional("nodeids", ParamType::List, "the machines whose nodes shall be removed"),
            Param::optional("serviceofferingid", ParamType::Uuid, "the wanted offering of all nodes"),
            Param::optional(
                "nodeofferings",
                ParamType::Map,
                "the wanted offering of a role: nodeofferings[i].node (worker, control, etcd) and nodeofferings[i].offering",
            )
            .since("4.21.0"),
            Param::optional("autoscalingenabled", ParamType::Boolean, "not supported yet"),
            Param::optional("minsize", ParamType::Long, "not supported yet"),
            Param::optional("maxsize", ParamType::Long, "not supported yet"),
        ],
        response: cluster::FIELDS,
    },
    run: |cx| Box::pin(run(cx)),
    part: Part::Kubernetes,
};

async fn run(cx: &Cx) -> Result<Value, ApiError> {
    let mut conn = cx.connection().await?;
    let (key, _) = cx.cluster(&mut conn, "id").await?;
    let request = read(cx)?;
    let gone = look_up_nodes(cx, &mut conn, key, &request).await?;
    let mut source = Source::CacheFirst;
    for _ in 0..TRIES {
        let cluster = clusters::by_key(&mut conn, key).await?;
        drop(conn); // nothing is held while the cloud is asked
        let facts = cloud_facts::gather(cx, &request, &cluster, source).await?;
        if let Ok(facts) = &facts {
            check_offerings_exist(cx, &request, &cluster, facts)?;
        }
        let away = facts.as_ref().err().map(ToString::to_string);
        let asked = Asked {
            request: &request,
            gone: &gone,
            facts: facts.unwrap_or_else(|_| assumed()),
            away,
        };
        match attempt(cx, key, &asked).await? {
            Outcome::Job(id) => return Ok(submitted(&id.to_string(), None)),
            Outcome::AskTheCloud => source = Source::Cloud,
            Outcome::Again => {}
        }
        conn = cx.connection().await?;
    }
    Err(Fault::new(
        Code::Internal,
        CsCode::ConcurrentOperation,
        "the cluster changed while the request was being admitted: try again",
    )
    .into())
}

/// The request in our words.
fn read(cx: &Cx) -> Result<ScaleRequest, ApiError> {
    for field in ["autoscalingenabled", "minsize", "maxsize"] {
        if cx.params.get(field).is_some() {
            return Err(MalformedRequest::Autoscaling { field }.into());
        }
    }
    let node_ids = if cx.params.get("nodeids").is_some() {
        let mut nodes: Vec<VmId> = Vec::new();
        for piece in cx.params.list("nodeids") {
            let vm = piece.parse().map_err(|_| cx.unknown_id("nodeids", &piece))?;
            if !nodes.contains(&vm) {
                nodes.push(vm);
            }
        }
        Some(nodes)
    } else {
        None
    };
    let mut request = ScaleRequest {
        size: cx.number("size")?,
        node_ids,
        offering: cx.id("serviceofferingid")?.map(OfferingId),
        role_offerings: BTreeMap::new(),
    };
    for record in cx.params.map("nodeofferings")?.values() {
        let (Some(node), Some(offering)) = (record.get("node"), record.get("offering")) else {
            return Err(MalformedRequest::IncompleteRecord.into());
        };
        let offering: OfferingId = offering
            .trim()
            .parse()
            .map_err(|_| cx.unknown_id("nodeofferings", offering))?;
        let role = match node.trim().to_lowercase().as_str() {
            "worker" => Role::Worker,
            "control" => Role::Control,
            "etcd" => Role::Etcd,
            other => {
                return Err(MalformedRequest::UnknownRole {
                    role: other.to_owned(),
                }
                .into());
            }
        };
        if request.role_offerings.insert(role, offering).is_some() {
            return Err(MalformedRequest::RoleTwice {
                role: node.trim().to_lowercase(),
            }
            .into());
        }
    }
    request.check()?;
    Ok(request)
}

/// Machines that the caller may not see do not exist. Gives those that an earlier request has removed.
async fn look_up_nodes(
    cx: &Cx,
    conn: &mut PgConnection,
    cluster_key: i64,
    request: &ScaleRequest,
) -> Result<BTreeSet<VmId>, ApiError> {
    let Some(nodes) = &request.node_ids else {
        return Ok(BTreeSet::new());
    };
    let sight = cx.sight(conn).await?;
    let mapped = lists::of_machines(conn, &sight, nodes).await?;
    let unmapped: Vec<uuid::Uuid> = nodes
        .iter()
        .filter(|vm| !mapped.contains_key(vm))
        .map(|vm| vm.0)
        .collect();
    let gone: BTreeSet<VmId> = past::removed_machines(conn, cluster_key, &unmapped)
        .await?
        .into_iter()
        .map(VmId)
        .collect();
    match unmapped.iter().find(|vm| !gone.contains(&VmId(**vm))) {
        Some(unknown) => Err(cx.unknown_id("nodeids", &unknown.to_string()).into()),
        None => Ok(gone),
    }
}

/// An offering that the cloud does not know does not exist.
fn check_offerings_exist(
    cx: &Cx,
    request: &ScaleRequest,
    cluster: &Cluster,
    facts: &CloudFacts,
) -> Result<(), ApiError> {
    let needed = request.offerings_needed(cluster);
    let unknown = |id: &OfferingId| needed.contains(id) && !facts.offerings.contains_key(id);
    if let Some(id) = request.offering.filter(unknown) {
        return Err(cx.unknown_id("serviceofferingid", &id.to_string()).into());
    }
    match request.role_offerings.values().find(|id| unknown(id)) {
        Some(id) => Err(cx.unknown_id("nodeofferings", &id.to_string()).into()),
        None => Ok(()),
    }
}

/// Facts with which nothing is refused, so that what the rows forbid is said before "the cloud is away".
fn assumed() -> CloudFacts {
    CloudFacts {
        template: Some(TemplateFacts {
            name: String::new(),
            ready: true,
        }),
        ..CloudFacts::default()
    }
}

struct Asked<'a> {
    request: &'a ScaleRequest,
    gone: &'a BTreeSet<VmId>,
    facts: CloudFacts,
    /// Why the cloud did not answer, if it did not.
    away: Option<String>,
}

enum Outcome {
    /// A job, admitted or born failed.
    Job(JobId),
    /// A cached fact would refuse: it must be asked anew.
    AskTheCloud,
    /// The rows changed: read them again.
    Again,
}

/// The rows that decide, read under the cluster's lock.
struct Rows {
    cluster: Cluster,
    members: Vec<Member>,
    open_job: Option<OpenJob>,
    upgrade: Option<String>,
    version: Option<VersionNeeds>,
}

async fn read_rows(tx: &mut PgConnection, key: i64) -> Result<Rows, ApiError> {
    let cluster = clusters::by_key(tx, key).await?;
    let members = members::list(tx, key).await?;
    let open_job = jobs::open_of(tx, key).await?.map(|job| OpenJob {
        id: job.id,
        command: job.command,
    });
    let record = match details::find(tx, key, details::UPGRADE_SEMANTIC).await? {
        Some(target) => Some(UpgradeRecord {
            target,
            script_started: ledger::list(tx, key)
                .await?
                .iter()
                .any(|row| row.kind == ledger::LedgerKind::Script),
        }),
        None => None,
    };
    let own = cluster.semantic_version.as_deref();
    let unfinished = unfinished_upgrade(record.as_ref(), own, &members, &[], &[]).is_some();
    let version = match cluster.version_id {
        Some(id) => versions::find(tx, id).await?.map(|version| VersionNeeds {
            min_cpu: i64::from(version.min_cpu),
            min_memory_mb: version.min_ram_mb,
        }),
        None => None,
    };
    Ok(Rows {
        cluster,
        members,
        open_job,
        upgrade: record.filter(|_| unfinished).map(|record| record.target),
        version,
    })
}

/// One transaction: read, decide, compare-and-set, write the job and its event.
async fn attempt(cx: &Cx, key: i64, asked: &Asked<'_>) -> Result<Outcome, ApiError> {
    let mut tx = cx.api.state.pool.begin().await?;
    clusters::lock(&mut tx, key).await?;
    let rows = read_rows(&mut tx, key).await?;
    let decision = decide(
        asked.request,
        &ScaleFacts {
            cluster: &rows.cluster,
            members: &rows.members,
            gone: asked.gone,
            open_job: rows.open_job.as_ref(),
            unfinished_upgrade: rows.upgrade.as_deref(),
            version: rows.version,
            max_size: cx.settings.number(&MAX_SIZE),
            offerings: &asked.facts.offerings,
            template: asked.facts.template.as_ref(),
        },
    );
    let admitted = match (decision, &asked.away) {
        (Err(refusal), _) if asked.facts.cached && refusal.rests_on_the_cloud() => {
            return Ok(Outcome::AskTheCloud);
        }
        (Err(refusal), _) => Err(refusal),
        (Ok(_), Some(text)) => Err(ScaleRefusal::cloud_away(&rows.cluster, text)),
        (Ok(admitted), None) => Ok(admitted),
    };
    let admitted = match admitted {
        Ok(admitted) => admitted,
        Err(refusal) => {
            let job = refuse(cx, &mut tx, &rows.cluster, asked.request, &refusal).await?;
            tx.commit().await?;
            return Ok(Outcome::Job(job));
        }
    };
    let request = serde_json::to_value(&admitted.request).map_err(ApiError::internal)?;
    let text = describe(&rows.cluster, &admitted);
    let job = new_job(cx, &rows.cluster, &request, admitted.event, &text);
    match admit(&mut tx, cx.api.state.ids.as_ref(), &job).await? {
        Admission::Admitted(id) | Admission::Repeated(id) => {
            tx.commit().await?;
            Ok(Outcome::Job(id))
        }
        Admission::Busy { job: id, command } => {
            let refusal = ScaleRefusal::busy(&rows.cluster, &OpenJob { id, command });
            let job = refuse(cx, &mut tx, &rows.cluster, asked.request, &refusal).await?;
            tx.commit().await?;
            Ok(Outcome::Job(job))
        }
        Admission::Lost { .. } | Admission::Gone => Ok(Outcome::Again),
    }
}

async fn refuse(
    cx: &Cx,
    tx: &mut PgConnection,
    cluster: &Cluster,
    request: &ScaleRequest,
    refusal: &ScaleRefusal,
) -> Result<JobId, ApiError> {
    let request = serde_json::to_value(request).map_err(ApiError::internal)?;
    let failure = Failure::with_code(i64::from(code_of_refusal(refusal).number()), refusal.to_string());
    let job = new_job(cx, cluster, &request, Event::ScaleDownRequested, "");
    Ok(born_failed(tx, cx.api.state.ids.as_ref(), &job, &failure).await?)
}

fn new_job<'a>(
    cx: &'a Cx,
    cluster: &'a Cluster,
    request: &'a Value,
    event: Event,
    scheduled_text: &'a str,
) -> NewJob<'a> {
    NewJob {
        command: cx.command.name,
        account_key: cx.caller.account.key,
        user_key: cx.caller.user_key,
        cluster,
        event,
        request,
        request_id: Some(&cx.request_id),
        now: cx.api.state.clock.now(),
        time_limit: Duration::from_secs(cx.settings.seconds(&SCALE_TIMEOUT)),
        scheduled_text,
        idempotency_key: None,
    }
}

/// The text of the Scheduled event.
fn describe(cluster: &Cluster, admitted: &Admitted) -> String {
    let request = &admitted.request;
    let mut parts: Vec<String> = Vec::new();
    if let Some(size) = request.size {
        parts.push(format!("from {} to {size} workers", cluster.node_count));
    }
    if let Some(nodes) = &request.node_ids {
        let nodes: Vec<String> = nodes.iter().map(ToString::to_string).collect();
        parts.push(format!("removing {} nodes: {}", nodes.len(), nodes.join(", ")));
    }
    if let Some(offering) = request.offering {
        parts.push(format!("to service offering {offering}"));
    }
    for (role, offering) in &request.role_offerings {
        parts.push(format!("{role:?} nodes to service offering {offering}"));
    }
    format!(
        "scaling cluster {} ({}) {}",
        cluster.name,
        cluster.id,
        parts.join(", ")
    )
}
