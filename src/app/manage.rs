//! What an operator's commands do with the parts of an installation.

use std::path::Path;

use anyhow::Context as _;

use super::service::Parts;
use crate::db::versions::SupportedVersion;
use crate::domain::account::Account;
pub use crate::domain::account::AccountRole as Role;
pub use crate::manage::admin::{Keys, VersionRequest};
pub use crate::manage::import::Outcome as ImportOutcome;
use crate::manage::import::judge::TakeOver;
use crate::manage::{admin, check, import};

impl Parts {
    /// Judges the invariants.
    pub async fn check(&self) -> anyhow::Result<check::Report> {
        Ok(check::check(&self.eyes().await?).await?)
    }

    /// Brings the cluster of `file` under management.
    pub async fn import(
        &self,
        file: &Path,
        dry_run: bool,
        take_over: bool,
    ) -> anyhow::Result<import::Report> {
        let options = import::Options {
            dry_run,
            take_over: if take_over { TakeOver::Yes } else { TakeOver::No },
            node_ssh_port: self.node_ssh_port,
        };
        Ok(import::import(file, options, &self.pools.main, &self.cipher, &self.ports).await?)
    }

    /// An account, found or made.
    pub async fn ensure_account(&self, domain: &str, name: &str, role: Role) -> anyhow::Result<Account> {
        let mut conn = self.connection().await?;
        Ok(admin::ensure_account(&mut conn, &*self.ports.ids, domain, name, role).await?)
    }

    /// New keys for a user, who is found or made.
    pub async fn new_keys(&self, domain: &str, account: &str, user: &str) -> anyhow::Result<Keys> {
        let mut conn = self.connection().await?;
        Ok(admin::new_keys(&mut conn, &self.cipher, &*self.ports.ids, domain, account, user).await?)
    }

    /// A version, registered by its ISO or found.
    pub async fn ensure_version(&self, request: &VersionRequest) -> anyhow::Result<SupportedVersion> {
        let mut conn = self.connection().await?;
        Ok(admin::ensure_version(&mut conn, &self.ports, request).await?)
    }

    pub(super) async fn connection(&self) -> anyhow::Result<sqlx::pool::PoolConnection<sqlx::Postgres>> {
        self.pools
            .main
            .acquire()
            .await
            .context("the database does not answer")
    }
}
