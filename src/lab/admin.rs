//! The lab's own endpoint, for tests and people: unsigned, on loopback, under `/lab/`.
//!
//! `GET world`: what there is; `GET journal/{vm}`: what ran on a node; `GET, POST, DELETE faults`;
//! `PATCH vm/{vm}`: plants what a preflight finds (delete protection, backups, kind);
//! `POST kubelet/{vm}/freeze|wake`, `POST api/{cluster}/hang|wake`: a kubelet or an API that says nothing.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, patch, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::clock;
use super::cloud::view;
use super::faults::FaultRule;
use super::world::World;

/// The routes.
pub(crate) fn router(world: Arc<World>) -> Router {
    Router::new()
        .route("/lab/world", get(whole))
        .route("/lab/journal/{vm}", get(journal))
        .route("/lab/faults", get(faults).post(add_fault).delete(clear_faults))
        .route("/lab/vm/{vm}", patch(change_vm))
        .route("/lab/kubelet/{vm}/{what}", post(kubelet))
        .route("/lab/api/{cluster}/{what}", post(api))
        .with_state(world)
}

async fn whole(State(world): State<Arc<World>>) -> Json<Value> {
    let mut all = world.cloud.read(|state| {
        let machine = |vm: &super::cloud::model::Vm| {
            let mut shown = view::vm(state, vm, true);
            if let Some(map) = shown.as_object_mut() {
                map.insert("cluster".to_owned(), json!(vm.guest.cluster));
                map.insert("control".to_owned(), json!(vm.guest.control));
                map.insert("address".to_owned(), json!(vm.address));
                map.insert("up".to_owned(), json!(world.node(vm.id).is_some()));
            }
            shown
        };
        let vms: Vec<Value> = state.vms.iter().filter(|vm| !vm.removed).map(machine).collect();
        let forwards: Vec<Value> = state
            .forwards
            .iter()
            .map(|rule| view::forward(state, rule))
            .collect();
        let firewall: Vec<Value> = state
            .firewall
            .iter()
            .map(|rule| view::firewall(state, rule))
            .collect();
        let jobs: Vec<Value> = state.jobs.iter().map(|job| view::job(state, job)).collect();
        json!({
            "scenario": world.record.scenario, "virtualmachines": vms, "portforwardingrules": forwards,
            "firewallrules": firewall, "asyncjobs": jobs,
        })
    });
    if let Some(map) = all.as_object_mut() {
        map.insert("clusters".to_owned(), world.clusters_view());
    }
    Json(all)
}

async fn journal(State(world): State<Arc<World>>, Path(vm): Path<Uuid>) -> Response {
    match world.journal(vm) {
        Some(entries) => Json(entries).into_response(),
        None => (StatusCode::NOT_FOUND, "no such machine").into_response(),
    }
}

async fn faults(State(world): State<Arc<World>>) -> Json<Vec<FaultRule>> {
    Json(world.cloud.faults.list())
}

async fn add_fault(State(world): State<Arc<World>>, Json(rule): Json<FaultRule>) -> StatusCode {
    world.cloud.faults.add(rule);
    StatusCode::NO_CONTENT
}

async fn clear_faults(State(world): State<Arc<World>>) -> StatusCode {
    world.cloud.faults.clear();
    StatusCode::NO_CONTENT
}

/// What can be planted on a machine.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct VmChange {
    delete_protection: Option<bool>,
    /// The number of backups; above none the machine has a backup offering too.
    backups: Option<u32>,
    vm_type: Option<String>,
    /// A data disk of this name.
    data_disk: Option<String>,
}

async fn change_vm(
    State(world): State<Arc<World>>,
    Path(id): Path<Uuid>,
    Json(change): Json<VmChange>,
) -> StatusCode {
    let found = world.cloud.change(|state| {
        let Some(vm) = state.vm_mut(id) else {
            return false;
        };
        vm.delete_protection = change.delete_protection.unwrap_or(vm.delete_protection);
        if let Some(backups) = change.backups {
            vm.backups = backups;
            vm.backup_offering = (backups > 0).then(clock::fresh_id);
        }
        if let Some(kind) = &change.vm_type {
            vm.kind.clone_from(kind);
        }
        let owner = vm.owner;
        if let Some(name) = &change.data_disk {
            state.volumes.push(super::cloud::model::Volume {
                id: clock::fresh_id(),
                name: name.clone(),
                data: true,
                vm: Some(id),
                owner,
                bytes: 5 << 30,
                created: clock::now(),
            });
        }
        true
    });
    if found {
        StatusCode::NO_CONTENT
    } else {
        StatusCode::NOT_FOUND
    }
}

fn done(found: bool) -> StatusCode {
    if found {
        StatusCode::NO_CONTENT
    } else {
        StatusCode::NOT_FOUND
    }
}

async fn kubelet(State(world): State<Arc<World>>, Path((vm, what)): Path<(Uuid, String)>) -> StatusCode {
    match what.as_str() {
        "freeze" => done(world.freeze_kubelet(vm, true)),
        "wake" => done(world.freeze_kubelet(vm, false)),
        _ => StatusCode::NOT_FOUND,
    }
}

async fn api(State(world): State<Arc<World>>, Path((cluster, what)): Path<(String, String)>) -> StatusCode {
    match what.as_str() {
        "hang" => done(world.hang_api(&cluster, true)),
        "wake" => done(world.hang_api(&cluster, false)),
        _ => StatusCode::NOT_FOUND,
    }
}
