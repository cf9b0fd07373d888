//! Making new workers and waiting until they are Ready (`behaviour.md` 7).
//!
//! What this must not know: how many are wanted, and what becomes of those that never join.
//!
//! Names, ports and host keys come from the plan or from recorded steps, and each machine is looked for by
//! its name before it is made: an answer that was lost never makes a second machine.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::machine::{self, Asked, again_before_deadline};
use super::media;
use super::rules;
use super::talk::Talk;
use super::trouble::{Trouble, next_look};
use super::userdata;
use crate::domain::cluster::{MatchedNode, Member, Role};
use crate::domain::id::VmId;
use crate::domain::observed::{Machine, MachineState};
use crate::domain::plan::resolve::{Reach, find_node};
use crate::domain::plan::scale::{Addition, Mould, ScalePlan};
use crate::jobs::rows::{LedgerKind, NewMember};
use crate::jobs::{OpCx, StepResult, fail, wait};
use crate::ports::cloud::{MachineQuery, MachineSpec};

/// How one addition ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Added {
    /// Its node is Ready.
    Ready,
    /// It never became Ready.
    Failed {
        /// Its machine, if one was made.
        vm_id: Option<VmId>,
        /// Why.
        cause: String,
    },
}

/// A machine that was made, or why it was not. Stored.
#[derive(Debug, Clone, Serialize, Deserialize)]
enum Made {
    /// It exists.
    Yes {
        /// Its id.
        vm_id: VmId,
        /// The cloud's job.
        asked: Asked,
    },
    /// It does not.
    No(String),
}

/// Makes one worker. Each part is a step of its own under the new machine's name.
pub async fn add_one(
    talk: &Talk<'_>,
    plan: &ScalePlan,
    mould: &Mould,
    addition: &Addition,
) -> StepResult<Added> {
    let cx = talk.cx;
    let name = addition.name.as_str();
    cx.progress("add", Some(name), None);
    let public = cx.step("host_key", name, host_key(cx, name)).await?;
    let made = cx
        .step(
            "deploy",
            name,
            Box::pin(ensure_machine(talk, mould, addition, &public)),
        )
        .await?;
    let (vm_id, asked) = match made {
        Made::Yes { vm_id, asked } => (vm_id, asked),
        Made::No(cause) => {
            forget(cx, name).await?;
            return Ok(Added::Failed { vm_id: None, cause });
        }
    };
    cx.commit("member", name, async |tx| {
        tx.insert_member(&new_member(vm_id, name, mould)).await?;
        tx.put_host_key(vm_id, &public, None).await?;
        tx.ledger_put(LedgerKind::Vm, name, &json!({ "vm": vm_id, "name": name }))
            .await?;
        Ok(tx.drop_detail(&key_detail(name)).await?)
    })
    .await?;
    let outcome = Box::pin(come_up(talk, plan, mould, addition, vm_id, &asked)).await?;
    detach(talk, mould, name, vm_id).await?;
    Ok(match outcome {
        Ok(()) => Added::Ready,
        Err(cause) => Added::Failed {
            vm_id: Some(vm_id),
            cause,
        },
    })
}

fn new_member(vm_id: VmId, name: &str, mould: &Mould) -> NewMember {
    NewMember {
        vm_id,
        vm_name: name.to_owned(),
        role: Role::Worker,
        external: false,
        manual_upgrade: false,
        node_version: mould.version.clone(),
    }
}

/// The sealed detail that keeps a private host key until the machine has it.
fn key_detail(name: &str) -> String {
    format!("hostKey.{name}")
}

async fn host_key(cx: &OpCx, name: &str) -> StepResult<String> {
    let Some(key) = cx.ports().ids.host_key() else {
        return Err(fail("this service cannot make SSH host keys"));
    };
    cx.db().set_sealed_detail(&key_detail(name), &key.private).await?;
    Ok(key.public)
}

/// Nothing was made: nothing is owed.
async fn forget(cx: &OpCx, name: &str) -> StepResult<()> {
    cx.commit("forget", name, async |tx| {
        tx.ledger_drop(LedgerKind::Vm, name).await?;
        Ok(tx.drop_detail(&key_detail(name)).await?)
    })
    .await
}

