//! Typed identifiers: every object that a client or the cloud can name has a UUID of its own type.
//!
//! What this must not know: where an id comes from. Ids are made only by the port `Ids`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = uuid::Error;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Uuid::parse_str(text).map(Self)
            }
        }

        impl From<Uuid> for $name {
            fn from(id: Uuid) -> Self {
                Self(id)
            }
        }

        impl From<$name> for Uuid {
            fn from(id: $name) -> Self {
                id.0
            }
        }
    )*};
}

ids! {
    /// A Kubernetes cluster.
    ClusterId;
    /// A virtual machine of the cloud.
    VmId;
    /// A job of ours (`async_job`).
    JobId;
    /// An asynchronous job of the cloud.
    CloudJobId;
    /// A supported Kubernetes version.
    VersionId;
    /// An account.
    AccountId;
    /// A user of an account.
    UserId;
    /// A domain, the tree in which accounts live.
    DomainId;
    /// A project.
    ProjectId;
    /// A zone of the cloud.
    ZoneId;
    /// A service offering of the cloud.
    OfferingId;
    /// A template of the cloud.
    TemplateId;
    /// An ISO of the cloud.
    IsoId;
    /// A network of the cloud.
    NetworkId;
    /// A public IP address of the cloud.
    PublicIpId;
    /// A port-forwarding or firewall rule of the cloud.
    RuleId;
    /// An audit event of ours.
    EventId;
    /// One installation of cksd: one database.
    InstallationId;
}
