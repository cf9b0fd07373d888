//! The lab's own endpoint: what ran on the nodes, what the cloud has, what shall go wrong.

use std::path::Path;

use serde_json::{Value, json};

use super::Client;

/// The lab of a world.
#[derive(Debug, Clone)]
pub(crate) struct Lab {
    /// The lab's cloud, as its administrator.
    pub(crate) cloud: Client,
    base: String,
}

/// A command that ran on a node through sudo, or a login.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) at: String,
    pub(crate) machine: String,
    pub(crate) kind: String,
    pub(crate) text: String,
}

impl Lab {
    pub(crate) fn unset() -> Self {
        Self {
            cloud: Client::unset(),
            base: String::new(),
        }
    }

    pub(crate) fn from_env_file(path: &Path) -> Self {
        let cloud = Client::from_env_file(path);
        let base = cloud.endpoint.trim_end_matches("/client/api").to_owned();
        Self { cloud, base }
    }

    async fn get(&self, path: &str) -> Value {
        let reply = reqwest::Client::new()
            .get(format!("{}/lab/{path}", self.base))
            .send()
            .await
            .unwrap();
        // A machine that was expunged since it was listed has no journal any more.
        if reply.status() == 404 {
            Value::Array(Vec::new())
        } else {
            reply.json().await.unwrap()
        }
    }

    /// Everything that the lab's cloud has.
    pub(crate) async fn world(&self) -> Value {
        self.get("world").await
    }

    /// Plants a fault: see `cksd::lab::faults`.
    pub(crate) async fn fault(&self, rule: Value) {
        let client = reqwest::Client::new();
        let reply = client
            .post(format!("{}/lab/faults", self.base))
            .json(&rule)
            .send()
            .await
            .unwrap();
        assert!(reply.status().is_success(), "{rule}: {:?}", reply.text().await);
    }

    /// Plants a backup offering on a machine.
    pub(crate) async fn back_up(&self, vm: &str) {
        let client = reqwest::Client::new();
        let url = format!("{}/lab/vm/{vm}", self.base);
        let reply = client
            .patch(url)
            .json(&json!({ "backups": 1 }))
            .send()
            .await
            .unwrap();
        assert!(reply.status().is_success());
    }

    /// The journals of all machines, in the order of time.
    pub(crate) async fn journal(&self) -> Vec<Entry> {
        let world = self.world().await;
        let mut all = Vec::new();
        for machine in world["virtualmachines"].as_array().unwrap() {
            let (id, name) = (machine["id"].as_str().unwrap(), machine["name"].as_str().unwrap());
            let journal = self.get(&format!("journal/{id}")).await;
            for entry in journal.as_array().unwrap() {
                let text = |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
                all.push(Entry {
                    at: text("at"),
                    machine: name.to_owned(),
                    kind: text("kind"),
                    text: text("text"),
                });
            }
        }
        all.sort_by(|one, other| one.at.cmp(&other.at));
        all
    }

    /// What sudo ran, without the `COMMAND=` before it.
    pub(crate) async fn commands(&self) -> Vec<Entry> {
        let mut all = self.journal().await;
        all.retain(|entry| entry.kind.eq_ignore_ascii_case("sudo"));
        for entry in &mut all {
            entry.text = entry
                .text
                .rsplit_once("COMMAND=")
                .map_or(entry.text.clone(), |(_, text)| text.to_owned());
        }
        all
    }

    /// The kubectl commands that change a node, in short form: `drain wk-1`.
    pub(crate) async fn changes(&self) -> Vec<String> {
        let verbs = ["cordon", "drain", "uncordon", "delete node"];
        let short = |entry: &Entry| {
            let line = entry.text.strip_prefix("/opt/bin/kubectl ")?;
            let verb = verbs.iter().find(|verb| line.starts_with(&format!("{verb} ")))?;
            let node = line[verb.len()..].split_whitespace().next()?;
            Some(format!("{verb} {node}"))
        };
        self.commands().await.iter().filter_map(short).collect()
    }
}
