//! Starting worlds, as files: `scenarios/*.toml`, embedded.

use serde::Deserialize;

use super::LabError;
use super::cloud::model::{AccountKind, CloudSettings, ServiceTimes};

/// The embedded files by name.
const FILES: &[(&str, &str)] = &[
    ("seed-a", include_str!("../../scenarios/seed-a.toml")),
    ("seed-c", include_str!("../../scenarios/seed-c.toml")),
    ("small", include_str!("../../scenarios/small.toml")),
];

/// A starting world.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scenario {
    #[expect(dead_code, reason = "says what the file is for, to its reader")]
    about: String,
    pub(crate) zone: String,
    #[serde(default)]
    pub(crate) settings: CloudSettings,
    #[serde(default)]
    pub(crate) times: ServiceTimes,
    #[serde(default)]
    pub(crate) kube: KubeTimes,
    #[serde(default)]
    pub(crate) domain: Vec<DomainPlan>,
    #[serde(default)]
    pub(crate) account: Vec<AccountPlan>,
    #[serde(default)]
    pub(crate) project: Vec<ProjectPlan>,
    pub(crate) offering: Vec<OfferingPlan>,
    pub(crate) template: Vec<TemplatePlan>,
    #[serde(default)]
    pub(crate) iso: Vec<IsoPlan>,
    pub(crate) cluster: Vec<ClusterPlan>,
}

/// Times of the Kubernetes side.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct KubeTimes {
    pub(crate) pod_start_seconds: f64,
    pub(crate) heartbeat_seconds: f64,
}

impl Default for KubeTimes {
    fn default() -> Self {
        Self {
            pod_start_seconds: 0.5,
            heartbeat_seconds: 2.0,
        }
    }
}

/// A domain below ROOT.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DomainPlan {
    /// `ROOT/team`; parents come first in the file.
    pub(crate) path: String,
}

/// An account with one user of the same name.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AccountPlan {
    pub(crate) name: String,
    pub(crate) domain: String,
    pub(crate) kind: AccountKind,
}

/// A project.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProjectPlan {
    pub(crate) name: String,
    pub(crate) domain: String,
    pub(crate) members: Vec<String>,
}

/// A service offering.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OfferingPlan {
    pub(crate) name: String,
    pub(crate) cpu: i64,
    pub(crate) speed: i64,
    pub(crate) memory: i64,
}

/// A template.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TemplatePlan {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) system: bool,
}

/// An ISO.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct IsoPlan {
    pub(crate) name: String,
}

/// A cluster that runs from the start.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClusterPlan {
    pub(crate) name: String,
    pub(crate) account: String,
    pub(crate) domain: String,
    /// Owned by this project of the domain instead of the account.
    #[serde(default)]
    pub(crate) project: Option<String>,
    pub(crate) version: String,
    pub(crate) controls: u16,
    pub(crate) workers: u16,
    pub(crate) offering: String,
    pub(crate) template: String,
    /// Kubernetes objects as YAML documents.
    #[serde(default)]
    pub(crate) manifests: String,
}

/// Names of the scenarios.
pub fn names() -> Vec<&'static str> {
    FILES.iter().map(|(name, _)| *name).collect()
}

/// A scenario by name.
pub(crate) fn load(name: &str) -> Result<Scenario, LabError> {
    let found = FILES.iter().find(|(known, _)| *known == name);
    let Some((_, text)) = found else {
        return Err(LabError::Scenario {
            name: name.to_owned(),
            problem: format!("there is none of that name: take one of {}", names().join(", ")),
        });
    };
    toml::from_str(text).map_err(|error| LabError::Scenario {
        name: name.to_owned(),
        problem: error.to_string(),
    })
}
