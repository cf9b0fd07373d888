//! What an operation may read and write, by name. Every method of [`FencedTx`] is part of the caller's
//! transaction; the methods of [`Fenced`] with the same names are transactions of their own.

use std::collections::BTreeMap;

use secrecy::SecretString;
use serde_json::Value;

use super::{Fenced, FencedError, FencedTx};
use crate::db::cloud_objects::{CloudKind, CloudObject};
use crate::db::clusters::{Counts, OfferingOf};
use crate::db::details::Display;
use crate::db::ledger::{LedgerKind, LedgerRow};
use crate::db::members::NewMember;
use crate::db::rules::ClusterRule;
use crate::db::ssh::SshIdentity;
use crate::db::versions::SupportedVersion;
use crate::db::{
    DbError, cloud_objects, clusters, details, events, jobs, ledger, members, rules, ssh, versions,
};
use crate::domain::cluster::{Cluster, MatchedNode, Member};
use crate::domain::event::{self, Level, Stage};
use crate::domain::id::{OfferingId, RuleId, VersionId, VmId};
use uuid::Uuid;

type Written<T = ()> = Result<T, FencedError>;

/// Reads.
impl Fenced {
    /// The cluster of the job.
    pub async fn cluster(&self) -> Result<Cluster, DbError> {
        let key = self.cluster_key()?;
        self.read(async |conn| clusters::by_key(conn, key).await).await
    }

    /// Its members, oldest first.
    pub async fn members(&self) -> Result<Vec<Member>, DbError> {
        let key = self.cluster_key()?;
        self.read(async |conn| members::list(conn, key).await).await
    }

    /// Its rules that are ours.
    pub async fn rules(&self) -> Result<Vec<ClusterRule>, DbError> {
        let key = self.cluster_key()?;
        self.read(async |conn| rules::list(conn, key).await).await
    }

    /// Its ledger, oldest first, rows of other jobs included.
    pub async fn ledger_list(&self) -> Result<Vec<LedgerRow>, DbError> {
        let key = self.cluster_key()?;
        self.read(async |conn| ledger::list(conn, key).await).await
    }

    /// How its nodes are reached.
    pub async fn ssh_identity(&self) -> Result<Option<SshIdentity>, DbError> {
        let key = self.cluster_key()?;
        self.read(async |conn| ssh::identity(conn, &self.cipher, key).await)
            .await
    }

    /// A plain detail of it.
    pub async fn detail(&self, name: &str) -> Result<Option<String>, DbError> {
        let key = self.cluster_key()?;
        self.read(async |conn| details::find(conn, key, name).await).await
    }

    /// A sealed detail of it, opened.
    pub async fn sealed_detail(&self, name: &str) -> Result<Option<SecretString>, DbError> {
        let key = self.cluster_key()?;
        self.read(async |conn| details::find_sealed(conn, &self.cipher, key, name).await)
            .await
    }

    /// A supported version.
    pub async fn version(&self, id: VersionId) -> Result<Option<SupportedVersion>, DbError> {
        self.read(async |conn| versions::find(conn, id).await).await
    }

    /// A kept object of the cloud.
    pub async fn cloud_object(&self, kind: CloudKind, id: Uuid) -> Result<Option<CloudObject>, DbError> {
        self.read(async |conn| cloud_objects::find(conn, kind, id).await)
            .await
    }

    /// The settings that differ from their defaults, by name.
    pub async fn stored_settings(&self) -> Result<BTreeMap<String, String>, DbError> {
        self.read(async |conn| {
            let rows = sqlx::query!("select name, value from configuration")
                .fetch_all(conn)
                .await?;
            Ok(rows.into_iter().map(|row| (row.name, row.value)).collect())
        })
        .await
    }
}