/// Finds the machine of this name, or makes it. The ledger row stands before.
async fn ensure_machine(
    talk: &Talk<'_>,
    mould: &Mould,
    addition: &Addition,
    public_key: &str,
) -> StepResult<Made> {
    let cx = talk.cx;
    let name = addition.name.as_str();
    let query = MachineQuery {
        name: Some(name.to_owned()),
        ..MachineQuery::default()
    };
    match cx.ports().cloud.machines(&query).await {
        Ok(machines) => {
            if let Some(found) = machines
                .iter()
                .find(|machine| machine.name == name && ours(machine, mould))
            {
                return Ok(Made::Yes {
                    vm_id: found.id,
                    asked: Asked::already(cx.now()),
                });
            }
        }
        Err(error) => return refused(again_before_deadline(cx, &error)?),
    }
    if let Some(reason) = cx.ended() {
        return Ok(Made::No(format!("it was not made: {reason}")));
    }
    cx.db()
        .ledger_put(LedgerKind::Vm, name, &json!({ "name": name }))
        .await?;
    let join = match talk.join_command().await {
        Ok(join) => join,
        Err(error) => return Err(Trouble::from(error).before_deadline(cx)),
    };
    let Some(private) = cx.db().sealed_detail(&key_detail(name)).await? else {
        return Err(fail("the host key of the new machine is lost"));
    };
    let user_data = userdata::worker(&private, public_key, join).map_err(|error| fail(error.to_string()))?;
    match cx.ports().cloud.deploy(&spec(mould, name, user_data)).await {
        Ok(made) => Ok(Made::Yes {
            vm_id: made.id,
            asked: Asked {
                at: cx.now(),
                job: Some(made.job),
                refused: None,
            },
        }),
        Err(error) => refused(again_before_deadline(cx, &error)?),
    }
}

#[expect(clippy::unnecessary_wraps, reason = "it ends a step")]
fn refused(asked: Asked) -> StepResult<Made> {
    Ok(Made::No(
        asked.refused.unwrap_or_else(|| "the cloud refused it".to_owned()),
    ))
}

fn ours(machine: &Machine, mould: &Mould) -> bool {
    let owner = match (&mould.account, mould.project_id) {
        (_, Some(project)) => machine.project_id == Some(project),
        (Some((account, _)), None) => machine.account.as_ref() == Some(account),
        (None, None) => true,
    };
    owner
        && machine
            .template_id
            .is_none_or(|template| template == mould.template_id)
}

fn spec(mould: &Mould, name: &str, user_data: String) -> MachineSpec {
    MachineSpec {
        name: name.to_owned(),
        zone_id: mould.zone_id,
        offering_id: mould.offering_id,
        template_id: mould.template_id,
        network_id: mould.network_id,
        key_pair: mould.key_pair.clone(),
        user_data,
        account: mould.account.clone(),
        project_id: mould.project_id,
    }
}

/// From a machine that exists to a node that is Ready. The text says why not.
async fn come_up(
    talk: &Talk<'_>,
    plan: &ScalePlan,
    mould: &Mould,
    addition: &Addition,
    vm_id: VmId,
    asked: &Asked,
) -> StepResult<Result<(), String>> {
    let cx = talk.cx;
    let name = addition.name.as_str();
    if let Err(cause) = cx
        .step("deployed", name, Box::pin(wait_running(talk, vm_id, asked)))
        .await?
    {
        return Ok(Err(cause));
    }
    if let Some(iso) = mould.iso_id {
        let asked = cx
            .step("attach_iso", name, Box::pin(media::ask_attach(cx, vm_id, iso)))
            .await?;
        let until = asked.at + Duration::from_mins(2);
        let what = format!("the ISO is being attached to VM {name}");
        let attached = machine::wait_done(cx, &asked, &what, until, talk.poll_cap);
        if let Err(cause) = cx.step("iso_attached", name, attached).await? {
            return Ok(Err(format!("its ISO could not be attached: {cause}")));
        }
    }
    if let (Some(port), Some(ip), Reach::Forwarded { address }) =
        (addition.public_port, plan.ip_id, plan.reach)
    {
        let place = rules::Place { ip, address, port };
        if let Err(cause) = rules::ensure_rules(talk, name, vm_id, place).await? {
            return Ok(Err(cause));
        }
    }
    let since = cx.step("join_begun", name, async { Ok(cx.now()) }).await?;
    let joined = match cx
        .step("join", name, wait_ready(talk, vm_id, name, since))
        .await?
    {
        Ok(node) => node,
        Err(cause) => return Ok(Err(cause)),
    };
    cx.commit("joined", name, async |tx| {
        tx.match_node(vm_id, &joined).await?;
        tx.ledger_drop(LedgerKind::Vm, name).await?;
        Ok(())
    })
    .await?;
    cx.node_done(name);
    Ok(Ok(()))
}

