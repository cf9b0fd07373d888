//! Namespaces that are being deleted: first what is in them, then they.

use std::sync::Arc;

use serde_json::{Value, json};

use super::super::delete::{self, DeleteOptions};
use super::super::json::{self as js, put};
use super::super::objects;
use super::super::resources::{self, NAMESPACE, SERVICE_ACCOUNT};
use super::super::store::State;

pub(super) fn run(state: &mut State) {
    for namespace in state.list(&NAMESPACE, None) {
        if js::deleting(&namespace) {
            empty(state, &namespace);
        } else if state
            .get(&SERVICE_ACCOUNT, js::name(&namespace), "default")
            .is_none()
        {
            let account = json!({"metadata": {"name": "default"}});
            drop(objects::create(
                state,
                &SERVICE_ACCOUNT,
                js::name(&namespace),
                account,
                objects::Write::Keep,
            ));
        }
    }
}

fn empty(state: &mut State, namespace: &Value) {
    let name = js::name(namespace);
    let inside: Vec<Arc<Value>> = state
        .all()
        .filter(|object| js::namespace(object) == name)
        .cloned()
        .collect();
    if inside.is_empty() {
        objects::touch(state, &NAMESPACE, "", name, |namespace| {
            put(namespace, "/spec/finalizers", json!([]));
        });
        return;
    }
    for object in inside.iter().filter(|object| !js::deleting(object)) {
        if let Some(resource) = resources::by_kind(js::text(object, "/apiVersion"), js::text(object, "/kind"))
        {
            drop(delete::delete(
                state,
                resource,
                name,
                js::name(object),
                &DeleteOptions::default(),
            ));
        }
    }
}
