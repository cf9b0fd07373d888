//! The clusters of a lab as its users see them, and the file by which they are imported.

use std::net::Ipv4Addr;
use std::path::Path;

use serde::Serialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::node::{JournalEntry, JournalKind};
use super::record::{API_PORT, ClusterRecord};
use super::world::World;
use super::{Lab, files};

/// A cluster of the lab.
#[derive(Debug, Clone, Serialize)]
pub struct LabCluster {
    /// Its name.
    pub name: String,
    /// The id to keep when it is imported.
    pub id: Uuid,
    /// Owner: account name.
    pub account: String,
    /// Owner's domain, as a path (`ROOT`).
    pub domain: String,
    /// Owning project, by name.
    pub project: Option<String>,
    /// Its Kubernetes version (`1.32.5`).
    pub version: String,
    /// Its network.
    pub network: Uuid,
    /// Its public address.
    pub public_ip: Ipv4Addr,
    /// Where its Kubernetes API answers from outside.
    pub server: String,
    /// Template of its machines.
    pub template: Uuid,
    /// Login user of its machines.
    pub ssh_user: String,
    /// The private key for it, in OpenSSH's form.
    pub ssh_key: String,
    /// Its machines, oldest first; those that joined later too.
    pub members: Vec<LabMember>,
    /// The administrator's kubeconfig for use outside; empty while no control node runs.
    pub kubeconfig: String,
}

/// A machine of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LabMember {
    /// Its id.
    pub vm: Uuid,
    /// Its name, which is the Kubernetes node's too.
    pub name: String,
    /// Whether it is a control node.
    pub control: bool,
}

impl World {
    /// The clusters as they are now.
    pub(crate) fn clusters(&self) -> Vec<LabCluster> {
        self.record
            .clusters
            .iter()
            .map(|record| self.cluster(record))
            .collect()
    }

    fn cluster(&self, record: &ClusterRecord) -> LabCluster {
        let server = format!("https://{}:{API_PORT}", record.public_ip);
        let members = self.cloud.read(|state| {
            let mut found: Vec<_> = state
                .vms
                .iter()
                .filter(|vm| !vm.removed && vm.guest.cluster.as_ref() == Some(&record.name))
                .collect();
            found.sort_by_key(|vm| vm.created);
            let member = |vm: &&super::cloud::model::Vm| LabMember {
                vm: vm.id,
                name: vm.name.clone(),
                control: vm.guest.control,
            };
            found.iter().map(member).collect()
        });
        LabCluster {
            name: record.name.clone(),
            id: record.id,
            account: record.account.clone(),
            domain: record.domain.clone(),
            project: record.project.clone(),
            version: record.version.clone(),
            network: record.network,
            public_ip: record.public_ip,
            kubeconfig: self.kubeconfig(&record.name, &server),
            server,
            template: record.template,
            ssh_user: record.ssh_user.clone(),
            ssh_key: record.ssh_key.clone(),
            members,
        }
    }

    /// The clusters for the lab's own endpoint: without keys.
    pub(crate) fn clusters_view(&self) -> Value {
        let shown = self.clusters().into_iter().map(|cluster| {
            json!({
                "name": cluster.name, "id": cluster.id, "account": cluster.account, "version": cluster.version,
                "network": cluster.network, "public_ip": cluster.public_ip, "server": cluster.server,
                "members": cluster.members, "nodes": self.kube_nodes(&cluster.name),
            })
        });
        Value::Array(shown.collect())
    }

    /// The journal of a running machine.
    pub(crate) fn journal(&self, vm: Uuid) -> Option<Vec<Value>> {
        let entries = self.node(vm)?.journal();
        Some(entries.iter().map(entry).collect())
    }
}

/// An entry of a journal as JSON.
fn entry(entry: &JournalEntry) -> Value {
    let kind = match entry.kind {
        JournalKind::Boot => "boot",
        JournalKind::Login => "login",
        JournalKind::Command => "command",
        JournalKind::Sudo => "sudo",
    };
    json!({
        "at": entry.at.to_string(), "kind": kind, "user": entry.user, "text": entry.text, "exit": entry.exit,
    })
}

