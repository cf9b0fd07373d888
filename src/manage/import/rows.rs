//! The rows of an import, written in one transaction.

use jiff::Timestamp;
use secrecy::SecretString;
use serde::Serialize;
use sqlx::PgConnection;
use uuid::Uuid;

use super::file::ImportFile;
use super::judge::Verdict;
use super::look::Seen;
use super::{API_PORT, ImportError};
use crate::db::cloud_objects::{CloudKind, CloudObject};
use crate::db::imports::{self, NewCluster};
use crate::db::members::NewMember;
use crate::db::rules::{ClusterRule, RuleKind, RulePurpose};
use crate::db::secrets::Cipher;
use crate::db::ssh::SshIdentity;
use crate::db::{self, DbError, details};
use crate::domain::cluster::{Member, Role};
use crate::domain::id::{ClusterId, VersionId};
use crate::domain::plan::resolve::SSH_PORT;

/// The row of the cluster itself.
pub(super) fn row(
    id: ClusterId,
    file: &ImportFile,
    seen: &Seen,
    verdict: &Verdict,
) -> Result<NewCluster, ImportError> {
    let Some(zone) = &seen.zone else {
        return Err(ImportError::Refused(vec![
            "the zone of the machines is unknown".to_owned(),
        ]));
    };
    let count = |role: Role| {
        let found = verdict
            .members
            .iter()
            .filter(|member| member.role == role)
            .count();
        i64::try_from(found).unwrap_or(i64::MAX)
    };
    Ok(NewCluster {
        id,
        name: file.cluster.name.clone(),
        description: file
            .cluster
            .description
            .clone()
            .unwrap_or_else(|| file.cluster.name.clone()),
        zone_id: zone.id,
        version: verdict.version,
        control_offering: verdict.control_offering,
        worker_offering: verdict.worker_offering,
        worker_template: file.templates.worker,
        control_template: file.templates.control,
        network_id: file.cluster.network,
        account: verdict.account,
        state: verdict.state,
        reason: verdict.reason.clone(),
        key_pair: seen
            .machines
            .values()
            .find_map(|machine| machine.key_pair.clone()),
        cores: verdict.cores,
        memory_mb: verdict.memory_mb,
        endpoint: verdict.endpoint.clone(),
        counts: (count(Role::Control), count(Role::Worker), count(Role::Etcd)),
    })
}

/// Everything that one import writes, in one transaction.
pub(super) struct Writing<'a> {
    pub(super) row: NewCluster,
    pub(super) members: &'a [Member],
    pub(super) upgrade_to: Option<(VersionId, String)>,
    pub(super) identity: SshIdentity,
    pub(super) kubeconfig: Option<SecretString>,
    pub(super) rules: Vec<ClusterRule>,
    pub(super) objects: Vec<(CloudKind, Uuid, CloudObject)>,
}

impl Writing<'_> {
    pub(super) async fn write(&self, conn: &mut PgConnection, cipher: &Cipher) -> Result<(), DbError> {
        let key = imports::insert(&mut *conn, &self.row).await?;
        for member in self.members {
            let new = NewMember {
                vm_id: member.vm_id,
                vm_name: member.vm_name.clone(),
                role: member.role,
                external: member.external,
                manual_upgrade: member.manual_upgrade,
                node_version: member.node_version.clone(),
            };
            db::members::insert(&mut *conn, key, &new).await?;
            if let Some(node) = &member.node {
                db::members::match_node(&mut *conn, key, member.vm_id, node).await?;
            }
            for host_key in &member.host_keys {
                db::ssh::put_host_key(&mut *conn, cipher, key, member.vm_id, host_key, None).await?;
            }
        }
        db::ssh::set_identity(&mut *conn, cipher, key, &self.identity).await?;
        if let Some(text) = &self.kubeconfig {
            details::set_sealed(&mut *conn, cipher, key, details::KUBECONFIG, text).await?;
        }
        if let Some((version, semantic)) = &self.upgrade_to {
            let hidden = details::Display::Hidden;
            details::set(
                &mut *conn,
                key,
                details::UPGRADE_TARGET,
                &version.to_string(),
                hidden,
            )
            .await?;
            details::set(&mut *conn, key, details::UPGRADE_SEMANTIC, semantic, hidden).await?;
        }
        for rule in &self.rules {
            db::rules::put(&mut *conn, key, rule).await?;
        }
        for (kind, id, object) in &self.objects {
            db::cloud_objects::put(&mut *conn, *kind, *id, object).await?;
        }
        Ok(())
    }
}

/// Ours are the rules on the cluster's address to a member's SSH or API port (`behaviour.md` 6.9).
pub(super) fn rules(seen: &Seen, members: &[Member]) -> Vec<ClusterRule> {
    seen.forwarding
        .iter()
        .filter(|rule| !rule.revoked && rule.protocol.eq_ignore_ascii_case("tcp"))
        .filter_map(|rule| {
            let vm_id = rule
                .vm_id
                .filter(|vm| members.iter().any(|member| member.vm_id == *vm))?;
            let purpose = match rule.private_port {
                SSH_PORT => RulePurpose::Ssh,
                API_PORT => RulePurpose::Api,
                _ => return None,
            };
            Some(ClusterRule {
                cloud_id: rule.id,
                kind: RuleKind::Forwarding,
                vm_id: Some(vm_id),
                purpose,
                public_ip_id: rule.ip_id,
                address: rule.address,
                public_port: rule.public_port,
                public_end_port: rule.public_end_port,
            })
        })
        .collect()
}

/// What replies need of the cloud: a machine as the cloud sent it, everything else as the port gives it.
pub(super) fn objects(seen: &Seen, at: Timestamp) -> Vec<(CloudKind, Uuid, CloudObject)> {
    fn object(
        kind: CloudKind,
        id: Uuid,
        name: &str,
        data: impl Serialize,
        at: Timestamp,
    ) -> (CloudKind, Uuid, CloudObject) {
        let data = serde_json::to_value(data).unwrap_or_default();
        (
            kind,
            id,
            CloudObject {
                name: name.to_owned(),
                data,
                seen_at: at,
            },
        )
    }
    let mut objects = Vec::new();
    objects.extend(
        seen.zone
            .iter()
            .map(|o| object(CloudKind::Zone, o.id.0, &o.name, o, at)),
    );
    objects.extend(
        seen.network
            .iter()
            .map(|o| object(CloudKind::Network, o.id.0, &o.name, o, at)),
    );
    objects.extend(
        seen.public_ip
            .iter()
            .map(|o| object(CloudKind::PublicIp, o.id.0, &o.address.to_string(), o, at)),
    );
    objects.extend(
        seen.offerings
            .values()
            .map(|o| object(CloudKind::Offering, o.id.0, &o.name, o, at)),
    );
    objects.extend(
        seen.templates
            .values()
            .map(|o| object(CloudKind::Template, o.id.0, &o.name, o, at)),
    );
    objects.extend(
        seen.machines
            .values()
            .map(|o| object(CloudKind::Vm, o.id.0, &o.name, &o.raw, at)),
    );
    objects
}
