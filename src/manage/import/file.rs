//! The import file: what a person must say of a cluster; everything else is read (`behaviour.md` 13).
//!
//! `docs/IMPORT.md` documents it for operators.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use uuid::Uuid;

use crate::domain::cluster::Role;
use crate::domain::id::{ClusterId, NetworkId, TemplateId, VersionId, VmId};

/// An import file. Unknown keys are refused, since a misspelt one would be silently lost.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImportFile {
    /// The cluster itself.
    pub cluster: ClusterSection,
    /// How its nodes are logged in to.
    pub ssh: SshSection,
    /// From which templates new nodes are made.
    #[serde(default)]
    pub templates: TemplateSection,
    /// Its machines.
    #[serde(default, rename = "member")]
    pub members: Vec<MemberSection>,
}

/// Section `[cluster]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterSection {
    /// The uuid to keep; a new one when absent.
    pub id: Option<ClusterId>,
    /// Its name.
    pub name: String,
    /// Its description; the name when absent.
    pub description: Option<String>,
    /// The owning account's name; read from the machines when absent.
    pub account: Option<String>,
    /// The path of the owner's domain, for example `/` or `/sales/`.
    pub domain: Option<String>,
    /// The semantic version that the cluster as a whole has, for example `1.32.5`.
    pub version: String,
    /// Which registered version, where several have that semantic version.
    pub version_id: Option<VersionId>,
    /// The registered version to which a half-done upgrade was going.
    pub upgrade_to: Option<VersionId>,
    /// The network on which the machines stand.
    pub network: NetworkId,
    /// The kubeconfig to keep, where no control node can be asked for it.
    pub kubeconfig_file: Option<PathBuf>,
}

/// Section `[ssh]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SshSection {
    /// The login user on every node.
    #[serde(default = "default_user")]
    pub user: String,
    /// The private key; a relative path counts from the import file.
    pub private_key_file: PathBuf,
}

/// CloudStack's Kubernetes service logs in as this user (`cks-facts.md` 3.0).
fn default_user() -> String {
    "cloud".to_owned()
}

/// Section `[templates]`: templates that a user may deploy (CloudStack refuses its system templates).
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TemplateSection {
    /// For workers.
    pub worker: Option<TemplateId>,
    /// For control nodes.
    pub control: Option<TemplateId>,
}

/// One `[[member]]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemberSection {
    /// The machine.
    pub vm: VmId,
    /// Its role.
    pub role: Role,
    /// Brought by the user, never destroyed by us.
    #[serde(default)]
    pub external: bool,
    /// Left out of upgrades.
    #[serde(default)]
    pub manual_upgrade: bool,
    /// Host keys in OpenSSH public form, where the machine is off and cannot show them.
    #[serde(default)]
    pub host_keys: Vec<String>,
    /// The kubelet's version, where the node cannot be asked.
    pub node_version: Option<String>,
}

/// Why an import file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file cannot be read.
    #[error("import file {path}: cannot be read: {source}")]
    Unreadable {
        /// The path as given.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The file is no TOML, or a key is missing, unknown or of a wrong type.
    #[error("import file {path}: {text}")]
    Malformed {
        /// The path as given.
        path: PathBuf,
        /// Where and what.
        text: String,
    },
}

/// Reads and parses an import file.
///
/// # Errors
/// [`FileError`]; nothing of the content is judged here beyond its form.
pub fn read(path: &Path) -> Result<ImportFile, FileError> {
    let text = std::fs::read_to_string(path).map_err(|source| FileError::Unreadable {
        path: path.to_owned(),
        source,
    })?;
    parse(&text).map_err(|text| FileError::Malformed {
        path: path.to_owned(),
        text,
    })
}

/// Parses the text of an import file.
///
/// # Errors
/// What is wrong and where, as a sentence.
pub fn parse(text: &str) -> Result<ImportFile, String> {
    toml::from_str(text).map_err(|error| error.to_string().trim().to_owned())
}

impl ImportFile {
    /// All that is wrong with the file by itself, without a look at the world.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        let mut found = Vec::new();
        if self.cluster.name.trim().is_empty() {
            found.push(
                "[cluster] name is empty: give the name under which clients know the cluster".to_owned(),
            );
        }
        if self.members.is_empty() {
            found.push("no [[member]] is given: list every machine of the cluster with its role".to_owned());
        } else if !self.members.iter().any(|member| member.role == Role::Control) {
            found.push(
                "no [[member]] has role = \"control\": a cluster has at least one control node".to_owned(),
            );
        }
        let mut seen = std::collections::BTreeSet::new();
        for member in &self.members {
            if !seen.insert(Uuid::from(member.vm)) {
                found.push(format!("[[member]] vm = {} is listed twice", member.vm));
            }
            if member.external && member.role != Role::Worker {
                found.push(format!(
                    "[[member]] vm = {}: only a worker can be external",
                    member.vm
                ));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
[cluster]
id = "6a2f41a3-c54c-4b0f-8a65-0d2b4c8a1d11"
name = "blue"
version = "1.32.5"
network = "0a1b2c3d-0000-4000-8000-000000000001"
[ssh]
private_key_file = "blue.key"
[templates]
worker = "0a1b2c3d-0000-4000-8000-0000000000aa"
[[member]]
vm = "0a1b2c3d-0000-4000-8000-000000000002"
role = "control"
[[member]]
vm = "0a1b2c3d-0000-4000-8000-000000000003"
role = "worker"
"#;

    #[test]
    fn a_whole_file_is_read_with_its_defaults() {
        let file = parse(GOOD).unwrap();
        assert_eq!(file.ssh.user, "cloud");
        assert_eq!(file.members.len(), 2);
        assert!(!file.members[0].external);
        assert_eq!(file.problems(), Vec::<String>::new());
    }

    #[test]
    fn a_misspelt_key_is_named() {
        let error = parse(&GOOD.replace("private_key_file", "privatekeyfile")).unwrap_err();
        assert!(error.contains("privatekeyfile"), "{error}");
    }

    #[test]
    fn all_that_is_wrong_is_said_at_once() {
        let text = GOOD
            .replace("role = \"control\"", "role = \"worker\"")
            .replace("name = \"blue\"", "name = \" \"")
            .replace("000000000003", "000000000002");
        let problems = parse(&text).unwrap().problems();
        assert_eq!(problems.len(), 3, "{problems:?}");
    }
}
