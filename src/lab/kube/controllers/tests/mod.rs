//! The controllers over a store, without HTTP and without kubelets.
//!
//! What this must not know: HTTP, kubectl.

mod budgets;
mod nodes;
mod workloads;

use serde_json::{Value, json};

use super::*;
use crate::lab::kube::delete::{self, DeleteOptions};
use crate::lab::kube::eviction;
use crate::lab::kube::json as js;
use crate::lab::kube::objects::{self, Part, Write};
use crate::lab::kube::patch::Patch;
use crate::lab::kube::resources::{NAMESPACE, NODE, POD, Resource};
use crate::lab::kube::{store::State, time};

struct World {
    store: Store,
    context: Context,
}

impl World {
    fn new(nodes: &[&str]) -> Self {
        Self::with(nodes, KubeTimings::default())
    }

    fn with(nodes: &[&str], timings: KubeTimings) -> Self {
        let mut world = Self {
            store: Store::new(State::default()),
            context: Context::new(timings),
        };
        for namespace in ["kube-system", "shop"] {
            world.make(&NAMESPACE, "", json!({"metadata": {"name": namespace}}));
        }
        for node in nodes {
            let ready = json!([{"type": "Ready", "status": "True", "lastHeartbeatTime": time::stamp()}]);
            world.make(
                &NODE,
                "",
                json!({"metadata": {"name": node}, "status": {"conditions": ready}}),
            );
        }
        world
    }

    fn make(&mut self, resource: &'static Resource, namespace: &str, object: Value) -> Value {
        let made = self
            .store
            .with(|state| objects::create(state, resource, namespace, object, Write::Keep))
            .unwrap();
        (*made).clone()
    }

    fn merge(&mut self, resource: &'static Resource, name: &str, patch: Value) {
        let namespace = if resource.namespaced { "shop" } else { "" };
        let patch = Patch::Merge(patch);
        self.store
            .with(|state| objects::patch(state, resource, namespace, name, Part::Main, &patch, Write::Keep))
            .unwrap();
    }

    fn settle(&mut self) {
        settle(&self.store, &mut self.context);
    }

    /// Settles, with a kubelet that starts everything at once.
    fn run(&mut self) {
        for _ in 0..20 {
            self.settle();
            let pods = self.list(&POD);
            for pod in pods
                .iter()
                .filter(|pod| js::text(pod, "/status/phase") == "Pending")
            {
                if js::text(pod, "/spec/nodeName").is_empty() {
                    continue;
                }
                let (namespace, name) = (js::namespace(pod), js::name(pod));
                self.store.with(|state| {
                    objects::touch(state, &POD, namespace, name, |pod| {
                        js::put(pod, "/status/phase", json!("Running"));
                        let ready = js::annotation(pod, "ready") != "no";
                        let ready = if ready { "True" } else { "False" };
                        js::set_condition(pod, json!({"type": "Ready", "status": ready}));
                    });
                });
            }
        }
        self.settle();
    }

    fn list(&self, resource: &'static Resource) -> Vec<Value> {
        self.store
            .with(|state| state.list(resource, None))
            .iter()
            .map(|object| (**object).clone())
            .collect()
    }

    fn get(&self, resource: &'static Resource, name: &str) -> Value {
        let namespace = if resource.namespaced { "shop" } else { "" };
        let found = self.store.with(|state| state.get(resource, namespace, name));
        found.map_or(Value::Null, |object| (*object).clone())
    }

    fn evict(&mut self, name: &str) -> Result<Value, crate::lab::kube::Status> {
        self.store
            .with(|state| eviction::evict(state, "shop", name, &json!({}), &|_| None))
    }

    fn finish(&mut self, name: &str) {
        let done = self
            .store
            .with(|state| delete::delete(state, &POD, "shop", name, &DeleteOptions::now()))
            .unwrap();
        assert!(done.gone);
    }
}

fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": image}]}})
}

fn deployment(replicas: i64) -> Value {
    json!({"metadata": {"name": "web"}, "spec": {"replicas": replicas,
        "selector": {"matchLabels": {"app": "web"}}, "template": template("one")}})
}

fn pdb(name: &str, spec: Value) -> Value {
    let mut spec = spec;
    js::put(&mut spec, "/selector", json!({"matchLabels": {"app": "web"}}));
    json!({"metadata": {"name": name}, "spec": spec})
}

fn nodes_of(pods: &[Value]) -> Vec<String> {
    let mut nodes: Vec<String> = pods
        .iter()
        .map(|pod| js::text(pod, "/spec/nodeName").to_owned())
        .collect();
    nodes.sort();
    nodes
}