/// Writes within one transaction.
impl FencedTx<'_> {
    /// The cluster of the job, as this transaction sees it.
    pub async fn cluster(&mut self) -> Written<Cluster> {
        let key = self.job.cluster_key()?;
        Ok(clusters::by_key(&mut self.tx, key).await?)
    }

    /// Its members, as this transaction sees them.
    pub async fn members(&mut self) -> Written<Vec<Member>> {
        let key = self.job.cluster_key()?;
        Ok(members::list(&mut self.tx, key).await?)
    }

    /// Writes an event of the job, child of its Scheduled event.
    pub async fn event(&mut self, level: Level, stage: Stage, text: &str) -> Written {
        let id = (self.new_id)().into();
        let cluster = self.job.cluster.as_ref();
        let new = events::NewEvent {
            id,
            kind: &event::type_of_command(&self.job.command),
            level,
            stage,
            text,
            account_key: self.job.account_key,
            user_key: Some(self.job.user_key),
            resource_type: cluster.map(|_| event::RESOURCE_CLUSTER),
            resource_id: cluster.map(|(_, id, _)| id.0),
            resource_name: cluster.map(|(_, _, name)| name.as_str()),
            parent: self.job.scheduled_event,
            job: Some(self.job.lease.job),
        };
        Ok(events::insert(&mut self.tx, &new).await?)
    }

    /// Stores the plan with the job.
    pub async fn set_plan(&mut self, plan: &Value) -> Written {
        Ok(jobs::set_plan(&mut self.tx, self.job.lease.job, plan).await?)
    }

    /// Writes a ledger row, or takes over the one that stands there.
    pub async fn ledger_put(&mut self, kind: LedgerKind, subject: &str, detail: &Value) -> Written {
        let (key, job, id) = (self.job.cluster_key()?, self.job.lease.job, (self.new_id)());
        Ok(ledger::put(&mut self.tx, id, key, job, kind, subject, detail).await?)
    }

    /// Drops a ledger row; says whether it was there.
    pub async fn ledger_drop(&mut self, kind: LedgerKind, subject: &str) -> Written<bool> {
        let key = self.job.cluster_key()?;
        Ok(ledger::drop_one(&mut self.tx, key, kind, subject).await?)
    }

    /// Writes a member.
    pub async fn insert_member(&mut self, new: &NewMember) -> Written {
        let key = self.job.cluster_key()?;
        Ok(members::insert(&mut self.tx, key, new).await?)
    }

    /// Drops a member; says whether it was there.
    pub async fn drop_member(&mut self, vm: VmId) -> Written<bool> {
        let key = self.job.cluster_key()?;
        Ok(members::drop_one(&mut self.tx, key, vm).await?)
    }

    /// Stores the Kubernetes node that a member was matched with; the first match stays.
    pub async fn match_node(&mut self, vm: VmId, node: &MatchedNode) -> Written {
        let key = self.job.cluster_key()?;
        Ok(members::match_node(&mut self.tx, key, vm, node).await?)
    }

    /// Records the version of a member's kubelet.
    pub async fn set_node_version(&mut self, vm: VmId, version: &str) -> Written {
        let key = self.job.cluster_key()?;
        Ok(members::set_node_version(&mut self.tx, key, vm, version).await?)
    }

    /// Sets the counts.
    pub async fn set_counts(&mut self, counts: Counts) -> Written {
        let key = self.job.cluster_key()?;
        Ok(clusters::set_counts(&mut self.tx, key, counts).await?)
    }

    /// Sets the endpoint.
    pub async fn set_endpoint(&mut self, endpoint: &str) -> Written {
        let key = self.job.cluster_key()?;
        Ok(clusters::set_endpoint(&mut self.tx, key, endpoint).await?)
    }

    /// Sets an offering.
    pub async fn set_offering(&mut self, of: OfferingOf, offering: OfferingId) -> Written {
        let key = self.job.cluster_key()?;
        Ok(clusters::set_offering(&mut self.tx, key, of, offering.0).await?)
    }

    /// Sets the cluster's version.
    pub async fn set_version(&mut self, version: &SupportedVersion) -> Written {
        let key = self.job.cluster_key()?;
        Ok(clusters::set_version(&mut self.tx, key, version.key).await?)
    }

    /// Writes a rule of ours.
    pub async fn put_rule(&mut self, rule: &ClusterRule) -> Written {
        let key = self.job.cluster_key()?;
        Ok(rules::put(&mut self.tx, key, rule).await?)
    }

    /// Drops a rule of ours; says whether it was there.
    pub async fn drop_rule(&mut self, rule: RuleId) -> Written<bool> {
        let key = self.job.cluster_key()?;
        Ok(rules::drop_one(&mut self.tx, key, rule).await?)
    }

    /// Records a host key that a machine must show.
    pub async fn put_host_key(
        &mut self,
        vm: VmId,
        public_key: &str,
        private: Option<&SecretString>,
    ) -> Written {
        let key = self.job.cluster_key()?;
        Ok(ssh::put_host_key(&mut self.tx, &self.cipher, key, vm, public_key, private).await?)
    }

    /// Keeps what the cloud said.
    pub async fn put_cloud_object(&mut self, kind: CloudKind, id: Uuid, object: &CloudObject) -> Written {
        Ok(cloud_objects::put(&mut self.tx, kind, id, object).await?)
    }

    /// Sets a plain detail.
    pub async fn set_detail(&mut self, name: &str, value: &str, display: Display) -> Written {
        let key = self.job.cluster_key()?;
        Ok(details::set(&mut self.tx, key, name, value, display).await?)
    }

    /// Seals and sets a detail.
    pub async fn set_sealed_detail(&mut self, name: &str, secret: &SecretString) -> Written {
        let key = self.job.cluster_key()?;
        Ok(details::set_sealed(&mut self.tx, &self.cipher, key, name, secret).await?)
    }

    /// Drops a detail.
    pub async fn drop_detail(&mut self, name: &str) -> Written {
        let key = self.job.cluster_key()?;
        Ok(details::drop_one(&mut self.tx, key, name).await?)
    }
}