impl Lab {
    /// Writes, for each cluster, `<cluster>.kubeconfig`, `<cluster>.key` and `<cluster>.import.toml` into a
    /// folder, and last the file by which clients find the cloud, all for their owner only.
    pub fn write_files(&self, folder: &Path, env_file: &Path) -> std::io::Result<()> {
        let folder = std::fs::canonicalize(folder)?;
        for cluster in self.clusters() {
            files::save(
                &folder.join(format!("{}.kubeconfig", cluster.name)),
                cluster.kubeconfig.as_bytes(),
            )?;
            let key = folder.join(format!("{}.key", cluster.name));
            files::save(&key, cluster.ssh_key.as_bytes())?;
            let import = Self::import_file(&cluster, &key);
            files::save(
                &folder.join(format!("{}.import.toml", cluster.name)),
                import.as_bytes(),
            )?;
        }
        files::save_json(&folder.join("versions.json"), &self.versions())?;
        files::save(&folder.join("lab.pid"), own_process().as_bytes())?;
        let env = format!(
            "CLOUDSTACK_ENDPOINT={}\nCLOUDSTACK_KEY={}\nCLOUDSTACK_SECRET={}\n",
            self.endpoint(),
            self.api_key(),
            self.secret_key()
        );
        files::save(env_file, env.as_bytes())
    }

    /// The versions of Kubernetes whose ISOs the cloud has, for whoever registers them.
    fn versions(&self) -> Vec<Value> {
        self.world.cloud.read(|state| {
            let version_of = |name: &str| {
                let word = name.split_whitespace().find_map(|word| word.strip_prefix('v'))?;
                Some(word.to_owned())
            };
            let isos = state
                .isos
                .iter()
                .filter_map(|iso| Some((iso, version_of(&iso.name)?)));
            isos.map(|(iso, version)| json!({ "name": iso.name, "version": version, "iso": iso.id }))
                .collect()
        })
    }

    /// What `cksd import` reads to bring a cluster under management; the SSH key is at `key_file`.
    pub fn import_file(cluster: &LabCluster, key_file: &Path) -> String {
        let text = |value: &str| Value::String(value.to_owned()).to_string();
        let domain = match cluster.domain.strip_prefix("ROOT/") {
            Some(below) => format!("/{below}/"),
            None => "/".to_owned(),
        };
        let members = cluster.members.iter().map(|member| {
            let role = if member.control { "control" } else { "worker" };
            format!(
                "\n[[member]]\n# {}\nvm = \"{}\"\nrole = \"{role}\"\n",
                member.name, member.vm
            )
        });
        format!(
            "# Brings a cluster of the lab under management: cksd import FILE\n\n\
             [cluster]\nid = \"{id}\"\nname = {name}\naccount = {account}\ndomain = {domain}\n\
             version = {version}\nnetwork = \"{network}\"\n\n\
             [ssh]\nuser = {user}\nprivate_key_file = {key}\n\n\
             [templates]\ncontrol = \"{template}\"\nworker = \"{template}\"\n{members}",
            id = cluster.id,
            name = text(&cluster.name),
            account = text(&cluster.account),
            domain = text(&domain),
            version = text(&cluster.version),
            network = cluster.network,
            user = text(&cluster.ssh_user),
            key = text(&key_file.display().to_string()),
            template = cluster.template,
            members = members.collect::<String>(),
        )
    }
}

/// This process: its id, and when it started in ticks since boot, so that a later process of the same id is told
/// from it.
fn own_process() -> String {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The program's name stands in parentheses and may have spaces; the start time is the 20th word after it.
    let started = stat
        .rsplit(')')
        .next()
        .and_then(|rest| rest.split_whitespace().nth(19));
    format!("{} {}\n", std::process::id(), started.unwrap_or("0"))
}
