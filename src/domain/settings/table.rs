//! The table of settings.

use super::{Kind, Setting, Takes};

/// A year, the greatest of all times.
const YEAR: i64 = 31_536_000;

const fn number(min: i64, max: i64) -> Kind {
    Kind::Number { min, max }
}

macro_rules! settings {
    ($($constant:ident: $name:literal, $kind:expr, $default:literal, $takes:ident, $description:literal;)*) => {
        $(
            #[doc = concat!("`", $name, "`: ", $description, ".")]
            pub const $constant: Setting = Setting {
                name: $name,
                kind: $kind,
                default: $default,
                takes: Takes::$takes,
                description: $description,
            };
        )*

        /// Every setting, in the order in which listConfigurations shows them.
        pub const ALL: &[&Setting] = &[$(&$constant,)*];
    };
}

settings! {
    SERVICE_ENABLED: "cloud.kubernetes.service.enabled", Kind::Boolean, "true", AtRestart,
        "Whether the commands and tasks for Kubernetes clusters are there at all";
    NETWORK_OFFERING: "cloud.kubernetes.cluster.network.offering", Kind::Text,
        "DefaultNetworkOfferingforKubernetesService", AtRestart,
        "Name of the network offering of the network made for a cluster whose request names none";
    START_TIMEOUT: "cloud.kubernetes.cluster.start.timeout", number(1, YEAR), "3600", AtOnce,
        "Seconds that starting or creating a cluster may take";
    SCALE_TIMEOUT: "cloud.kubernetes.cluster.scale.timeout", number(1, YEAR), "3600", AtOnce,
        "Seconds that scaling a cluster may take; once nodes are being removed it no longer stops the removal";
    UPGRADE_TIMEOUT: "cloud.kubernetes.cluster.upgrade.timeout", number(1, YEAR), "3600", AtOnce,
        "Seconds that upgrading a cluster may take; a node under way is finished";
    UPGRADE_RETRIES: "cloud.kubernetes.cluster.upgrade.retries", number(0, 100), "3", AtOnce,
        "How often a drain or script of an upgrade is tried again on the same node";
    ADD_NODE_TIMEOUT: "cloud.kubernetes.cluster.add.node.timeout", number(1, YEAR), "3600", AtOnce,
        "Seconds that adding external nodes may take";
    REMOVE_NODE_TIMEOUT: "cloud.kubernetes.cluster.remove.node.timeout", number(1, YEAR), "900", AtOnce,
        "Seconds that removing external nodes may take";
    EXPERIMENTAL_FEATURES: "cloud.kubernetes.cluster.experimental.features.enabled", Kind::Boolean, "false", AtOnce,
        "Whether a private docker registry may be given";
    MAX_SIZE: "cloud.kubernetes.cluster.max.size", number(1, 10_000), "10", AtOnce,
        "Most control nodes and workers together that a cluster may have";
    CONTROL_INSTALL_WAIT: "cloud.kubernetes.control.node.install.attempt.wait.duration", number(1, 86_400), "15", AtOnce,
        "Seconds between two tries of the installation on a control node";
    CONTROL_INSTALL_TRIES: "cloud.kubernetes.control.node.install.reattempt.count", number(1, 100_000), "100", AtOnce,
        "How often the installation on a control node is tried";
    WORKER_INSTALL_WAIT: "cloud.kubernetes.worker.node.install.attempt.wait.duration", number(1, 86_400), "30", AtOnce,
        "Seconds between two tries of the installation on a worker";
    WORKER_INSTALL_TRIES: "cloud.kubernetes.worker.node.install.reattempt.count", number(1, 100_000), "40", AtOnce,
        "How often the installation on a worker is tried";
    ETCD_START_PORT: "cloud.kubernetes.etcd.node.start.port", number(1, 65_535), "50000", AtOnce,
        "First public port for SSH to the etcd nodes";
    DRAIN_TIMEOUT: "cloud.kubernetes.cluster.node.drain.timeout", number(-YEAR, YEAR), "300", AtOnce,
        "Seconds given to one kubectl drain; values below 1 mean the default";
    DRAIN_RETRY_INTERVAL: "cloud.kubernetes.cluster.node.drain.retry.interval", number(0, 86_400), "30", AtOnce,
        "Seconds between two attempts to drain a node";
    EXPUNGE_WAIT: "cloud.kubernetes.cluster.expunge.wait", number(0, 86_400), "15", AtOnce,
        "Seconds that a scale-down waits for the expunge of a removed node's machine before it goes on without it";
    UPGRADE_SCRIPT_TIMEOUT: "cloud.kubernetes.cluster.upgrade.script.timeout", number(1, YEAR), "1800", AtOnce,
        "Seconds that the upgrade script may run on one node before it is stopped";
    DEFAULT_PAGE_SIZE: "default.page.size", number(1, 10_000), "500", AtOnce,
        "Items of a list when no page is asked for, and most items of a page";
    THROTTLING_ENABLED: "api.throttling.enabled", Kind::Boolean, "false", AtOnce,
        "Whether the number of calls of an account is limited";
    THROTTLING_INTERVAL: "api.throttling.interval", number(1, 86_400), "1", AtOnce,
        "Seconds over which the calls of an account are counted";
    THROTTLING_MAX: "api.throttling.max", number(1, 1_000_000), "25", AtOnce,
        "Most calls of an account within the interval";
    THROTTLING_CACHE_SIZE: "api.throttling.cachesize", number(1, 10_000_000), "50000", AtOnce,
        "Most accounts whose calls are counted at the same time";
    JOB_EXPIRE: "job.expire.minutes", number(1, 5_256_000), "1440", AtOnce,
        "Minutes after its end that a job can still be asked for";
}
