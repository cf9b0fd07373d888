//! Which resources the API serves, and what is particular about each.

/// One resource of the API.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Resource {
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) singular: &'static str,
    pub(crate) short: &'static [&'static str],
    pub(crate) namespaced: bool,
    /// Has a `/status` subresource: `status` is written there only.
    pub(crate) status: bool,
    /// Has a `/scale` subresource.
    pub(crate) scale: bool,
    /// `metadata.generation` counts the changes of `spec`.
    pub(crate) generation: bool,
    /// Shown by `kubectl get all`.
    pub(crate) in_all: bool,
    /// What `spec` may hold, empty where that is not checked.
    pub(crate) spec_fields: &'static [&'static str],
}

impl Resource {
    const fn new(
        group: &'static str,
        kind: &'static str,
        plural: &'static str,
        singular: &'static str,
    ) -> Self {
        Self {
            group,
            version: "v1",
            kind,
            plural,
            singular,
            short: &[],
            namespaced: true,
            status: false,
            scale: false,
            generation: false,
            in_all: false,
            spec_fields: &[],
        }
    }

    const fn short(mut self, short: &'static [&'static str]) -> Self {
        self.short = short;
        self
    }

    const fn cluster(mut self) -> Self {
        self.namespaced = false;
        self
    }

    const fn status(mut self) -> Self {
        self.status = true;
        self
    }

    const fn generation(mut self) -> Self {
        self.generation = true;
        self
    }

    const fn scale(mut self) -> Self {
        self.scale = true;
        self
    }

    const fn all(mut self) -> Self {
        self.in_all = true;
        self
    }

    /// The fields that `spec` may have, where they are checked (`fieldValidation=Strict`).
    const fn spec(mut self, fields: &'static [&'static str]) -> Self {
        self.spec_fields = fields;
        self
    }

    /// `group/version`, or `v1` for the core group.
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// The name that error messages use: `deployments.apps`, `pods`.
    pub(crate) fn qualified(&self) -> String {
        if self.group.is_empty() {
            self.plural.to_owned()
        } else {
            format!("{}.{}", self.plural, self.group)
        }
    }
}

pub(crate) static NODE: Resource = Resource::new("", "Node", "nodes", "node")
    .short(&["no"])
    .cluster()
    .status();
pub(crate) static POD: Resource = Resource::new("", "Pod", "pods", "pod")
    .short(&["po"])
    .status()
    .all();
pub(crate) static NAMESPACE: Resource = Resource::new("", "Namespace", "namespaces", "namespace")
    .short(&["ns"])
    .cluster()
    .status();
pub(crate) static SERVICE: Resource = Resource::new("", "Service", "services", "service")
    .short(&["svc"])
    .status()
    .all();
pub(crate) static ENDPOINTS: Resource =
    Resource::new("", "Endpoints", "endpoints", "endpoints").short(&["ep"]);
pub(crate) static CONFIG_MAP: Resource =
    Resource::new("", "ConfigMap", "configmaps", "configmap").short(&["cm"]);
pub(crate) static SECRET: Resource = Resource::new("", "Secret", "secrets", "secret");
pub(crate) static SERVICE_ACCOUNT: Resource =
    Resource::new("", "ServiceAccount", "serviceaccounts", "serviceaccount").short(&["sa"]);
pub(crate) static EVENT: Resource = Resource::new("", "Event", "events", "event").short(&["ev"]);
pub(crate) static VOLUME: Resource =
    Resource::new("", "PersistentVolume", "persistentvolumes", "persistentvolume")
        .short(&["pv"])
        .cluster()
        .status();
pub(crate) static CLAIM: Resource = Resource::new(
    "",
    "PersistentVolumeClaim",
    "persistentvolumeclaims",
    "persistentvolumeclaim",
)
.short(&["pvc"])
.status();
pub(crate) static DEPLOYMENT: Resource = Resource::new("apps", "Deployment", "deployments", "deployment")
    .short(&["deploy"])
    .status()
    .generation()
    .scale()
    .all()
    .spec(&[
        "replicas",
        "selector",
        "template",
        "strategy",
        "minReadySeconds",
        "revisionHistoryLimit",
        "paused",
        "progressDeadlineSeconds",
    ]);
pub(crate) static REPLICA_SET: Resource = Resource::new("apps", "ReplicaSet", "replicasets", "replicaset")
    .short(&["rs"])
    .status()
    .generation()
    .scale()
    .all()
    .spec(&["replicas", "minReadySeconds", "selector", "template"]);
pub(crate) static DAEMON_SET: Resource = Resource::new("apps", "DaemonSet", "daemonsets", "daemonset")
    .short(&["ds"])
    .status()
    .generation()
    .all()
    .spec(&[
        "selector",
        "template",
        "updateStrategy",
        "minReadySeconds",
        "revisionHistoryLimit",
    ]);
pub(crate) static STATEFUL_SET: Resource =
    Resource::new("apps", "StatefulSet", "statefulsets", "statefulset")
        .short(&["sts"])
        .status()
        .generation()
        .scale()
        .all()
        .spec(&[
            "replicas",
            "selector",
            "template",
            "volumeClaimTemplates",
            "serviceName",
            "podManagementPolicy",
            "updateStrategy",
            "revisionHistoryLimit",
            "minReadySeconds",
            "persistentVolumeClaimRetentionPolicy",
            "ordinals",
        ]);
pub(crate) static BUDGET: Resource = Resource::new(
    "policy",
    "PodDisruptionBudget",
    "poddisruptionbudgets",
    "poddisruptionbudget",
)
.short(&["pdb"])
.status()
.generation()
.spec(&[
    "minAvailable",
    "maxUnavailable",
    "selector",
    "unhealthyPodEvictionPolicy",
]);
pub(crate) static LEASE: Resource = Resource::new("coordination.k8s.io", "Lease", "leases", "lease");
pub(crate) static ATTACHMENT: Resource = Resource::new(
    "storage.k8s.io",
    "VolumeAttachment",
    "volumeattachments",
    "volumeattachment",
)
.cluster()
.status();

/// All of them, in the order of discovery.
pub(crate) static ALL: [&Resource; 18] = [
    &CONFIG_MAP,
    &ENDPOINTS,
    &EVENT,
    &NAMESPACE,
    &NODE,
    &CLAIM,
    &VOLUME,
    &POD,
    &SECRET,
    &SERVICE_ACCOUNT,
    &SERVICE,
    &DAEMON_SET,
    &DEPLOYMENT,
    &REPLICA_SET,
    &STATEFUL_SET,
    &BUDGET,
    &LEASE,
    &ATTACHMENT,
];

/// The groups other than the core one, each with one version.
pub(crate) static GROUPS: [&str; 4] = ["apps", "policy", "coordination.k8s.io", "storage.k8s.io"];

/// Finds a resource by its place in a path.
pub(crate) fn by_path(group: &str, version: &str, plural: &str) -> Option<&'static Resource> {
    ALL.into_iter()
        .find(|item| item.group == group && item.version == version && item.plural == plural)
}

/// Finds a resource by what an object says of itself.
pub(crate) fn by_kind(api_version: &str, kind: &str) -> Option<&'static Resource> {
    ALL.into_iter()
        .find(|item| item.kind == kind && item.api_version() == api_version)
}
