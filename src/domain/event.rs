//! Audit events: types, levels, stages and texts.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How serious an event is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Level {
    /// As planned.
    Info,
    /// It went on, but somebody should look.
    Warn,
    /// It failed.
    Error,
}

/// Where in the life of a request an event stands; the column is called `state`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Stage {
    /// An object was made by the synchronous part.
    Created,
    /// A job was admitted.
    Scheduled,
    /// A job has looked at the world and knows what it will do.
    Started,
    /// Something ended, well or badly; also every remark by the way.
    Completed,
}

impl Level {
    /// The word as stored and shown.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Level::Info => "INFO",
            Level::Warn => "WARN",
            Level::Error => "ERROR",
        }
    }
}

impl Stage {
    /// The word as stored and shown.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Stage::Created => "Created",
            Stage::Scheduled => "Scheduled",
            Stage::Started => "Started",
            Stage::Completed => "Completed",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The resource type of clusters in events and jobs.
pub const RESOURCE_CLUSTER: &str = "KubernetesCluster";

/// The resource type of supported versions in events and jobs.
pub const RESOURCE_VERSION: &str = "KubernetesSupportedVersion";

/// The event type of a command. A command that has none of CloudStack's gets one from its own name, so that
/// no event is ever without a type.
#[must_use]
pub fn type_of_command(command: &str) -> String {
    let known = match command {
        "createKubernetesCluster" => "KUBERNETES.CLUSTER.CREATE",
        "startKubernetesCluster" => "KUBERNETES.CLUSTER.START",
        "stopKubernetesCluster" => "KUBERNETES.CLUSTER.STOP",
        "deleteKubernetesCluster" => "KUBERNETES.CLUSTER.DELETE",
        "scaleKubernetesCluster" => "KUBERNETES.CLUSTER.SCALE",
        "upgradeKubernetesCluster" => "KUBERNETES.CLUSTER.UPGRADE",
        "addNodesToKubernetesCluster" => "KUBERNETES.CLUSTER.NODES.ADD",
        "removeNodesFromKubernetesCluster" => "KUBERNETES.CLUSTER.NODES.REMOVE",
        "addKubernetesSupportedVersion" => "KUBERNETES.VERSION.ADD",
        "updateKubernetesSupportedVersion" => "KUBERNETES.VERSION.UPDATE",
        "deleteKubernetesSupportedVersion" => "KUBERNETES.VERSION.DELETE",
        other => return format!("KUBERNETES.{}", other.to_uppercase()),
    };
    known.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_type() {
        assert_eq!(
            type_of_command("scaleKubernetesCluster"),
            "KUBERNETES.CLUSTER.SCALE"
        );
        assert_eq!(type_of_command("forgetNode"), "KUBERNETES.FORGETNODE");
    }
}