/// Waits until the machine runs; what it is comes from the machine itself when the job does not say.
async fn wait_running(talk: &Talk<'_>, vm_id: VmId, asked: &Asked) -> StepResult<Result<(), String>> {
    let cx = talk.cx;
    let until = cx.job().deadline.max(asked.at);
    let made = machine::wait_done(cx, asked, "a new VM is being made", until, talk.poll_cap).await?;
    let seen = match machine::look(cx, vm_id).await {
        Ok(seen) => seen,
        Err(error) if cx.ended().is_none() => {
            return Err(wait(
                error.to_string(),
                next_look(asked.at, cx.now(), talk.poll_cap),
            ));
        }
        Err(error) => return Ok(Err(error.to_string())),
    };
    let Some(machine) = seen else {
        return Ok(Err(made.err().unwrap_or_else(|| "its VM is gone".to_owned())));
    };
    match (&machine.state, made) {
        (MachineState::Running, _) => {
            machine::keep(cx, &machine).await?;
            Ok(Ok(()))
        }
        (MachineState::Starting, _) if cx.ended().is_none() => Err(wait(
            format!("VM {} is starting", machine.name),
            next_look(asked.at, cx.now(), talk.poll_cap),
        )),
        (state, made) => {
            let cause = made.err().map(|cause| format!(": {cause}")).unwrap_or_default();
            Ok(Err(format!("its VM is {}{cause}", machine::state_words(state))))
        }
    }
}

/// Waits until the machine's node is there and Ready, at most until the deadline.
async fn wait_ready(
    talk: &Talk<'_>,
    vm_id: VmId,
    name: &str,
    since: Timestamp,
) -> StepResult<Result<MatchedNode, String>> {
    let cx = talk.cx;
    let reason = match talk.nodes_of_this_pass().await {
        Err(error) => error.text,
        Ok(nodes) => match find_node(&as_member(vm_id, name), None, nodes) {
            Err(error) => return Ok(Err(error.to_string())),
            Ok(Some(node)) if node.ready => {
                return Ok(Ok(MatchedNode {
                    name: node.name,
                    system_uuid: node.system_uuid,
                    provider_id: node.provider_id,
                }));
            }
            Ok(Some(node)) => format!("node {} is not Ready yet", node.name),
            Ok(None) => format!("VM {name} has not joined the Kubernetes cluster yet"),
        },
    };
    match cx.ended() {
        None => Err(wait(
            reason,
            next_look(since, cx.now(), talk.poll_cap).min(cx.time_left()),
        )),
        Some(over) => Ok(Err(format!("{reason}, and {over}"))),
    }
}

fn as_member(vm_id: VmId, name: &str) -> Member {
    Member {
        key: 0,
        vm_id,
        vm_name: name.to_owned(),
        role: Role::Worker,
        external: false,
        manual_upgrade: false,
        node_version: None,
        node: None,
        host_keys: Vec::new(),
    }
}

/// Takes the ISO out of the new machine again, whatever became of it. What fails stays in the ledger.
async fn detach(talk: &Talk<'_>, mould: &Mould, name: &str, vm_id: VmId) -> StepResult<()> {
    let cx = talk.cx;
    if mould.iso_id.is_none() {
        return Ok(());
    }
    let since = cx.step("detach_begun", name, async { Ok(cx.now()) }).await?;
    let asked = cx
        .step("detach_iso", name, media::ask_detach(cx, vm_id, since))
        .await?;
    let done = media::wait_detached(cx, vm_id, &asked, talk.poll_cap);
    cx.step("iso_detached", name, done).await?;
    Ok(())
}