/// Writes that are transactions of their own.
impl Fenced {
    /// See [`FencedTx::event`].
    pub async fn event(&self, level: Level, stage: Stage, text: &str) -> Written {
        self.write("event", async |tx| tx.event(level, stage, text).await)
            .await
    }

    /// See [`FencedTx::ledger_put`].
    pub async fn ledger_put(&self, kind: LedgerKind, subject: &str, detail: &Value) -> Written {
        let name = format!("ledger_put:{kind}/{subject}");
        self.write(&name, async |tx| tx.ledger_put(kind, subject, detail).await)
            .await
    }

    /// See [`FencedTx::ledger_drop`].
    pub async fn ledger_drop(&self, kind: LedgerKind, subject: &str) -> Written<bool> {
        let name = format!("ledger_drop:{kind}/{subject}");
        self.write(&name, async |tx| tx.ledger_drop(kind, subject).await)
            .await
    }

    /// See [`FencedTx::insert_member`].
    pub async fn insert_member(&self, new: &NewMember) -> Written {
        let name = format!("insert_member:{}", new.vm_name);
        self.write(&name, async |tx| tx.insert_member(new).await).await
    }

    /// See [`FencedTx::drop_member`].
    pub async fn drop_member(&self, vm: VmId) -> Written<bool> {
        self.write(&format!("drop_member:{vm}"), async |tx| tx.drop_member(vm).await)
            .await
    }

    /// See [`FencedTx::match_node`].
    pub async fn match_node(&self, vm: VmId, node: &MatchedNode) -> Written {
        self.write(&format!("match_node:{vm}"), async |tx| {
            tx.match_node(vm, node).await
        })
        .await
    }

    /// See [`FencedTx::set_counts`].
    pub async fn set_counts(&self, counts: Counts) -> Written {
        self.write("set_counts", async |tx| tx.set_counts(counts).await)
            .await
    }

    /// See [`FencedTx::put_rule`].
    pub async fn put_rule(&self, rule: &ClusterRule) -> Written {
        self.write(&format!("put_rule:{}", rule.cloud_id), async |tx| {
            tx.put_rule(rule).await
        })
        .await
    }

    /// See [`FencedTx::drop_rule`].
    pub async fn drop_rule(&self, rule: RuleId) -> Written<bool> {
        self.write(&format!("drop_rule:{rule}"), async |tx| tx.drop_rule(rule).await)
            .await
    }

    /// See [`FencedTx::put_cloud_object`].
    pub async fn put_cloud_object(&self, kind: CloudKind, id: Uuid, object: &CloudObject) -> Written {
        self.write("put_cloud_object", async |tx| {
            tx.put_cloud_object(kind, id, object).await
        })
        .await
    }

    /// See [`FencedTx::set_sealed_detail`].
    pub async fn set_sealed_detail(&self, name: &str, secret: &SecretString) -> Written {
        self.write(&format!("set_detail:{name}"), async |tx| {
            tx.set_sealed_detail(name, secret).await
        })
        .await
    }
}
